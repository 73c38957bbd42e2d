"""The folder: what is in it, what it refuses, what a fault leaves."""

from __future__ import annotations

import errno
import json
import os

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import fedglb as fg
from fedglb.io import atomic
from fedglb.studies.results import store
from fedglb.studies.results.tables import recorded_steps
from fedglb.studies.run.task import deal
from fedglb.studies.spec import keys
from tests.studies.tiny import bytes_of, parts, start, tables, until


class Stop(Exception):
    pass


def interrupted(folder, after, experiment=None):
    """Stop a sweep once some runs are finished."""

    def stop(status):
        if len(status.finished) >= after:
            raise Stop

    with pytest.raises(Stop):
        fg.sweep(experiment or tables(), folder, jobs=1, progress=stop)


def test_rows_are_the_simulations(undisturbed):
    result = fg.load_sweep(undisturbed)
    env = fg.Synthetic(fg.Problem(3), clients=2, arms=4)
    algorithms = {
        "FedGLB-UCB D=0.1 newton": fg.fedglb_ucb(0.1, fg.Newton(), 0.1),
        "FedGLB-UCB D=1 newton": fg.fedglb_ucb(1.0, fg.Newton(), 0.1),
        "N-ONS-GLM": fg.n_ons_glm(0.1),
    }
    rows = result.runs.to_dicts()
    expected = [(label, seed) for label in algorithms for seed in (1, 2, 3, 4)]
    assert [(row["label"], row["seed"]) for row in rows] == expected
    for (label, seed), row in zip(expected, rows, strict=True):
        run = fg.simulate(algorithms[label], env, 12, seed)
        for name in ("regret", "reward", "syncs", "rounds", "transfers", "scalars", "bits"):
            assert row[name] == getattr(run, name)
        assert row["caveats"] == list(run.caveats)
        assert row["client_regret"] == run.client_regret.tolist()
        assert row["interactions"] == 24
        own = result.traces.filter(label=label, seed=seed).drop("label", "seed")
        assert_frame_equal(own.with_columns(pl.col("t").cast(pl.Int64)), run.trace)
    told = ("threshold", "solver", "confidence", "updates", "link", "dim", "clients")
    assert [rows[0][key] for key in told] == [0.1, "newton", "lemma", None, "logistic", 3, 2]
    assert rows[8]["solver"] is rows[8]["threshold"] is None


@pytest.mark.parametrize("name", ["runs", "traces"])
def test_pandas_frames_hold_what_polars_frames_hold(undisturbed, name):
    result = fg.load_sweep(undisturbed)
    ours, frame = getattr(result, name), result.to_pandas(name)
    assert list(frame.columns) == ours.columns
    assert len(frame) == ours.height
    for column in ours.columns:
        given = [None if missing else value for value, missing in
                 zip(frame[column].tolist(), frame[column].isna(), strict=True)]  # fmt: skip
        assert given == ours[column].to_list(), column
    types = frame.dtypes.astype(str).to_dict()
    assert (types["seed"], types["regret"]) == ("int64", "float64")
    if name == "runs":
        assert frame["updates"].isna().all()
        assert (types["threshold"], types["updates"]) == ("float64", "Int64")
        assert (types["clients"], types["randomised"]) == ("int32", "bool")


def test_an_unknown_table_is_refused(undisturbed):
    with pytest.raises(fg.InvalidInput, match="did you mean runs"):
        fg.load_sweep(undisturbed).to_pandas("run")


def test_manifest(undisturbed):
    folder, result = undisturbed, fg.load_sweep(undisturbed)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest == result.manifest
    assert manifest["format"] == 3
    assert set(manifest) == {  # stored: another name, or one less, needs another format
        "format", "name", "identity", "complete", "started", "wall_seconds", "run_seconds",
        "software", "horizon", "clients", "arms", "problem", "seeds", "configurations",
        "keys", "shared", "document", "own", "data", "sessions", "files",
    }  # fmt: skip
    assert manifest["complete"]
    assert set(manifest["shared"]) == {"code", "environment", "data", "horizon"}
    assert len(set(manifest["keys"])) == 3
    assert manifest["seeds"] == [1, 2, 3, 4]
    assert manifest["configurations"][1]["threshold"] == 1.0
    assert manifest["software"]["dependencies"]["numpy"]
    assert manifest["sessions"][0]["machine"]["cores"] >= 1
    assert manifest["wall_seconds"] > 0
    files = [".lock", "manifest.json", "parts", "runs.parquet", "traces.parquet"]
    assert sorted(os.listdir(folder)) == files
    assert len(os.listdir(folder / "parts")) == 1


@pytest.mark.parametrize("horizon", [1, 2, 499, 500, 501, 2000, 400_000])
def test_traces_are_thinned_evenly_with_both_ends(horizon):
    steps = recorded_steps(horizon)
    assert len(steps) == min(horizon, 500)
    assert (steps[0], steps[-1]) == (1, horizon)
    assert max(steps[1:] - steps[:-1], default=1) <= horizon // 499 + 1


def test_tasks_cover_everything_once_at_most_16_at_a_time():
    pending = [(i, seed) for seed in (3, 1) for i in range(49)]
    for jobs in (1, 2, 7, 200):
        tasks = deal(pending, jobs)
        assert sorted((i, t.seed) for t in tasks for i in t.configurations) == sorted(pending)
        assert max(len(t.configurations) for t in tasks) <= 16
        assert len(tasks) >= min(2 * jobs, len(pending))


def test_a_resumed_sweep_keeps_what_was_finished_and_ends_the_same(tmp_path, undisturbed):
    folder = tmp_path / "out"
    interrupted(folder, 6)
    kept = fg.load_sweep(folder, partial=True)
    assert kept.runs.height == 6
    assert not kept.manifest["complete"]
    assert_frame_equal(kept.runs, fg.load_sweep(undisturbed).runs.filter(pl.col("seed") <= 2))
    with pytest.raises(fg.InvalidInput, match="to resume"):
        fg.load_sweep(folder)
    seen = []
    fg.sweep(tables(), folder, jobs=1, progress=lambda s: seen.append(len(s.finished)))
    assert set(seen) <= {6, 9, 12}  # never more: nothing is run twice
    assert seen[-1] == 12
    assert bytes_of(folder) == bytes_of(undisturbed)
    assert len(fg.load_sweep(folder).manifest["sessions"]) == 2


@pytest.mark.parametrize(
    "damage",
    [lambda b: b[:-100], lambda b: b"", lambda b: b[:40] + bytes([b[40] ^ 1]) + b[41:]],
    ids=["cut", "empty", "a flipped bit"],
)
def test_a_damaged_part_is_run_again(tmp_path, undisturbed, damage):
    folder = tmp_path / "out"
    interrupted(folder, 6)
    part = parts(folder)[0]
    part.write_bytes(damage(part.read_bytes()))
    assert fg.load_sweep(folder, partial=True).runs.height == 3
    fg.sweep(tables(), folder, jobs=1)
    assert bytes_of(folder) == bytes_of(undisturbed)


@pytest.mark.parametrize("changes", [{"defaults": {"exploration": 0.2}}, {"horizon": 13}])
def test_a_part_of_another_sweep_does_not_count(tmp_path, undisturbed, changes):
    interrupted(tmp_path / "out", 3)
    interrupted(tmp_path / "other", 6, tables(**changes))
    for part in parts(tmp_path / "other"):
        (tmp_path / "out" / "parts" / part.name).write_bytes(part.read_bytes())
    assert fg.load_sweep(tmp_path / "out", partial=True).runs.height == 3
    fg.sweep(tables(), tmp_path / "out", jobs=1)
    assert bytes_of(tmp_path / "out") == bytes_of(undisturbed)


@pytest.mark.parametrize("moment", ["before the list of parts", "after it"])
def test_a_sweep_that_finishes_while_it_is_read(tmp_path, monkeypatch, undisturbed, moment):
    folder = tmp_path / "out"
    interrupted(folder, 6)
    real = store.Path.glob

    def glob(path, pattern):
        monkeypatch.undo()
        found = list(real(path, pattern))
        fg.sweep(tables(), folder, jobs=1)
        return found if moment == "after it" else real(path, pattern)

    monkeypatch.setattr(store.Path, "glob", glob)
    result = fg.load_sweep(folder, partial=True)
    assert result.manifest["complete"]
    assert_frame_equal(result.runs, fg.load_sweep(undisturbed).runs)


def test_a_damaged_result_is_refused_and_repaired(tmp_path, undisturbed):
    folder = tmp_path / "out"
    fg.sweep(tables(), folder, jobs=1)
    (folder / "traces.parquet").write_bytes(b"PAR1")
    with pytest.raises(fg.InvalidInput, match=r"traces\.parquet is damaged"):
        fg.load_sweep(folder)
    fg.sweep(tables(), folder, jobs=1)
    assert bytes_of(folder) == bytes_of(undisturbed)


def test_a_complete_sweep_is_read_not_run(tmp_path, monkeypatch):
    folder = tmp_path / "out"
    first = fg.sweep(tables(), folder, jobs=1)
    monkeypatch.setattr(store.Store, "add", None)
    again = fg.sweep(tables(), folder, jobs=1)
    assert_frame_equal(first.runs, again.runs)
    assert again.manifest == first.manifest


def test_another_sweep_in_the_folder_is_refused(tmp_path, monkeypatch):
    folder = tmp_path / "out"
    interrupted(folder, 3)
    before = {p.name: p.read_bytes() for p in [folder / "manifest.json", *parts(folder)]}
    more = {"name": "other", "seeds": 5, "algorithm": [{"name": "n-ons-glm"}], "defaults": {}}
    for changes in (
        {"horizon": 13}, {"problem": {"dim": 4}}, {"environment": {"clients": 2, "arms": 5}},
        {"environment": {"clients": 3, "arms": 4}, "problem": {"dim": 2}, "horizon": 20},
    ):  # fmt: skip
        said = f"another experiment, 'tiny', with other {' and '.join(changes)}$"
        for several in ({}, more):
            with pytest.raises(fg.InvalidInput, match=said):
                fg.sweep(tables(**several, **changes), folder, jobs=1)
    with monkeypatch.context() as patch:
        patch.setattr(fg.Environment, "facts", lambda env: {"digest": "of other clusters"})
        with pytest.raises(fg.InvalidInput, match="other data"):
            fg.sweep(tables(), folder, jobs=1)
    monkeypatch.setattr(keys, "code_digest", lambda: "another version")
    with pytest.raises(fg.InvalidInput, match="another version"):
        fg.sweep(tables(), folder, jobs=1)
    assert {p.name: p.read_bytes() for p in [folder / "manifest.json", *parts(folder)]} == before


def test_an_environment_whose_code_was_edited_is_another_one(tmp_path):
    def rows(count):
        return fg.Partial(fg.Synthetic(fg.Problem(3), 2, 4), lambda seed, t: [t % count == 0] * 2)

    def made(count):
        return fg.Experiment.of([fg.n_ons_glm()], rows(count), 9, seeds=1)

    fg.sweep(made(2), tmp_path / "out", jobs=1)
    with pytest.raises(fg.InvalidInput, match=r"with other environment$"):
        fg.sweep(made(3), tmp_path / "out", jobs=1)


def test_foreign_folders_are_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(fg.InvalidInput, match=r"thesis\.tex"):
        fg.sweep(tables(), tmp_path, jobs=1)
    with pytest.raises(fg.InvalidInput, match="not a file"):
        fg.sweep(tables(), tmp_path / "thesis.tex", jobs=1)
    (tmp_path / "other").mkdir()
    old = dict.fromkeys(("name", "identity", "complete", "document", "files"), "") | {"format": 3}
    said = {"has format 2, this version requires 3": {"format": 2}, "is incomplete": old}
    for what, manifest in said.items():
        (tmp_path / "other" / "manifest.json").write_text(json.dumps(manifest))
        with pytest.raises(fg.InvalidInput, match=rf"delete this one: its manifest\.json {what}"):
            fg.sweep(tables(), tmp_path / "other", jobs=1)
    with pytest.raises(fg.InvalidInput, match=r"no manifest\.json"):
        fg.load_sweep(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["other", "thesis.tex"]


HOLD = """
import sys, time
from pathlib import Path
from fedglb.io.atomic import exclusive_lock
with exclusive_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_second_process_is_refused_until_the_first_is_gone(tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    process = start("-c", HOLD, str(folder))
    until(lambda: (folder / ".lock").exists(), process)
    assert process.stdout.readline() == "held\n"
    with pytest.raises(fg.InvalidInput, match="a sweep is running"):
        fg.sweep(tables(), folder, jobs=1)
    assert not (folder / "manifest.json").exists()
    process.kill()
    process.communicate()
    assert fg.sweep(tables(), folder, jobs=1).runs.height == 12


@pytest.mark.parametrize("operation", ["fsync", "replace", "open"])
def test_a_full_disk_leaves_the_old_file_and_no_rest(tmp_path, monkeypatch, operation):
    path = tmp_path / "file"
    atomic.atomic_write(path, b"old")

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    if operation == "open":
        monkeypatch.setattr("builtins.open", full)
    else:
        monkeypatch.setattr(os, operation, full)
    with pytest.raises(OSError, match="No space"):
        atomic.atomic_write(path, b"new")
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]
