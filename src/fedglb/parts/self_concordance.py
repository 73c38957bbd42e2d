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


@kernel
def _second_order(x: float) -> float:
    """Return 2(e^x − 1 − x)/x², 1 at 0."""
    if abs(x) < 0.5:  # the closed form cancels here; the terms up to x¹⁴ are exact to rounding
        total = 1.0
        for k in range(16, 2, -1):
            total = 1.0 + x * total / k
        return total
    return 2.0 * (math.expm1(x) / x - 1.0) / x


@kernel
def lower_curvature(r: float) -> float:
    """Return κ(r) = 2(e^{−r} − 1 + r)/r²: L(θ+Δ) ≥ L(θ) + ∇LᵀΔ + ½κ(r)‖Δ‖²_H.

    This and `upper_curvature` hold where r ≥ s|xᵀΔ| for every sample (Lemma 17).
    """
    return _second_order(-r)


@kernel
def upper_curvature(r: float) -> float:
    """Return κ₊(r) = 2(e^r − 1 − r)/r²: L(θ+Δ) ≤ L(θ) + ∇LᵀΔ + ½κ₊(r)‖Δ‖²_H."""
    return math.inf if r > 709.0 else _second_order(r)


@kernel
def heat_factor(v: float) -> float:
    """Return T(v) = (e^{v/2} − 1)/(v/2): E m(z+g) ≤ m(z) + ½T(v)μ′(z)v for g ~ N(0, v).

    This is Lemma 16, for links with μ‴ ≤ μ′.
    """
    half = 0.5 * v
    if half == 0.0:
        return 1.0
    return math.inf if half > 709.0 else math.expm1(half) / half
