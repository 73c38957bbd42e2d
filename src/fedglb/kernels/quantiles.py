"""The quantile function of the normal law, compiled."""

from __future__ import annotations

import math

from fedglb.kernels.compile import kernel

#: Half the spacing of the uniforms: u = 0 must not give an infinite number.
SMALLEST = 2.0**-54


@kernel
def normal_quantile(u: float) -> float:
    """Return Φ⁻¹(u), to rounding.

    A classical rational start (Abramowitz & Stegun 26.2.23, error 4.5e-4) in the smaller tail,
    then two steps of Halley's method on Φ, each of which triples the number of correct digits.
    """
    tail = max(min(u, 1.0 - u), SMALLEST)
    t = math.sqrt(-2.0 * math.log(tail))
    z = t - (2.515517 + t * (0.802853 + t * 0.010328)) / (
        1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308))
    )
    for _ in range(2):
        density = math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
        newton = (0.5 * math.erfc(z / math.sqrt(2.0)) - tail) / density
        z += newton / (1.0 - 0.5 * z * newton)
    return z if u >= 0.5 else -z
