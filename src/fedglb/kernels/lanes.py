"""Dot products in eight lanes: sums over samples that stay in vector registers.

Without leave to reorder a sum, the compiler computes a dot product number by number. Here the order
is part of the definition: lane l adds up the products of places l, l + 8, l + 16, …, and the eight
sums are added in pairs, l with l + 4, then l with l + 2, then the last two. So the bits are the
same on every machine, whatever the width of its vectors.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from fedglb.typing import FloatArray

#: Sums run over whole groups of so many numbers.
LANES = 8


def _typed_dots(typing: Any, W: Any, X: Any, row: Any, length: Any) -> Any:
    return types.UniTuple(types.float64, 4)(W, X, types.intp, types.intp), _emit_dots


def _emit_dots(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    whole, lanes = ir.IntType(64), ir.VectorType(ir.DoubleType(), LANES)
    W, X = (context.make_array(signature.args[k])(context, builder, args[k]) for k in (0, 1))
    row, length = args[2], args[3]

    def two_rows(array: Any, first: Any) -> list[Any]:
        stride = builder.extract_value(array.shape, 1)
        start = builder.gep(array.data, [builder.mul(first, stride)])
        return [start, builder.gep(start, [stride])]

    zero = ir.Constant(whole, 0)
    left, right = two_rows(W, zero), two_rows(X, row)
    sums = [cgutils.alloca_once(builder, lanes) for _ in range(4)]
    for total in sums:
        builder.store(ir.Constant(lanes, [0.0] * LANES), total)
    with cgutils.for_range_slice(builder, zero, length, ir.Constant(whole, LANES), whole) as (k, _):

        def group(pointer: Any) -> Any:
            place = builder.bitcast(builder.gep(pointer, [k]), lanes.as_pointer())
            return builder.load(place, align=8)

        w, x = [group(pointer) for pointer in left], [group(pointer) for pointer in right]
        for index, total in enumerate(sums):
            product = builder.fmul(w[index // 2], x[index % 2])
            builder.store(builder.fadd(builder.load(total), product), total)
    results = []
    for total in sums:
        eight = builder.load(total)
        parts = [builder.extract_element(eight, ir.Constant(whole, k)) for k in range(LANES)]
        while len(parts) > 1:
            half = len(parts) // 2
            parts = [builder.fadd(parts[k], parts[k + half]) for k in range(half)]
        results += parts
    return context.make_tuple(builder, signature.return_type, results)


def _dots_in_python(W: FloatArray, X: FloatArray, row: int, length: int) -> tuple[float, ...]:
    results = []
    for w in W[:2, :length]:
        for x in X[row : row + 2, :length]:
            lanes = np.zeros(LANES)
            for group in (w * x).reshape(-1, LANES):
                lanes += group
            while lanes.size > 1:
                lanes = lanes[: lanes.size // 2] + lanes[lanes.size // 2 :]
            results.append(float(lanes[0]))
    return tuple(results)


#: ``dots(W, X, row, length)``: the four dot products of the first two rows of W with the rows `row`
#: and `row` + 1 of X, over their first `length` places, a multiple of `LANES`. Both arrays are flat
#: in memory.
dots = _dots_in_python if numba.config.DISABLE_JIT else intrinsic(_typed_dots)
