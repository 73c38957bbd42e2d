"""A private federation as operator and owners meet it: init, privacy, secure sums, processes."""

from __future__ import annotations

import json
import re
import time

import pytest

import fedglb as fg
from fedglb.cli.common import seconds
from fedglb.errors import InvalidInput
from fedglb.federation.agreement import AgreementTable
from fedglb.federation.bundle import Bundle
from fedglb.problem_table import ProblemTable
from tests.cli.in_process import agent, federation
from tests.federation.helpers.in_process import play
from tests.federation.helpers.json_processes import coordinator
from tests.federation.helpers.nats_federation import federation as nats_federation

INIT = ["--name", "x", "--dim", "3", "--updates", "30", "--first", "1h", "--growth", "1.3"]
PRIVATE = ["--epsilon", "1", "--delta", "1e-6"]
NAMES = "shop-1,shop-2,shop-3,shop-4,shop-5"
SECURE = [*INIT, "--secure-sums", "--clients", NAMES]


def test_init_agrees_on_schedule_and_privacy(tmp_path):
    folder = tmp_path / "demo"
    more = ["--neighbours", "replace", "--contributions", "2", "--reward-limit", "0.5"]
    out = federation("init", folder, *INIT, *PRIVATE, *more)
    assert out.returncode == 0, out.stderr
    found = Bundle.read(folder / "coordinator").agreement
    privacy = fg.GaussianMechanism(1.0, 1e-6, "silo", "replace", 2, reward_limit=0.5)
    assert found.algorithm == fg.fedglb_private(30, 3600.0, privacy, 1.3)
    assert found.algorithm.delta == 0.01  # --delta was the privacy's
    assert found.times[:2] == (3600.0, 4680.0)


def test_a_schedule_without_privacy(tmp_path):
    out = federation("init", tmp_path / "demo", *INIT, "--delta", "0.05")
    assert out.returncode == 0, out.stderr
    found = Bundle.read(tmp_path / "demo" / "coordinator").agreement.algorithm
    assert found == fg.fedglb_private(30, 3600.0, None, 1.3, delta=0.05)
    said = federation("privacy", tmp_path / "demo").stdout
    assert "No privacy" in said
    assert "The schedule starts when the coordinator first runs" in said


def test_a_federation_without_privacy_has_none_to_show(tmp_path):
    federation("init", tmp_path / "demo", "--name", "x", "--dim", "3")
    out = federation("privacy", tmp_path / "demo")
    assert out.returncode == 1
    assert "no schedule and no privacy" in out.stderr


def test_from_init_to_an_accepted_roster(tmp_path):
    folder, file = tmp_path / "demo", tmp_path / "shop-1.db"
    more = ["--minimum", "4", "--max-clients", "6", "--honest", "0.6"]
    out = federation("init", folder, *SECURE, *PRIVATE, *more)
    assert out.returncode == 0, out.stderr
    place = folder / "clients" / "shop-1"
    agreement = Bundle.read(place).agreement
    first = agreement.roster
    assert f"Roster: {first}" in out.stdout
    assert "Each update needs 4 of the 5 clients present.\n" in out.stdout
    assert agreement.algorithm.privacy == fg.GaussianMechanism(1.0, 1e-6, noise="sums", honest=0.6)
    assert (agreement.minimum, agreement.max_clients, agreement.min_members) == (4, 6, 4)

    said = federation("privacy", folder).stdout
    assert "sums over 4 clients or more" in said
    assert first in said
    found = json.loads(federation("privacy", folder, "--json").stdout)["secure_sums"]
    assert found == {"minimum": 4, "roster": first, "members": NAMES.split(",")}
    # 0.6 of six are four: each of them knows its own share, so three others' are the noise
    assert "sums over 4 clients or more, and from every other client" in said
    assert "no two clients may collude; against 2 together epsilon = 1.245" in said
    assert json.loads(federation("privacy", folder, "--json").stdout)["privacy"]["honest"] == 3

    problem = agreement.problem
    fg.Agent.open(file, problem, bundle=place).close()  # its owner accepts the first one by that
    assert federation("add", folder, "fake").returncode == 0
    second = Bundle.read(place).agreement.roster
    assert second != first
    with pytest.raises(fg.InvalidInput, match="fedglb agent accept"):
        fg.Agent.open(file, problem, bundle=place)
    out = agent("accept", file, place)
    assert out.returncode == 0, out.stderr
    assert "fake" in out.stdout
    assert "not accepted" in out.stdout
    out = agent("accept", file, place, "--roster", first)
    assert (out.returncode, "--roster" in out.stderr) == (2, True)
    with pytest.raises(fg.InvalidInput, match="roster"):
        fg.Agent.open(file, problem, bundle=place)
    out = agent("accept", file, place, "--roster", second, "--json")
    assert json.loads(out.stdout)["accepted"] is True
    fg.Agent.open(file, problem, bundle=place).close()


def test_without_noise_and_with_as_many_clients_as_there_are(tmp_path):
    out = federation("init", tmp_path / "plain", *SECURE)
    assert "Each update needs 5 of the 5 clients present: all of them." in out.stdout
    out = federation("init", tmp_path / "demo", *SECURE, "--json")
    assert out.returncode == 0, out.stderr
    agreement = Bundle.read(tmp_path / "demo" / "coordinator").agreement
    assert json.loads(out.stdout)["roster"] == agreement.roster
    assert (agreement.minimum, agreement.max_clients) == (5, 5)
    assert agreement.algorithm.privacy is None


def test_a_federation_without_secure_sums_has_no_roster(tmp_path):
    assert federation("init", tmp_path / "demo", *INIT, "--clients", "a").returncode == 0
    assert "No secure sums" in federation("privacy", tmp_path / "demo").stdout
    out = agent("accept", tmp_path / "a.db", tmp_path / "demo" / "clients" / "a")
    assert (out.returncode, "BUNDLE" in out.stderr) == (2, True)


def test_from_the_first_start_to_the_last_update(tmp_path):
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
            fg.Agent.open(tmp_path / "a.db", bundle.agreement.problem, **given) as one,
        ):
            play(one, "a", 5)
            with pytest.raises(fg.federation.Unavailable, match="on an agreed schedule"):
                one.request_update()
            head.hear(lambda line: line["event"] == "updated")
            text = head.hear(lambda line: line["event"] == "ended")["text"]
            said = json.loads(federation("privacy", folder, "--json").stdout)
            assert said["running"]
            assert said["schedule"]["ended"] == text
            spent = one.status.privacy
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
        assert re.search(r"ε spent [012][.\d]* of 2 in \d of 3 updates", shown)


def test_durations():
    for text, wanted in [("30s", 30), ("10m", 600), ("1h", 3600), ("2d", 172800), ("45", 45),
                         (".5h", 1800)]:  # fmt: skip
        assert seconds("--first", text) == wanted
    for text in ["", "h", "-1h", "1w", "1h30m", "nan", "1e3s", "0", "9" * 400]:
        with pytest.raises(InvalidInput, match="--first"):
            seconds("--first", text)


@pytest.mark.slow
def test_the_next_time_is_shown(tmp_path):
    from fedglb.federation.coordinator.store import CoordinatorStore

    folder = tmp_path / "demo"
    federation("init", folder, *INIT, *PRIVATE)
    bundle = Bundle.read(folder / "coordinator")
    store = CoordinatorStore(folder / "coordinator" / "state.db", bundle.agreement)
    store.start_schedule(time.time())
    store.close()
    said = federation("privacy", folder).stdout
    assert "Next update: " in said
    assert re.search(r"\(in [0-9.]+ min\); 0 of 30 are done\.", said)
    assert "ε spent 0 of 1 in 0 of 30 updates." in said
