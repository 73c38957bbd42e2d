"""Attributes of a state that stand for places in its arrays: kernels see the arrays only."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, cast

from fedglb.typing import FloatArray


@dataclass(frozen=True)
class Vector:
    """A row of `vectors`, shape (d,); `place` is its index."""

    place: int

    def __get__(self, state: Any, kind: type) -> FloatArray:
        return cast("FloatArray", self if state is None else state.vectors[self.place])

    def __set__(self, state: Any, value: FloatArray) -> None:
        state.vectors[self.place] = value


@dataclass(frozen=True)
class Matrix:
    """A matrix of `matrices`, shape (d, d); `place` is its index."""

    place: int

    def __get__(self, state: Any, kind: type) -> FloatArray:
        return cast("FloatArray", self if state is None else state.matrices[self.place])

    def __set__(self, state: Any, value: FloatArray) -> None:
        state.matrices[self.place] = value


@dataclass(frozen=True)
class Counter:
    """An element of `counters`; `place` is its index."""

    place: int

    def __get__(self, state: Any, kind: type) -> float:
        return cast("float", self) if state is None else float(state.counters[self.place])

    def __set__(self, state: Any, value: float) -> None:
        state.counters[self.place] = value


class Count(Counter):
    """An element of `counters` that is a whole number."""

    def __get__(self, state: Any, kind: type) -> int:
        return cast("int", self) if state is None else int(state.counters[self.place])


@functools.cache  # every state that begins asks for it
def size(kind: type, field: type[Vector | Matrix | Counter]) -> int:
    """Return how many rows (or matrices, or counters) the states of a class have.

    Examples
    --------
    >>> from fedglb.parts.local_update import OnsState
    >>> size(OnsState, Matrix)
    2
    """
    named = (value for base in kind.__mro__ for value in vars(base).values())
    return 1 + max(value.place for value in named if isinstance(value, field))
