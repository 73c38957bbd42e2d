"""Bounds from generalised self-concordance, |μ″| ≤ s μ′ (docs/theory.md, sections 3 to 5)."""

from __future__ import annotations

import math

from fedglb.kernels.compile import kernel


@kernel
def omega(kappa: float) -> float:
    """Return ω(κ) = Σ_j κ^j/((j+1)(j+2)) = [κ + (1−κ) log(1−κ)]/κ² for 0 ≤ κ < 1; else inf."""
    if not kappa < 1.0:
        return math.inf
    if kappa < 1e-2:  # the closed form cancels here; nine terms are exact to rounding
        total = 0.0
        power = 1.0
        for j in range(9):
            total += power / ((j + 1.0) * (j + 2.0))
            power *= kappa
        return total
    return (kappa + (1.0 - kappa) * math.log1p(-kappa)) / (kappa * kappa)


@kernel
def newton_gap(decrement: float, s: float, smallest: float) -> float:
    """Certificate (c): bound Φ(θ) − min Φ by δ² ω(sδ/√λ_min), with δ the Newton decrement."""
    return decrement * decrement * omega(s * decrement / math.sqrt(smallest))


@kernel
def taylor_excess(u: float) -> float:
    """Return ψ(u) = (e^u − 1 − u)/u, which bounds the relative error of a linearised mean."""
    if u < 1e-3:
        return u * (0.5 + u * (1.0 / 6.0 + u * (1.0 / 24.0 + u / 120.0)))
    return (math.expm1(u) - u) / u


@kernel
def safe_step(r: float) -> float:
    """Return a length of the Newton step p that is proven to decrease Φ; r = s‖p‖.

    It is 1 where (e^r − 1 − r)/r² ≤ 1, else log(1+r)/r.
    """
    return 1.0 if r <= 1.79 else math.log1p(r) / r
