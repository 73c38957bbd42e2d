"""Digests of the user-defined code of a sweep's parts.

Importable code is identified by the sources of its module, and of the user-defined modules that
this one imports; installed packages by their version. Other code (of a script, a notebook, inside
a function) is identified by its bytecode (`description.py`).
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import sys
import sysconfig
import types
from collections.abc import Iterable, Iterator
from importlib import metadata
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from fedglb.errors import InvalidInput
from fedglb.provenance import digest_of_source

#: Built-in classes without a name in `builtins`: the class of functions, of None, …
_BUILT_IN = [each for each in vars(types).values() if isinstance(each, type)]
_US = __name__.partition(".")[0]
#: The digest of each module seen in this process, until it is reloaded.
_loaded: dict[str, tuple[ModuleSpec | None, str]] = {}


def name_of(code: Any) -> str:
    """Return the name of a class or function: its module, a colon, its name there."""
    return f"{getattr(code, '__module__', None)}:{getattr(code, '__qualname__', repr(code))}"


def importable(code: Any) -> bool:
    """Return whether another process finds this very class or function under its name."""
    module, _, path = name_of(code).partition(":")
    if module == "builtins" and code in _BUILT_IN:
        return True
    return module != "__main__" and found_at(module, path) is code and _is_there(module)


def found_at(module: str, path: str) -> Any:
    """Return what a loaded module has under a name, or None."""
    found: Any = sys.modules.get(module)
    for key in path.split("."):
        found = getattr(found, key, None)
    return found


def _is_there(module: str) -> bool:
    return _top(module) in sys.stdlib_module_names or _origin(module) is not None


def digests(modules: Iterable[str]) -> dict[str, str]:
    """Return a digest of each user-defined module, and of all that they import."""
    found: dict[str, str] = {}
    left, seen = list(modules), set()
    while left:
        name = left.pop()
        if name in seen:
            continue
        seen.add(name)
        if not _under_work(name):
            found |= {package: metadata.version(package) for package in _packages(_top(name))}
            continue
        origin = _origin(name)
        if origin is None:  # a package without code, or a missing one
            continue
        source = origin.read_bytes()
        if origin.suffix != ".py":
            found[name] = hashlib.sha256(source).hexdigest()
            continue
        found[name] = _as_loaded(name, digest_of_source(source))
        left += _imports(ast.parse(source), name, is_package=origin.name == "__init__.py")
    return dict(sorted(found.items()))


def forget_edited(now: dict[str, str]) -> None:
    """Forget modules that changed since their import: workers live for several sweeps."""
    if any(name in _loaded and _loaded[name][1] != now[name] for name in now):
        for name in now:
            _loaded.pop(name, None)
            sys.modules.pop(name, None)


def _as_loaded(name: str, digest: str) -> str:
    """Return the digest, if the loaded module's file is unchanged."""
    spec = getattr(sys.modules.get(name), "__spec__", None)  # a reload makes another one
    known, before = _loaded.get(name, (None, digest))
    if known is not None and known is spec and before != digest:
        allowed = (
            "an unchanged module: its file was edited since the import; reload it with "
            "importlib.reload and create its parts again, or restart Python"
        )
        raise InvalidInput("module", name, allowed)
    _loaded[name] = spec, digest
    return digest


def _top(name: str) -> str:
    return name.partition(".")[0]


def _origin(name: str) -> Path | None:
    """Return the file of a module, or None."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None
    if spec is None or spec.origin is None or not spec.has_location:
        return None
    path = Path(spec.origin)
    return path if path.is_file() else None


@functools.cache
def _installed(top: str) -> bool:
    """Return whether a package is installed, and not edited in place."""
    places = {Path(sysconfig.get_path(kind)) for kind in ("purelib", "platlib")}
    origin = _origin(top)
    return origin is not None and bool(places & {*origin.parents})


@functools.cache
def _packages(top: str) -> list[str]:
    """Return the installed packages that a module comes from: none for ours and Python's own."""
    return [] if top == _US else sorted(set(_distributions().get(top, [])))


@functools.cache
def _distributions() -> Any:
    return metadata.packages_distributions()


def _imports(tree: ast.AST, name: str, *, is_package: bool) -> Iterator[str]:
    """Yield the modules imported anywhere in a module."""
    here = name if is_package else name.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = here.split(".")[: len(here.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for each in node.names:
                inner = f"{base}.{each.name}"
                yield inner if _under_work(base) and _origin(inner) is not None else base


def _under_work(name: str) -> bool:
    """Return whether a module is user-defined: looking into others may import them."""
    top = _top(name)
    return top not in (_US, *sys.stdlib_module_names) and not _installed(top)
