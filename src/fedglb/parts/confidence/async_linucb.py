"""The ellipsoid of Async-LinUCB: that of a learner whose samples had come in a fixed order."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import LOG_GAIN, in_order
from fedglb.links import Identity
from fedglb.parts.confidence.base import Confidence
from fedglb.parts.local_update import AsyncRidgeState
from fedglb.parts.local_update.ridge import LOG_RATIO
from fedglb.problem import Problem
from fedglb.setting import Setting
from fedglb.typing import FloatArray

#: Places in the constants of `async_formula`: R, 2 log(1/δ) and √λ·S.
NOISE, TAIL, PRIOR = range(3)


@kernel
def async_formula(
    vectors: FloatArray, counters: FloatArray, radius_terms: FloatArray, constants: FloatArray
) -> float:
    """R√(log(det A/λ^d) + 2 log(1/δ)) + √λ·S, with the A that the client holds."""
    log_ratio = max(counters[LOG_RATIO] + counters[LOG_GAIN], 0.0)
    return float(constants[NOISE] * math.sqrt(log_ratio + constants[TAIL]) + constants[PRIOR])


@dataclass(frozen=True)
class AsyncLinUCB(Confidence[AsyncRidgeState]):
    """The radius of Async-LinUCB, for the identity link.

    α = R√(log(det A/λ^d) + 2 log(1/δ)) + √λS, where A is the client's: its own samples and those
    that it was sent.

    References
    ----------
    Li and Wang (AISTATS 2022), Async-LinUCB. The printed text was not at hand; the authors' program
    has d log(1 + n/(dλ)) in the place of the determinants, which is never less. docs/theory.md,
    section 9.1, says what is proven.

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.async_linucb(threshold=1.0).confidence
    AsyncLinUCB()
    """

    stored_name = "AsyncLinUCB"

    state_type = AsyncRidgeState
    formula = staticmethod(async_formula)

    def caveats(self, problem: Problem) -> tuple[str, ...]:
        """Return that nothing is proven, where the link is not the identity; else what is."""
        if isinstance(problem.link, Identity):
            what = "Async-LinUCB's radius is proven for one client"
            return (f"{what}: docs/theory.md, section 9.1, has one that is proven for all",)
        return (f"a linear model of {problem.link.name} rewards: no coverage is claimed",)

    def constants(self, setting: Setting) -> tuple[float, ...]:
        """Return R, 2 log(1/δ) and √λ·S."""
        problem = setting.problem
        return in_order({
            NOISE: problem.R, TAIL: -2.0 * math.log(setting.delta),
            PRIOR: math.sqrt(setting.ridge) * problem.S,
        })  # fmt: skip
