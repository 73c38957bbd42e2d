"""The ellipsoid of variant 3: lazy online Newton steps, on batches and then on samples."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedglb.confidence.base import Confidence
from fedglb.confidence.fedglb import ellipsoid_radius
from fedglb.confidence.online import REFINEMENTS, prediction_error_bound
from fedglb.global_update import Objective, Solution
from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import CENTRE
from fedglb.lazy_rate import LazyRate
from fedglb.local_update import LazyOnsState
from fedglb.local_update.lazy_ons import GRADIENT_NORMS, SQUARES, B
from fedglb.problem import Problem
from fedglb.setting import Setting
from fedglb.typing import FloatArray


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
    vectors: FloatArray, counters: FloatArray, numbers: FloatArray, constants: FloatArray
) -> float:
    """The radius of a client: sums over all batches, and over its own samples since."""
    norms, squares = counters[GRADIENT_NORMS], counters[SQUARES]
    if numbers.shape[0] > 0:
        norms += numbers[0]
        squares += numbers[1]
    return lazy_ons_radius(
        vectors[CENTRE], vectors[B], squares, norms, constants[0], int(constants[1]),
        int(constants[2]), constants[3], constants[4], constants[5], constants[6], constants[7],
    )  # fmt: skip


@dataclass(frozen=True)
class LazyONS(Confidence[LazyOnsState]):
    """The radius of FedGLB-UCB₃."""

    stored_name = "LazyONS"

    state_type = LazyOnsState
    formula = staticmethod(lazy_ons_formula)
    rate: LazyRate

    def radius_terms(
        self, setting: Setting, objective: Objective, solution: Solution
    ) -> tuple[float, ...]:
        """Return Σ‖∇F_p‖²_{A_p⁻¹} and Σz² over all batches."""
        norm, squares = solution.extras
        if objective.previous is not None:
            norm += float(objective.previous.numbers[0])
            squares += float(objective.previous.numbers[1])
        return norm, squares

    def caveats(self, problem: Problem) -> tuple[str, ...]:
        """Return that unbounded rewards cost another δ."""
        if all(math.isfinite(end) for end in problem.link.support):
            return ()
        return ("unbounded rewards: their bound G may fail too, so the sets hold with 1 − 2δ",)

    def constants(self, setting: Setting) -> tuple[float, ...]:
        """Return γ, B, N, δ, c, R, λ and S."""
        problem = setting.problem
        return (
            self.rate.gamma(setting), self.rate.updates, setting.clients, setting.delta,
            problem.c_mu, problem.R, setting.ridge, problem.S,
        )  # fmt: skip
