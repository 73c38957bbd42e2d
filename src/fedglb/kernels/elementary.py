"""exp, log and the circle's coordinates in plain arithmetic, and the normal quantile.

The first three have no branch and no call, so that the compiler turns a loop over them into vector
instructions, and they give the same bits everywhere: on every machine, alone or in a loop. They are
within 2 units in the last place (ulp) of the exact value (tests/kernels/test_elementary.py, against
50 digits). The polynomials are Taylor's, of a degree at which the rest is below 2⁻⁵⁷.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import cast

import numpy as np

from fedglb.kernels.compile import inlined_kernel, kernel
from fedglb.kernels.pointers import Intrinsic

# log 2 as a sum: the first part has 42 bits, so that its product with an exponent is exact.
_LOG_2_HIGH, _LOG_2_LOW = float.fromhex("0x1.62e42fefa38p-1"), float.fromhex("0x1.ef35793c7673p-45")
_PER_LOG_2 = 1.0 / math.log(2.0)
#: Added to a small number, it leaves that number, rounded, in the last bits of the sum.
_ROUNDER = 1.5 * 2.0**52
_BIAS, _MANTISSA_BITS = 1023, np.uint64(52)
_MANTISSA = np.uint64(2**52 - 1)
_TWO_52 = np.uint64(0x4330000000000000)  # the bits of 2⁵²
_ROOT_HALF = np.uint64(0x3FE6A09E667F3BCD)  # the bits of √½
_ONE_LESS_ROOT_HALF = np.uint64(0x3FF0000000000000 - 0x3FE6A09E667F3BCD)

_EXP = tuple(1.0 / math.factorial(k) for k in range(14))
_LOG = tuple(2.0 / (2 * k + 1) for k in range(11))
_SIN = tuple((-1.0) ** k / math.factorial(2 * k + 1) for k in range(9))
_COS = tuple((-1.0) ** k / math.factorial(2 * k) for k in range(9))
#: Half the spacing of the uniforms: u = 0 must not give an infinite number.
SMALLEST = 2.0**-54


def _bits_in_python(x: float) -> np.uint64:
    return np.uint64(struct.unpack("<Q", struct.pack("<d", x))[0])


def _from_bits_in_python(bits: np.uint64) -> float:
    return float(struct.unpack("<d", struct.pack("<Q", int(bits)))[0])


bits_of = cast("Callable[[float], np.uint64]", Intrinsic("bits", _bits_in_python))
_from_bits = cast("Callable[[np.uint64], float]", Intrinsic("from_bits", _from_bits_in_python))


@inlined_kernel
def small_number(n: np.uint64) -> float:
    """Return a whole number below 2⁵² as a float: vector units convert no others."""
    return _from_bits(n | _TWO_52) - 2.0**52


@inlined_kernel
def _power_of_two(n: float) -> float:
    """Return 2ⁿ for a whole number n from −1022 to 1023."""
    return _from_bits(bits_of(n + (_ROUNDER + _BIAS)) << _MANTISSA_BITS)


@inlined_kernel
def exp(x: float) -> float:
    """Return eˣ; infinity above 709.78, 0 below −745.13, NaN for NaN.

    eˣ = 2ⁿeʳ with |r| ≤ ½ log 2; 2ⁿ comes in two factors, as n may be beyond a double's exponents.
    """
    x = 711.0 if x > 711.0 else x
    x = -747.0 if x < -747.0 else x
    n = (x * _PER_LOG_2 + _ROUNDER) - _ROUNDER
    r = (x - n * _LOG_2_HIGH) - n * _LOG_2_LOW
    # in pairs (Estrin's scheme): few of the operations wait for each other
    r2 = r * r
    r4 = r2 * r2
    low = (_EXP[2] + _EXP[3] * r) + (_EXP[4] + _EXP[5] * r) * r2
    middle = (_EXP[6] + _EXP[7] * r) + (_EXP[8] + _EXP[9] * r) * r2
    high = (_EXP[10] + _EXP[11] * r) + (_EXP[12] + _EXP[13] * r) * r2
    p = low + (middle + high * r4) * r4
    half = (0.5 * n + _ROUNDER) - _ROUNDER
    return (1.0 + (r + r2 * p)) * _power_of_two(half) * _power_of_two(n - half)


@inlined_kernel
def log(x: float) -> float:
    """Return log x for a normal number x > 0.

    x = 2ᵉm with √½ ≤ m < √2, and log m = 2 artanh s with s = (m − 1)/(m + 1). With f = m − 1 it is
    f − s(f − s²P(s²)), whose first term has no rounding error.
    """
    bits = bits_of(x) + _ONE_LESS_ROOT_HALF
    e = small_number(bits >> _MANTISSA_BITS) - _BIAS
    f = _from_bits((bits & _MANTISSA) + _ROOT_HALF) - 1.0
    s = f / (f + 2.0)
    z = s * s
    z2 = z * z
    z4 = z2 * z2
    low = (_LOG[1] + _LOG[2] * z) + (_LOG[3] + _LOG[4] * z) * z2
    high = (_LOG[5] + _LOG[6] * z) + (_LOG[7] + _LOG[8] * z) * z2
    p = low + (high + (_LOG[9] + _LOG[10] * z) * z4) * z4
    return e * _LOG_2_HIGH + (f - (s * (f - z * p) - e * _LOG_2_LOW))


@inlined_kernel
def on_circle(v: float) -> tuple[float, float]:
    """Return cos 2πv and sin 2πv for 0 ≤ v ≤ 1.

    The nearest quarter is taken off without rounding; the rest is at most π/4.
    """
    quarter = (4.0 * v + _ROUNDER) - _ROUNDER
    a = (v - 0.25 * quarter) * (2.0 * math.pi)
    z = a * a
    z2 = z * z
    z4 = z2 * z2
    p = (_SIN[1] + _SIN[2] * z) + (_SIN[3] + _SIN[4] * z) * z2
    p += ((_SIN[5] + _SIN[6] * z) + (_SIN[7] + _SIN[8] * z) * z2) * z4
    c = (_COS[2] + _COS[3] * z) + (_COS[4] + _COS[5] * z) * z2
    c += ((_COS[6] + _COS[7] * z) + _COS[8] * z2) * z4
    sin, cos = a + a * z * p, 1.0 - (0.5 * z - z2 * c)
    odd = (quarter == 1.0) | (quarter == 3.0)
    x, y = (sin if odd else cos), (cos if odd else sin)
    x = -x if (quarter == 1.0) | (quarter == 2.0) else x
    y = -y if (quarter == 2.0) | (quarter == 3.0) else y
    return x, y


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
