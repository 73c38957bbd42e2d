"""The ellipsoid of a linear model: OFUL's radius, for DisLinUCB."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import EPOCH, LOG_GAIN, in_order
from fedglb.kernels.linalg import log_det
from fedglb.links import Identity
from fedglb.parts.confidence.base import ALL_CLIENTS, INDEPENDENT, Confidence
from fedglb.parts.global_update import Objective, Solution
from fedglb.parts.local_update import RidgeState
from fedglb.problem import Problem
from fedglb.setting import Setting
from fedglb.typing import FloatArray

#: Places in the constants of `linear_formula`: N, δ, R, λ and S.
CLIENTS, DELTA, NOISE, RIDGE, BALL = range(5)
#: The only place in the radius terms: log(det A/λ^d) of the last global update.
MODEL_LOG_RATIO = 0


@kernel
def linear_radius(
    log_ratio: float, epoch: int, N: int, delta: float, R: float, ridge: float, S: float
) -> float:
    """α = R√(log(det A/λ^d) + 2 log(N·e(e+1)/δ)) + √λ·S."""
    union = 2.0 * (math.log(N * epoch * (epoch + 1.0)) - math.log(delta))
    return R * math.sqrt(log_ratio + union) + math.sqrt(ridge) * S


@kernel
def linear_formula(
    vectors: FloatArray, counters: FloatArray, radius_terms: FloatArray, constants: FloatArray
) -> float:
    """The radius of a client: log det A of the last model, plus the gain since then."""
    log_ratio = counters[LOG_GAIN]
    if radius_terms.shape[0] > 0:
        log_ratio += radius_terms[MODEL_LOG_RATIO]
    return linear_radius(
        log_ratio, int(counters[EPOCH]), int(constants[CLIENTS]),
        constants[DELTA], constants[NOISE], constants[RIDGE], constants[BALL],
    )  # fmt: skip


@dataclass(frozen=True)
class Linear(Confidence[RidgeState]):
    """The radius of DisLinUCB (OFUL's), proven for the identity link only.

    Abbasi-Yadkori et al. (2011), Theorem 2; docs/theory.md, section 2.5 (Theorem 9).
    """

    stored_name = "Linear"

    state_type = RidgeState
    formula = staticmethod(linear_formula)
    federation_caveats = (INDEPENDENT, ALL_CLIENTS)

    def radius_terms(
        self, setting: Setting, objective: Objective, solution: Solution
    ) -> tuple[float, ...]:
        """Return log(det A/λ^d)."""
        log_prior = setting.problem.dim * math.log(setting.ridge)
        return in_order({MODEL_LOG_RATIO: log_det(objective.matrix) - log_prior})

    def caveats(self, problem: Problem) -> tuple[str, ...]:
        """Return that nothing is proven, where the link is not the identity."""
        if isinstance(problem.link, Identity):
            return ()
        return (f"a linear model of {problem.link.name} rewards: no coverage is claimed",)

    def constants(self, setting: Setting) -> tuple[float, ...]:
        """Return N, δ, R, λ and S."""
        problem = setting.problem
        return in_order({
            CLIENTS: setting.clients, DELTA: setting.delta, NOISE: problem.R,
            RIDGE: setting.ridge, BALL: problem.S,
        })  # fmt: skip
