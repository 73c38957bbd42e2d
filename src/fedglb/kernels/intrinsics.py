"""What numba emits for functions that exist only in kernels: calls by address, bits, lanes.

`Intrinsic` in `fedglb.kernels.pointers` stands for each. numba is imported here, so import this
module only where a kernel is first called.
"""

from __future__ import annotations

import inspect
from typing import Any

from llvmlite import ir
from llvmlite.ir import Constant
from numba import types
from numba.core import cgutils
from numba.core.imputils import impl_ret_borrowed
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from fedglb.kernels.sums import LANES

_REALS = [None, *(types.Array(types.float64, n, "C") for n in (1, 2, 3))]
_WHOLES = types.Array(types.int64, 1, "C")
SIGNATURES = {
    "STEP": types.int64(
        _REALS[2], _REALS[3], _REALS[1], _REALS[2], _REALS[1], _WHOLES, _REALS[1]
    ),
    "RADIUS": types.float64(_REALS[2], _REALS[1], _REALS[1], _REALS[1]),
    "BOUNDS": types.int64(
        _REALS[2], _REALS[2], _REALS[3], _REALS[1], _REALS[1], _REALS[1], types.float64,
        types.int64, _REALS[2],
    ),
    "INDEX": types.int64(
        _REALS[2], _REALS[2], _REALS[3], _REALS[2], _REALS[2], _REALS[1], *[types.int64] * 5
    ),
    "FIRES": types.int64(
        types.int64, types.int64, types.float64, types.int64, types.int64, _REALS[1]
    ),
    "DERIVATIVES": types.int64(_REALS[1], _REALS[1], _REALS[1], _WHOLES, types.int64),
    "PROJECT": types.float64(_REALS[2], _REALS[2], types.float64, _REALS[1]),
}  # fmt: skip


def scalar(arguments: int) -> Any:
    """Return the signature of a function of n floats that returns a float."""
    return types.float64(*[types.float64] * arguments)


def numba_type(name: str) -> Any:
    """Return numba's type of one of the intrinsics below."""
    return cpu_target.typing_context.resolve_value_type(_INTRINSICS[name])


def _by_address(signature: Any, emit: Any) -> Any:
    """Return the intrinsic (address, *arguments) that calls a function of this signature."""

    def typed(typing: Any, *arguments: Any) -> Any:
        return signature.return_type(types.int64, *signature.args), emit

    names = ["typing", "address", *(f"argument{k}" for k in range(len(signature.args)))]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    typed.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # what numba reads
        [inspect.Parameter(name, kind) for name in names]
    )
    return intrinsic(typed)


def _emit_scalar_call(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    double = ir.DoubleType()
    prototype = ir.FunctionType(double, [double] * (len(args) - 1))
    pointer = builder.inttoptr(args[0], prototype.as_pointer())
    return builder.call(pointer, args[1:])


def _emit_native_call(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Call machine code at args[0] the way numba's own functions call each other."""
    convention, kinds = context.call_conv, signature.args[1:]
    prototype = convention.get_function_type(signature.return_type, kinds)
    pointer = builder.inttoptr(args[0], prototype.as_pointer())
    status, result = convention.call_function(
        builder, pointer, signature.return_type, kinds, args[1:]
    )
    with builder.if_then(status.is_error, likely=False):
        convention.return_status_propagate(builder, status)
    return result


def _typed_bits(typing: Any, x: Any) -> Any:
    return types.uint64(types.float64), _emit_bitcast


def _typed_from_bits(typing: Any, bits: Any) -> Any:
    return types.float64(types.uint64), _emit_bitcast


def _emit_bitcast(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.bitcast(args[0], context.get_value_type(signature.return_type))


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


def _typed_borrow(typing: Any, array: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, args[0])
        view.meminfo = Constant(view.meminfo.type, None)
        view.parent = Constant(view.parent.type, None)
        return impl_ret_borrowed(context, builder, signature.return_type, view._getvalue())

    return array(array), emit


_INTRINSICS = {
    "call1": _by_address(scalar(1), _emit_scalar_call),
    "call3": _by_address(scalar(3), _emit_scalar_call),
    **{
        f"call_{name.lower()}": _by_address(signature, _emit_native_call)
        for name, signature in SIGNATURES.items()
    },
    "bits": intrinsic(_typed_bits),
    "from_bits": intrinsic(_typed_from_bits),
    "dots": intrinsic(_typed_dots),
    "borrow": intrinsic(_typed_borrow),
}
