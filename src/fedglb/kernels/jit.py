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


@dataclass(frozen=True)
class Cache:
    """Where compiled kernels are kept: `folder` is None where nothing can be written."""

    folder: str | None
    fresh: bool  # nothing is compiled yet: the first run takes longer


@functools.cache
def source_digest() -> str:
    """Return a digest of the package's sources, which tells two versions of it apart."""
    digest = hashlib.sha256()
    for source in sorted(_PACKAGE.rglob("*.py")):
        digest.update(source.relative_to(_PACKAGE).as_posix().encode() + b"\0")
        digest.update(source.read_bytes())
    return digest.hexdigest()


@functools.cache
def cache() -> Cache:
    """Return the folder of compiled kernels: per user, per digest of the package's sources."""
    root = os.environ.get("NUMBA_CACHE_DIR") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "fedglb"
    )
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
    """Compile `function` with numba on its first call, cached on disk, GIL released."""
    with _own_cache() as on_disk:
        return cast("Callable[P, T]", numba.njit(cache=on_disk, nogil=True)(function))


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
    with _own_cache() as on_disk:  # a user's link may live in a notebook: numba can't cache it
        compiled = numba.cfunc(signature, cache=ours and on_disk)(function)
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
