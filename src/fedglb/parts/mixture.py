"""Ellipsoids from likelihood-ratio mixtures: Theorem M at a fitted model, Theorem L of a client.

The mixture has the components j = 0, 1, …, each a normal prior of precision u_j and weight w_j:

* origin, j = 0: N(0, I/λ₀) with λ₀ = d/S², w_0 = ½;
* truth, j ≥ 1: N(θ*, I/v_j) with v_j = 4^{j−1}, w_j = 1/(2j(j+1)).

Every component holds in the same event, so the one with the smallest set may be taken. All
quantities are in units of the likelihood: gradients and Hessians of the identity link are divided
by R² before they come here.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fedglb.kernels.compile import kernel
from fedglb.parts.self_concordance import heat_factor, lower_curvature, upper_curvature
from fedglb.typing import FloatArray

#: No truth component beyond this one is tried; v_j is then far beyond any Hessian.
_LAST_COMPONENT = 60
#: 1 − Σ_j w_j, the weight that no component has: it pays for updates without some clients.
_SPARE_WEIGHT = 0.5 / (_LAST_COMPONENT + 1)
#: The bound r on s‖θ* − θ_t‖ is refined while it falls by more than this part of itself.
_STEP_OF_REACH = 1e-4
_MAX_STEPS = 1000


class Fit(NamedTuple):
    """What is known of a fitted model θ_t, with Ĥ for ∇²L(θ_t): e^{−q}Ĥ ⪯ ∇²L(θ_t) ⪯ e^qĤ."""

    eigenvalues: FloatArray  # h_1 ≤ … ≤ h_d of Ĥ = U diag(h) Uᵀ, none below 0
    ell: float  # ℓ = λ + ν: ridge and multiplier of the ball
    drift: float  # q
    step_residual: float  # ε ≥ ‖e‖_{Ĥ⁻¹}, e = ∇L(θ_t) + ℓθ_t; 0 where e is known
    residual: FloatArray  # Uᵀe, shape (d,); zeros where only ε is known
    theta_square: float  # ‖θ_t‖²


class GlobalSet(NamedTuple):
    """Theorem M: ‖θ* − θ_t‖_W ≤ ρ with W = curvature·Ĥ + shift·I."""

    radius: float  # ρ
    curvature: float  # κ̂ = κ(r)e^{−q}
    shift: float  # ℓ − 1_j v_j
    reach: float  # r ≥ s‖θ* − θ_t‖, of which κ(r) is
    width: float  # ρ√(tr W⁻¹)
    exact_width: float  # the same, of the same component and r, were q = ε = 0


class LocalTerms(NamedTuple):
    """What Theorem L needs of the last model, for the component j of the epoch."""

    log_det: float  # A_L
    weight_cost: float  # 2 log(1/w_j)
    ell: float  # ℓ
    origin: float  # λ₀ for the origin component, 0 for a truth component
    curvature: float  # κ̂ = κ(r)e^{−q}
    drift: float  # q
    residual: float  # a bound on ‖e‖_{W⁻¹}, W = Ĥ + (ℓ − 1_j v_j)I
    stretch: float  # η: Ĥ_i ⪯ ηW_i
    widening: float  # ω: W_i⁻¹ ⪯ ω²P_i


def global_set(fit: Fit, S: float, s: float, delta: float) -> GlobalSet:
    """Return the smallest of Theorem M's ellipsoids at a fitted model, for ‖θ*‖, ‖θ_t‖ ≤ S.

    `s` is the link's self-concordance on the ball, `delta` the probability that θ* is outside.
    """
    h, e = _contiguous(fit)
    numbers = (fit.ell, fit.drift, fit.step_residual, fit.theta_square)
    return GlobalSet(*_global_set(h, e, *numbers, S, s, delta))


def local_terms(fit: Fit, S: float, s_bar: float, reach: float, delta: float) -> LocalTerms:
    """Return what Theorem L needs of a fitted model, for the component that starts smallest.

    `reach` is that of the model's `GlobalSet`, `s_bar` the link's self-concordance everywhere.
    `delta` is δ' of the second epoch; it only enters the choice of the component.
    """
    h, e = _contiguous(fit)
    numbers = (fit.ell, fit.drift, fit.step_residual, fit.theta_square)
    return LocalTerms(*_local_terms(h, e, *numbers, S, s_bar, reach, delta))


def left_out_cost(clients: int, left_out: int) -> float:
    """Return 2 log(1/π_E) at an update without k = `left_out` of N clients; 0 for k = 0.

    It is added to B of Theorems M and L (docs/theory.md, Proposition 25): all sets E of clients
    are in the union, as the data may have chosen E.
    """
    if left_out == 0:
        return 0.0
    sets = left_out * (left_out + 1) * math.comb(clients, left_out)
    return 2.0 * (math.log(sets) - math.log(_SPARE_WEIGHT))


def ball_set(fit: Fit, S: float, s: float) -> GlobalSet:
    """Return an ellipsoid around θ_t that holds the whole ball ‖θ‖ ≤ S."""
    reach = 2.0 * S * s
    curvature = lower_curvature(reach) * math.exp(-fit.drift)
    W = curvature * fit.eigenvalues + fit.ell
    radius = 2.0 * S * math.sqrt(float(W[-1]))
    width = radius * math.sqrt(float(np.sum(1.0 / W)))
    return GlobalSet(radius, curvature, fit.ell, reach, width, width)


def first_epoch_terms(dim: int, S: float, s: float, ridge: float) -> LocalTerms:
    """Return Theorem L's terms before the first model: θ_t = 0, Ĥ = 0, r = sS, the origin."""
    zeros = np.zeros(dim)
    return LocalTerms(*_terms_of(0, zeros, zeros, ridge, 0.0, 0.0, S, s * S))


def _contiguous(fit: Fit) -> tuple[FloatArray, FloatArray]:
    h = np.ascontiguousarray(fit.eigenvalues, dtype=np.float64)
    return h, np.ascontiguousarray(fit.residual, dtype=np.float64)


@kernel
def component(j: int, dim: int, S: float) -> tuple[float, float, float, float]:
    """Return u_j, 1_j v_j, (1 − 1_j)λ₀ and 2 log(1/w_j)."""
    if j == 0:
        origin = dim / (S * S)
        return origin, 0.0, origin, 2.0 * math.log(2.0)
    v = math.ldexp(1.0, 2 * (j - 1))
    return v, v, 0.0, 2.0 * math.log(2.0 * j * (j + 1.0))


@kernel
def _exp(x: float) -> float:
    return math.inf if x > 709.0 else math.exp(x)


@kernel
def _radius_of(
    j: int,
    curvature: float,
    h: FloatArray,
    e: FloatArray,
    ell: float,
    drift: float,
    step_residual: float,
    theta_square: float,
    S: float,
    delta: float,
) -> tuple[float, float, float]:
    """Return ρ_j, the smallest eigenvalue of W_j and tr W_j⁻¹, for a j with W_j ≻ 0."""
    dim = h.shape[0]
    u, v, origin, cost = component(j, dim, S)
    growth = heat_factor(1.0 / (u + h[0])) * _exp(drift) / u
    B = cost + 2.0 * math.log(1.0 / delta) + origin * theta_square
    B += ell * max(S * S - theta_square, 0.0)
    of_residual, of_step, trace = 0.0, 0.0, 0.0
    for k in range(dim):
        if h[k] > 0.0:
            B += math.log1p(growth * h[k])
        W = curvature * h[k] + (ell - v)
        of_residual += e[k] * e[k] / W
        of_step = max(of_step, h[k] / W)
        trace += 1.0 / W
    error = step_residual * math.sqrt(of_step) + math.sqrt(of_residual)
    return error + math.sqrt(B + error * error), curvature * h[0] + (ell - v), trace


@kernel
def _global_set(
    h: FloatArray,
    e: FloatArray,
    ell: float,
    drift: float,
    step_residual: float,
    theta_square: float,
    S: float,
    s: float,
    delta: float,
) -> tuple[float, float, float, float, float, float]:
    """Return the fields of a `GlobalSet`."""
    dim = h.shape[0]
    reach = 2.0 * S * s  # valid, as both ends are in the ball
    best, best_j, best_width = math.inf, 0, math.inf
    for step in range(_MAX_STEPS):
        curvature = lower_curvature(reach) * math.exp(-drift)
        distance = math.inf
        best, best_j, best_width = math.inf, 0, math.inf
        for j in range(_LAST_COMPONENT + 1):
            # components beyond half of the smallest eigenvalue would break Lemma 23
            if not component(j, dim, S)[1] < 0.5 * (curvature * h[0] + ell):
                break
            rho, smallest, trace = _radius_of(
                j, curvature, h, e, ell, drift, step_residual, theta_square, S, delta
            )
            distance = min(distance, rho / math.sqrt(smallest))
            width = rho * math.sqrt(trace)
            if width < best_width:
                best, best_j, best_width = rho, j, width
        # if ‖θ* − θ_t‖ ≤ distance holds with this reach, then s·distance is a reach too
        closer = s * distance
        if step == _MAX_STEPS - 1 or not closer < reach * (1.0 - _STEP_OF_REACH):
            break  # the reach returned is the one of the curvature
        reach = closer
    rho, _, trace = _radius_of(
        best_j, lower_curvature(reach), h, e, ell, 0.0, 0.0, theta_square, S, delta
    )
    shift = ell - component(best_j, dim, S)[1]
    return best, curvature, shift, reach, best_width, rho * math.sqrt(trace)


@kernel
def _terms_of(
    j: int,
    h: FloatArray,
    e: FloatArray,
    ell: float,
    drift: float,
    step_residual: float,
    S: float,
    reach: float,
) -> tuple[float, float, float, float, float, float, float, float, float]:
    """Return the fields of `LocalTerms` for a component with h_1 + ℓ − 1_j v_j > 0."""
    dim = h.shape[0]
    u, v, origin, cost = component(j, dim, S)
    c = heat_factor(1.0 / (u + h[0])) / u
    # log det(I + cĤ_i) grows by at most the gain log det(Ĥ_i + ℓI) − log det(Ĥ + ℓI)
    log_det, of_residual = 0.0, 0.0
    for k in range(dim):
        log_det += math.log1p(c * h[k]) if c * ell <= 1.0 else math.log(c * (ell + h[k]))
        of_residual += e[k] * e[k] / (h[k] + (ell - v))
    smallest = h[0] + (ell - v)
    stretch = max(1.0, h[0] / smallest)  # below 1 for the origin
    widening = math.sqrt((h[0] + ell) / smallest)
    residual = step_residual * math.sqrt(stretch) + math.sqrt(of_residual)
    curvature = lower_curvature(reach) * math.exp(-drift)
    return log_det, cost, ell, origin, curvature, drift, residual, stretch, widening


@kernel
def _local_terms(
    h: FloatArray,
    e: FloatArray,
    ell: float,
    drift: float,
    step_residual: float,
    theta_square: float,
    S: float,
    s_bar: float,
    reach: float,
    delta: float,
) -> tuple[float, float, float, float, float, float, float, float, float]:
    """Return the fields of `LocalTerms` for the component with the least radius·widening."""
    dim = h.shape[0]
    best = _terms_of(0, h, e, ell, drift, step_residual, S, reach)
    least = math.inf
    for j in range(_LAST_COMPONENT + 1):
        if not h[0] + (ell - component(j, dim, S)[1]) > 0.0:
            break
        terms = _terms_of(j, h, e, ell, drift, step_residual, S, reach)
        log_det, cost, _, origin, curvature, _, residual, stretch, widening = terms
        radius = local_radius(
            0.0,
            0.0,
            0.0,
            theta_square,
            -1.0,
            dim,
            S,
            s_bar,
            delta,
            log_det,
            cost,
            ell,
            origin,
            curvature,
            drift,
            residual,
            stretch,
        )
        if radius * widening < least:
            best, least = terms, radius * widening
    return best


@kernel
def local_radius(
    gain: float,
    step: float,
    step_square: float,
    theta_square: float,
    trace: float,
    dim: int,
    S: float,
    s_bar: float,
    delta: float,
    log_det: float,
    weight_cost: float,
    ell: float,
    origin: float,
    curvature: float,
    drift: float,
    residual: float,
    stretch: float,
) -> float:
    """Return X of Theorem L: ‖θ* − θ_i‖_W ≤ X, so |xᵀ(θ* − θ_i)| ≤ Xω‖x‖_{P_i}.

    u = θ_i − θ_t has the length `step` and ‖u‖²_{Ĥ_i} = `step_square`; `theta_square` is ‖θ_i‖²,
    `delta` is δ' of the client and epoch. `trace` is Σ a‖x‖² over the client's samples before the
    first model, and negative afterwards. The last eight arguments are fields of `LocalTerms`.
    """
    turn = s_bar * step + drift
    growth = math.inf if turn > 709.0 else math.expm1(turn)
    B = log_det + gain + dim * growth + weight_cost + 2.0 * math.log(1.0 / delta)
    B += ell * (S * S - theta_square) + origin * theta_square
    if step_square > 0.0:
        B += (upper_curvature(s_bar * step) * _exp(drift) - 1.0) * step_square
    # X² ≤ B + 2·residual·X + missing·(√η X + m)², m² = step_square
    missing = 1.0 - curvature
    lead = curvature - missing * (stretch - 1.0)  # 1 − missing·η, exact for η = 1
    radius = math.inf
    if lead > 0.0:
        half = residual + missing * math.sqrt(stretch * step_square)
        inside = half * half + lead * (B + missing * step_square)
        radius = 0.0 if inside < 0.0 else (half + math.sqrt(inside)) / lead
    if trace >= 0.0:  # θ_t = 0 and there is no residual: ‖θ*‖² ≤ S² bounds ‖θ* − θ_t‖²_{Ĥ_i}
        radius = min(radius, math.sqrt(max(B + missing * (S * S) * trace, 0.0)))
    return radius
