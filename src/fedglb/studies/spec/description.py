"""Describe objects as JSON: equal descriptions mean equal runs, for user-defined classes too.

An object is described by its class and its contents, as in `pickle`. So two objects with the same
description are equal copies of each other, in this process and in any other one.
"""

from __future__ import annotations

import copyreg
import dis
import functools
import hashlib
import inspect
import json
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fedglb.algorithms.own import is_own
from fedglb.algorithms.strategy import AnyAlgorithm
from fedglb.environments import Environment
from fedglb.errors import InvalidInput
from fedglb.kernels.compile import Kernel
from fedglb.studies.spec.own_code import found_at, importable, name_of

#: Attributes of a class that do not change its behaviour.
_NOT_SAID = {
    "__abstractmethods__", "__annotate__", "__annotate_func__", "__annotations__",
    "__annotations_cache__", "__dataclass_fields__", "__dataclass_params__", "__dict__", "__doc__",
    "__firstlineno__", "__match_args__", "__module__", "__orig_bases__", "__parameters__",
    "__qualname__", "__slotnames__", "__static_attributes__", "__weakref__", "_abc_impl",
}  # fmt: skip


def described(value: object, modules: set[str]) -> Any:
    """Return a description of an object."""
    return _Describer(modules).of(value)


class _Describer:
    """Walks through an object; `around` are the enclosing objects."""

    def __init__(self, modules: set[str]) -> None:
        self._modules = modules
        self._around: list[object] = []

    def of(self, value: object) -> Any:
        if value is None or type(value) in (bool, int, float, str):
            return value
        if isinstance(value, np.ndarray | np.generic):
            return {"array": _array(np.asarray(value))}
        if type(value) in (bytes, bytearray):
            return {"bytes": hashlib.sha256(value).hexdigest()}  # type: ignore[arg-type]
        for i, each in enumerate(self._around):
            if each is value:
                return {"around": i}
        self._around.append(value)
        try:
            return self._of(value)
        finally:
            self._around.pop()

    def _of(self, value: Any) -> Any:
        if isinstance(value, types.ModuleType):
            self._modules.add(value.__name__)
            return {"module": value.__name__}
        if isinstance(value, type | types.FunctionType | Kernel):
            return self._code(value)
        if hasattr(value, "__qualname__") and importable(value):
            return self._code(value)
        if type(value).__module__.startswith("numba.") and hasattr(value, "py_func"):
            return {"compiled": self.of(value.py_func)}
        if type(value) is list:
            return [self.of(each) for each in value]
        if type(value) is tuple:
            return {"tuple": [self.of(each) for each in value]}
        if type(value) in (set, frozenset):
            inner = sorted((self.of(each) for each in value), key=json.dumps)
            return {type(value).__name__: inner}
        if type(value) is dict:
            return {"dict": [[self.of(k), self.of(v)] for k, v in value.items()]}
        if isinstance(value, staticmethod | classmethod):
            return {type(value).__name__: self.of(value.__func__)}
        if isinstance(value, property):
            return {"property": [self.of(each) for each in (value.fget, value.fset)]}
        if isinstance(value, functools.cached_property):
            return {"property": self.of(value.func)}
        return self._object(value)

    def _object(self, value: Any) -> Any:
        """Describe an object by its pickle, without cached values."""
        try:
            special = copyreg.dispatch_table.get(type(value))
            reduced = value.__reduce_ex__(4) if special is None else special(value)
        except Exception as error:
            holder = next((name_of(type(o)) for o in self._around[-2::-1]), None)
            inside = "" if holder is None else f" (inside of {holder})"
            allowed = (
                f"objects that can be pickled{inside}: a sweep sends them to its workers and "
                f"identifies them by their contents ({type(error).__name__}: {error})"
            )
            raise InvalidInput(name_of(type(value)), value, allowed) from error
        if isinstance(reduced, str):
            return self._singleton(value, reduced)
        function, arguments, state, *items = (*reduced, None, None, None)[:5]
        if isinstance(state, dict) or state is None:
            kept = {k: v for k, v in (state or {}).items() if not _is_cache(type(value), k)}
            state = {k: self.of(_declared(type(value), k, kept[k])) for k in sorted(kept, key=str)}
        else:
            state = self.of(state)
        more = [self.of(list(each)) for each in items if each is not None]
        if function.__name__ == "__newobj__" and arguments == (type(value),) and not more:
            code = self.of(type(value))
            return {name_of(type(value)): state} | ({} if "name" in code else code)
        return {"made": [self.of(function), self.of(arguments), state, *more]}

    def _singleton(self, value: Any, name: str) -> Any:
        """Describe what is pickled as a name in a module."""
        module = str(getattr(value, "__module__", "builtins"))
        is_there = module != "__main__" and found_at(module, name) is value
        if is_there or value is ... or value is NotImplemented:
            self._modules.add(module)
            return {"name": f"{module}:{name}"}
        allowed = "objects that workers can import, or that pickle by value"
        raise InvalidInput(name_of(type(value)), f"{module}:{name}", allowed)

    def _code(self, code: Any) -> dict[str, Any]:
        if importable(code):
            self._modules.add(str(code.__module__))
            return {"name": name_of(code)}
        if isinstance(code, Kernel):
            return {"kernel": self._code(vars(code)["__wrapped__"])}
        inside = self._class(code) if isinstance(code, type) else self._function(code)
        return {"code": hashlib.sha256(json.dumps(inside).encode()).hexdigest()}

    def _class(self, kind: type) -> list[Any]:
        members = {
            name: self.of(member)
            for name, member in sorted(vars(kind).items())
            if name not in _NOT_SAID
        }
        above = [self.of(base) for base in (type(kind), *kind.__bases__)]
        return [kind.__qualname__, above, members]

    def _function(self, function: types.FunctionType) -> list[Any]:
        """Describe a function by its code and its globals."""
        code, cells = function.__code__, function.__closure__ or ()
        used = sorted(set(_globals_of(code)) & function.__globals__.keys())
        return [
            self._body(code, function.__doc__),
            self.of(function.__defaults__), self.of(function.__kwdefaults__),
            [self.of(cell.cell_contents) for cell in cells],
            {name: self.of(function.__globals__[name]) for name in used},
        ]  # fmt: skip

    def _body(self, code: types.CodeType, doc: str | None) -> list[Any]:
        constants = [
            self._body(each, None) if isinstance(each, types.CodeType) else self._constant(each)
            for each in code.co_consts
            if doc is None or each != doc
        ]
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        return [hashlib.sha256(code.co_code).hexdigest(), constants, [list(n) for n in names]]

    def _constant(self, value: object) -> Any:
        return repr(value) if isinstance(value, complex | type(...)) else self.of(value)


def _array(values: np.ndarray[Any, Any]) -> list[Any]:
    if values.dtype.hasobject:
        allowed = "arrays of numbers or text: this one holds objects, which have no fixed bytes"
        raise InvalidInput("array", f"one of dtype {values.dtype}", allowed)
    content = hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()
    return [values.dtype.str, list(values.shape), content]


def _is_cache(kind: type, name: object) -> bool:
    found = inspect.getattr_static(kind, str(name), None)
    return isinstance(found, functools.cached_property)


def _declared(kind: type, name: object, value: Any) -> Any:
    """Return a value as the float that its field declares, where the field is one of the package's.

    Every formula of the package gives the same for 1 and 1.0; a user's may not.
    """
    if type(value) not in (int, np.float64) or kind.__module__.partition(".")[0] != "fedglb":
        return value
    field = getattr(kind, "__dataclass_fields__", {}).get(name)
    return value if field is None or "float" not in str(field.type) else float(value)


def _globals_of(code: types.CodeType) -> Iterator[str]:
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield str(step.argval)
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _globals_of(each)


def in_tables(value: Any, modules: set[str]) -> Any:
    """Return the tables of an experiment with each object in them replaced by its description."""
    if isinstance(value, Mapping):
        return {key: in_tables(inner, modules) for key, inner in value.items()}
    if isinstance(value, list):
        return [in_tables(inner, modules) for inner in value]
    return described(value, modules)


def made_by_functions(
    tables: Mapping[str, Any],
    env: Environment,
    algorithms: Sequence[AnyAlgorithm],
    modules: set[str],
) -> dict[str, str]:
    """Return a digest of the objects made by functions named in tables, under their names.

    A function may read a file or ask the machine, so its source does not determine its result.
    """
    names = sorted(set(_own_names(tables)))
    if not names:
        return {}
    modules |= {name.partition(":")[0] for name in names}
    made = described([env, list(algorithms)], modules)
    return {", ".join(names): hashlib.sha256(json.dumps(made).encode()).hexdigest()}


def _own_names(value: Any) -> Iterator[str]:
    if is_own(value):
        yield value
    inner = value.values() if isinstance(value, Mapping) else value
    if isinstance(inner, list) or isinstance(value, Mapping):
        for each in inner:
            yield from _own_names(each)
