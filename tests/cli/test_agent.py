"""`fedglb agent` as an operator meets it."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

import fedglb as fg
from tests.cli import in_process
from tests.federation.helpers.agent_driver import arms, feed, state

PROBLEM = fg.Problem(dim=3)


def agent(*arguments) -> tuple[int, str, str]:
    out = in_process.agent(*arguments)
    return out.returncode, out.stdout, out.stderr


@pytest.fixture
def past(tmp_path):
    """A log with two rows that have no reward, and its samples."""
    rng = np.random.default_rng(0)
    X, y = arms(rng, 12), (rng.random(12) < 0.5).astype(float)
    y[[3, 7]] = np.nan
    frame = pl.DataFrame({"x": X.tolist(), "reward": y, "a": X[:, 0], "b": X[:, 1], "c": X[:, 2]})
    frame = frame.with_columns(pl.col("reward").fill_nan(None))
    frame.write_parquet(tmp_path / "past.parquet")
    kept = ~np.isnan(y)
    return tmp_path / "past.parquet", X[kept], y[kept]


@pytest.mark.parametrize("columns", ["x", "a,b,c"])
def test_a_warm_start(past, tmp_path, columns):
    file, X, y = past
    command = ("import", file, "--into", tmp_path / "a.db", "--dim", 3, "--columns", columns)
    code, out, errors = agent(*command, "--json")
    assert (code, errors) == (0, "")
    assert json.loads(out)["absorbed"] == json.loads(out)["samples"] == 10
    assert json.loads(out)["left_out"] == 2
    code, out, _ = agent(*command)  # again: it is the same file
    assert code == 0
    assert "was imported before" in out
    with fg.Agent.open(tmp_path / "b.db", PROBLEM) as twin:
        twin.absorb(X, y)
        wanted = state(twin)
    with fg.Agent.open(tmp_path / "a.db", PROBLEM) as warm:
        assert state(warm) == wanted


def test_what_an_agent_exports_another_one_imports(tmp_path, rng):
    with fg.Agent.open(tmp_path / "a.db", PROBLEM) as one:
        feed(one, rng, 8)
        one.choose(np.eye(3))
        one.export().write_parquet(tmp_path / "log.parquet")
    code, out, _ = agent(
        "import", tmp_path / "log.parquet", "--into", tmp_path / "b.db", "--dim", 3
    )
    assert code == 0
    assert "8 samples imported (1 rows without" in out


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--dim", 4), "4 numbers per row; found 3"),
        (("--dim", 3, "--reward", "rewrad"), "--reward = 'rewrad'"),
        (("--dim", 3, "--columns", "a,b,d"), "--columns = 'd'"),
        (("--dim", 3, "--reward", "a"), "FILE[3] ="),
        (("--dim", 3, "--link", "cubic"), "--link = 'cubic'"),
        ((), "--dim or --features is required"),
    ],
)  # fmt: skip
def test_what_is_not_allowed_leaves_no_samples(past, tmp_path, options, text):
    code, _, errors = agent("import", past[0], "--into", tmp_path / "a.db", *options)
    assert code == 2
    assert text in errors
    if (tmp_path / "a.db").exists():
        with fg.Agent.open(tmp_path / "a.db", PROBLEM) as found:
            assert found.status.samples == 0


def test_a_backup_while_the_agent_goes_on(tmp_path, rng):
    with fg.Agent.open(tmp_path / "a.db", PROBLEM) as one:
        feed(one, rng, 8)
        wanted = state(one)
        code, out, _ = agent("backup", tmp_path / "a.db", tmp_path / "copy.db")
        assert (code, "copy.db: " in out) == (0, True)
        feed(one, rng, 3)
        assert one.status.samples == 11
    with fg.Agent.open(tmp_path / "copy.db", PROBLEM) as back:
        assert state(back) == wanted


def test_backups_that_are_refused(tmp_path):
    fg.Agent.open(tmp_path / "a.db", PROBLEM).close()
    (tmp_path / "there.db").touch()
    for source, copy, said in [
        ("a.db", "there.db", "COPY.db = "),
        ("a.db", "there.db", "a path without a file"),
        ("no.db", "copy.db", "that exists"),
        ("there.db", "copy.db", "AGENT.db = "),  # an empty file
    ]:
        code, _, errors = agent("backup", tmp_path / source, tmp_path / copy)
        assert (code, said in errors) == (2, True), errors
    assert not (tmp_path / "copy.db").exists()


def test_while_somebody_has_the_file_open(past, tmp_path):
    with fg.Agent.open(tmp_path / "a.db", PROBLEM):
        code, _, errors = agent("import", past[0], "--into", tmp_path / "a.db", "--dim", 3)
        assert code == 1
        assert "is already open by process" in errors
        assert "stop it, import, and start it again" in errors
