"""From the regret of an online learner to a bound on its prediction errors.

Both online families need it: Σ[xᵀ(θ_s − θ*)]² ≤ q² − 1 wherever the learner's loss exceeds that
of θ* by at most B, by Corollary 8 of Abbasi-Yadkori et al. (2012) and Lemma 2 of Jun et al. (2017).
"""

from __future__ import annotations

import math

from fedglb.kernels.compile import kernel

#: Newton's steps: within a millionth of the solution (δ > 1/e: within a few thousandths).
REFINEMENTS = 2


@kernel
def prediction_error_bound(
    regret: float, c: float, R: float, delta: float, refinements: int
) -> float:
    """Return q² − 1, where q solves q² ≤ a + f q √log(q/δ), a = 1 + 2B/c, f = 2√2 R/c.

    Without refinements: Jun et al.'s closed form. q − φ(q), φ(q) = f√L/2 + √(f²L/4 + a) with
    L = log(q/δ), is convex, so a step of Newton's method ends above its root, a valid bound,
    wherever it starts (docs/theory.md); it starts close by.
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
