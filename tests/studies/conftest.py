"""Results of undisturbed sweeps, to compare with."""

from __future__ import annotations

from pathlib import Path

import pytest

import fedglb as fg
from fedglb.studies.report import page
from tests.studies.tiny import tables, toml


@pytest.fixture(scope="session", autouse=True)
def no_papers():
    """Draw no figures for papers, which take half of the time of a report: see `papers`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "PAPERS", {})
        yield


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory) -> Path:
    """The folder of the tiny sweep, run in one process."""
    folder = tmp_path_factory.mktemp("undisturbed") / "out"
    fg.sweep(tables(), folder, jobs=1)
    return folder


@pytest.fixture(scope="session")
def longer(tmp_path_factory) -> tuple[str, Path]:
    """An experiment of 30 tasks, and the folder of its result, run in one process."""
    root = tmp_path_factory.mktemp("longer")
    experiment = toml(root, horizon=100, seeds=30)
    fg.sweep(experiment, root / "out", jobs=1)
    return experiment, root / "out"
