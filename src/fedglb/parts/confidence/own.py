"""A plain function as a radius."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, cast

import numpy as np

from fedglb.errors import number
from fedglb.kernels.layout import CENTRE, EPOCH, LOG_GAIN, THETA, UPDATES
from fedglb.kernels.pointers import RADIUS
from fedglb.parts.confidence.base import Confidence
from fedglb.parts.local_update import LocalState
from fedglb.parts.own import Code, FunctionPart, Socket
from fedglb.problem import Problem
from fedglb.setting import Setting


def _around(own: Callable[..., float]) -> Callable[..., float]:
    def formula(vectors, counters, radius_terms, constants):  # type: ignore[no-untyped-def]
        alpha = float(own(vectors[THETA], vectors[CENTRE], counters, constants))
        return alpha if alpha >= 0.0 else math.nan  # engines ask Python for the reason

    return formula


def _checked(call: str, alpha: Any, *inputs: Any) -> float:
    return number(call, alpha, at_least=0.0)


RADIUS_OF = Socket(RADIUS, "theta, centre, counters, constants", _around, _checked)


@dataclass(frozen=True, repr=False)
class OwnRadius(FunctionPart, Confidence[LocalState]):
    """The ellipsoid around a client's centre whose radius is a user's function.

    It may take θ, the centre, the client's own samples since the last model, their `log_gain` and
    the epoch, and numbers of the setting. `exploration` does not multiply it.
    """

    state_type = LocalState
    scalable = False
    by_formula = True
    takes_setting = True
    known: ClassVar[Mapping[str, str]] = {
        "theta": "theta.copy()",
        "centre": "centre.copy()",
        "samples": f"int(counters[{UPDATES}])",
        "log_gain": f"counters[{LOG_GAIN}]",
        "epoch": f"int(counters[{EPOCH}])",
    }

    @property
    def code(self) -> Code:
        """The function in its socket."""
        return self.code_in(RADIUS_OF)

    @property
    def why_plain(self) -> str | None:
        """Why numba cannot compile the function."""
        return self.code.why_plain

    @property
    def formula(self) -> Callable[..., float]:  # type: ignore[override]
        """The kernel around the function, compiled if possible."""
        return self.code.kernel

    def rehearsal(self, setting: Setting, state: LocalState) -> tuple[Code, tuple[Any, ...]]:
        """Return the call for a client in this state."""
        constants = np.array(self.constants(setting), dtype=float)
        return self.code, (state.vectors, state.counters, np.empty(0), constants)

    def radius(self, setting: Setting, state: LocalState) -> float:
        """Return α, by Python: `InvalidInput` unless it is a finite number ≥ 0."""
        code, arguments = self.rehearsal(setting, state)
        return float(code.plain(*arguments))

    def caveats(self, problem: Problem) -> tuple[str, ...]:
        """Return that this radius is not proven."""
        return (f"the radius is {self}: no coverage is claimed",)

    def constants(self, setting: Setting) -> tuple[float, ...]:
        """Return the numbers that the function takes."""
        return self.numbers_in(setting)


#: A radius, or a function of any of `OwnRadius.known` and `fedglb.parts.own.OF_SETTING`.
ConfidenceLike: TypeAlias = Confidence[Any] | Callable[..., float]


def as_confidence(value: ConfidenceLike) -> Confidence[Any]:
    """Return a function as a radius; anything else as it is, for the caller to check."""
    return cast("Confidence[Any]", OwnRadius.of(value))
