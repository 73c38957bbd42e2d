"""Ellipsoids from likelihood-ratio mixtures: proven, tight, and without c_μ, R or a multiplier."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedglb.errors import InvalidInput
from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import (
    EPOCH,
    HIGH,
    INVERSE,
    LOG_GAIN,
    LOW,
    SCORES,
    THETA,
    UPPER,
    WIDTHS,
    in_order,
)
from fedglb.kernels.linalg import dot, invert, quadratic
from fedglb.kernels.scoring import upper_bounds
from fedglb.model import SharedModel
from fedglb.parts.confidence.base import ONE_ORDER, Confidence, check_likelihood
from fedglb.parts.global_update import Objective, Solution
from fedglb.parts.local_update import AnchoredState
from fedglb.parts.local_update.anchored import ANCHOR, GRADIENT, TRACE
from fedglb.parts.mixture import (
    Fit,
    ball_set,
    first_epoch_terms,
    global_set,
    left_out_cost,
    local_radius,
    local_terms,
)
from fedglb.problem import Problem
from fedglb.setting import Setting
from fedglb.typing import FloatArray

#: Places in the radius terms: ρ and the shift of Theorem M's W, then `LocalTerms`. Clients add W⁻¹.
(
    RADIUS, SHIFT, LOG_DET, WEIGHT_COST, ELL, ORIGIN, CURVATURE, DRIFT, RESIDUAL, STRETCH, WIDENING,
    SET_INVERSE,
) = range(12)  # fmt: skip
#: Places in the constants: S, s̄, the dispersion, N and δ.
BALL, CONCORDANCE, DISPERSION, CLIENTS, DELTA = range(5)


@kernel
def global_radius(
    vectors: FloatArray, counters: FloatArray, radius_terms: FloatArray, constants: FloatArray
) -> float:
    """ρ of Theorem M, around the last model; 1, in the norm of the ball, before the first."""
    return float(radius_terms[RADIUS])


@kernel
def own_radius(
    vectors: FloatArray, counters: FloatArray, radius_terms: FloatArray, constants: FloatArray
) -> float:
    """Xω of Theorem L with δ' = δ/(2N·e(e+1)) in epoch e: around θ_i, in the norm of P_i⁻¹."""
    theta, anchor, gradient = vectors[THETA], vectors[ANCHOR], vectors[GRADIENT]
    unit, S, ell = constants[DISPERSION], constants[BALL], radius_terms[ELL]
    square, along = 0.0, 0.0
    for j in range(theta.shape[0]):
        moved = theta[j] - anchor[j]
        square += moved * moved
        along -= moved * gradient[j]  # ‖u‖² in the norm of H_i + ℓI, as (H_i + ℓI)u = −G
    epoch = counters[EPOCH]
    split = constants[DELTA] / (2.0 * constants[CLIENTS] * epoch * (epoch + 1.0))
    radius = local_radius(
        counters[LOG_GAIN],
        math.sqrt(square),
        max(along / unit - ell * square, 0.0),
        dot(theta, theta),
        counters[TRACE] / unit if epoch == 1.0 else -1.0,
        theta.shape[0],
        S,
        constants[CONCORDANCE],
        split,
        radius_terms[LOG_DET],
        radius_terms[WEIGHT_COST],
        ell,
        radius_terms[ORIGIN],
        radius_terms[CURVATURE],
        radius_terms[DRIFT],
        radius_terms[RESIDUAL],
        radius_terms[STRETCH],
    )
    return float(radius * radius_terms[WIDENING] * math.sqrt(unit))


@kernel
def mixture_bounds(
    arms: FloatArray,
    vectors: FloatArray,
    matrices: FloatArray,
    counters: FloatArray,
    radius_terms: FloatArray,
    constants: FloatArray,
    alpha: float,
    with_interval: int,
    work: FloatArray,
) -> int:
    """Write upper bounds of both sets together; with an interval, within ±S‖x‖ too."""
    d, K = arms.shape
    set_inverse = radius_terms[SET_INVERSE:].reshape((d, d))
    upper, widths, own = work[UPPER], work[WIDTHS], work[SCORES]
    low, high = work[LOW], work[HIGH]
    upper_bounds(arms, vectors[ANCHOR], set_inverse, alpha, upper, widths)
    if with_interval != 0:
        for k in range(K):
            low[k] = upper[k] - 2.0 * alpha * math.sqrt(max(widths[k], 0.0))
    radius = own_radius(vectors, counters, radius_terms, constants)
    if radius < math.inf:
        upper_bounds(arms, vectors[THETA], matrices[INVERSE], radius, own, widths)
        for k in range(K):
            upper[k] = min(upper[k], own[k])
        if with_interval != 0:
            for k in range(K):
                low[k] = max(low[k], own[k] - 2.0 * radius * math.sqrt(max(widths[k], 0.0)))
    if with_interval != 0:
        for k in range(K):
            square = 0.0
            for j in range(d):
                square += arms[j, k] * arms[j, k]
            reach = constants[BALL] * math.sqrt(square)
            high[k] = min(upper[k], reach)
            low[k] = max(low[k], -reach)
    return 0


@dataclass(frozen=True)
class Mixture(Confidence[AnchoredState]):
    """The proven sets of likelihood-ratio mixtures: around the last model, and around θ_i.

    The first (Theorem M) holds the samples of the last global update, the second (Theorem L)
    the client's own since, too. They hold together with probability 1 − δ over all clients and
    steps, whatever the solver's residual, for whatever ridge, and whoever an update leaves out:
    then both sets are wider. S enters weakly, c_μ and R not at all (R does for the identity link).

    Raises
    ------
    InvalidInput
        From `check`, if the link's loss is not a likelihood (probit): there the paper's lemma is
        what is proven.

    References
    ----------
    docs/theory.md, sections 7.3, 7.5 and 7.9 (Theorems 18 and 20, Proposition 25).

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.fedglb_mix(threshold=1.0).confidence
    Mixture()
    """

    stored_name = "Mixture"

    state_type = AnchoredState
    formula = staticmethod(global_radius)
    bounds = staticmethod(mixture_bounds)
    scalable = False
    needs_ball = True
    sub_gaussian = False
    federation_caveats = (ONE_ORDER,)

    def check(self, problem: Problem) -> None:
        """Raise `InvalidInput` if the link's loss is not a likelihood."""
        check_likelihood(problem, ", or the algorithm fedglb_ucb, which needs none")

    def radius_terms(
        self, setting: Setting, objective: Objective, solution: Solution
    ) -> tuple[float, ...]:
        """Return ρ, the shift of W, and the terms of Theorem L."""
        problem, unit = setting.problem, setting.problem.dispersion
        s, everywhere = _concordance(problem, problem.S), _concordance(problem, math.inf)
        assert solution.hessian is not None
        h, basis = np.linalg.eigh(solution.hessian)
        ell = setting.ridge + solution.multiplier
        residual = np.zeros(problem.dim)
        if not np.isnan(solution.gradient).any():
            residual = basis.T @ (solution.gradient + solution.multiplier * solution.theta)
        fit = Fit(
            eigenvalues=np.maximum(h, 0.0) / unit,
            ell=ell / unit,
            drift=solution.drift,
            step_residual=solution.residual_bound / math.sqrt(unit),
            residual=residual / unit,
            theta_square=float(solution.theta @ solution.theta),
        )
        cost = left_out_cost(setting.clients, objective.left_out)
        share = 0.5 * setting.delta * math.exp(-0.5 * cost)  # (δ/2)π_E
        found = (
            global_set(fit, problem.S, s, share) if share > 1e-300 else ball_set(fit, problem.S, s)
        )
        split = setting.delta / (12.0 * setting.clients)  # δ' in the second epoch
        own = local_terms(fit, problem.S, everywhere, found.reach, split)
        own = own._replace(weight_cost=own.weight_cost + cost)
        return (found.radius, found.shift, *own)

    def terms(self, setting: Setting, model: SharedModel | None) -> FloatArray:
        """Return the radius terms and W⁻¹; before the first model those of the ball."""
        problem, unit = setting.problem, setting.problem.dispersion
        d, inverse = problem.dim, np.empty((problem.dim, problem.dim))
        if model is None:
            own = first_epoch_terms(
                d, problem.S, _concordance(problem, problem.S), setting.ridge / unit
            )
            numbers = np.array([1.0, 1.0 / problem.S**2, *own])
            inverse = problem.S**2 * np.eye(d)
        else:
            numbers = model.radius_terms
            curvature, shift = numbers[CURVATURE] / unit, numbers[SHIFT]
            ell = numbers[ELL] * unit
            W = curvature * (model.matrix - ell * np.eye(d)) + shift * np.eye(d)
            if not invert(W, inverse):
                raise InvalidInput("radius_terms", numbers, "terms of a positive definite W")
        return np.concatenate([numbers, inverse.ravel()])

    def constants(self, setting: Setting) -> tuple[float, ...]:
        """Return S, s̄, the dispersion, N and δ."""
        problem = setting.problem
        return in_order({
            BALL: problem.S, CONCORDANCE: _concordance(problem, math.inf),
            DISPERSION: problem.dispersion, CLIENTS: setting.clients, DELTA: setting.delta,
        })  # fmt: skip

    def contains(
        self, setting: Setting, state: AnchoredState, alpha: float, parameter: FloatArray
    ) -> bool:
        """Return whether both sets contain a parameter."""
        terms = self.terms(setting, state.base)
        inverse = terms[SET_INVERSE:].reshape(setting.problem.dim, setting.problem.dim)
        error = parameter - state.anchor
        W = np.empty_like(inverse)
        invert(inverse, W)
        constants = np.array(self.constants(setting), dtype=float)
        radius = own_radius(state.vectors, state.counters, terms, constants)
        own = math.sqrt(quadratic(state.matrix, parameter - state.theta))
        slack = 1.0 + 1e-9
        return math.sqrt(quadratic(W, error)) <= alpha * slack and own <= radius * slack


def _concordance(problem: Problem, reach: float) -> float:
    s = problem.link.self_concordance(reach)
    assert s is not None  # checked by `check`
    return s
