"""How the package compiles: the decorator `kernel`.

* There is no fastmath and no parallel reduction: the same input gives the same bits everywhere.
* Nothing is compiled, and numba is not imported, before a kernel is first called.
* A kernel that Python calls, or the block loop by address, is an entry. What it calls in turn is
  compiled as a part of it (`fedglb.kernels.linking`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")


class Kernel(Generic[P, T]):
    """A function that numba compiles when it is first called.

    If `inlined`, it is copied into every kernel that calls it.
    """

    def __init__(self, function: Callable[P, T], inlined: bool) -> None:
        functools.update_wrapper(self, function)
        self._function, self._inlined = function, inlined

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> T:
        """Call the compiled function; compile it for these types, if it is not yet."""
        return self.entry(*arguments, **named)

    @functools.cached_property
    def entry(self) -> Callable[P, T]:
        """The function for Python and for calls by address; itself with ``NUMBA_DISABLE_JIT=1``."""
        from fedglb.kernels import linking

        return cast("Callable[P, T]", linking.entry(self._function, self._inlined))

    @functools.cached_property
    def part(self) -> Any:
        """The function for the kernels that call it."""
        from fedglb.kernels import linking

        return linking.part(self._function, self._inlined)

    @property
    def _numba_type_(self) -> Any:
        """What numba takes this object for in another kernel."""
        return self.part._numba_type_

    def __reduce__(self) -> tuple[Any, ...]:
        # machine code and its addresses mean nothing in another process
        return Kernel, (self._function, self._inlined)


def kernel(function: Callable[P, T]) -> Callable[P, T]:
    """Compile `function` with numba on its first call; it runs without the GIL.

    With ``NUMBA_DISABLE_JIT=1`` it stays a Python function. The package's own kernels are kept on
    disk; those of others are compiled in every process.

    Examples
    --------
    >>> @kernel
    ... def double(x: float) -> float:
    ...     return 2.0 * x
    >>> double(1.5)
    3.0
    """
    return Kernel(function, inlined=False)


def inlined_kernel(function: Callable[P, T]) -> Callable[P, T]:
    """Do as `kernel` does, and copy `function` into every kernel that calls it.

    Each array is seven words or more when it is passed: a call with ten of them takes longer than
    scoring a few arms.
    """
    return Kernel(function, inlined=True)
