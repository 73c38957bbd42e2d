"""A private federation as an operator meets it: init, privacy, status, with real processes."""

from __future__ import annotations

import json
import os
import re
import time

import pytest

import fedglb as fg
from fedglb.cli.durations import seconds
from fedglb.errors import InvalidInput
from fedglb.federation.agreement import AgreementTable
from fedglb.federation.bundle import Bundle
from fedglb.problem_table import ProblemTable
from tests.cli.test_federation import federation  # noqa: F401
from tests.federation.helpers.in_process import play
from tests.federation.helpers.json_processes import coordinator
from tests.federation.helpers.nats_federation import federation as nats_federation

INIT = ["--name", "x", "--dim", "3", "--updates", "30", "--first", "1h", "--growth", "1.3"]
PRIVATE = ["--epsilon", "1", "--delta", "1e-6"]


def test_init_agrees_on_schedule_and_privacy(federation, tmp_path):  # noqa: F811
    folder = tmp_path / "demo"
    more = ["--neighbours", "replace", "--contributions", "2", "--reward-limit", "0.5"]
    out = federation("init", folder, *INIT, *PRIVATE, *more)
    assert out.returncode == 0, out.stderr
    found = Bundle.read(folder / "coordinator").agreement
    privacy = fg.GaussianMechanism(1.0, 1e-6, "silo", "replace", 2, reward_limit=0.5)
    assert found.algorithm == fg.fedglb_private(30, 3600.0, privacy, 1.3)
    assert found.algorithm.delta == 0.01  # --delta was the privacy's
    assert found.times[:2] == (3600.0, 4680.0)


def test_a_schedule_without_privacy(federation, tmp_path):  # noqa: F811
    out = federation("init", tmp_path / "demo", *INIT, "--delta", "0.05")
    assert out.returncode == 0, out.stderr
    found = Bundle.read(tmp_path / "demo" / "coordinator").agreement.algorithm
    assert found == fg.fedglb_private(30, 3600.0, None, 1.3, delta=0.05)
    said = federation("privacy", tmp_path / "demo").stdout
    assert "No privacy" in said
    assert "The schedule starts when the coordinator first runs" in said


@pytest.mark.some(12)
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--epsilon", "0", "--delta", "1e-6"], "--epsilon = 0.0"),
        (["--epsilon", "-1", "--delta", "1e-6"], "--epsilon = -1.0"),
        (["--epsilon", "nan", "--delta", "1e-6"], "--epsilon = nan"),
        (["--epsilon", "1"], "--epsilon requires --delta"),
        (["--epsilon", "1", "--delta", "0"], "--delta = 0.0"),
        (["--epsilon", "1", "--delta", "1"], "--delta = 1.0"),
        ([*PRIVATE, "--noise-in", "sums"], "--noise-in = 'sums'"),
        ([*PRIVATE, "--noise-in", "silos"], "--noise-in = 'silos'"),
        ([*PRIVATE, "--neighbours", "all"], "--neighbours = 'all'"),
        ([*PRIVATE, "--contributions", "0"], "--contributions = 0"),
        ([*PRIVATE, "--link", "poisson", "--noise", "1"], "--reward-limit = None"),
        ([*PRIVATE, "--updates", "5000"], "--updates = 5000"),
        ([*PRIVATE, "--growth", "1"], "--growth = 1.0"),
        ([*PRIVATE, "--first", "soon"], "--first = 'soon'"),
        ([*PRIVATE, "--first", "0s"], "--first = '0s'"),
        (["--neighbours", "replace"], "--neighbours requires --epsilon"),
        (["--noise-in", "silo"], "--noise-in requires --epsilon"),
        ([*PRIVATE, "--algorithm", "fedglb-ucb", "--threshold", "1"], "fedglb-ucb"),
        ([*PRIVATE, "--algorithm", "fedglb-auto"], "fedglb-auto"),
    ],
)
def test_mistakes_are_one_clear_error(
    federation,  # noqa: F811
    tmp_path,
    arguments,
    said,
):
    out = federation("init", tmp_path / "new", *INIT, *arguments)
    assert out.returncode == 2, out.stderr
    assert said in out.stderr
    assert len(out.stderr.splitlines()) == 1
    assert os.listdir(tmp_path) == []


def test_privacy_of_an_algorithm_whose_trigger_tells_is_refused_with_the_reason(
    federation,  # noqa: F811
    tmp_path,
):
    given = ["--name", "x", "--dim", "3", *PRIVATE, "--algorithm", "fedglb-auto"]
    out = federation("init", tmp_path / "new", *given)
    assert out.returncode == 2
    assert "fedglb_private" in out.stderr
    assert os.listdir(tmp_path) == []


def test_a_federation_without_privacy_has_none_to_show(federation, tmp_path):  # noqa: F811
    federation("init", tmp_path / "demo", "--name", "x", "--dim", "3")
    out = federation("privacy", tmp_path / "demo")
    assert out.returncode == 1
    assert "no schedule and no privacy" in out.stderr


def test_help_has_an_example(federation):  # noqa: F811
    assert "Example: fedglb federation privacy" in federation("privacy", "--help").stdout


def test_from_the_first_start_to_the_last_update(federation, tmp_path):  # noqa: F811
    """By the real clock: three updates in about a second, then no more, also after a restart."""
    privacy = {"epsilon": 2.0, "delta": 1e-5, "noise": "silo"}
    algorithm = {"name": "fedglb-private", "updates": 3, "first": 0.3, "growth": 1.5}
    agreed = AgreementTable(4, ProblemTable(3), {**algorithm, "privacy": privacy})
    with nats_federation(tmp_path, ["a"], agreed) as running:
        folder, state = running.folder, running.folder / "coordinator" / "state.db"
        said = json.loads(federation("privacy", folder, "--json").stdout)
        assert said["schedule"] == {
            "updates": 3, "done": 0, "start": None, "next": None, "ended": None,
        }  # fmt: skip
        bundle = running.bundle("a")
        given = {"bundle": bundle.folder, "beat": 0.1}
        with (
            coordinator(running, state) as head,
            fg.Agent.open(tmp_path / "a.db", bundle.agreement.problem, **given) as agent,
        ):
            play(agent, "a", 5)
            with pytest.raises(fg.federation.Unavailable, match="on a schedule"):
                agent.request_update()
            head.hear(lambda line: line["event"] == "updated")
            text = head.hear(lambda line: line["event"] == "ended")["text"]
            said = json.loads(federation("privacy", folder, "--json").stdout)
            assert said["running"]
            assert said["schedule"]["ended"] == text
            spent = agent.status.privacy
            assert (spent.budget, spent.delta, spent.refused) == (2.0, 1e-5, None)
            assert 1 <= spent.releases <= spent.last <= 3
            assert said["privacy"]["releases"] == spent.last
            assert said["privacy"]["spent"] == spent.epsilon
        out = federation("privacy", folder).stdout
        assert f"No more updates: {text}." in out
        assert "every interaction from the coordinator" in out
        with coordinator(running, state) as head:
            again = head.hear(lambda line: line["event"] in ("updating", "ended"))
            assert (again["event"], again["text"]) == ("ended", text)
        shown = federation("status", folder).stdout
        assert f"Schedule of 3 updates: {text}." in shown
        assert re.search(r"ε spent [012]\.\d{4} of 2\.0000 in \d of 3 updates", shown)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("30s", 30.0),
        ("10m", 600.0),
        ("1h", 3600.0),
        ("2d", 172800.0),
        ("45", 45.0),
        (".5h", 1800.0),
    ],
)
def test_durations(text, wanted):
    assert seconds("--first", text) == wanted


@pytest.mark.parametrize("text", ["", "h", "-1h", "1w", "1h30m", "nan", "1e3s", "0", "9" * 400])
def test_what_is_no_duration(text):
    with pytest.raises(InvalidInput, match="--first"):
        seconds("--first", text)


@pytest.mark.slow
def test_the_next_time_is_shown(federation, tmp_path):  # noqa: F811
    from fedglb.federation.coordinator.store import CoordinatorStore

    folder = tmp_path / "demo"
    federation("init", folder, *INIT, *PRIVATE)
    bundle = Bundle.read(folder / "coordinator")
    store = CoordinatorStore(folder / "coordinator" / "state.db", bundle.agreement)
    store.start_schedule(time.time())
    store.close()
    said = federation("privacy", folder).stdout
    assert "Next update: " in said
    assert re.search(r"\(in [0-9.]+ min\); 0 of 30 are past\.", said)
    assert "ε spent 0.0000 of 1.0000 in 0 of 30 updates." in said
