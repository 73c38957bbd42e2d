"""`fedglb federation demo`: the real command, small."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedglb.federation.agent.store import AgentStore
from fedglb.federation.demo import DemoPlan, agent_file, offers, separate_regret
from tests.cli.in_process import fedglb
from tests.federation.helpers.whole_log import whole_log

SMALL = ("--clients", "3", "--decisions", "60", "--seed", "4")
PATIENCE = 600.0  # seconds: a busy machine may have all kernels to compile first


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "fedglb.cli", "federation", "demo", *arguments]


def environment(folder: Path) -> dict[str, str]:
    """Temporary folders are made here, where a test can see them."""
    return {**os.environ, "TMPDIR": str(folder)}


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


def until(condition, seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """The answer of one demonstration, what it said on the way, and its folder."""
    folder = tmp_path_factory.mktemp("demo") / "kept"
    done = subprocess.run(
        command(*SMALL, "--folder", str(folder), "--json"),
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr, folder


def test_nothing_is_lost_though_an_agent_is_killed_and_no_process_is_left(played):
    answer, said, folder = played
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


def test_regret_is_that_of_the_arms_that_were_chosen(played):
    answer, _, folder = played
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
    with open(errors, "wb") as file:
        process = subprocess.Popen(
            command("--clients", "2"), stdout=subprocess.PIPE, stderr=file, env=environment(place)
        )
    try:
        until(lambda: when in errors.read_text() or process.poll() is not None)
        assert len(processes(place)) >= 4  # server, coordinator, agents
        process.send_signal(sign)
        process.wait(PATIENCE)
    finally:
        process.kill()
        out = process.communicate()[0]
    if sign == signal.SIGKILL:
        until(lambda: processes(place) == [])
        return
    assert (process.returncode, out) == (130, b"")
    assert "stopped" in errors.read_text()
    assert processes(place) == []
    assert list(place.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--clients", "0"], "--clients"),
        (["--decisions", "3"], "--decisions"),
        (["--seed", "-1"], "--seed"),
        (["--folder", "full"], "--folder"),
    ],
)
def test_bad_input_is_one_line(tmp_path, monkeypatch, arguments, complaint):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "something").touch()
    monkeypatch.chdir(tmp_path)
    done = fedglb("federation", "demo", *arguments)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.some(1)
@pytest.mark.parametrize(
    "missing",
    [
        "from fedglb.federation.operator import nats_server; nats_server.found = lambda: None",
        "import sys; sys.modules['nats'] = None",
    ],
    ids=["nats-server", "nats-py"],
)
def test_what_is_missing_is_to_be_installed(tmp_path, missing):
    script = f"{missing}; from fedglb.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, "federation", "demo"],
        capture_output=True, text=True, check=False, timeout=PATIENCE, env=environment(tmp_path),
    )  # fmt: skip
    assert done.returncode == 1
    assert "fedglb[demo]" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("clients", [2, 3], ids=["silo noise", "secure sums"])
def test_a_private_one_says_what_it_spent(tmp_path, clients):
    given = ("--clients", str(clients), "--decisions", "150", "--private", "--json")
    done = subprocess.run(
        command(*given, "--folder", str(tmp_path / "kept")),
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
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
