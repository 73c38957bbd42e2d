"""What a result was made with: versions, sources, machine."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

#: The folder of the package's sources.
PACKAGE = Path(__file__).resolve().parent
#: Rooms that no run uses: an edit there leaves every result as it is.
_LEFT_OUT = ("cli", "demo", "federation", "report", "reproduce")
#: What the numbers of a run depend on.
_NUMERIC = ("numpy", "scipy", "numba", "llvmlite")
#: What its files depend on besides.
_OTHER = ("polars", "joblib", "msgspec", "scikit-learn", "matplotlib", "distributed")


def versions(packages: tuple[str, ...] = _NUMERIC + _OTHER) -> dict[str, str]:
    """Return the versions of the dependencies that are installed."""
    found = {}
    for name in packages:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


@functools.cache
def source_digest() -> str:
    """Return a digest of the sources that a run can depend on: it tells two versions apart.

    Those that only look at results, and the federation, are left out; the layers see to it that
    no run uses them.
    """
    digest = hashlib.sha256()
    for source in sorted(PACKAGE.rglob("*.py")):
        if source.relative_to(PACKAGE).parts[0] in _LEFT_OUT:
            continue
        digest.update(source.relative_to(PACKAGE).as_posix().encode() + b"\0")
        digest.update(source.read_bytes())
    return digest.hexdigest()


@functools.cache
def code_digest() -> str:
    """Return what two processes must share to give the same numbers: sources and numerics."""
    return _digest([source_digest(), versions(_NUMERIC)])


def data_digest(facts: Mapping[str, Any]) -> str:
    """Return what two processes must share besides: the data that arms and rewards come from."""
    return _digest(facts)


def identity(document: str, facts: Mapping[str, Any]) -> str:
    """Return what tells one sweep from another: the experiment, its data and the code."""
    return _digest([document, facts, code_digest()])


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def software() -> dict[str, Any]:
    """Return the versions of everything."""
    return {
        "fedglb": versions(("fedglb",)).get("fedglb"),
        "sources": source_digest(),
        "python": platform.python_version(),
        "dependencies": versions(),
    }


def machine() -> dict[str, Any]:
    """Return processor, cores, memory and system; None where the system does not tell."""
    return {
        "processor": _processor(),
        "cores": cores(),
        "memory_bytes": _memory(),
        "system": platform.platform(),
    }


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _processor() -> str | None:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor() or None
    names = [line.partition(":")[2] for line in text.splitlines() if line.startswith("model name")]
    return names[0].strip() if names else platform.machine()


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
