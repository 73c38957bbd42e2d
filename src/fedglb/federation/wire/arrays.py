"""Arrays on the wire: float64, little-endian; of a symmetric matrix its lower triangle."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fedglb.errors import InvalidInput
from fedglb.model import triangle_size
from fedglb.typing import FloatArray, IntArray

_WIRE = np.dtype("<f8")
_WHOLE = np.dtype("<i8")
#: In a model's `radius_terms`, beside a centre and the triangle of a matrix.
MAX_NUMBERS = 64


def max_numbers(d: int) -> int:
    """Return how many numbers a field of this kind has at most: a few, a vector and a matrix.

    Examples
    --------
    >>> max_numbers(10)
    129
    """
    return MAX_NUMBERS + d + triangle_size(d)


class WrongLength(ValueError):
    """A field whose bytes are not the array that belongs there."""


def pack_vector(name: str, vector: FloatArray, d: int) -> bytes:
    """Return the bytes of a vector of length d.

    Examples
    --------
    >>> pack_vector("theta", np.array([1.0, -0.0]), 2).hex(" ", 8)
    '000000000000f03f 0000000000000080'
    """
    if vector.shape != (d,):
        raise InvalidInput(f"{name}.shape", vector.shape, f"an array of shape ({d},)")
    return vector.astype(_WIRE, copy=False).tobytes()


def pack_matrix(name: str, matrix: FloatArray, d: int) -> bytes:
    """Return the bytes of the lower triangle, row by row.

    The order is (0,0), (1,0), (1,1), (2,0), … What stands above the diagonal is not looked at.
    """
    if matrix.shape != (d, d):
        raise InvalidInput(f"{name}.shape", matrix.shape, f"an array of shape ({d}, {d})")
    return matrix.take(_places(d)[0]).astype(_WIRE, copy=False).tobytes()


def pack_numbers(name: str, numbers: FloatArray, d: int) -> bytes:
    """Return the bytes of some numbers, as many as there are."""
    most = max_numbers(d)
    if numbers.ndim != 1 or numbers.size > most:
        allowed = f"an array of one axis and at most {most} numbers"
        raise InvalidInput(f"{name}.shape", numbers.shape, allowed)
    return numbers.astype(_WIRE, copy=False).tobytes()


def pack_integers(name: str, numbers: IntArray, d: int) -> bytes:
    """Return the bytes of the d + d(d+1)/2 whole numbers of a release."""
    m = d + triangle_size(d) if d else numbers.size
    if numbers.shape != (m,):
        raise InvalidInput(f"{name}.shape", numbers.shape, f"an array of shape ({m},)")
    return numbers.astype(_WHOLE, copy=False).tobytes()


# Every array that is read is fresh, writable, C-ordered and of the machine's own byte order.
# Lengths are checked first, so that no sender can make us allocate more than d asks for.


def unpack_vector(name: str, data: bytes, d: int) -> FloatArray:
    """Return the vector of length d that `pack_vector` packed."""
    _exactly(name, data, d)
    return np.frombuffer(data, _WIRE).astype(np.float64)


def unpack_matrix(name: str, data: bytes, d: int) -> FloatArray:
    """Return the symmetric d×d matrix whose lower triangle `pack_matrix` packed.

    Examples
    --------
    >>> unpack_matrix("matrix", pack_matrix("matrix", np.array([[1.0, 2.0], [2.0, 3.0]]), 2), 2)
    array([[1., 2.],
           [2., 3.]])
    """
    _exactly(name, data, triangle_size(d))
    return np.frombuffer(data, _WIRE).take(_places(d)[1]).astype(np.float64, copy=False)


def unpack_integers(name: str, data: bytes, d: int) -> IntArray:
    """Return the whole numbers that `pack_integers` packed."""
    _exactly(name, data, d + triangle_size(d))
    return np.frombuffer(data, _WHOLE).astype(np.int64)


def unpack_numbers(name: str, data: bytes, d: int) -> FloatArray:
    """Return the numbers that `pack_numbers` packed."""
    most = max_numbers(d)
    if len(data) % _WIRE.itemsize or len(data) > most * _WIRE.itemsize:
        raise WrongLength(f"{name} of {len(data)} bytes, not 8 each for up to {most}")
    return np.frombuffer(data, _WIRE).astype(np.float64)


def _exactly(name: str, data: bytes, size: int) -> None:
    if len(data) != size * _WIRE.itemsize:
        raise WrongLength(f"{name} of {len(data)} bytes instead of {size * _WIRE.itemsize}")


@lru_cache(maxsize=8)  # a process has one d, a test a few
def _places(d: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Where the triangle's numbers stand in the matrix, and the matrix's in the triangle."""
    rows, columns = np.tril_indices(d)
    whole = np.empty((d, d), np.intp)
    whole[rows, columns] = whole[columns, rows] = np.arange(rows.size)
    return rows * d + columns, whole
