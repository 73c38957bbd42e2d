"""Calls by address: how kernels call a link's functions, and the block loop a part's kernels.

* Kernels get a link's scalar functions as addresses, which are plain integers. So one compiled
  kernel serves every link, a user's own included, and can be kept on disk; and a call costs
  nothing to set up. It also keeps the compiler from replacing a link's ``exp`` by a vectorised
  one in some places, where it would round differently.
* The loop of the compiled engine (`fedglb.kernels.play`) gets a part's `step` or `formula` in the
  same way. So the loop runs the same machine code as Python does for a single interaction.

How kernels are compiled is in `fedglb.kernels.compile`.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numba
from llvmlite import ir
from llvmlite.ir import Constant
from numba import types
from numba.core.imputils import impl_ret_borrowed
from numba.extending import intrinsic

from fedglb.kernels.compile import disk_cache, is_own

T = TypeVar("T")


@dataclass(frozen=True)
class ScalarFunction:
    """A compiled function of floats: Python calls it by `call`, kernels by `address`."""

    address: int
    call: Callable[..., float]


# With NUMBA_DISABLE_JIT=1 an "address" is a number that stands for the Python function.
_python_functions: dict[int, Callable[..., Any]] = {}


@functools.cache
def compile_scalar(function: Callable[..., float], arguments: int) -> ScalarFunction:
    """Compile a function of `arguments` floats to machine code with a C signature.

    Parameters
    ----------
    function
        A function of floats that returns a float, and uses `math` only.
    arguments
        How many floats it takes.

    Returns
    -------
    ScalarFunction
        The same one for the same function.
    """
    if numba.config.DISABLE_JIT:
        address = len(_python_functions) + 1
        _python_functions[address] = function
        return ScalarFunction(address, function)
    signature = types.float64(*[types.float64] * arguments)
    with disk_cache() as on_disk:  # numba cannot cache a user's link that is in a notebook
        cached = on_disk and is_own(function)
        compiled = numba.cfunc(signature, cache=cached, error_model="numpy")(function)
    prototype = ctypes.CFUNCTYPE(ctypes.c_double, *[ctypes.c_double] * arguments)
    call = prototype(compiled.address)
    call.keep_alive = compiled  # type: ignore[attr-defined]
    return ScalarFunction(int(compiled.address), call)


def _interpreted(address: int, *values: Any) -> Any:
    return _python_functions[address](*values)


def _call_pointer(arguments: int) -> Callable[..., float]:
    """Build the kernel-side ``f(address, x, …)`` for pointers to functions of floats."""
    if numba.config.DISABLE_JIT:
        return _interpreted

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        double = ir.DoubleType()
        prototype = ir.FunctionType(double, [double] * arguments)
        pointer = builder.inttoptr(args[0], prototype.as_pointer())
        return builder.call(pointer, args[1:])

    if arguments == 1:

        def typed(typing: Any, address: Any, x: Any) -> Any:
            return types.float64(types.int64, types.float64), emit

    else:

        def typed(typing: Any, address: Any, x: Any, u: Any, v: Any) -> Any:  # type: ignore[misc]
            return types.float64(types.int64, *[types.float64] * 3), emit

    return cast("Callable[..., float]", intrinsic(typed))


call1 = _call_pointer(1)
call3 = _call_pointer(3)


# -- kernels by address ------------------------------------------------------------------------

_REALS = [None, *(types.Array(types.float64, n, "C") for n in (1, 2, 3))]
_WHOLES = types.Array(types.int64, 1, "C")
#: (vectors, matrices, counters, X, y, functions, constants) -> 0, or what went wrong.
STEP = types.int64(_REALS[2], _REALS[3], _REALS[1], _REALS[2], _REALS[1], _WHOLES, _REALS[1])
#: (vectors, counters, radius_terms, constants) -> the radius.
RADIUS = types.float64(_REALS[2], _REALS[1], _REALS[1], _REALS[1])
#: (arms, vectors, matrices, counters, radius_terms, constants, α, with_interval, work) -> 0.
BOUNDS = types.int64(
    _REALS[2], _REALS[2], _REALS[3], _REALS[1], _REALS[1], _REALS[1], types.float64, types.int64,
    _REALS[2],
)  # fmt: skip
#: (arms, vectors, matrices, work, factor, constants, t, key, number, client, draw) -> 0.
INDEX = types.int64(
    _REALS[2], _REALS[2], _REALS[3], _REALS[2], _REALS[2], _REALS[1], *[types.int64] * 5
)
#: (z, means, variances, functions, with_variances) -> 0: a link's μ and μ′ of many z.
DERIVATIVES = types.int64(_REALS[1], _REALS[1], _REALS[1], _WHOLES, types.int64)


#: Addresses found so far, by identity: to find one again takes longer than all else that a client
#: does with a new model. Function and signature are kept, so that nothing else gets their id.
_ADDRESSES: dict[tuple[int, int], tuple[int, Any, Any]] = {}


def address_of(function: Callable[..., Any] | None, signature: Any) -> int:
    """Return the address of a kernel's machine code for a signature; compile it if need be.

    Parameters
    ----------
    function
        A function under `@kernel`.
    signature
        `STEP`, `RADIUS`, `BOUNDS`, `INDEX` or `DERIVATIVES`.

    Returns
    -------
    int
        The address, for `call_step`, `call_radius`, `call_bounds`, `call_index` or
        `call_derivatives`.

    Raises
    ------
    TypeError
        If it is not a kernel, or does not return what the signature says.
    """
    if function is None or (numba.config.DISABLE_JIT and not callable(function)):
        raise TypeError("there is no such function")
    if numba.config.DISABLE_JIT:
        return compile_scalar(function, 0).address
    dispatcher = cast("Any", function)
    known = _ADDRESSES.get((id(dispatcher), id(signature)))
    if known is not None:
        return known[0]
    if not hasattr(dispatcher, "overloads"):
        raise TypeError("it is a plain Python function")
    if signature.args not in dispatcher.overloads:
        with disk_cache():
            dispatcher.compile(signature.args)
    compiled = dispatcher.overloads[signature.args]
    returned = types.unliteral(compiled.signature.return_type)
    if returned != signature.return_type:
        raise TypeError(f"it returns {returned}, not {signature.return_type}")
    address = int(compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name))
    _ADDRESSES[id(dispatcher), id(signature)] = address, dispatcher, signature
    return address


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


def _native(signature: Any) -> Any:
    return signature.return_type(types.int64, *signature.args), _emit_native_call


def _typed_step(
    typing: Any, address: Any, vectors: Any, matrices: Any, counters: Any, X: Any, y: Any,
    functions: Any, constants: Any,
) -> Any:  # fmt: skip
    return _native(STEP)


def _typed_radius(
    typing: Any, address: Any, vectors: Any, counters: Any, radius_terms: Any, constants: Any
) -> Any:
    return _native(RADIUS)


def _typed_bounds(
    typing: Any, address: Any, arms: Any, vectors: Any, matrices: Any, counters: Any,
    radius_terms: Any, constants: Any, alpha: Any, with_interval: Any, work: Any,
) -> Any:  # fmt: skip
    return _native(BOUNDS)


def _typed_index(
    typing: Any, address: Any, arms: Any, vectors: Any, matrices: Any, work: Any, factor: Any,
    constants: Any, t: Any, key: Any, number: Any, client: Any, draw: Any,
) -> Any:  # fmt: skip
    return _native(INDEX)


def _typed_derivatives(
    typing: Any, address: Any, z: Any, means: Any, variances: Any, functions: Any,
    with_variances: Any,
) -> Any:  # fmt: skip
    return _native(DERIVATIVES)


call_step = _interpreted if numba.config.DISABLE_JIT else intrinsic(_typed_step)
call_radius = _interpreted if numba.config.DISABLE_JIT else intrinsic(_typed_radius)
call_bounds = _interpreted if numba.config.DISABLE_JIT else intrinsic(_typed_bounds)
call_index = _interpreted if numba.config.DISABLE_JIT else intrinsic(_typed_index)
call_derivatives = _interpreted if numba.config.DISABLE_JIT else intrinsic(_typed_derivatives)


def _typed_borrow(typing: Any, array: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, args[0])
        view.meminfo = Constant(view.meminfo.type, None)
        view.parent = Constant(view.parent.type, None)
        return impl_ret_borrowed(context, builder, signature.return_type, view._getvalue())

    return array(array), emit


def _itself(array: T) -> T:
    return array


#: The same array without ownership: rows taken from it cost no reference counts (two atomic
#: operations each). Only for arrays that a caller keeps alive.
borrow = _itself if numba.config.DISABLE_JIT else intrinsic(_typed_borrow)
