"""The ellipsoid of FedLinUCB: one radius for a whole run."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedglb.errors import InvalidInput, number
from fedglb.kernels.compile import kernel
from fedglb.links import Identity
from fedglb.parts.confidence.base import Confidence
from fedglb.parts.local_update import FrozenRidgeState
from fedglb.problem import Problem
from fedglb.setting import Setting
from fedglb.typing import FloatArray


@kernel
def constant_radius(
    vectors: FloatArray, counters: FloatArray, radius_terms: FloatArray, constants: FloatArray
) -> float:
    """The radius that no sample changes: the only constant."""
    return float(constants[0])


@dataclass(frozen=True)
class FedLinUCB(Confidence[FrozenRidgeState]):
    """The radius of FedLinUCB, for the identity link.

    β = √λS + (√(1 + NC) + N√(2C))·(R√(d log((1 + T/(min(C, 1)λ))/δ)) + √λS), with C of the
    trigger, and T the interactions of all clients together.

    Parameters
    ----------
    threshold
        C > 0 of the trigger `Growth`.

    Raises
    ------
    InvalidInput
        If `threshold` is not a number > 0; in a run, if the horizon is not known.

    References
    ----------
    He et al. (2022), Theorem 5.1, with L = 1; the constant is written down from memory and not
    checked against the printed text: docs/theory.md, section 9.1, derives it, and says for which
    failure probability.

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.fedlinucb(threshold=1.0).confidence
    FedLinUCB(threshold=1.0)
    """

    stored_name = "FedLinUCB"

    state_type = FrozenRidgeState
    formula = staticmethod(constant_radius)
    threshold: float

    def __post_init__(self) -> None:
        number(
            "threshold", self.threshold, above=0.0,
            allowed="a finite number C > 0, or a radius of your own, e.g. confidence=fg.Fixed(0.5)",
        )  # fmt: skip

    def caveats(self, problem: Problem) -> tuple[str, ...]:
        """Return that nothing is proven, where the link is not the identity; else what is."""
        if isinstance(problem.link, Identity):
            what = "FedLinUCB's radius has no union over clients and their exchanges"
            return (f"{what}: docs/theory.md, section 9.1, says where it is proven all the same",)
        return (f"a linear model of {problem.link.name} rewards: no coverage is claimed",)

    def constants(self, setting: Setting) -> tuple[float, ...]:
        """Return β."""
        if setting.horizon is None:
            allowed = "the number of steps T, which the radius of FedLinUCB needs"
            raise InvalidInput("horizon", None, allowed)
        problem, N, C = setting.problem, setting.clients, self.threshold
        T = N * setting.horizon
        prior = math.sqrt(setting.ridge) * problem.S
        depth = math.log1p(T / (min(C, 1.0) * setting.ridge)) - math.log(setting.delta)
        noise = problem.R * math.sqrt(problem.dim * depth)
        spread = math.sqrt(1.0 + N * C) + N * math.sqrt(2.0 * C)
        return (prior + spread * (noise + prior),)
