"""kill -9 at every kind of moment: what was acknowledged is there, and the models are the same.

Real processes on the loopback address: nats-server with TLS, a coordinator, three agents. In each
of 20 phases one of them is killed at a moment drawn by a seeded generator from all that occur:
before and after every SQLite statement that writes (inside transactions too), before and after
every message (handed to the connection; taken by the server), within rounds, while a process
starts, and while it makes its file. It is started again, and nothing else is done, except that an
application whose process died repeats a request for an update that never got out. After every
phase all states are compared, bit by bit, with those of the same samples played in memory.

This shows what the death of a process does. A power cut can do more, and no test here shows it: it
may take the last acknowledged rows of an agent with durable="process" (never its file's
consistency), none with durable="power"; the coordinator's file waits for the disk at every commit
(synchronous=FULL); nats-server keeps nothing that could be lost.
"""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest

import fedglb as fg
from fedglb.federation.agent.agent import ALONE
from fedglb.federation.agreement import Agreement, AgreementTable
from fedglb.federation.preload import preload
from fedglb.protocol import Client
from tests.federation.helpers.kill_points import Fault
from tests.federation.helpers.killable_process import Child, Died
from tests.federation.helpers.nats_federation import eventually
from tests.federation.helpers.recorded import (
    AGREED,
    DIM,
    EACH,
    ITEMS,
    ONE_EXCHANGE,
    PERSONAL,
    Standing,
    asker,
    learn,
    stream,
    undisturbed,
)
from tests.federation.helpers.self_healing import COORDINATOR, SERVER, Kept, same, state

NAMES = ("a", "b", "c")
KILLS = 22
AT_START = 5  # of them
KILLED = -signal.SIGKILL
ROUNDS = 2  # of every update
#: The places that processes come to, and how often, in every phase or when they start. Messages
#: may come more often: they are repeated when an answer is late.
AGENT = {
    "INSERT INTO decisions": EACH, "UPDATE decisions": EACH, "observe returned": EACH,
    "send SyncRequest": 1, "INSERT INTO snapshots": 1, "send Covariance": 1,
    "send Derivatives": ROUNDS, "BEGIN": 1, "INSERT INTO models": 1, "DELETE FROM models": 1,
    "DELETE FROM snapshots": 1, "COMMIT": 1, "send Heartbeat": 1,
}  # fmt: skip
HEAD = {
    "INSERT INTO started_updates": 1, "send SumsRequest": 3, "send Evaluate": 3 * ROUNDS,
    "BEGIN": 1, "REPLACE INTO facts": 1, "REPLACE INTO state": 1, "UPDATE members": 1,
    "DELETE FROM started_updates": 1, "UPDATE started_updates": 1,
    "INSERT INTO models": 1, "DELETE FROM models": 1,
    "INSERT INTO finished_updates": 1, "INSERT INTO left_out": 1, "DELETE FROM left_out": 1,
    "COMMIT": 1, "send NewModel": 3,
}  # fmt: skip
#: With one exchange. Further rounds are rare: a process may come there, but none is killed there.
ROUND = {"send Derivatives": ROUNDS, "send Evaluate": 3 * ROUNDS}
AGENT_ONE = {k: v for k, v in AGENT.items() if k not in (*ROUND, "send Covariance")}
AGENT_ONE["send ModelSums"] = 1
HEAD_ONE = {k: v for k, v in HEAD.items() if k not in ROUND}
AGENT_STARTS = {"BEGIN IMMEDIATE": 1, "ROLLBACK": 1, "send Hello": 1}
HEAD_STARTS = {"BEGIN IMMEDIATE": 1, "ROLLBACK": 1, "send HelloRequest": 3, "send Admitted": 3}


class Plan(NamedTuple):
    """Who comes to the moment of a death: its own, one while it starts, or the server's."""

    name: str
    fault: Fault
    at_start: bool = False
    of_server: bool = False


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """Compile before any process waits for it: on a new machine that takes a minute."""
    preload(AGREED.build())
    preload(ONE_EXCHANGE.build())
    preload(PERSONAL.build())


@pytest.fixture(
    scope="module",
    params=[(AGREED, ROUNDS), (ONE_EXCHANGE, 1), (PERSONAL, 1)],
    ids=["fedglb_ucb", "fedglb_auto", "fedglb_personal"],
)
def case(request) -> tuple[AgreementTable, list[Standing]]:
    """An agreement, and what must come out: phase 0 and one more for every kill."""
    agreed, rounds = request.param
    out = list(undisturbed(agreed.build(), NAMES, 1 + KILLS))
    assert {int(standing.coordinator["last_update.rounds"]) for standing in out} == {rounds}
    if agreed is not AGREED:  # every item has an effect
        assert out[-1].coordinator["model.effects"].size == 2 + ITEMS * (DIM + 3)
    if agreed is PERSONAL:
        assert sum(standing.coordinator["model.spread"][0] > 0.0 for standing in out) > KILLS / 2
    return agreed, out


def drawn(rng: np.random.Generator, around: dict[str, int], count: int) -> list[Fault]:
    """Draw moments around these places, one of every place before a second of any."""
    found = [
        Fault(when, name, k + 1)
        for name, times in around.items()
        for when in _whens(name)
        for k in range(times)
    ]
    order = [found[k] for k in rng.permutation(len(found))]
    rank = {f: sum(g.name == f.name for g in order[:k]) for k, f in enumerate(order)}
    assert len(order) >= count >= len(around)
    return sorted(order, key=lambda f: rank[f])[:count]


def _whens(name: str) -> tuple[str, ...]:
    if name == "observe returned":
        return ("before",)
    return ("before", "after", "sent") if name.startswith("send ") else ("before", "after")


def sends(points: dict[str, int]) -> dict[str, int]:
    return {name: times for name, times in points.items() if name.startswith("send ")}


def start_all(kept: Kept, **faults: Fault) -> None:
    for name in (COORDINATOR, *NAMES):
        kept.start(name, faults.get(name))


def places(kept: Kept) -> tuple[dict[str, int], dict[str, int]]:
    """The places that agents and the coordinator come to in every phase."""
    return (AGENT, HEAD) if kept.agreed is AGREED else (AGENT_ONE, HEAD_ONE)


def undisturbed_phase(kept: Kept, standings: Sequence[Standing]) -> None:
    """Play phase 0, with which no fault interferes: processes come to the places named above."""
    kept.gather()
    for name in (asker(NAMES, 0), COORDINATOR):
        kept.arm(name, None)
    kept.play(0)
    agent, head = places(kept)
    came_to(agent, kept.points(asker(NAMES, 0)), AGENT_STARTS)
    came_to(head, kept.points(COORDINATOR), HEAD_STARTS)
    kept.check(0, standings[0])


def undisturbed_start(kept: Kept, name: str) -> None:
    """Kill a process while nothing happens: its next start comes to the places named above."""
    kept.kill(name)
    agent, head = places(kept)
    wanted, more = (HEAD_STARTS, head) if name == COORDINATOR else (AGENT_STARTS, agent)
    last = list(wanted)[-1]
    eventually(lambda: kept.points(name).get(last, 0) >= wanted[last], f"{last} by {name}")
    came_to(wanted, kept.points(name), more)


def came_to(wanted: dict[str, int], points: dict[str, int], more: dict[str, int]) -> None:
    """The list is right (signs of life come with the clock), and no other place is missing."""
    short = {name for name, times in wanted.items() if points.get(name, 0) < times}
    assert short <= {"send Heartbeat"}, points
    assert set(points) <= {*wanted, *more, *ROUND}, points


def disturb(kept: Kept, plan: Sequence[Plan], standings: Sequence[Standing]) -> None:
    """Let a process die in every phase; all must go on by themselves, and nothing be lost."""
    assert len(plan) == KILLS
    for phase, (name, fault, at_start, of_server) in enumerate(plan, 1):
        kept.deaths.clear()
        if at_start:
            kept.kill(name, fault)
        elif of_server:
            kept.arm(name, dataclasses.replace(fault, pid=kept.server_pid))
        else:
            kept.arm(name, fault)
        kept.play(phase, lambda: bool(kept.deaths))
        assert kept.deaths == [(SERVER if of_server else name, KILLED)], (phase, name, fault)
        kept.check(phase, standings[phase])
    kept.check_end(standings)


@pytest.mark.slow
def test_an_agent_is_killed(tmp_path, case):
    agreed, standings = case
    rng = np.random.default_rng(1)
    with Kept(tmp_path, NAMES, agreed) as kept:
        start_all(
            kept,
            a=Fault("after", "CREATE TABLE snapshots", 1),  # while it makes its file
            b=Fault("after", "COMMIT", 1),  # tables, and nothing in them
            c=Fault("before", "COMMIT", 2),
        )
        for name in NAMES:
            with pytest.raises(Died):
                kept.children[name].tell("status")
        eventually(lambda: kept.revive() or len(kept.deaths) == 3, "three deaths")
        assert sorted(kept.deaths) == [(name, KILLED) for name in NAMES]

        undisturbed_phase(kept, standings)
        undisturbed_start(kept, "b")
        faults = drawn(rng, places(kept)[0], KILLS - AT_START)
        early = drawn(rng, AGENT_STARTS, AT_START)
        plan = []
        for phase, fault in enumerate([*faults, *early], 1):
            asks = fault.name == "send SyncRequest"
            victim = asker(NAMES, phase) if asks else str(rng.choice(NAMES))
            plan.append(Plan(victim, fault, at_start=phase > len(faults)))
        disturb(kept, plan, standings)


@pytest.mark.slow
def test_the_coordinator_is_killed(tmp_path, case):
    agreed, standings = case
    rng = np.random.default_rng(2)
    with Kept(tmp_path, NAMES, agreed) as kept:
        kept.start(COORDINATOR, Fault("before", "REPLACE INTO facts", 1))  # tables, all empty
        eventually(lambda: kept.revive() or kept.deaths, "the first death")
        # a client's row is written when it first comes, and when it changes
        kept.kill(
            COORDINATOR, Fault(str(rng.choice(["before", "after"])), "REPLACE INTO members", 2)
        )
        for name in NAMES:
            kept.start(name)
        eventually(lambda: kept.revive() or len(kept.deaths) == 2, "the second death")
        assert kept.deaths == [(COORDINATOR, KILLED)] * 2

        undisturbed_phase(kept, standings)
        undisturbed_start(kept, COORDINATOR)
        faults = drawn(rng, places(kept)[1], KILLS - AT_START)
        early = drawn(rng, HEAD_STARTS, AT_START)
        plan = [Plan(COORDINATOR, fault) for fault in faults]
        plan += [Plan(COORDINATOR, fault, at_start=True) for fault in early]
        disturb(kept, plan, standings)


@pytest.mark.slow
@pytest.mark.parametrize("case", [(AGREED, ROUNDS)], ids=["fedglb_ucb"], indirect=True)
def test_the_server_is_killed(tmp_path, case):
    agreed, standings = case
    rng = np.random.default_rng(3)
    with Kept(tmp_path, NAMES, agreed) as kept:
        start_all(kept)
        undisturbed_phase(kept, standings)
        half = KILLS // 2
        up, down = (drawn(rng, sends(each), half) for each in places(kept))
        plan = []
        for phase, fault in enumerate([*up, *down], 1):
            who = asker(NAMES, phase) if fault.name == "send SyncRequest" else rng.choice(NAMES)
            plan.append(Plan(str(who) if phase <= half else COORDINATOR, fault, of_server=True))
        disturb(kept, plan, standings)


@pytest.mark.some(1)
def test_an_agent_alone_is_killed_right_after_observe(tmp_path):
    rng = np.random.default_rng(4)
    problem, path, log = fg.Problem(dim=DIM), tmp_path / "alone.db", tmp_path / "log"
    algorithm = fg.fedglb_auto()
    fresh = Client(ALONE, algorithm, Agreement(problem, algorithm, max_clients=1).setting)
    given = {"kind": "agent", "name": ALONE, "path": path, "problem": problem, "bundle": None}
    acknowledged = 0
    for _ in range(5):
        more = int(rng.integers(1, 40))
        fault = Fault("before", "observe returned", more)
        child = Child(log, fault=fault, **given)
        try:
            with pytest.raises(Died):
                child.tell("feed", until=1000)
        finally:
            code = child.kill()
        assert code == KILLED, log.read_text()
        acknowledged += more
        assert child.acknowledged == acknowledged
    child = Child(log, fault=None, **given)
    try:
        kept = child.tell("log")
        X, y = stream(ALONE, DIM, acknowledged)
        assert (kept["x"], kept["y"]) == (X.tolist(), y.tolist())
        assert kept["decisions"] == acknowledged
        learn(fresh, acknowledged)
        same(fresh.to_arrays(), state(child), "an agent that was killed five times")
        assert child.end() == 0, log.read_text()
    finally:
        child.kill()
