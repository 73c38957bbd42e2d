"""Which cases are slow; raw files of the data sets, extracts and full; a cache folder."""

from __future__ import annotations

import functools
import os
from collections import defaultdict
from itertools import combinations
from pathlib import Path

import pytest

from fedglb.environments import clusters
from fedglb.environments.datasets import DATASETS
from fedglb.io.atomic import user_cache
from fedglb.studies.run import task
from tests.environments.datasets.extracts import content, entries
from tests.studies.tiny import patched


def raw_folder() -> Path | None:
    """Return the folder of all full raw files: FEDGLB_DATA's, the cache, one beside the repository.

    A test may change the environment: to be called before.
    """
    beside = Path(__file__).parents[1].parent / "shared" / "data"
    for folder in (os.environ.get("FEDGLB_DATA"), user_cache() / "data", beside):
        if folder and all(list(Path(folder).glob(d.file + "*")) for d in DATASETS.values()):
            return Path(folder)
    return None


FULL_FILES = raw_folder()


def all_pairs(items: list[pytest.Function]) -> list[pytest.Function]:
    """Return a few items that have every pair of values of any two parameters."""

    def pairs(item: pytest.Function) -> set[tuple[object, ...]]:
        return {*combinations([(name, repr(v)) for name, v in item.callspec.params.items()], 2)}

    found = [(item, pairs(item)) for item in items]
    missing = set().union(*(pair for _, pair in found))
    kept = []
    while missing:
        best = max(found, key=lambda each: len(each[1] & missing))
        kept.append(best[0])
        missing -= best[1]
    return kept


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark cases as slow, of tests that are marked with `pairs` or `some`."""
    cases = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function) and not item.get_closest_marker("slow"):
            cases[item.path, item.originalname].append(item)
    for own in cases.values():
        kept = own
        if own[0].get_closest_marker("pairs"):
            kept = all_pairs(own)
        elif some := own[0].get_closest_marker("some"):
            (count,) = some.args
            kept = [own[i * len(own) // count] for i in range(count)] if len(own) > count else own
        for item in own:
            if item not in kept:
                item.add_marker("slow")


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """A new cache folder (compiled kernels stay where they are), and no folder of raw files."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", os.environ.get("NUMBA_CACHE_DIR") or str(user_cache()))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("FEDGLB_DATA", raising=False)
    monkeypatch.setattr(clusters, "_kept", {})
    monkeypatch.setattr(task, "_experiment", functools.cache(task._experiment.__wrapped__))
    return tmp_path / "cache" / "fedglb"


@pytest.fixture
def extracts(own_cache, tmp_path, monkeypatch):
    """The folder of extracts, which count as the data sets, in processes started later too."""
    folder = tmp_path / "extracts"
    folder.mkdir()
    for name, entry in entries().items():
        monkeypatch.setitem(DATASETS, name, entry)
        (folder / entry.file).write_bytes(content(name))
    monkeypatch.setenv("FEDGLB_DATA", str(folder))
    started = """
from fedglb.environments.datasets import DATASETS
from tests.environments.datasets.extracts import entries
DATASETS.update(entries())
"""
    for variable, value in patched(folder, started).items():
        monkeypatch.setenv(variable, value)
    return folder


@pytest.fixture
def full_files(request, monkeypatch):
    """The folder of the full raw files, or the test is skipped; for slow tests only."""
    assert request.node.get_closest_marker("slow"), "`make test` skips nothing for want of a file"
    if FULL_FILES is None:
        files = ", ".join(d.file for d in DATASETS.values())
        pytest.skip(
            f"needs {files}: run `fedglb data fetch all`, or name a folder that has them (or "
            ".xz or .gz) in the environment variable FEDGLB_DATA"
        )
    monkeypatch.setenv("FEDGLB_DATA", str(FULL_FILES))
    return FULL_FILES


@pytest.fixture(params=["extracts", pytest.param("full_files", marks=pytest.mark.slow)])
def raw_files(request):
    """The folder of the raw files: a test runs on the extracts, and as a slow one on full files."""
    return request.getfixturevalue(request.param)
