"""From the regret of an online learner to a bound on its prediction errors.

Both online families need it: Σ[xᵀ(θ_s − θ*)]² ≤ q² − 1 wherever the learner's loss exceeds that
of θ* by at most B, by Corollary 8 of Abbasi-Yadkori et al. (2012) and Lemma 2 of Jun et al. (2017).
"""

from __future__ import annotations

import math

from fedglb.kernels.jit import kernel

#: Newton's steps: quadratic convergence, the last one is at rounding.
REFINEMENTS = 3


@kernel
def prediction_error_bound(
    regret: float, c: float, R: float, delta: float, refinements: int
) -> float:
    """Return q² − 1, where q solves q² ≤ a + f q √log(q/δ), a = 1 + 2B/c, f = 2√2 R/c.

    Jun et al.'s closed form is the start. q − φ(q), φ(q) = f√L/2 + √(f²L/4 + a), L = log(q/δ),
    is convex and q bounds its root from above, so every step of Newton's method keeps the bound
    valid and makes it smaller (docs/theory.md).
    """
    a = 1.0 + 2.0 * regret / c
    f = 2.0 * math.sqrt(2.0) * R / c
    # log(√(4a + f⁴/(4δ²))/δ), summed in logarithms: f⁴ and 1/δ² leave the range of doubles
    small = math.log(4.0 * a)
    large = 4.0 * math.log(f) - math.log(4.0) - 2.0 * math.log(delta)
    top = max(small, large)
    log_inner = top + math.log1p(math.exp(min(small, large) - top))
    square = 2.0 * a + f * f * (0.5 * log_inner - math.log(delta))
    q = math.sqrt(square)
    for _ in range(refinements):
        L = math.log(q) - math.log(delta)
        root = math.sqrt(L)
        whole = math.sqrt(0.25 * f * f * L + a)
        slope = f * (0.25 / root + 0.125 * f / whole) / q
        step = (q - 0.5 * f * root - whole) / (1.0 - slope)
        if not step > 0.0:
            break
        q -= step
        square = q * q
    return square - 1.0
