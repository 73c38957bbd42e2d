"""The β that the paper prints, for comparison (with the constants of erratum 3 corrected)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedglb.errors import number
from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import CENTRE, in_order
from fedglb.kernels.linalg import log_det
from fedglb.parts.confidence.base import Confidence
from fedglb.parts.confidence.fedglb import (
    BALL,
    C_MU,
    CLIENTS,
    DELTA,
    NOISE,
    PRIOR_WIDTH,
    RIDGE,
    FedGLB,
    ellipsoid_radius,
    ons_regret_bound,
)
from fedglb.parts.confidence.global_model import sync_radius
from fedglb.parts.confidence.online import prediction_error_bound
from fedglb.parts.global_update import Objective, Solution
from fedglb.parts.local_update import OnsState
from fedglb.parts.local_update.ons import GRADIENT_NORMS, SQUARES, B
from fedglb.problem import Problem
from fedglb.setting import Setting
from fedglb.typing import FloatArray

#: Places in the radius terms: r_g(δ) and β_global.
START_RADIUS, BETA_GLOBAL = range(2)


@kernel
def printed_radius(
    centre: FloatArray,
    b: FloatArray,
    squares: float,
    gradient_norms: float,
    start_radius: float,
    beta_global: float,
    N: int,
    delta: float,
    c: float,
    R: float,
    ridge: float,
    S: float,
) -> float:
    """β_global + β_local with δ/N and without refinements."""
    regret = ons_regret_bound(gradient_norms, start_radius, c)
    beta = beta_global + prediction_error_bound(regret, c, R, delta / N, 0)
    return ellipsoid_radius(beta, ridge / c * S * S, squares, centre, b)


@kernel
def printed_formula(
    vectors: FloatArray, counters: FloatArray, radius_terms: FloatArray, constants: FloatArray
) -> float:
    """The radius of a client: before the first model r_g is √(λ/c)S, and β_global 0."""
    start_radius, beta_global = constants[PRIOR_WIDTH], 0.0
    if radius_terms.shape[0] > 0:
        start_radius, beta_global = radius_terms[START_RADIUS], radius_terms[BETA_GLOBAL]
    return printed_radius(
        vectors[CENTRE], vectors[B], counters[SQUARES], counters[GRADIENT_NORMS],
        start_radius, beta_global, int(constants[CLIENTS]), constants[DELTA],
        constants[C_MU], constants[NOISE], constants[RIDGE], constants[BALL],
    )  # fmt: skip


@dataclass(frozen=True)
class FedGLBPrinted(Confidence[OnsState]):
    """The paper's printed radius, for comparison; it is not proven.

    β_global = b₀² + (2/c)B₁ + 2b₀√((‖θ_last‖ + S)² + (2/c)B₁), and there is no union over epochs.

    Parameters
    ----------
    tolerance
        ε of B₁ = nε + (λ/2)S². None: 1/n², the solvers' default; give the solver's `tolerance`
        where it has one.

    Raises
    ------
    InvalidInput
        If `tolerance` is not a number > 0.

    References
    ----------
    Li and Wang (2022), Lemma "Confidence Ellipsoid of FedGLB-UCB"; docs/theory.md, erratum 3.

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.fedglb_ucb(threshold=10.0, confidence=fg.FedGLBPrinted()).confidence
    FedGLBPrinted(tolerance=None)
    """

    stored_name = "FedGLBPrinted"

    state_type = OnsState
    formula = staticmethod(printed_formula)
    tolerance: float | None = None

    def __post_init__(self) -> None:
        if self.tolerance is not None:
            number("tolerance", self.tolerance, above=0.0)

    def radius_terms(
        self, setting: Setting, objective: Objective, solution: Solution
    ) -> tuple[float, ...]:
        """Return r_g(δ) and β_global."""
        problem, n = setting.problem, objective.samples
        spread = 0.5 * log_det(np.eye(problem.dim) + objective.covariance) + math.log(
            1.0 / setting.delta
        )
        b0 = 2.0 * problem.R / problem.c_mu * math.sqrt(2.0 * spread)
        epsilon = 1.0 / n**2 if self.tolerance is None else self.tolerance
        B1 = n * epsilon + 0.5 * setting.ridge * problem.S**2
        loss = 2.0 * B1 / problem.c_mu
        reach = float(np.linalg.norm(solution.theta)) + problem.S
        beta_global = b0**2 + loss + 2.0 * b0 * math.sqrt(reach**2 + loss)
        start_radius = sync_radius(setting, objective, solution, setting.delta)
        return in_order({START_RADIUS: start_radius, BETA_GLOBAL: beta_global})

    def caveats(self, problem: Problem) -> tuple[str, ...]:
        """Return that this radius is not proven."""
        return ("the paper's printed radius: its proof lacks the union over epochs (erratum 3)",)

    def constants(self, setting: Setting) -> tuple[float, ...]:
        """Return √(λ/c)S, N, δ, c, R, λ and S, as `FedGLB` does."""
        return FedGLB().constants(setting)
