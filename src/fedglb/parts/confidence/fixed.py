"""Constant radii: no confidence sets."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedglb.errors import number
from fedglb.kernels.compile import kernel
from fedglb.parts.confidence.base import Confidence
from fedglb.parts.local_update import HessianState, LocalState
from fedglb.problem import Problem
from fedglb.setting import Setting
from fedglb.typing import FloatArray

#: The only place in the constants.
ALPHA = 0


@kernel
def constant_radius(
    vectors: FloatArray, counters: FloatArray, radius_terms: FloatArray, constants: FloatArray
) -> float:
    """α."""
    return float(constants[ALPHA])


@dataclass(frozen=True)
class Fixed(Confidence[LocalState]):
    """A constant radius, for every algorithm: what practice and much of the literature use.

    Parameters
    ----------
    alpha
        α ≥ 0. `exploration` does not multiply it.

    Raises
    ------
    InvalidInput
        If `alpha` is not a finite number ≥ 0.

    References
    ----------
    docs/theory.md, section 2.6: nothing is proven.

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.fedglb_ucb(threshold=10.0, confidence=fg.Fixed(0.3)).confidence
    Fixed(alpha=0.3)
    """

    stored_name = "Fixed"

    state_type = LocalState
    formula = staticmethod(constant_radius)
    scalable = False
    alpha: float

    def __post_init__(self) -> None:
        number("alpha", self.alpha, at_least=0.0)

    def caveats(self, problem: Problem) -> tuple[str, ...]:
        """Return that this radius is not proven."""
        return ("the radius is a constant: no coverage is claimed",)

    def constants(self, setting: Setting) -> tuple[float, ...]:
        """Return α."""
        return (self.alpha,)


@dataclass(frozen=True)
class Posterior(Confidence[HessianState]):
    """One posterior standard deviation around θ_i, for rules that choose by an index.

    docs/theory.md, section 7.11: nothing is proven.
    """

    stored_name = "Posterior"

    state_type = HessianState
    formula = staticmethod(constant_radius)
    scalable = False
    sub_gaussian = False

    def caveats(self, problem: Problem) -> tuple[str, ...]:
        """Return that no coverage is claimed."""
        return ("the ellipsoid is one posterior standard deviation: no coverage is claimed",)

    def constants(self, setting: Setting) -> tuple[float, ...]:
        """Return the root of the dispersion."""
        return (math.sqrt(setting.problem.dispersion),)
