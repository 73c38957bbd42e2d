"""A user's code as machine code: his function with all that it calls, in a kernel around it.

numba compiles a function whose helpers carry its decorator. Here the helpers of a user's function
are given it: plain functions among its globals, in its closure, and in modules of his.

numba is imported here, so import this module only where a kernel is first called.
"""

from __future__ import annotations

import functools
import sys
import types
import warnings
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import numba

from fedglb.kernels import linking
from fedglb.kernels.compile import Kernel
from fedglb.kernels.numba_cache import is_own
from fedglb.kernels.pointers import INDEX, Signature, why_not_compiled

#: Packages whose functions numba knows by themselves, or not at all.
_OTHERS = {"numpy", "numba", "scipy", *sys.stdlib_module_names} - {"__main__"}
#: Kernels that were made, or why they could not be, by the meaning of their code; and what keeps
#: alive the objects whose addresses are in there.
_made: dict[Hashable, tuple[Kernel[..., Any] | str, list[object]]] = {}


class OwnKernel(Kernel[..., Any]):
    """A kernel around a user's function: it is compiled in every process."""

    @functools.cached_property
    def entry(self) -> Callable[..., Any]:
        """The function for Python and for calls by address."""
        made = self._function if linking.interpreted() else linking.compiled_here(self._function)
        return made


def kernel_around(
    around: Callable[[Callable[..., Any]], Callable[..., Any]],
    function: types.FunctionType,
    signature: Signature,
) -> Kernel[..., Any] | str:
    """Return the kernel around(function), compiled; or why numba cannot compile it.

    An index beyond an array raises `IndexError` in `function` and what it calls.
    """
    kept: list[object] = []
    key = around, _meaning(function, (), kept)
    if key not in _made:
        _made[key] = _compiled(around, function, signature), kept
    return _made[key][0]


def _compiled(
    around: Callable[[Callable[..., Any]], Callable[..., Any]],
    function: types.FunctionType,
    signature: Signature,
) -> Kernel[..., Any] | str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numba's, of code that it then may not compile
            made = OwnKernel(around(_jitted(function, {})), inlined=False)
            linking.native_address(made.entry, signature)
            return made
    except Exception as error:  # numba raises many kinds for what it does not know
        return why_not_compiled(error)


def with_helpers(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a user's function as numba can compile it: those that it calls are compiled."""
    if not isinstance(function, types.FunctionType) or is_own(function):
        return function
    return _rebuilt(function, {})


def interpreted(call: Callable[..., int]) -> tuple[int, Any]:
    """Return the address of a kernel of scores that calls a Python function, and the kernel.

    What the function raises, `decide` raises.
    """
    def index(  # type: ignore[no-untyped-def]
        arms, vectors, matrices, work, factor, constants, t, key, number, client, draw
    ):
        with numba.objmode():
            call(arms, vectors, matrices, work, factor, constants, t, key, number, client, draw)
        return 0

    entry = numba.njit(index)
    return linking.native_address(entry, INDEX), entry


# -- helpers -----------------------------------------------------------------------------------


def _is_users(value: object) -> bool:
    name = value.__name__ if isinstance(value, types.ModuleType) else value.__module__
    return str(name).partition(".")[0] not in _OTHERS


def _names(code: types.CodeType) -> Iterator[str]:
    """Yield the names of globals and of attributes in a function's code, and in those inside."""
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _names(each)


def _globals(function: types.FunctionType) -> dict[str, Any]:
    known = function.__globals__
    return {name: known[name] for name in _names(function.__code__) if name in known}


def _cells(function: types.FunctionType) -> list[Any]:
    """Return what a function's closure holds; nothing for what is not assigned yet."""
    found = []
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:
            found.append(None)
    return found


def _jitted(function: types.FunctionType, made: dict[object, Any]) -> Any:
    """Return a function and its helpers with numba's decorator; `made` has those so far."""
    if function not in made:
        _rebuilt(function, made)
    return made[function]


def _rebuilt(function: types.FunctionType, made: dict[object, Any]) -> types.FunctionType:
    """Return a copy of a function that calls compiled helpers, itself if it is one."""
    names: dict[str, Any] = {"__builtins__": __builtins__, "__name__": function.__module__}
    cells = tuple(types.CellType() for _ in function.__closure__ or ())
    again = types.FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, cells
    )
    again.__kwdefaults__, again.__qualname__ = function.__kwdefaults__, function.__qualname__
    made[function] = numba.njit(boundscheck=True)(again)
    attributes = {*_names(function.__code__)}
    for name, value in _globals(function).items():
        names[name] = _ready(value, attributes, made)
    for cell, value in zip(cells, _cells(function), strict=True):
        cell.cell_contents = _ready(value, attributes, made)
    return again


def _ready(value: Any, attributes: set[str], made: dict[object, Any]) -> Any:
    """Return what a function uses as numba can: functions compiled, modules with such functions."""
    if isinstance(value, types.FunctionType) and _is_users(value):
        return _jitted(value, made)
    if isinstance(value, types.ModuleType) and _is_users(value):
        if value not in made:
            made[value] = ready = types.ModuleType(value.__name__)
            for name in attributes & vars(value).keys():
                setattr(ready, name, _ready(vars(value)[name], attributes, made))
        return made[value]
    return value


def _meaning(value: Any, around: tuple[object, ...], kept: list[object]) -> Hashable:
    """Return what a function does, as a key: its code, and what that uses, as it is now.

    `around` are the functions and modules that lead to this one. Objects that are neither code nor
    numbers are told apart by their addresses; `kept` keeps them alive.
    """
    if isinstance(value, bool | int | float):
        return type(value), repr(value)
    kept.append(value)
    if not isinstance(value, types.FunctionType | types.ModuleType) or not _is_users(value):
        return id(value)
    for place, each in enumerate(around):
        if each is value:
            return "around", place
    outer = (*around, value)
    if isinstance(value, types.ModuleType):
        function = next(each for each in reversed(around) if isinstance(each, types.FunctionType))
        names = sorted({*_names(function.__code__)} & vars(value).keys())
        return tuple((name, _meaning(vars(value)[name], outer, kept)) for name in names)
    used = [*_globals(value).items(), *enumerate(_cells(value))]
    defaults = [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
    return (
        value.__code__,
        tuple((name, _meaning(each, outer, kept)) for name, each in used),
        tuple(_meaning(each, outer, kept) for each in defaults),
    )
