"""A run in a file: all of it comes back; what is no such file is refused."""

from __future__ import annotations

import dataclasses
import json
import zipfile

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_array_equal

import fedglb as fg
from fedglb.simulation.run_file import FORMAT
from fedglb.simulation.simulate import simulate

ENV = fg.Synthetic(fg.Problem(dim=3), clients=4, arms=5)
ALGORITHMS = {
    "updates": fg.fedglb_ucb(0.5, fg.Newton()),
    "no model": fg.n_ons_glm(),
    "random": fg.fedglb_auto(choice=fg.Thompson()),
    "linear": fg.dislinucb(0.5),
    "one pass": fg.fedglb_private(4),
    "private": fg.fedglb_private(4, privacy=fg.GaussianMechanism(1.0, 1e-6)),
    "private, all options": fg.fedglb_private(
        4,
        2,
        fg.GaussianMechanism(2, 1e-3, "silo", "replace", 2, 0.5, 0.4, 0.75),
        confidence=fg.Fixed(0.2),
    ),
}


@pytest.fixture
def run():
    return simulate(ALGORITHMS["updates"], ENV, 20, seed=1)


def same(one: fg.Run, two: fg.Run) -> None:
    for each in dataclasses.fields(fg.Run):
        a, b = getattr(one, each.name), getattr(two, each.name)
        match a:
            case pl.DataFrame():
                assert a.equals(b), each.name
                assert a.schema == b.schema
            case np.ndarray():
                assert_array_equal(a, b)
                assert (a.dtype, a.shape) == (b.dtype, b.shape)
            case _:
                assert a == b, each.name


@pytest.mark.parametrize("name", ALGORITHMS)
def test_all_of_a_run_comes_back(name, tmp_path):
    run = simulate(ALGORITHMS[name], ENV, 20, seed=np.int64(1))
    run.save(tmp_path / "a.run")
    again = fg.load_run(str(tmp_path / "a.run"))
    same(run, again)
    assert_array_equal(again.client_regret, run.client_regret)
    assert_array_equal(again.propensities, run.propensities)


@pytest.mark.parametrize("name", ["updates", "private", "private, all options"])
def test_stored_names_and_what_is_private(name, tmp_path):
    run = simulate(ALGORITHMS[name], ENV, 20, seed=1)
    run.save(tmp_path / "a.run")
    with zipfile.ZipFile(tmp_path / "a.run") as archive:
        assert sorted(archive.namelist()) == [
            "choices.npy", "drawn.npy", "ledger.parquet", "regrets.npy", "run.json", "theta.npy",
            "trace.parquet", "updates.parquet",
        ]  # fmt: skip
        facts = json.loads(archive.read("run.json"))
    private = [] if run.privacy is None else ["privacy"]
    assert list(facts) == [
        "format",
        "arrays",
        "totals",
        "parameters",
        "caveats",
        *private,
        "software",
    ]
    if private:
        again = fg.load_run(tmp_path / "a.run").privacy
        assert (repr(again), str(again)) == (repr(run.privacy), str(run.privacy))
        assert (again, again.spent()) == (run.privacy, run.privacy.spent())
        assert again.releases == again.updates == 4


def test_another_version_is_refused_by_name(run, tmp_path):
    path, other = tmp_path / "a.run", tmp_path / "b.run"
    run.save(path)
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(other, "w") as new:
        facts = json.loads(old.read("run.json"))
        new.writestr("run.json", json.dumps(facts | {"format": FORMAT + 1}))
    with pytest.raises(fg.InvalidInput, match=f"format {FORMAT}, not {FORMAT + 1}"):
        fg.load_run(other)


def test_what_is_no_run_is_refused(run, tmp_path):
    with pytest.raises(fg.InvalidInput, match="it does not exist"):
        fg.load_run(tmp_path / "nothing.run")
    with pytest.raises(fg.InvalidInput, match="it does not exist"):
        fg.load_run(tmp_path)
    (tmp_path / "text").write_text("hello")
    with pytest.raises(fg.InvalidInput, match="another kind of file"):
        fg.load_run(tmp_path / "text")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("a.txt", "hello")
    with pytest.raises(fg.InvalidInput, match=r"undamaged .*run\.json"):
        fg.load_run(tmp_path / "other.zip")
    with pytest.raises(fg.InvalidInput, match="an existing folder"):
        run.save(tmp_path / "no" / "a.run")


def test_a_damaged_file_is_refused_or_harmless(run, tmp_path):
    """Bytes that nobody reads, as dates, may differ; no other run ever comes back."""
    path = tmp_path / "a.run"
    run.save(path)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for place in rng.integers(0, len(content), 150):
        damaged = bytearray(content)
        damaged[place] ^= int(rng.integers(1, 256))
        path.write_bytes(damaged)
        try:
            same(run, fg.load_run(path))
        except fg.InvalidInput:
            refused += 1
    assert refused > 100
    for length in (0, 10, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(fg.InvalidInput, match="path = "):
            fg.load_run(path)
