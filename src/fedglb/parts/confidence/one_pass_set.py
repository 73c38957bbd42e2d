"""The smallest of the proven ellipsoids of a one-pass fit (docs/theory.md, section 10).

The components are those of `fedglb.parts.mixture`. Beside the component j there are two free
numbers: ℓ ≥ 0, the multiplier of ‖θ*‖ ≤ S, and τ in [0, 1), which says where between the model and
θ* the mixture is looked at. Every choice of the three holds in the same event, so the smallest
ellipsoid may be taken. All quantities are in units of the likelihood.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fedglb.kernels.compile import kernel
from fedglb.parts.mixture import component
from fedglb.parts.self_concordance import heat_factor, lower_curvature
from fedglb.typing import FloatArray

#: No truth component beyond this one is tried, as in `fedglb.parts.mixture`.
_LAST_COMPONENT = 60
#: First τ is one of 0, 0.1, …, 0.9 and ℓ a starting value times one of 4⁻², …, 4⁹; then both are
#: moved by steps of τ/20 and √2 while that helps, at most `_MOVES` times.
_TAUS = 10
_LEAST_POWER, _POWERS = -2, 12
_MOVES = 6
#: The bound r on s‖θ* − θ‖ is refined while it falls by more than this part of itself.
_STEP_OF_REACH = 1e-3
_MAX_STEPS = 100


class Expansion(NamedTuple):
    """What is known, at a model θ in the ball, of the samples of some batches.

    L is their loss, P their Σ μ′xxᵀ and U their Σ v, each sample at the model that was in force.
    Q holds the eigenvectors of the matrix that `low` has the eigenvalues of.
    """

    low: FloatArray  # of Σ w_jP̃_j, w_j ≤ e^{−q_j}: a noisy lower bound on ∇²L(θ); ascending
    high: FloatArray  # of an upper bound on ∇²L(θ), none below 0; ascending
    slope: FloatArray  # Qᵀ(P̃θ − Ũ)
    theta: FloatArray  # Qᵀθ
    remainder: float  # ε: the gradient's remainder is at most ε times a norm in Σ w_jP_j
    weight: float  # w_b of the last batch
    error: float  # κ ≥ ‖P̃ − P‖
    drift: float  # a bound on ‖Σ(w_j − w_b)(P̃_j − P_j)‖
    noise: float  # c̄: the noise in Ũ − P̃θ* is sub-Gaussian with this variance


class OnePassSet(NamedTuple):
    """‖θ* − θ + W⁻¹e‖_W ≤ ρ: W has the eigenvalues a·low + shift, e = slope + ℓθ, all after Qᵀ."""

    radius: float  # ρ
    curvature: float  # a
    shift: float
    ell: float  # ℓ
    tau: float  # τ
    component: int  # j
    reach: float  # r ≥ s‖θ* − θ‖
    width: float  # ρ√(tr W⁻¹)


def smallest_set(
    at: Expansion, S: float, s: float, delta: float, start: float, reach: float
) -> OnePassSet:
    """Return the smallest ellipsoid, for ‖θ*‖, ‖θ‖ ≤ S; its width is infinite if there is none.

    `s` is the link's self-concordance on the ball, `delta` the probability that θ* is outside,
    `start` > 0 the value of ℓ around which it is looked for. `reach` is a bound on s‖θ* − θ‖ that
    is known; 2sS is one.
    """
    low, high, slope, theta = (np.ascontiguousarray(each, dtype=np.float64) for each in at[:4])
    return OnePassSet(
        *_smallest_set(
            low, high, slope, theta, at.remainder, at.weight, at.error, at.drift, at.noise, S, s,
            delta, start, reach,
        )
    )  # fmt: skip


@kernel
def _ellipsoid(
    j: int,
    tau: float,
    ell: float,
    reach: float,
    low: FloatArray,
    high: FloatArray,
    slope: FloatArray,
    theta: FloatArray,
    remainder: float,
    weight: float,
    error: float,
    drift: float,
    noise: float,
    S: float,
    delta: float,
) -> tuple[float, float, float, float, float]:
    """Return ρ, a, the shift, ρ√(tr W⁻¹) and a bound on ‖θ* − θ‖; infinite unless W ≻ 0."""
    dim, left = low.shape[0], 1.0 - tau
    u, v, origin, cost = component(j, dim, S)
    a = (lower_curvature(reach) - tau * tau * lower_curvature(tau * reach)) / left
    shift = ell + tau * origin - left * (noise + v) - abs(2.0 - a * weight) * error - a * drift
    smallest = a * low[0] + shift
    if not smallest > 0.0:
        return math.inf, a, shift, math.inf, math.inf
    growth = heat_factor(1.0 / (u + noise + high[0])) * math.exp(tau * reach)
    square, log_det, trace = 0.0, 0.0, 0.0
    of_slope, moved, of_move, stretch = 0.0, 0.0, 0.0, 0.0
    for k in range(dim):
        W = a * low[k] + shift
        e = slope[k] + ell * theta[k]
        step = e / W
        most = max(low[k] + weight * error + drift, 0.0)
        square += theta[k] * theta[k]
        log_det += math.log1p((noise + growth * high[k]) / u)
        trace += 1.0 / W
        of_slope += e * step
        moved += step * step
        of_move += most * step * step
        stretch = max(stretch, most / W)
    B = log_det + cost + 2.0 * math.log(1.0 / delta) + origin * (left * square + tau * S * S)
    B = B / left + ell * max(S * S - square, 0.0) + of_slope
    B += 2.0 * remainder * math.sqrt(of_move)
    bent = remainder * math.sqrt(stretch)
    rho = bent + math.sqrt(B + bent * bent)
    return rho, a, shift, rho * math.sqrt(trace), math.sqrt(moved) + rho / math.sqrt(smallest)


@kernel
def _smallest_set(
    low: FloatArray,
    high: FloatArray,
    slope: FloatArray,
    theta: FloatArray,
    remainder: float,
    weight: float,
    error: float,
    drift: float,
    noise: float,
    S: float,
    s: float,
    delta: float,
    start: float,
    reach: float,
) -> tuple[float, float, float, float, float, int, float, float]:
    """Return the fields of a `OnePassSet`."""
    best = (math.inf, 0.0, 0.0, start, 0.0, 0, reach, math.inf)
    for _ in range(_MAX_STEPS):
        distance = math.inf
        best = (math.inf, 0.0, 0.0, start, 0.0, 0, reach, math.inf)
        for p in range(_POWERS):
            ell = start * math.ldexp(1.0, 2 * (_LEAST_POWER + p))
            for i in range(_TAUS):
                tau = i / _TAUS
                for j in range(_LAST_COMPONENT + 1):
                    rho, a, shift, width, away = _ellipsoid(
                        j, tau, ell, reach, low, high, slope, theta, remainder, weight, error,
                        drift, noise, S, delta,
                    )  # fmt: skip
                    if rho == math.inf:
                        break  # W is smaller yet for the next ones
                    distance = min(distance, away)
                    if width < best[7]:
                        best = (rho, a, shift, ell, tau, j, reach, width)
        for move in range(2 * _MOVES):
            for sign in (-1.0, 1.0):
                ell, tau, j = best[3], best[4], best[5]
                if move % 2 == 0:
                    ell *= math.sqrt(2.0) if sign > 0.0 else math.sqrt(0.5)
                else:
                    tau = min(max(tau + sign * 0.5 / _TAUS, 0.0), 1.0 - 0.5 / _TAUS)
                rho, a, shift, width, away = _ellipsoid(
                    j, tau, ell, reach, low, high, slope, theta, remainder, weight, error,
                    drift, noise, S, delta,
                )  # fmt: skip
                distance = min(distance, away)
                if width < best[7]:
                    best = (rho, a, shift, ell, tau, j, reach, width)
        # if ‖θ* − θ‖ ≤ distance holds with this reach, then s·distance is a reach too
        if not s * distance < reach * (1.0 - _STEP_OF_REACH):
            break
        reach = s * distance
    return best
