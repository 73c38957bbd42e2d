"""Names stay, and runs choose and count as they did (bits: `make.py --check`, on one machine)."""

from __future__ import annotations

import pytest

import fedglb as fg
from tests.unchanged import federation_of_five, runs
from tests.unchanged.make import NAMES, RUNS, missing, options, read

WRITTEN = read(RUNS)
SAID = read(NAMES)
CASES = runs.cases()


def test_names_and_options_are_still_there():
    now = {"import fedglb as fg": fg.__all__, **options()}
    users = {key: those for key, those in SAID.items() if "fedglb" in key}
    assert len(users) >= 14
    assert list(missing(users, now)) == []


@pytest.mark.some(5)
@pytest.mark.parametrize("engine", runs.ENGINES)
@pytest.mark.parametrize("name", CASES)
def test_runs_choose_and_count_as_before(name, engine):
    run, clients = CASES[name].run(engine)
    found = runs.digests(run, clients)
    assert found["discrete"] == WRITTEN[f"{name}, {engine}"]["discrete"]
    assert runs.kinds(run) <= set(SAID["kinds of messages in a ledger"])
    assert set(run.summary()) >= set(SAID["keys of a run's summary"])


def test_a_federation_chooses_and_counts_as_before(tmp_path):
    found = federation_of_five.digests(tmp_path / "federation")
    assert found["discrete"] == WRITTEN["a federation of five"]["discrete"]


def test_a_sweep_has_its_columns(tmp_path):
    result = runs.swept(tmp_path / "sweep")
    assert set(result.runs.columns) >= set(SAID["columns of a sweep's runs"])
    assert set(result.traces.columns) >= set(SAID["columns of a sweep's traces"])
