"""From the regret of an online learner to a bound on its prediction errors.

If the learner's loss exceeds that of θ* by at most B, then Σ[xᵀ(θ_s − θ*)]² ≤ q² − 1, by
Corollary 8 of Abbasi-Yadkori et al. (2012) and Lemma 2 of Jun et al. (2017). The radii
`FedGLBRadius` and `LazyOnsRadius` rest on it (docs/theory.md, section 2.3, Lemmas 4 and 5).
"""

from __future__ import annotations

import math

from fedglb.kernels.compile import kernel

#: Newton steps: two end within a millionth of the root (a few thousandths where δ > 1/e).
REFINEMENTS = 2


@kernel
def prediction_error_bound(
    regret: float, c: float, R: float, delta: float, refinements: int
) -> float:
    """Return q² − 1, where q solves q² ≤ a + f q √log(q/δ), a = 1 + 2B/c, f = 2√2 R/c.

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
