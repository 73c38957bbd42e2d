"""A plain function as a choice rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeAlias, cast

from fedglb.parts.choice.base import Choice
from fedglb.parts.choice.own import FIRST, KNOWN, SCORE, Model
from fedglb.parts.own import Code, FunctionPart
from fedglb.typing import FloatArray

#: A rule, or a function of any of `KNOWN` that returns a score per arm.
ChoiceLike: TypeAlias = Choice | Callable[..., FloatArray]


@dataclass(frozen=True, repr=False)
class OwnChoice(FunctionPart, Choice):
    """Play the arm of the largest score, which is a user's function of any of `KNOWN`."""

    known: ClassVar[Mapping[str, str]] = KNOWN

    @property
    def code(self) -> Code:
        """The score for kernels."""
        return self.code_in(SCORE, FIRST)

    def score(self, arms: FloatArray, model: Model, t: int) -> FloatArray:
        """Return what the function returns."""
        given = {"arms": arms, **model._asdict(), "t": t, **self.numbers}
        scores: FloatArray = self.function(**{name: given[name] for name in self.takes})
        return scores


def as_choice(value: ChoiceLike) -> Choice:
    """Return a function as a rule; anything else as it is, for the caller to check."""
    return cast("Choice", OwnChoice.of(value))
