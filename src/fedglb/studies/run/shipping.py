"""How an experiment gets to a worker: its tables, with the objects in them, as bytes.

What a worker can import is sent by its name, and the worker's own sources count. Other classes and
functions (of a script, of a notebook, inside of a function) are sent as code. That is right for
processes that the sweep itself has started, on the same machine; a cluster's workers get no code.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from types import FunctionType
from typing import Any

import cloudpickle

from fedglb.errors import InvalidInput
from fedglb.kernels.compile import Kernel
from fedglb.studies.spec.own_code import digests, forget_edited, importable, name_of


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Notes what is sent as code."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.as_code: list[str] = []

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, Kernel) and importable(value):
            return vars(value)[
                "__qualname__"
            ]  # by its name, as a function is: see `object.__reduce__`
        if isinstance(value, FunctionType | type) and not importable(value):
            self.as_code.append(name_of(value))
        return super().reducer_override(value)


def packed(tables: Mapping[str, Any]) -> tuple[bytes, list[str]]:
    """Return tables as bytes, and the names of what they hold as code."""
    buffer = io.BytesIO()
    pickler = _Pickler(buffer)
    try:
        pickler.dump(dict(tables))
    except Exception as error:
        allowed = f"objects that can be sent to another process ({type(error).__name__}: {error})"
        raise InvalidInput("experiment", str(tables.get("name")), allowed) from error
    names = list(dict.fromkeys(pickler.as_code))
    # a class brings its methods along: it is enough to name the class
    outer = [n for n in names if not any(n.startswith(f"{other}.") for other in names)]
    return buffer.getvalue(), outer


def unpacked(content: bytes) -> dict[str, Any]:
    """Return the tables that were packed."""
    tables: dict[str, Any] = pickle.loads(content)
    return tables


def lacking(own: Mapping[str, str]) -> str | None:
    """Return which of these modules and packages this process lacks, or has another version of."""
    modules = {name: digest for name, digest in own.items() if ":" not in name}
    forget_edited(modules)
    found = digests(modules)
    for name, digest in modules.items():
        if name not in found:
            return f"cannot import {name}"
        if found[name] != digest:
            return f"has another version of {name}"
    return None
