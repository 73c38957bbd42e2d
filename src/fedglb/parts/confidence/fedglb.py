"""The ellipsoid of FedGLB-UCB: one global fit followed by online Newton steps."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import CENTRE, EPOCH, in_order
from fedglb.kernels.linalg import dot
from fedglb.parts.confidence.base import Confidence
from fedglb.parts.confidence.global_model import SYNC_RADIUS, sync_radius
from fedglb.parts.confidence.online import REFINEMENTS, prediction_error_bound
from fedglb.parts.global_update import Objective, Solution
from fedglb.parts.local_update import OnsState
from fedglb.parts.local_update.ons import GRADIENT_NORMS, SQUARES, B
from fedglb.setting import Setting
from fedglb.typing import FloatArray

#: Places in the constants of `fedglb_formula`: √(λ/c)S, N, δ, c, R, λ and S.
PRIOR_WIDTH, CLIENTS, DELTA, C_MU, NOISE, RIDGE, BALL = range(7)


@kernel
def ons_regret_bound(gradient_norms: float, start_radius: float, c: float) -> float:
    """B₂ = (1/2c) Σ‖∇l‖²_{A_s⁻¹} + (c/2) r_g²: the regret of ONS started at the global model."""
    return 0.5 * gradient_norms / c + 0.5 * c * start_radius * start_radius


@kernel
def ellipsoid_radius(
    beta: float, prior: float, squares: float, centre: FloatArray, b: FloatArray
) -> float:
    """α = √(β + prior − ‖z‖² + θ̂ᵀb), `prior` being (λ/c)S² (0 where that is negative)."""
    return math.sqrt(max(beta + prior - squares + dot(centre, b), 0.0))


@kernel
def fedglb_radius(
    centre: FloatArray,
    b: FloatArray,
    squares: float,
    gradient_norms: float,
    start_radius: float,
    beta_global: float,
    epoch: int,
    N: int,
    delta: float,
    c: float,
    R: float,
    ridge: float,
    S: float,
) -> float:
    """Lemma "Confidence Ellipsoid of FedGLB-UCB", corrected by erratum 3.

    β_global = r_g(δ/2)² bounds the errors on the samples of the last fit. The errors on the
    client's samples since then have an online bound, with δ' = δ/(2N·e(e+1)) in epoch e.
    """
    regret = ons_regret_bound(gradient_norms, start_radius, c)
    split = delta / (2.0 * N * epoch * (epoch + 1))
    beta = beta_global + prediction_error_bound(regret, c, R, split, REFINEMENTS)
    return ellipsoid_radius(beta, ridge / c * S * S, squares, centre, b)


@kernel
def fedglb_formula(
    vectors: FloatArray, counters: FloatArray, radius_terms: FloatArray, constants: FloatArray
) -> float:
    """The radius of a client: before the first model r_g is √(λ/c)S, and β_global 0."""
    start_radius, beta_global = constants[PRIOR_WIDTH], 0.0
    if radius_terms.shape[0] > 0:
        start_radius = radius_terms[SYNC_RADIUS]
        beta_global = start_radius * start_radius
    return fedglb_radius(
        vectors[CENTRE], vectors[B], counters[SQUARES], counters[GRADIENT_NORMS],
        start_radius, beta_global, int(counters[EPOCH]), int(constants[CLIENTS]),
        constants[DELTA], constants[C_MU], constants[NOISE], constants[RIDGE], constants[BALL],
    )  # fmt: skip


@dataclass(frozen=True)
class FedGLBRadius(Confidence[OnsState]):
    """The radius of FedGLB-UCB, of its variant 2 and, without global updates, of N-ONS-GLM.

    References
    ----------
    Li and Wang (2022), Lemma "Confidence Ellipsoid of FedGLB-UCB", with erratum 3;
    docs/theory.md, section 2.3 (Theorem 6).

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.fedglb_ucb(threshold=10.0).confidence
    FedGLBRadius()
    """

    stored_name = "FedGLBRadius"

    state_type = OnsState
    formula = staticmethod(fedglb_formula)

    def radius_terms(
        self, setting: Setting, objective: Objective, solution: Solution
    ) -> tuple[float, ...]:
        """Return r_g(δ/2)."""
        return in_order(
            {SYNC_RADIUS: sync_radius(setting, objective, solution, setting.delta / 2.0)}
        )

    def constants(self, setting: Setting) -> tuple[float, ...]:
        """Return √(λ/c)S, N, δ, c, R, λ and S."""
        problem = setting.problem
        return in_order({
            PRIOR_WIDTH: setting.prior_width, CLIENTS: setting.clients, DELTA: setting.delta,
            C_MU: problem.c_mu, NOISE: problem.R, RIDGE: setting.ridge, BALL: problem.S,
        })  # fmt: skip
