"""How the package compiles: one decorator, a disk cache that cannot go stale, function pointers.

* No fastmath and no parallel reductions: the same input gives the same bits everywhere.
* numba's disk cache does not notice an edit in a file that a kernel *imports*, so the cache
  folder carries a digest of all of the package's sources.
* A link's scalar functions reach the kernels as addresses (plain integers): one compiled
  kernel serves every link, user-defined ones included, stays on disk, and the call costs
  nothing to set up. It also keeps the compiler from replacing a link's ``exp`` by a
  vectorised one that rounds differently in another place.
* A part's step and its radius are kernels that reach the block loop in the same way: what
  Python calls for one interaction and what the loop calls is one and the same machine code.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba
from llvmlite import ir
from llvmlite.ir import Constant
from numba import types
from numba.core.imputils import impl_ret_borrowed
from numba.extending import intrinsic

from fedglb.files import user_cache

P = ParamSpec("P")
T = TypeVar("T")

# A division by zero gives infinity or NaN, which the callers check for, and no exception: one in
# a function that is called by address could not be passed on.
_OPTIONS = {"nogil": True, "error_model": "numpy"}
_PACKAGE = Path(__file__).resolve().parent.parent
_ABOVE = ("cli", "federation", "report", "reproduce")  # an edit there leaves every result as it is


@dataclass(frozen=True)
class Cache:
    """Where compiled kernels are kept: `folder` is None where nothing can be written."""

    folder: str | None
    fresh: bool  # nothing is compiled yet: the first run takes longer


@functools.cache
def source_digest() -> str:
    """Return a digest of the sources that a run can depend on: it tells two versions apart.

    Those that only look at results, and the federation, are left out; the layers see to it that
    no run uses them.
    """
    digest = hashlib.sha256()
    for source in sorted(_PACKAGE.rglob("*.py")):
        if source.relative_to(_PACKAGE).parts[0] in _ABOVE:
            continue
        digest.update(source.relative_to(_PACKAGE).as_posix().encode() + b"\0")
        digest.update(source.read_bytes())
    return digest.hexdigest()


@functools.cache
def cache() -> Cache:
    """Return the folder of compiled kernels: per user, per digest of the package's sources."""
    root = os.environ.get("NUMBA_CACHE_DIR") or user_cache()
    folder = os.path.join(root, "kernels-" + source_digest()[:16])
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError:  # a read-only home: compile anew in every process
        return Cache(None, fresh=True)
    fresh = not os.listdir(folder)
    return Cache(folder if os.access(folder, os.W_OK) else None, fresh)


@contextlib.contextmanager
def _own_cache() -> Iterator[bool]:
    """Point numba at our folder; give whether there is one."""
    folder, before = cache().folder, numba.config.CACHE_DIR
    if folder is not None:
        numba.config.CACHE_DIR = folder
    try:
        yield folder is not None
    finally:
        numba.config.CACHE_DIR = before


def kernel(function: Callable[P, T]) -> Callable[P, T]:
    """Compile `function` with numba on its first call, GIL released.

    The package's own kernels are kept on disk; those of others are not, for the digest does not
    see what they import.
    """
    with _own_cache() as on_disk:
        cached = on_disk and _ours(function)
        return cast("Callable[P, T]", numba.njit(cache=cached, **_OPTIONS)(function))


def _ours(function: Callable[..., Any]) -> bool:
    return _PACKAGE in Path(function.__code__.co_filename).parents


@dataclass(frozen=True)
class ScalarFunction:
    """A compiled function of floats: callable from Python, by `address` from kernels."""

    address: int
    call: Callable[..., float]


# With NUMBA_DISABLE_JIT=1 an "address" is a number that stands for the Python function.
_python_functions: dict[int, Callable[..., Any]] = {}


@functools.cache
def compile_scalar(function: Callable[..., float], arguments: int) -> ScalarFunction:
    """Compile a function of `arguments` floats to machine code with a C signature."""
    if numba.config.DISABLE_JIT:
        address = len(_python_functions) + 1
        _python_functions[address] = function
        return ScalarFunction(address, function)
    signature = types.float64(*[types.float64] * arguments)
    with _own_cache() as on_disk:  # a user's link may live in a notebook: numba can't cache it
        cached = on_disk and _ours(function)
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
#: (vectors, counters, numbers, constants) -> the radius.
RADIUS = types.float64(_REALS[2], _REALS[1], _REALS[1], _REALS[1])


def address_of(function: Callable[..., Any] | None, signature: Any) -> int:
    """Return the address of a kernel's machine code for these types (compiled now if need be).

    `TypeError` where it is no kernel, or returns another type: its code would be misread.
    """
    if function is None or (numba.config.DISABLE_JIT and not callable(function)):
        raise TypeError("there is none")
    if numba.config.DISABLE_JIT:
        return compile_scalar(function, 0).address
    dispatcher = cast("Any", function)
    if not hasattr(dispatcher, "overloads"):
        raise TypeError("a plain Python function")
    if signature.args not in dispatcher.overloads:
        with _own_cache():
            dispatcher.compile(signature.args)
    compiled = dispatcher.overloads[signature.args]
    returned = types.unliteral(compiled.signature.return_type)
    if returned != signature.return_type:
        raise TypeError(f"it returns {returned}, not {signature.return_type}")
    return int(compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name))


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
    typing: Any, address: Any, vectors: Any, counters: Any, numbers: Any, constants: Any
) -> Any:
    return _native(RADIUS)


call_step = _interpreted if numba.config.DISABLE_JIT else intrinsic(_typed_step)
call_radius = _interpreted if numba.config.DISABLE_JIT else intrinsic(_typed_radius)


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
