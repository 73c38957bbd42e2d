"""Arrays on the wire: little-endian, 8 bytes a number; of a symmetric matrix the lower triangle."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedglb.errors import InvalidInput
from fedglb.model import triangle_size
from fedglb.typing import FloatArray, IntArray

_REAL, _WHOLE = np.dtype("<f8"), np.dtype("<i8")
#: In a model's `radius_terms`, beside a centre and the triangle of a matrix.
MAX_NUMBERS = 64


def max_numbers(d: int) -> int:
    """Return the largest length of a field of numbers: a few, a vector and a triangle."""
    return MAX_NUMBERS + d + triangle_size(d)


class Sizes(NamedTuple):
    """The agreed numbers that bound the arrays of a message: features, and arms with effects."""

    d: int
    effects: int

    @property
    def rows(self) -> int:
        """The largest length of a field of rows: λ₂, the number of buckets, and d + 3 per arm."""
        return 2 + self.effects * (self.d + 3)


class WrongLength(ValueError):
    """A field whose bytes have the wrong length."""


def pack_vector(name: str, vector: FloatArray, d: int) -> bytes:
    """Return the bytes of a vector of length d."""
    _check_shape(name, vector, (d,))
    return vector.astype(_REAL, copy=False).tobytes()


def pack_matrix(name: str, matrix: FloatArray, d: int) -> bytes:
    """Return the bytes of the lower triangle, row by row; the upper one is ignored."""
    _check_shape(name, matrix, (d, d))
    return matrix.take(_places(d)[0]).astype(_REAL, copy=False).tobytes()


def pack_numbers(name: str, numbers: FloatArray, d: int) -> bytes:
    """Return the bytes of at most `max_numbers(d)` numbers."""
    most = max_numbers(d)
    if numbers.ndim != 1 or numbers.size > most:
        allowed = f"an array of one axis and at most {most} numbers"
        raise InvalidInput(f"{name}.shape", numbers.shape, allowed)
    return numbers.astype(_REAL, copy=False).tobytes()


def pack_rows(name: str, rows: FloatArray, d: int) -> bytes:
    """Return the bytes of rows of d + 3 numbers, with two numbers before them or none."""
    if rows.ndim != 1 or rows.size % (d + 3) not in (0, 2):
        raise InvalidInput(f"{name}.shape", rows.shape, f"rows of {d + 3} numbers in one axis")
    return rows.astype(_REAL, copy=False).tobytes()


def pack_integers(name: str, numbers: IntArray, d: int) -> bytes:
    """Return the bytes of the d + d(d+1)/2 whole numbers of a release."""
    _check_shape(name, numbers, (d + triangle_size(d) if d else numbers.size,))
    return numbers.astype(_WHOLE, copy=False).tobytes()


def _check_shape(name: str, array: NDArray[Any], shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        raise InvalidInput(f"{name}.shape", array.shape, f"an array of shape {shape}")


# Every array that is read is fresh, writable, C-ordered and of the machine's own byte order.
# Lengths are checked first: no sender can make us allocate more than the agreement requires.


def unpack_vector(name: str, data: bytes, sizes: Sizes) -> FloatArray:
    """Return the vector of `pack_vector`."""
    _check_length(name, data, sizes.d)
    return np.frombuffer(data, _REAL).astype(np.float64)


def unpack_matrix(name: str, data: bytes, sizes: Sizes) -> FloatArray:
    """Return the symmetric matrix whose lower triangle `pack_matrix` packed."""
    _check_length(name, data, triangle_size(sizes.d))
    return np.frombuffer(data, _REAL).take(_places(sizes.d)[1]).astype(np.float64, copy=False)


def unpack_integers(name: str, data: bytes, sizes: Sizes) -> IntArray:
    """Return the integers of `pack_integers`."""
    _check_length(name, data, sizes.d + triangle_size(sizes.d))
    return np.frombuffer(data, _WHOLE).astype(np.int64)


def unpack_numbers(name: str, data: bytes, sizes: Sizes) -> FloatArray:
    """Return the numbers of `pack_numbers`."""
    return _up_to(name, data, max_numbers(sizes.d))


def unpack_rows(name: str, data: bytes, sizes: Sizes) -> FloatArray:
    """Return the numbers of `pack_rows`."""
    rows = _up_to(name, data, sizes.rows)
    if rows.size % (sizes.d + 3) not in (0, 2):
        raise WrongLength(f"{name} of {len(data)} bytes, not {sizes.d + 3} numbers a row")
    return rows


def _up_to(name: str, data: bytes, most: int) -> FloatArray:
    if len(data) % _REAL.itemsize or len(data) > most * _REAL.itemsize:
        raise WrongLength(f"{name} of {len(data)} bytes, not 8 each for up to {most}")
    return np.frombuffer(data, _REAL).astype(np.float64)


def _check_length(name: str, data: bytes, size: int) -> None:
    if len(data) != size * _REAL.itemsize:
        raise WrongLength(f"{name} of {len(data)} bytes instead of {size * _REAL.itemsize}")


@lru_cache(maxsize=8)  # a process has one d, a test a few
def _places(d: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the indices of the triangle in the matrix, and of the matrix in the triangle."""
    rows, columns = np.tril_indices(d)
    whole = np.empty((d, d), np.intp)
    whole[rows, columns] = whole[columns, rows] = np.arange(rows.size)
    return rows * d + columns, whole
