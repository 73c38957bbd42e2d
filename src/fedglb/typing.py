"""Types of the whole package: arrays, and fields of messages."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, TypeAlias

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


class ArrayKind(Enum):
    """The kind of an array in a message, which defines its length and encoding."""

    VECTOR = "d numbers"
    SYMMETRIC = "a symmetric d×d matrix, sent as its lower triangle"
    NUMBERS = "a few numbers, as many as there are"
    ROWS = "two numbers or none, and rows of d + 3 numbers, at most as many as arms have effects"
    INTEGERS = "d + d(d+1)/2 whole numbers of 64 bits"


# For fields of messages and models. Decoding checks types and bounds.
Count: TypeAlias = Annotated[int, Meta(ge=0, lt=2**53)]  # exact as a double, in every language
Signature: TypeAlias = Annotated[bytes, Meta(max_length=80)]
Vector: TypeAlias = Annotated[FloatArray, ArrayKind.VECTOR]
Symmetric: TypeAlias = Annotated[FloatArray, ArrayKind.SYMMETRIC]
Numbers: TypeAlias = Annotated[FloatArray, ArrayKind.NUMBERS]
Rows: TypeAlias = Annotated[FloatArray, ArrayKind.ROWS]
Integers: TypeAlias = Annotated[IntArray, ArrayKind.INTEGERS]
