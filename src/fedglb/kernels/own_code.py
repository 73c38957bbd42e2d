"""A user's function as machine code, with all that it calls, in a kernel around it.

numba compiles a function whose helpers carry its decorator. Here the helpers of a user's function
are given it: plain functions among its globals, in its closure, and in users' modules.

numba is imported here, so import this module only where a kernel is first called.
"""

from __future__ import annotations

import functools
import inspect
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
#: What leads to a user's functions.
_CODE = types.FunctionType | types.ModuleType
#: Kernels that were made, or why they could not be, by the meaning of their code; and what keeps
#: alive the objects whose addresses are in there.
_made: dict[Hashable, tuple[Kernel[..., Any] | str, list[object]]] = {}


class OwnKernel(Kernel[..., Any]):
    """A kernel around a user's function: it is compiled in every process."""

    @functools.cached_property
    def entry(self) -> Callable[..., Any]:
        """The function for Python and for calls by address."""
        function: Callable[..., Any] = self._function
        return function if linking.interpreted() else linking.compiled_here(function)


def kernel_around(
    around: Callable[[Callable[..., Any]], Callable[..., Any]],
    function: types.FunctionType,
    signature: Signature,
) -> Kernel[..., Any] | str:
    """Return the kernel around(function), compiled; or why numba cannot compile it.

    An index beyond an array raises `IndexError` in `function` and what it calls.
    """
    kept: list[object] = []
    key = around, _meaning(function, set(), {}, kept)
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
            adapted = _Helpers("python").ready(function, set())
            made = OwnKernel(around(adapted), inlined=False)
            linking.native_address(made.entry, signature)
            return made
    except Exception as error:  # numba raises many kinds for what it does not know
        return why_not_compiled(error)


def with_helpers(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a user's function as numba can compile it: those that it calls are compiled."""
    if not isinstance(function, types.FunctionType) or is_own(function):
        return function
    return _Helpers("numpy").rebuilt(function)


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


def _by_position(function: types.FunctionType) -> tuple[types.CodeType, tuple[Any, ...]]:
    """Return a function's code and defaults without keyword-only parameters.

    numba does not know these. Where one has no default, all calls give it, and 0 stands for it.
    """
    code, given, by_keyword = function.__code__, function.__defaults__ or (), {}
    if not code.co_flags & inspect.CO_VARARGS:
        first, count = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
        known = function.__kwdefaults__ or {}
        by_keyword = {name: known.get(name, 0) for name in code.co_varnames[first:count]}
        code = code.replace(co_argcount=count, co_kwonlyargcount=0)
    return code, (*given, *by_keyword.values())


class _Helpers:
    """Gives functions numba's decorator, each once; `error_model` is numba's."""

    def __init__(self, error_model: str) -> None:
        self._error_model = error_model
        self._made: dict[object, Any] = {}  # functions and modules as numba can use them

    def ready(self, value: Any, attributes: set[str]) -> Any:
        """Return functions compiled, and modules with such functions; else what is given.

        Of a module it has at least these attributes.
        """
        if not isinstance(value, _CODE) or not _is_users(value):
            return value
        if isinstance(value, types.FunctionType):
            if value not in self._made:
                self.rebuilt(value)
            return self._made[value]
        module = self._made.setdefault(value, types.ModuleType(value.__name__))
        for name in attributes & vars(value).keys() - vars(module).keys():
            setattr(module, name, None)  # modules may lead to each other
            setattr(module, name, self.ready(vars(value)[name], attributes))
        return module

    def rebuilt(self, function: types.FunctionType) -> types.FunctionType:
        """Return a copy of a function that calls compiled helpers, itself if it is one."""
        names: dict[str, Any] = {"__builtins__": __builtins__, "__name__": function.__module__}
        cells = tuple(types.CellType() for _ in function.__closure__ or ())
        code, defaults = _by_position(function)
        again = types.FunctionType(code, names, function.__name__, defaults, cells)
        again.__kwdefaults__, again.__qualname__ = function.__kwdefaults__, function.__qualname__
        self._made[function] = linking.users_part(
            again, self._error_model, whole=_is_recursive(function)
        )
        attributes = {*_names(function.__code__)}
        for name, value in _globals(function).items():
            names[name] = self.ready(value, attributes)
        for cell, value in zip(cells, _cells(function), strict=True):
            cell.cell_contents = self.ready(value, attributes)
        return again


def _is_recursive(function: types.FunctionType) -> bool:
    """Return whether a function leads back to itself."""
    left: list[tuple[Any, frozenset[str]]] = [(function, frozenset())]
    seen = set(left)
    while left:
        value, names = left.pop()
        if isinstance(value, types.FunctionType):
            names = frozenset(_names(value.__code__))
            used = [*_globals(value).values(), *_cells(value)]
        else:
            used = [vars(value)[name] for name in names & vars(value).keys()]
        for each in used:
            if each is function:
                return True
            if not isinstance(each, _CODE) or not _is_users(each):
                continue
            step = each, frozenset() if isinstance(each, types.FunctionType) else names
            if step not in seen:
                seen.add(step)
                left.append(step)
    return False


def _meaning(
    value: Any, names: set[str], seen: dict[Hashable, int], kept: list[object]
) -> Hashable:
    """Return what a function does, as a key: its code, and what that uses, as it is now.

    Of a module `names` are used. `seen` numbers the functions, and the modules' attributes, that
    are in the key already. Objects that are neither code nor numbers are told apart by their
    addresses; `kept` keeps them alive.
    """
    if isinstance(value, bool | int | float):
        return type(value), repr(value)
    kept.append(value)
    if not isinstance(value, _CODE) or not _is_users(value):
        return id(value)
    if isinstance(value, types.ModuleType):
        found: list[Hashable] = []
        for name in sorted(names & vars(value).keys()):
            if (id(value), name) in seen:
                found.append((name, "seen", seen[id(value), name]))
                continue
            seen[id(value), name] = len(seen)
            found.append((name, _meaning(vars(value)[name], names, seen, kept)))
        return tuple(found)
    if id(value) in seen:
        return "seen", seen[id(value)]
    seen[id(value)] = len(seen)
    names = {*_names(value.__code__)}
    used = [*_globals(value).items(), *enumerate(_cells(value))]
    defaults = [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
    return (
        value.__code__,
        tuple((name, _meaning(each, names, seen, kept)) for name, each in used),
        tuple(_meaning(each, names, seen, kept) for each in defaults),
    )
