"""The raw files of the data sets, as extracts and in full, and a cache folder of the tests."""

from __future__ import annotations

import functools
import os
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
