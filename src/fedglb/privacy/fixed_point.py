"""A vector and a symmetric matrix as whole numbers: sums of them have the same bits in any order.

Floating-point sums cannot prove privacy: one more sample can change the rounding of all others, so
that two sums differ by more than that sample (Casacuberta, Shoemate, Vadhan and Wagaman 2022). Here
each sample is rounded separately, and from then on all arithmetic is exact.
"""

from __future__ import annotations

import math

import numpy as np

from fedglb.errors import InvalidInput
from fedglb.typing import FloatArray, IntArray

#: Fractional bits of a number: 1.0 is the whole number 2**BITS.
BITS = 30
#: The maximum of one sample, so that sums of very many fit into 64 bits.
LARGEST = 2.0**20
#: One unit of the last place.
UNIT = 2.0**-BITS
#: Fractional bits of a weight in `weighted`.
WEIGHT_BITS = 30
# A number is cut into pieces of 21 bits: a piece times a weight is below 2**52.
_PIECE = 21
_MASK = 2**_PIECE - 1
#: The most batches that `weighted` adds: their products add up without overflow.
MOST_BATCHES = 2**11 - 1


def size(dim: int) -> int:
    """Return the size of a vector and a symmetric matrix: d + d(d+1)/2."""
    return dim + dim * (dim + 1) // 2


def unpack(numbers: FloatArray | IntArray, dim: int) -> tuple[FloatArray, FloatArray]:
    """Return the vector (..., d) and the symmetric matrix (..., d, d) that numbers stand for.

    The numbers, in units of 2**-BITS and not necessarily whole, are the vector, then the matrix's
    lower triangle row by row. Entries off the diagonal are multiplied by √2, so that Euclidean norm
    and Frobenius norm are the same.
    """
    values = np.asarray(numbers, dtype=np.float64) * UNIT
    rows, columns = np.tril_indices(dim)
    triangle = values[..., dim:] * np.where(rows == columns, 1.0, math.sqrt(0.5))
    matrix = np.empty((*values.shape[:-1], dim, dim))
    matrix[..., rows, columns] = triangle
    matrix[..., columns, rows] = triangle
    return values[..., :dim].copy(), matrix


def weighted(weights: FloatArray, batches: IntArray) -> IntArray:
    """Return floor(Σ_j w_j batch_j + 1/2): rounded once to whole numbers; all else is exact.

    The n ≤ 2047 weights are multiples of 2**-WEIGHT_BITS in [−1, 1], the batches whole numbers of
    shape (n, ...), the result below 2**63 in size. Products in floating point would be off by more
    than one unit for sums beyond 2**53, by an amount that depends on all samples of the sum.
    """
    scaled = np.asarray(weights, dtype=np.float64) * 2.0**WEIGHT_BITS
    factors = np.rint(scaled).astype(np.int64)
    if len(factors) > MOST_BATCHES:
        raise InvalidInput("len(weights)", len(factors), f"at most {MOST_BATCHES} weights")
    if (factors != scaled).any() or np.abs(factors).max(initial=0) > 2**WEIGHT_BITS:
        raise InvalidInput("weights", weights, f"multiples of 2**-{WEIGHT_BITS} between -1 and 1")
    low, middle, high = batches & _MASK, (batches >> _PIECE) & _MASK, batches >> 2 * _PIECE
    sums = [np.tensordot(factors, piece, axes=1) for piece in (low, middle, high)]
    sums[1] += sums[0] >> _PIECE
    sums[2] += sums[1] >> _PIECE
    below = ((sums[1] & _MASK) << _PIECE) + (sums[0] & _MASK)  # the rest is a multiple of 2**42
    rounded: IntArray = (below + 2 ** (WEIGHT_BITS - 1)) >> WEIGHT_BITS
    return (sums[2] << 2 * _PIECE - WEIGHT_BITS) + rounded
