"""The ellipsoid of a linear model: OFUL's radius, for DisLinUCB."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedglb.confidence.base import Confidence
from fedglb.global_update import Objective, Solution
from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import EPOCH, LOG_GAIN
from fedglb.kernels.linalg import log_det
from fedglb.links import Identity
from fedglb.local_update import RidgeState
from fedglb.problem import Problem
from fedglb.setting import Setting
from fedglb.typing import FloatArray


@kernel
def linear_radius(
    log_ratio: float, epoch: int, N: int, delta: float, R: float, ridge: float, S: float
) -> float:
    """α = R√(log(det A/λ^d) + 2 log(N·e(e+1)/δ)) + √λ·S."""
    union = 2.0 * (math.log(N * epoch * (epoch + 1.0)) - math.log(delta))
    return R * math.sqrt(log_ratio + union) + math.sqrt(ridge) * S


@kernel
def linear_formula(
    vectors: FloatArray, counters: FloatArray, numbers: FloatArray, constants: FloatArray
) -> float:
    """The radius of a client: log det of the last model's A, and what was gained since."""
    log_ratio = counters[LOG_GAIN]
    if numbers.shape[0] > 0:
        log_ratio += numbers[0]
    return linear_radius(
        log_ratio, int(counters[EPOCH]), int(constants[0]),
        constants[1], constants[2], constants[3], constants[4],
    )  # fmt: skip


@dataclass(frozen=True)
class Linear(Confidence[RidgeState]):
    """The radius of DisLinUCB, proven for the identity link."""

    stored_name = "Linear"

    state_type = RidgeState
    formula = staticmethod(linear_formula)

    def radius_terms(
        self, setting: Setting, objective: Objective, solution: Solution
    ) -> tuple[float, ...]:
        """Return log(det A/λ^d)."""
        return (log_det(objective.matrix) - setting.problem.dim * math.log(setting.ridge),)

    def caveats(self, problem: Problem) -> tuple[str, ...]:
        """Return that the rewards must be linear."""
        if isinstance(problem.link, Identity):
            return ()
        return (f"a linear model of {problem.link.name} rewards: no coverage is claimed",)

    def constants(self, setting: Setting) -> tuple[float, ...]:
        """Return N, δ, R, λ and S."""
        problem = setting.problem
        return setting.clients, setting.delta, problem.R, setting.ridge, problem.S
