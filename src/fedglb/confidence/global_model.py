"""The ellipsoid around a maximum-likelihood estimate (the paper's Lemma 9, "global model")."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedglb.confidence.base import Confidence
from fedglb.global_update import Objective, Solution
from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import LOG_GAIN, UPDATES
from fedglb.kernels.linalg import log_det, solve
from fedglb.local_update import FrozenState, MleState
from fedglb.setting import Setting
from fedglb.typing import FloatArray


@kernel
def global_model_radius(
    residual: float,
    slack: float,
    log_ratio: float,
    delta: float,
    c: float,
    R: float,
    ridge: float,
    S: float,
) -> float:
    """r_g(δ): ‖g+νθ‖_{A⁻¹}/c + √slack + (R/c)√(log(det A/det((λ/c)I)) + 2 log(1/δ)) + √(λ/c)S.

    `residual` is ‖g + νθ‖_{A⁻¹}, `slack` is ν‖θ‖(S − ‖θ‖)₊/c.
    """
    noise = R / c * math.sqrt(log_ratio - 2.0 * math.log(delta))
    return residual / c + math.sqrt(slack) + noise + math.sqrt(ridge / c) * S


def sync_radius(setting: Setting, objective: Objective, solution: Solution, delta: float) -> float:
    """Return r_g(δ) for the model of a global update."""
    problem, theta, nu = setting.problem, solution.theta, solution.multiplier
    A = objective.matrix
    shifted = solution.gradient + nu * theta
    residual = math.sqrt(max(float(shifted @ solve(A, shifted)), 0.0))
    length = float(np.linalg.norm(theta))
    slack = nu * length * max(problem.S - length, 0.0) / problem.c_mu
    log_prior = problem.dim * math.log(setting.ridge / problem.c_mu)
    log_ratio = log_det(A) - log_prior
    return global_model_radius(
        residual, slack, log_ratio, delta, problem.c_mu, problem.R, setting.ridge, problem.S
    )


@kernel
def sent_radius(
    vectors: FloatArray, counters: FloatArray, numbers: FloatArray, constants: FloatArray
) -> float:
    """r_g(δ) of the last update; √(λ/c)S before the first."""
    return float(numbers[0] if numbers.shape[0] > 0 else constants[0])


@kernel
def own_formula(
    vectors: FloatArray, counters: FloatArray, numbers: FloatArray, constants: FloatArray
) -> float:
    """r_g(δ/N) with residual 0; √(λ/c)S before the first sample."""
    if counters[UPDATES] == 0.0:
        return float(constants[0])
    return global_model_radius(
        0.0, 0.0, counters[LOG_GAIN],
        constants[1], constants[2], constants[3], constants[4], constants[5],
    )  # fmt: skip


@dataclass(frozen=True)
class GlobalModel(Confidence[FrozenState]):
    """The ellipsoid around the last global model, for clients that do not learn between."""

    stored_name = "GlobalModel"

    state_type = FrozenState
    formula = staticmethod(sent_radius)

    def radius_terms(
        self, setting: Setting, objective: Objective, solution: Solution
    ) -> tuple[float, ...]:
        """Return r_g(δ)."""
        return (sync_radius(setting, objective, solution, setting.delta),)

    def constants(self, setting: Setting) -> tuple[float, ...]:
        """Return √(λ/c)S."""
        return (setting.prior_width,)


@dataclass(frozen=True)
class OwnModel(Confidence[MleState]):
    """The same lemma around a client's own exact estimate, with δ/N.

    The estimate's certified sub-optimality of 1/n² counts as zero, as it does in the baselines
    that the paper compares with.
    """

    stored_name = "OwnModel"

    state_type = MleState
    formula = staticmethod(own_formula)

    def constants(self, setting: Setting) -> tuple[float, ...]:
        """Return √(λ/c)S, δ/N, c, R, λ and S."""
        problem = setting.problem
        return (
            setting.prior_width, setting.delta / setting.clients,
            problem.c_mu, problem.R, setting.ridge, problem.S,
        )  # fmt: skip
