"""The provenance of a result: versions, sources, machine."""

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
#: Sources that can change the numbers of a sweep: after an edit here it counts as another sweep.
#: All other sources are in `LEFT_OUT`.
NUMBERS = (
    "algorithms", "environments", "features", "kernels", "links", "model.py", "parts", "privacy",
    "problem.py", "problem_table.py", "protocol", "samples.py", "setting.py", "simulation",
    "studies/spec/__init__.py", "studies/spec/description.py", "studies/spec/environment.py",
    "studies/spec/experiment.py", "studies/spec/grid.py", "studies/spec/own_code.py",
    "studies/run/task.py", "studies/run/fixed_models.py", "studies/results/tables.py",
)  # fmt: skip
#: The kernels' sources: after an edit here kernels are compiled again.
KERNELS = ("algorithms", "parts", "kernels", "links", "simulation/play.py")
#: Sources that cannot change a number, and why.
LEFT_OUT = {
    "__init__.py": "names",
    "__main__.py": "starts the command line",
    "cli": "shows results",
    "errors.py": "checks input, and changes none",
    "evaluation": "looks at results",
    "federation": "messages between machines; no run uses it",
    "io": "reads and writes files; the identity includes the experiment's file",
    "provenance.py": "versions and digests",
    "service": "an agent behind HTTP; no run uses it",
    "studies/__init__.py": "names",
    "studies/report": "looks at results",
    "studies/run/__init__.py": "names",
    "studies/run/cluster.py": "where runs are executed",
    "studies/run/estimate.py": "measures time only",
    "studies/run/local.py": "where runs are executed",
    "studies/run/progress.py": "shows progress",
    "studies/run/race.py": "chooses the runs; the identity includes its choice",
    "studies/run/reproduce.py": "chooses the runs; the identity includes its choice",
    "studies/run/schedule.py": "when runs are executed",
    "studies/run/search.py": "chooses the runs; the identity includes its choice",
    "studies/run/sweep.py": "decides when runs are executed, not their results",
    "studies/results/__init__.py": "names",
    "studies/results/card.py": "shows results",
    "studies/results/store.py": "stores the tables unchanged; its files have a version",
    "studies/results/study.py": "stores the tables unchanged",
    "studies/spec/keys.py": "names runs by what they depend on",
    "studies/spec/plan.py": "chooses the runs; the identity includes its choice",
    "typing.py": "types for readers and checkers",
    "warm_up.py": "discards its results",
}
#: Packages that the numbers of a run depend on.
_NUMERIC = ("numpy", "scipy", "numba", "llvmlite")
#: Other packages that its files depend on.
_OTHER = ("polars", "joblib", "msgspec", "scikit-learn", "matplotlib", "distributed")


def versions(packages: tuple[str, ...] = _NUMERIC + _OTHER) -> dict[str, str]:
    """Return the versions of the installed dependencies."""
    found = {}
    for name in packages:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


@functools.cache  # the package's metadata is a file
def release() -> str:
    """Return name and version of this package, as members of a federation report it."""
    return " ".join(["fedglb", *versions(("fedglb",)).values()])


def counted(package: Path = PACKAGE, rooms: tuple[str, ...] = NUMBERS) -> list[Path]:
    """Return the sources in some rooms that can change a number, in a fixed order."""
    places = [package / place for place in rooms]
    return sorted(
        source for source in package.rglob("*.py") if {source, *source.parents} & {*places}
    )


@functools.cache
def source_digest() -> str:
    """Return a digest of the bytes of the kernels' sources: fast, because every run needs it.

    Compiled kernels are cached under it: compiling again after an edit of a comment is cheap.
    """
    digest = hashlib.sha256()
    for source in counted(rooms=KERNELS):
        digest.update(source.relative_to(PACKAGE).as_posix().encode() + b"\0")
        digest.update(source.read_bytes())
    return digest.hexdigest()


@functools.cache
def meaning_digest(package: Path = PACKAGE) -> str:
    """Return a digest of these sources without comments, docstrings and layout.

    Results are kept under it: computing them again after an edit of a comment would be costly.
    """
    trees = {
        source.relative_to(package).as_posix(): _meaning(ast.parse(source.read_bytes()))
        for source in counted(package)
    }
    return digest_of(trees)


def digest_of_source(source: bytes) -> str:
    """Return a digest of a user's module, as `meaning_digest`."""
    return digest_of(_meaning(ast.parse(source)))


def _meaning(node: object) -> Any:
    """Return a syntax tree as lists and strings, the same in every version of Python.

    `ast.dump` is not the same: versions differ in the empty fields that they add and show.
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
    """Return a digest of sources and packages: processes that share it compute equal numbers."""
    return digest_of([meaning_digest(), versions(_NUMERIC)])


def data_digest(facts: Mapping[str, Any]) -> str:
    """Return a digest of the environment's data, which processes must share, too."""
    return digest_of(facts)


def identity(document: str, facts: Mapping[str, Any], own: Mapping[str, str]) -> str:
    """Return a sweep's identity: a digest of the experiment, its data and the code.

    `own` has digests of the user's code; most experiments have none.
    """
    return digest_of([document, facts, code_digest(), *([own] if own else [])])


def digest_of(value: object) -> str:
    """Return a digest of a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def software() -> dict[str, Any]:
    """Return the versions of the package, Python and all dependencies."""
    return {
        "fedglb": versions(("fedglb",)).get("fedglb"),
        "sources": meaning_digest(),
        "python": platform.python_version(),
        "dependencies": versions(),
    }


def machine() -> dict[str, Any]:
    """Return processor, cores, memory and system; None if unknown."""
    return {
        "processor": _processor(),
        "cores": cores(),
        "memory_bytes": _memory(),
        "system": platform.platform(),
    }


def cores() -> int:
    """Return the number of cores that this process may use."""
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
