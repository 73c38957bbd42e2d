"""The ellipsoid of FedGLB-UCB: one global fit followed by online Newton steps."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import CENTRE, EPOCH, in_order
from fedglb.kernels.linalg import dot
from fedglb.parts.confidence.base import ALL_CLIENTS, INDEPENDENT, Confidence
from fedglb.parts.confidence.global_model import SYNC_RADIUS, sync_radius
from fedglb.parts.global_update import Objective, Solution
from fedglb.parts.local_update import OnsState
from fedglb.parts.local_update.ons import GRADIENT_NORMS, SQUARES, B
from fedglb.setting import Setting
from fedglb.typing import FloatArray

#: Newton steps: two end within a millionth of the root (a few thousandths where δ > 1/e).
REFINEMENTS = 2


@kernel
def prediction_error_bound(
    regret: float, c: float, R: float, delta: float, refinements: int
) -> float:
    """Return q² − 1, where q solves q² ≤ a + f q √log(q/δ), a = 1 + 2B/c, f = 2√2 R/c.

    If an online learner's loss exceeds that of θ* by at most B, then Σ[xᵀ(θ_s − θ*)]² ≤ q² − 1, by
    Corollary 8 of Abbasi-Yadkori et al. (2012) and Lemma 2 of Jun et al. (2017); docs/theory.md,
    section 2.3 (Lemmas 4 and 5).

    Without refinements it is the closed form of Jun et al. Each refinement is a Newton step on
    q − φ(q), φ(q) = f√L/2 + √(f²L/4 + a) with L = log(q/δ). That function is convex, so a step
    ends above its root, where the bound is valid, wherever it started (docs/theory.md).
    """
    a = 1.0 + 2.0 * regret / c
    f = 2.0 * math.sqrt(2.0) * R / c
    depth = -math.log(delta)
    if refinements == 0 or depth < 1.0:
        q = math.sqrt(closed_form(a, f, depth))
    else:
        L = depth + 0.5 * math.log(a + f * f * depth)
        q = 0.5 * f * math.sqrt(L) + math.sqrt(0.25 * f * f * L + a)
    for _ in range(refinements):
        L = math.log(q) + depth
        root = math.sqrt(L)
        whole = math.sqrt(0.25 * f * f * L + a)
        slope = f * (0.25 / root + 0.125 * f / whole) / q
        q -= (q - 0.5 * f * root - whole) / (1.0 - slope)
    return q * q - 1.0


@kernel
def closed_form(a: float, f: float, depth: float) -> float:
    """Return q₀² = 2a + f² log(√(4a + f⁴/(4δ²))/δ), `depth` being log(1/δ)."""
    # summed in logarithms: f⁴ and 1/δ² leave the range of doubles
    small = math.log(4.0 * a)
    large = 4.0 * math.log(f) - math.log(4.0) + 2.0 * depth
    top = max(small, large)
    log_inner = top + math.log1p(math.exp(min(small, large) - top))
    return 2.0 * a + f * f * (0.5 * log_inner + depth)


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

    Li and Wang (2022), Lemma "Confidence Ellipsoid of FedGLB-UCB", with erratum 3; docs/theory.md,
    section 2.3 (Theorem 6).
    """

    stored_name = "FedGLBRadius"

    state_type = OnsState
    formula = staticmethod(fedglb_formula)
    federation_caveats = (INDEPENDENT, ALL_CLIENTS)

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
