"""The ellipsoid of variant 3: lazy online Newton steps, on batches and then on samples."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import CENTRE, in_order
from fedglb.parts.confidence.base import Confidence
from fedglb.parts.confidence.fedglb import REFINEMENTS, ellipsoid_radius, prediction_error_bound
from fedglb.parts.global_update import Objective, Solution
from fedglb.parts.local_update import LazyOnsState
from fedglb.parts.local_update.lazy_ons import GRADIENT_NORMS, SQUARES, B, LazyRate
from fedglb.problem import Problem
from fedglb.setting import Setting
from fedglb.typing import FloatArray

#: Places in the constants of `lazy_ons_formula`: γ, B, N, δ, c, R, λ and S.
GAMMA, BATCHES, CLIENTS, DELTA, C_MU, NOISE, RIDGE, BALL = range(8)
#: Places in the radius terms: Σ‖∇F_p‖²_{A_p⁻¹} and Σz² over all batches.
BATCH_NORMS, BATCH_SQUARES = range(2)


@kernel
def lazy_regret_bound(gradient_norms: float, gamma: float, ridge: float, S: float) -> float:
    """B_P = (1/2γ) Σ‖∇F_p‖²_{A_p⁻¹} + γλS²/2 (erratum 5)."""
    return 0.5 * gradient_norms / gamma + 0.5 * gamma * ridge * S * S


@kernel
def lazy_ons_radius(
    centre: FloatArray,
    b: FloatArray,
    squares: float,
    gradient_norms: float,
    gamma: float,
    updates: int,
    N: int,
    delta: float,
    c: float,
    R: float,
    ridge: float,
    S: float,
) -> float:
    """Lemma "confidence ellipsoid of FedGLB-UCB₃", with δ' = δ/(N(B+1))."""
    regret = lazy_regret_bound(gradient_norms, gamma, ridge, S)
    beta = prediction_error_bound(regret, c, R, delta / (N * (updates + 1)), REFINEMENTS)
    return ellipsoid_radius(beta, ridge * S * S, squares, centre, b)


@kernel
def lazy_ons_formula(
    vectors: FloatArray, counters: FloatArray, radius_terms: FloatArray, constants: FloatArray
) -> float:
    """The radius of a client: with sums over all batches and over its own samples since."""
    norms, squares = counters[GRADIENT_NORMS], counters[SQUARES]
    if radius_terms.shape[0] > 0:
        norms += radius_terms[BATCH_NORMS]
        squares += radius_terms[BATCH_SQUARES]
    return lazy_ons_radius(
        vectors[CENTRE], vectors[B], squares, norms, constants[GAMMA],
        int(constants[BATCHES]), int(constants[CLIENTS]), constants[DELTA],
        constants[C_MU], constants[NOISE], constants[RIDGE], constants[BALL],
    )  # fmt: skip


@dataclass(frozen=True)
class LazyOnsRadius(Confidence[LazyOnsState]):
    """The radius of FedGLB-UCB₃.

    Li and Wang (2022), Lemma "Confidence Ellipsoid for FedGLB-UCB₃", with erratum 5;
    docs/theory.md, section 2.4 (Theorem 8).
    """

    stored_name = "LazyOnsRadius"

    state_type = LazyOnsState
    formula = staticmethod(lazy_ons_formula)
    rate: LazyRate  # what γ follows from, as in the local and the global update

    def radius_terms(
        self, setting: Setting, objective: Objective, solution: Solution
    ) -> tuple[float, ...]:
        """Return Σ‖∇F_p‖²_{A_p⁻¹} and Σz² over all batches."""
        norm, squares = solution.extras
        if objective.previous is not None:
            norm += float(objective.previous.radius_terms[BATCH_NORMS])
            squares += float(objective.previous.radius_terms[BATCH_SQUARES])
        return in_order({BATCH_NORMS: norm, BATCH_SQUARES: squares})

    def caveats(self, problem: Problem) -> tuple[str, ...]:
        """Return that unbounded rewards cost another δ, where anything is proven at all."""
        bounded = all(math.isfinite(end) for end in problem.link.support)
        if bounded or not problem.provable:
            return ()
        return ("unbounded rewards: their bound G may fail too, so the sets hold with 1 − 2δ",)

    def constants(self, setting: Setting) -> tuple[float, ...]:
        """Return γ, B, N, δ, c, R, λ and S."""
        problem = setting.problem
        return in_order({
            GAMMA: self.rate.gamma(setting), BATCHES: self.rate.updates, CLIENTS: setting.clients,
            DELTA: setting.delta, C_MU: problem.c_mu, NOISE: problem.R, RIDGE: setting.ridge,
            BALL: problem.S,
        })  # fmt: skip
