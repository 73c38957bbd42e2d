"""Calls by address: how kernels call a link's functions, and the block loop a part's kernels.

Addresses are plain integers. So one compiled kernel serves every link, custom ones included, and
can be kept on disk; the compiler cannot replace a link's ``exp`` by a vectorised one that rounds
differently; and the block loop (`fedglb.simulation.play`) runs the same machine code of a part as
Python does for a single interaction.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar, cast

from fedglb.kernels.compile import Kernel

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
    """Compile a function of n floats, which uses `math` only, to code with a C signature."""
    from fedglb.kernels import linking, own_code

    if linking.interpreted():
        address = len(_python_functions) + 1
        _python_functions[address] = function
        return ScalarFunction(address, function)
    compiled = linking.c_function(own_code.with_helpers(function), arguments)
    prototype = ctypes.CFUNCTYPE(ctypes.c_double, *[ctypes.c_double] * arguments)
    call = prototype(compiled.address)
    call.keep_alive = compiled  # type: ignore[attr-defined]
    return ScalarFunction(int(compiled.address), call)


def why_not_compiled(error: Exception) -> str:
    """Return the line of numba's message that says why it cannot compile a user's function."""
    lines = [line.strip() for line in str(error).splitlines()]
    said = [line for line in lines if line and not line.startswith(("Failed in", "it does not"))]
    return said[0].removesuffix(":") if said else type(error).__name__


# -- kernels by address ------------------------------------------------------------------------

Signature: TypeAlias = Literal[
    "STEP", "RADIUS", "BOUNDS", "INDEX", "FIRES", "DERIVATIVES", "PROJECT"
]
#: (vectors, matrices, counters, X, y, functions, constants) -> 0, or what went wrong.
STEP: Signature = "STEP"
#: (vectors, counters, radius_terms, constants) -> the radius.
RADIUS: Signature = "RADIUS"
#: (arms, vectors, matrices, counters, radius_terms, constants, α, with_interval, work) -> 0.
BOUNDS: Signature = "BOUNDS"
#: (arms, vectors, matrices, work, factor, constants, t, key, number, client, draw) -> 0.
INDEX: Signature = "INDEX"
#: (t, t_last, log_gain, samples, total, constants) -> 1 where a client asks for an update, else 0.
FIRES: Signature = "FIRES"
#: (z, means, variances, functions, with_variances) -> 0: a link's μ and μ′ of many z.
DERIVATIVES: Signature = "DERIVATIVES"
#: That of `kernels.krylov.project_by_products`.
PROJECT: Signature = "PROJECT"


def address_of(function: Callable[..., Any] | None, signature: Signature) -> int:
    """Return the address of a kernel's machine code for a signature; compile it if need be.

    Raises `TypeError` if the function is not a kernel or does not fit the signature.
    """
    if function is None or not callable(function):
        raise TypeError("the function does not exist")
    if not isinstance(function, Kernel):
        raise TypeError("it is a plain Python function")
    from fedglb.kernels import linking

    if linking.interpreted():
        return compile_scalar(function, 0).address
    return _native_address(function, signature)


@functools.cache  # to find one again takes longer than all else that a client does with a model
def _native_address(function: Kernel[..., Any], signature: Signature) -> int:
    from fedglb.kernels import linking

    return linking.native_address(function.entry, signature)


class Intrinsic:
    """A function that exists only in kernels; numba knows it by its name in `intrinsics`.

    With ``NUMBA_DISABLE_JIT=1`` the Python function `interpreted` stands for it.
    """

    def __init__(self, name: str, interpreted: Callable[..., Any]) -> None:
        self._name, self._interpreted = name, interpreted

    def __call__(self, *values: Any) -> Any:
        """Do in Python what compiled kernels do."""
        return self._interpreted(*values)

    @functools.cached_property
    def _numba_type_(self) -> Any:
        from fedglb.kernels import intrinsics

        return intrinsics.numba_type(self._name)


def _by_number(address: int, *values: Any) -> Any:
    return _python_functions[address](*values)


def _itself(array: T) -> T:
    return array


call1 = cast("Callable[[int, float], float]", Intrinsic("call1", _by_number))
call3 = cast("Callable[[int, float, float, float], float]", Intrinsic("call3", _by_number))
call_step = Intrinsic("call_step", _by_number)
call_radius = Intrinsic("call_radius", _by_number)
call_bounds = Intrinsic("call_bounds", _by_number)
call_index = Intrinsic("call_index", _by_number)
call_fires = Intrinsic("call_fires", _by_number)
call_derivatives = Intrinsic("call_derivatives", _by_number)
call_project = Intrinsic("call_project", _by_number)
#: The same array without ownership: rows taken from it cost no reference counts (two atomic
#: operations each). Only for arrays that a caller keeps alive.
borrow = Intrinsic("borrow", _itself)
