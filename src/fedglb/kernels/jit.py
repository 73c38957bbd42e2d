"""How the package compiles: one decorator, a disk cache that cannot go stale, function pointers.

* No fastmath and no parallel reductions: the same input gives the same bits everywhere.
* numba's disk cache does not notice an edit in a file that a kernel *imports*, so the cache
  folder carries a digest of all of the package's sources.
* A link's scalar functions reach the kernels as addresses (plain integers): one compiled
  kernel serves every link, user-defined ones included, stays on disk, and the call costs
  nothing to set up. It also keeps the compiler from replacing a link's ``exp`` by a
  vectorised one that rounds differently in another place.
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
from numba import types
from numba.extending import intrinsic

P = ParamSpec("P")
T = TypeVar("T")

_PACKAGE = Path(__file__).resolve().parent.parent


@functools.cache
def cache_folder() -> str:
    """Folder of compiled kernels: per user, per digest of the package's sources."""
    digest = hashlib.sha256()
    for source in sorted(_PACKAGE.rglob("*.py")):
        digest.update(source.relative_to(_PACKAGE).as_posix().encode() + b"\0")
        digest.update(source.read_bytes())
    root = os.environ.get("NUMBA_CACHE_DIR") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "fedglb"
    )
    return os.path.join(root, "kernels-" + digest.hexdigest()[:16])


@contextlib.contextmanager
def _own_cache() -> Iterator[None]:
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = cache_folder()
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before


def kernel(function: Callable[P, T]) -> Callable[P, T]:
    """Compile `function` with numba on its first call, cached on disk, GIL released."""
    with _own_cache():
        return cast("Callable[P, T]", numba.njit(cache=True, nogil=True)(function))


@dataclass(frozen=True)
class ScalarFunction:
    """A compiled function of floats: callable from Python, by `address` from kernels."""

    address: int
    call: Callable[..., float]


# With NUMBA_DISABLE_JIT=1 an "address" is a number that stands for the Python function.
_python_functions: dict[int, Callable[..., float]] = {}


@functools.cache
def compile_scalar(function: Callable[..., float], arguments: int) -> ScalarFunction:
    """Compile a function of `arguments` floats to machine code with a C signature."""
    if numba.config.DISABLE_JIT:
        address = len(_python_functions) + 1
        _python_functions[address] = function
        return ScalarFunction(address, function)
    signature = types.float64(*[types.float64] * arguments)
    ours = _PACKAGE in Path(function.__code__.co_filename).parents
    with _own_cache():  # a user's own link may live in a notebook, which numba cannot cache
        compiled = numba.cfunc(signature, cache=ours)(function)
    prototype = ctypes.CFUNCTYPE(ctypes.c_double, *[ctypes.c_double] * arguments)
    call = prototype(compiled.address)
    call.keep_alive = compiled  # type: ignore[attr-defined]
    return ScalarFunction(int(compiled.address), call)


def _call_pointer(arguments: int) -> Callable[..., float]:
    """Build the kernel-side ``f(address, x, …)`` for pointers to functions of floats."""
    if numba.config.DISABLE_JIT:

        def interpreted(address: int, *values: float) -> float:
            return _python_functions[address](*values)

        return interpreted

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
