"""What a result was made with: versions, sources, machine."""

from __future__ import annotations

import ast
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
#: What can change a number of a sweep: an edit here makes another sweep. `LEFT_OUT` has the rest.
NUMBERS = (
    "algorithms", "confidence", "datasets", "environments", "global_update", "kernels",
    "lazy_rate.py", "links", "local_update", "model.py", "problem.py", "problem_table.py",
    "protocol", "samples.py", "setting.py", "simulation", "trigger.py",
    "sweeps/spec", "sweeps/execution/task.py", "sweeps/results/parts.py",
    "sweeps/results/tables.py", "sweeps/fixed_models.py",
)  # fmt: skip
#: What cannot, and why.
LEFT_OUT = {
    "__init__.py": "names",
    "__main__.py": "starts the command line",
    "cli": "shows results",
    "demo": "a federation's, and no run's",
    "errors.py": "refuses input; what passes, passes as it was given",
    "federation": "messages between machines, and no run",
    "io": "bytes of files; what an experiment's file says is in the identity itself",
    "provenance.py": "versions and digests",
    "report": "looks at results",
    "reproduce": "chooses what is run; what it chose is in the identity itself",
    "sweeps/__init__.py": "names",
    "sweeps/sweep.py": "when a run is done, and not what comes out",
    "sweeps/execution/__init__.py": "names",
    "sweeps/execution/cluster.py": "where a run is done",
    "sweeps/execution/local.py": "where a run is done",
    "sweeps/execution/progress.py": "shows how far it is",
    "sweeps/execution/schedule.py": "when a run is done",
    "sweeps/results/__init__.py": "names",
    "sweeps/results/pareto.py": "looks at results",
    "sweeps/results/store.py": "keeps the tables as they were made; its files have a version",
    "typing.py": "types for readers and checkers",
}
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


def counted(package: Path = PACKAGE) -> list[Path]:
    """Return the sources that can change a number, in a fixed order."""
    places = [package / place for place in NUMBERS]
    return sorted(
        source for source in package.rglob("*.py") if {source, *source.parents} & {*places}
    )


@functools.cache
def source_digest() -> str:
    """Return a digest of these sources, byte by byte: quick, for what every import asks.

    Compiled kernels are kept under it: to compile once more after an edit of a comment is cheap.
    """
    digest = hashlib.sha256()
    for source in counted():
        digest.update(source.relative_to(PACKAGE).as_posix().encode() + b"\0")
        digest.update(source.read_bytes())
    return digest.hexdigest()


@functools.cache
def meaning_digest(package: Path = PACKAGE) -> str:
    """Return a digest of what these sources do: comments, docstrings and layout do not count.

    Results are kept under it: to compute them once more after an edit of a comment is dear.
    """
    trees = {
        source.relative_to(package).as_posix(): _meaning(ast.parse(source.read_bytes()))
        for source in counted(package)
    }
    return _digest(trees)


def _meaning(node: object) -> Any:
    """Return a syntax tree as lists and texts, the same ones in every version of Python.

    `ast.dump` is not: versions differ in the empty fields that they add and show.
    """
    if node is None:
        return None
    if isinstance(node, list):
        return [_meaning(each) for each in node]
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = dict(ast.iter_fields(node))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
        fields["body"] = fields["body"][1:]
    inner = {name: _meaning(value) for name, value in fields.items()}
    return [type(node).__name__, {k: v for k, v in inner.items() if v is not None and v != []}]


@functools.cache
def code_digest() -> str:
    """Return what two processes must share to give the same numbers: sources and numerics."""
    return _digest([meaning_digest(), versions(_NUMERIC)])


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
        "sources": meaning_digest(),
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
