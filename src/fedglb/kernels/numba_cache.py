"""How numba uses our folder of compiled kernels (`fedglb.kernels.cache`)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from llvmlite.binding import add_symbol, parse_assembly, parse_bitcode
from numba.core.caching import FunctionCache
from numba.core.runtime import _nrt_python

from fedglb.kernels.cache import KernelLock, cache, counts, say_not_kept
from fedglb.provenance import PACKAGE, source_digest


def keep_on_disk(compiled: Any, function: Callable[..., Any]) -> None:
    """Keep a compiled function's machine code in our folder, if it is the package's own.

    The folder's digest does not cover others' functions: they are compiled in every process.
    """
    if not is_own(function):
        return
    kept = _DiskCache(function)
    compiled._cache, compile_once = kept, compiled.compile

    def compile_and_release(*arguments: Any) -> Any:
        try:
            return compile_once(*arguments)
        finally:
            kept.release()

    compiled.compile = compile_and_release


def is_own(function: Callable[..., Any]) -> bool:
    """Return whether a function is the package's own."""
    return PACKAGE in Path(function.__code__.co_filename).parents


class _Locator:
    """Says where a function's files are: numba's own locators refuse a read-only folder."""

    def __init__(self, function: Callable[..., Any], source: str) -> None:
        self._line, self._py_file = function.__code__.co_firstlineno, source

    @classmethod
    def from_function(cls, function: Callable[..., Any], source: str) -> _Locator:
        return cls(function, source)

    def get_cache_path(self) -> str:
        return cache().folder

    def ensure_cache_path(self) -> None:
        os.makedirs(cache().folder, exist_ok=True)

    def get_source_stamp(self) -> str:
        return source_digest()

    def get_disambiguator(self) -> str:
        return f"{Path(self._py_file).parent.name}.{self._line}"  # modules share names


class _Results(FunctionCache._impl_class):  # type: ignore[misc]
    """What is kept of a kernel: its machine code."""

    _locator_classes = (_Locator,)

    def reduce(self, compiled: Any) -> Any:
        """Return it for disk, without what is read with every kernel and never used.

        This is the code for others to link, who link parts and not entries (11 MB of an agent's
        memory), and environments without constants, for each of which a module is imported (4 MB).
        """
        (name, kind, (machine_code, linkable)), *others, environments = super().reduce(compiled)
        code = name, kind, (machine_code, _names_in(linkable))
        return code, *others, tuple(each for each in environments if each.consts)


class _DiskCache(FunctionCache):  # type: ignore[misc]
    """numba's cache of a function, in which one process of a machine compiles.

    Before it loads a kernel, numba imports all that it can compile, SciPy with it, and compiles
    its runtime: 0.2 s, and 50 MB of an agent's memory. Machine code needs only the runtime's
    addresses, which are below; a compilation does the rest by itself.
    """

    _impl_class = _Results

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        base = os.path.join(self.cache_path, self._impl.filename_base)
        self._lock = KernelLock(base + ".lock")

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return the file's content, or None: then this process has the lock and must compile."""
        try:
            found = self._load_overload(signature, target_context)
            if found is None and self._lock.acquire():
                found = self._load_overload(signature, target_context)
        except OSError:  # no folder, and it cannot be created
            found = None
        if found is None:
            if counts.tell is not None and not counts.compiled:
                counts.tell()
            counts.compiled += 1
        else:
            counts.loaded += 1
        return found

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Write the compiled code."""
        try:
            super().save_overload(signature, compiled)
        except OSError as error:
            say_not_kept(error.strerror or str(error))

    def release(self) -> None:
        """Let other processes go on."""
        self._lock.release()


def _names_in(code: bytes) -> bytes:
    """Return a module with the names that a module defines: numba looks for them there."""
    module = parse_bitcode(code)
    every = (*module.functions, *module.global_variables)
    names = [each.name for each in every if not each.is_declaration]
    text = "".join(f'@"{name}" = global i8 0\n' for name in names)
    return parse_assembly(text).as_bitcode()  # type: ignore[no-any-return]


for _name, _address in _nrt_python.c_helpers.items():  # as numba names them in machine code
    add_symbol(_name if _name.startswith("_") else f"NRT_{_name}", _address)
