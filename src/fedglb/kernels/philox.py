"""Random numbers by their place in a table: the counter-based generator Philox-4x32-10.

A number of the stream is a function of (seed, step, client, draw, block) and of nothing else. So
both engines and every agent draw the same ones, in whatever order they ask, and nothing has to be
stored to go on after a restart.

References
----------
Salmon, Moraes, Dror and Shaw (2011), Parallel random numbers: as easy as 1, 2, 3; Bailey (1994),
Polar generation of random variates with the t-distribution.
"""

from __future__ import annotations

import math

import numpy as np

from fedglb.kernels.compile import inlined_kernel, kernel
from fedglb.kernels.elementary import exp, log, on_circle, small_number
from fedglb.typing import FloatArray

# Products of two words of 32 bits need all 64 bits of an unsigned number. Everything is np.uint64,
# because numba turns a sum of a signed and an unsigned number into a float.
_MULTIPLIER_0, _MULTIPLIER_1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL_0, _WEYL_1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_WORD = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_HIGH_27, _HIGH_26 = np.uint64(5), np.uint64(6)


@inlined_kernel
def word(number: int) -> np.uint64:
    """Return a whole number modulo 2³²; it may be negative."""
    return np.uint64(number & 0xFFFFFFFF)


@inlined_kernel
def philox(
    block: int, draw: int, client: int, number: int, key: int, key_high: int
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Return the four words of 32 bits that belong to a counter of four and a key of two words.

    The arguments are whole numbers, each modulo 2³².
    """
    c0, c1, c2, c3 = word(block), word(draw), word(client), word(number)
    k0, k1 = word(key), word(key_high)
    for _ in range(10):
        product_0, product_1 = _MULTIPLIER_0 * c0, _MULTIPLIER_1 * c2
        c0, c1, c2, c3 = (
            (product_1 >> _SHIFT) ^ c1 ^ k0,
            product_1 & _WORD,
            (product_0 >> _SHIFT) ^ c3 ^ k1,
            product_0 & _WORD,
        )
        k0, k1 = (k0 + _WEYL_0) & _WORD, (k1 + _WEYL_1) & _WORD
    return c0, c1, c2, c3


@inlined_kernel
def _uniform(high: np.uint64, low: np.uint64) -> float:
    """Return a multiple of 2⁻⁵³ in [0, 1), from the 27 and 26 high bits of two words."""
    return small_number(high >> _HIGH_27) * 2.0**-27 + small_number(low >> _HIGH_26) * 2.0**-53


@inlined_kernel
def uniforms(key: int, number: int, client: int, draw: int, block: int) -> tuple[float, float]:
    """Return two independent uniforms in [0, 1), with 53 random bits each.

    `key` is the seed, modulo 2⁶⁴. The place in the stream, each modulo 2³²: the number of the
    decision (the step t in a simulation), the client, which draw of that decision, and which pair
    of that draw.
    """
    w0, w1, w2, w3 = philox(block, draw, client, number, key, key >> 32)
    return _uniform(w0, w1), _uniform(w2, w3)


@inlined_kernel
def two_normals(key: int, number: int, client: int, draw: int, block: int) -> tuple[float, float]:
    """Return two independent standard normal numbers, by the method of Box and Muller.

    1 − u is in (0, 1], so its logarithm is finite.
    """
    u, v = uniforms(key, number, client, draw, block)
    length = math.sqrt(-2.0 * log(1.0 - u))
    x, y = on_circle(v)
    return length * x, length * y


@inlined_kernel
def t_number(key: int, number: int, client: int, draw: int, block: int, degrees: float) -> float:
    """Return a number of Student's t distribution, by the method of Bailey (1994).

    It is Box and Muller's for degrees → ∞.
    """
    u, v = uniforms(key, number, client, draw, block)
    tail = exp(-2.0 * log(1.0 - u) / degrees) - 1.0
    return math.sqrt(degrees * tail) * on_circle(v)[0]


@kernel
def normals(key: int, number: int, client: int, draw: int, out: FloatArray) -> None:
    """Fill `out` with independent standard normal numbers.

    The first half of them are the first of each pair of `two_normals`, the others the second: so
    both are written as memory lies, and the loop vectorises.
    """
    pairs = out.shape[0] // 2
    first, second = out[: out.shape[0] - pairs], out[out.shape[0] - pairs :]
    for block in range(pairs):
        first[block], second[block] = two_normals(key, number, client, draw, block)
    if pairs < first.shape[0]:
        first[pairs] = two_normals(key, number, client, draw, pairs)[0]
