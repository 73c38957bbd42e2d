"""The log, read beside the agent: as it was when the export began, and nobody waits for it."""

from __future__ import annotations

import threading

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import fedglb as fg
from fedglb.errors import InvalidInput
from fedglb.federation import Agent, Unavailable
from fedglb.federation.agent import log_reader
from tests.federation.helpers.agent_driver import arms, feed
from tests.federation.helpers.nats_federation import PATIENCE

PROBLEM = fg.Problem(dim=3)


@pytest.fixture
def pieces(monkeypatch):
    """Read five rows at once, so that a few decisions are many pieces."""
    monkeypatch.setattr(log_reader, "_PIECE", 5)


@pytest.mark.parametrize("rows", [1, 4, 5, 7, 23, 24, 100])
def test_batches_put_together_are_the_log(agent, rng, pieces, rows):
    feed(agent, rng, 20)
    for _ in range(3):
        agent.choose(arms(rng, 2))
    found = list(agent.export_batches(rows))
    assert [frame.height for frame in found] == [
        min(rows, 23 - first) for first in range(0, 23, rows)
    ]
    assert_frame_equal(pl.concat(found), agent.export())


def test_an_empty_log_is_one_empty_table(agent):
    [frame] = agent.export_batches()
    assert frame.height == 0
    assert frame.schema == agent.export().schema


@pytest.mark.parametrize("short", [log_reader._SHORT, 0], ids=["here", "in a process"])
def test_it_is_the_log_of_the_moment_of_the_call(agent, rng, pieces, monkeypatch, short):
    monkeypatch.setattr(log_reader, "_SHORT", short)
    feed(agent, rng, 12)
    waiting = [agent.choose(arms(rng, 2)) for _ in range(12)]
    wanted = agent.export()
    batches = agent.export_batches(4)
    first = next(batches)
    for decision in waiting:  # all that is written while it is read comes too late
        agent.observe(decision.id, 1.0)
    agent.absorb(np.eye(3), np.ones(3))
    feed(agent, rng, 8)
    assert_frame_equal(pl.concat([first, *batches]), wanted)
    assert agent.export().height == 35


def test_what_is_forgotten_meanwhile_is_not_in_it(agent, rng, pieces):
    ids = feed(agent, rng, 24)
    batches = agent.export_batches(2)
    seen = next(batches)["id"].to_list()
    agent.forget(ids[18:21])  # more than the few rows that are read ahead
    seen += [id_ for frame in batches for id_ in frame["id"]]
    assert seen == ids[:18] + ids[21:]


@pytest.mark.parametrize("short", [log_reader._SHORT, 0], ids=["here", "in a process"])
def test_closing_ends_it(path, pieces, monkeypatch, short):
    monkeypatch.setattr(log_reader, "_SHORT", short)
    agent = Agent.open(path, PROBLEM)
    agent.absorb(np.tile(np.eye(3), (4000, 1)), np.ones(12_000))  # more than a pipe takes
    batches = agent.export_batches(1000)
    next(batches)
    agent.close()
    with pytest.raises(Unavailable, match="closed during the export"):
        list(batches)
    with Agent.open(path, PROBLEM) as again:  # nothing holds the file
        assert again.status.samples == 12_000


def test_one_that_is_given_up_leaves_nothing_behind(agent, rng, pieces):
    feed(agent, rng, 60)
    started, untouched = agent.export_batches(2), agent.export_batches(2)
    next(started)
    started.close()
    del untouched
    agent.forget(feed(agent, rng, 1))  # it waits for nobody


def test_many_exports_beside_writes(path, rng, pieces):
    with Agent.open(path, PROBLEM) as agent:
        feed(agent, rng, 50)
        failures: list[BaseException] = []

        def export() -> None:
            try:
                for _ in range(3):
                    frame = agent.export()
                    assert frame["id"].n_unique() == frame.height >= 50
                    observed = frame.filter(frame["outcome"] == "observed")
                    assert observed["reward"].null_count() == 0
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=export) for _ in range(3)]
        for thread in threads:
            thread.start()
        feed(agent, rng, 200)
        for thread in threads:
            thread.join(PATIENCE)
        assert not failures


def test_rows_that_are_not_allowed(agent):
    with pytest.raises(InvalidInput, match="rows = 0"):
        agent.export_batches(0)


# -- a long log, which another process reads -------------------------------------------------------


@pytest.mark.parametrize("log", ["chosen", "offered"])
def test_another_process_reads_the_same(path, rng, monkeypatch, log):
    with Agent.open(path, PROBLEM, log=log, max_pending=2) as agent:
        feed(agent, rng, 9)
        agent.absorb(np.eye(3), np.ones(3))
        for _ in range(4):
            agent.choose(arms(rng, 3), ids=["a", "b", "c"])
        here = agent.export()
        monkeypatch.setattr(log_reader, "_SHORT", 0)
        found = list(agent.export_batches(6))
        assert [frame.height for frame in found] == [6, 6, 4]
        assert_frame_equal(pl.concat(found), here)


def test_where_no_process_can_be_started_it_is_read_here(agent, rng, monkeypatch, caplog):
    feed(agent, rng, 5)
    monkeypatch.setattr(log_reader, "_SHORT", 0)
    monkeypatch.setattr(log_reader, "_PROGRAM", "raise SystemExit(1)")
    assert agent.export().height == 5
    assert "reading it in this process" in caplog.text
    caplog.clear()
    monkeypatch.setattr(log_reader.sys, "executable", "/usr/sbin/uwsgi")
    assert agent.export().height == 5
    assert not caplog.records
