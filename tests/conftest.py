"""Where the tests find real data, and a cache folder that is theirs alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fedglb.datasets import DATASETS
from fedglb.environments import clusters
from fedglb.io.atomic import user_cache


def raw_folder() -> Path | None:
    """Return the folder of all raw files: that of FEDGLB_DATA, or one beside the repository."""
    beside = Path(__file__).parents[1].parent / "shared" / "data"
    for folder in (os.environ.get("FEDGLB_DATA"), beside):
        if folder and all(list(Path(folder).glob(d.file + "*")) for d in DATASETS.values()):
            return Path(folder)
    return None


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """A new cache folder (compiled kernels stay where they are), and no folder of raw files."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", os.environ.get("NUMBA_CACHE_DIR") or str(user_cache()))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("FEDGLB_DATA", raising=False)
    monkeypatch.setattr(clusters, "_kept", {})
    return tmp_path / "cache" / "fedglb"


@pytest.fixture
def real_data(monkeypatch):
    """The raw files of all data sets, or the test is skipped."""
    folder = raw_folder()
    if folder is None:
        files = ", ".join(d.file for d in DATASETS.values())
        pytest.skip(
            f"needs {files} (or .xz or .gz): run `fedglb data fetch all`, then name the folder "
            "that it prints in the environment variable FEDGLB_DATA"
        )
    monkeypatch.setenv("FEDGLB_DATA", str(folder))
    return folder
