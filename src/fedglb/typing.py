"""Types that the whole package uses: arrays, and what a field of a message may hold."""

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
    """What an array in a message is: from this follow its length and its bytes when sent."""

    VECTOR = "d numbers"
    SYMMETRIC = "a symmetric d×d matrix, sent as its lower triangle"
    NUMBERS = "a few numbers, as many as there are"
    INTEGERS = "d + d(d+1)/2 whole numbers of 64 bits"


# In the fields of messages and models. Types and bounds are checked where bytes are read.
Count: TypeAlias = Annotated[int, Meta(ge=0, lt=2**53)]  # exact as a double, in every language
Vector: TypeAlias = Annotated[FloatArray, ArrayKind.VECTOR]
Symmetric: TypeAlias = Annotated[FloatArray, ArrayKind.SYMMETRIC]
Numbers: TypeAlias = Annotated[FloatArray, ArrayKind.NUMBERS]
Integers: TypeAlias = Annotated[IntArray, ArrayKind.INTEGERS]
