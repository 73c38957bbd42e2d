"""The ellipsoid around a maximum-likelihood estimate (the paper's Lemma 9, "global model")."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import LOG_GAIN, THETA, UPDATES, in_order
from fedglb.kernels.linalg import log_det, norm, solve
from fedglb.parts.confidence.base import ALL_CLIENTS, ONE_ORDER, Confidence, check_noise
from fedglb.parts.global_update import Objective, Solution
from fedglb.parts.local_update import FrozenState, MleState
from fedglb.parts.local_update.mle import MULTIPLIER, RESIDUAL
from fedglb.problem import Problem
from fedglb.setting import Setting
from fedglb.typing import FloatArray

#: Places in the constants: √(λ/c)S, and for `own_formula` δ/N, c, R, λ and S too.
PRIOR_WIDTH, DELTA, C_MU, NOISE, RIDGE, BALL = range(6)
#: The only place in the radius terms: r_g of the last global update.
SYNC_RADIUS = 0


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
    vectors: FloatArray, counters: FloatArray, radius_terms: FloatArray, constants: FloatArray
) -> float:
    """r_g(δ) of the last update; √(λ/c)S before the first."""
    return float(radius_terms[SYNC_RADIUS] if radius_terms.shape[0] > 0 else constants[PRIOR_WIDTH])


@kernel
def own_formula(
    vectors: FloatArray, counters: FloatArray, radius_terms: FloatArray, constants: FloatArray
) -> float:
    """r_g(δ/N) at the client's own fit; √(λ/c)S before the first sample."""
    if counters[UPDATES] == 0.0:
        return float(constants[PRIOR_WIDTH])
    c, S = constants[C_MU], constants[BALL]
    length = norm(vectors[THETA])
    slack = counters[MULTIPLIER] * length * max(S - length, 0.0) / c
    return global_model_radius(
        counters[RESIDUAL], slack, counters[LOG_GAIN],
        constants[DELTA], c, constants[NOISE], constants[RIDGE], S,
    )  # fmt: skip


@dataclass(frozen=True)
class GlobalModel(Confidence[FrozenState]):
    """The radius around the last global model, for clients that do not learn in between.

    Li and Wang (2022), Lemma "Confidence Ellipsoid Centered at Global Model", with erratum 4;
    docs/theory.md, section 2.2 (Lemma 2).
    """

    stored_name = "GlobalModel"

    state_type = FrozenState
    formula = staticmethod(sent_radius)
    federation_caveats = (ONE_ORDER, ALL_CLIENTS)

    def check(self, problem: Problem) -> None:
        """Raise `InvalidInput` if R is unknown: models bring radii that need it."""
        check_noise(problem, problem.R)

    def radius_terms(
        self, setting: Setting, objective: Objective, solution: Solution
    ) -> tuple[float, ...]:
        """Return r_g(δ)."""
        return in_order({SYNC_RADIUS: sync_radius(setting, objective, solution, setting.delta)})

    def constants(self, setting: Setting) -> tuple[float, ...]:
        """Return √(λ/c)S."""
        return in_order({PRIOR_WIDTH: setting.prior_width})


@dataclass(frozen=True)
class OwnModel(Confidence[MleState]):
    """The same lemma around a client's own estimate, with δ/N.

    The estimate is certified, not exact: the fit's bound on ‖g + νθ‖_{A⁻¹} stands for the norm.

    docs/theory.md, section 2.2 (Lemma 2).
    """

    stored_name = "OwnModel"

    state_type = MleState
    formula = staticmethod(own_formula)

    def constants(self, setting: Setting) -> tuple[float, ...]:
        """Return √(λ/c)S, δ/N, c, R, λ and S."""
        problem = setting.problem
        return in_order({
            PRIOR_WIDTH: setting.prior_width, DELTA: setting.delta / setting.clients,
            C_MU: problem.c_mu, NOISE: problem.R, RIDGE: setting.ridge, BALL: problem.S,
        })  # fmt: skip
