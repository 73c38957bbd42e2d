"""kill -9 in one-pass updates: no sample is lost or sent twice, and no slot has two releases.

As in `test_kills`: real processes, and in each phase one of them dies at a moment drawn from before
and after every write and every message. Without noise all states must be, to the bit, those of a
federation in which nobody died. With noise a second recorder beside the coordinator hears all that
agents send: whatever dies, an agent says the same numbers for the same update, always.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pytest

from fedglb.federation.names import up
from fedglb.federation.preload import preload
from fedglb.federation.wire.codec import decode_up
from fedglb.protocol.messages import BatchSums
from tests.federation.helpers.kill_points import Fault
from tests.federation.helpers.nats_federation import PATIENCE, Running, connected, eventually
from tests.federation.helpers.recorded import DIM, EACH, ONE_PASS, SILO, Standing, undisturbed
from tests.federation.helpers.self_healing import COORDINATOR, SERVER, Kept, state
from tests.federation.test_kills import KILLED, drawn, sends, start_all

NAMES = ("a", "b", "c")
KILLS = 10
#: The places that processes come to in every phase.
AGENT = {
    "UPDATE decisions": EACH, "BEGIN": 2, "INSERT INTO snapshots": 1, "UPDATE releases": 2,
    "INSERT INTO releases": 1, "COMMIT": 2, "send BatchSums": 1, "INSERT INTO models": 1,
    "DELETE FROM models": 1, "DELETE FROM snapshots": 1,
}  # fmt: skip
HEAD = {
    "BEGIN": 2, "INSERT INTO started_updates": 1, "REPLACE INTO facts": 1, "COMMIT": 2,
    "send SumsRequest": 3, "REPLACE INTO state": 1, "INSERT INTO finished_updates": 1,
    "UPDATE started_updates": 1, "send NewModel": 3,
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    preload(ONE_PASS.build())
    preload(SILO.build())


@pytest.fixture(scope="module")
def standings() -> list[Standing]:
    return list(undisturbed(ONE_PASS.build(), NAMES, 1 + KILLS))


def plan(seed: int, places: dict[str, int], victims: tuple[str, ...]) -> list[tuple[str, Fault]]:
    rng = np.random.default_rng(seed)
    return [(str(rng.choice(victims)), fault) for fault in drawn(rng, places, KILLS)]


def strike(kept: Kept, phase: int, name: str, fault: Fault, dies: str | None = None) -> None:
    """Play a phase in which a process dies at its fault, or the one that it takes with it."""
    kept.deaths.clear()
    kept.arm(name, fault)
    kept.play(phase, lambda: bool(kept.deaths))
    assert kept.deaths == [(dies or name, KILLED)], (phase, name, fault)


def begin(kept: Kept) -> None:
    start_all(kept)
    kept.gather()
    kept.play(0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "places", "victims"),
    [(1, AGENT, NAMES), (2, HEAD, (COORDINATOR,))],
    ids=["agents", "coordinator"],
)
def test_without_noise_nothing_is_lost_and_nothing_counts_twice(
    tmp_path, standings, seed, places, victims
):
    with Kept(tmp_path, NAMES, ONE_PASS) as kept:
        begin(kept)
        kept.check(0, standings[0])
        for phase, (name, fault) in enumerate(plan(seed, places, victims), 1):
            strike(kept, phase, name, fault)
            kept.check(phase, standings[phase])
        kept.check_end(standings)


@pytest.mark.slow
def test_the_server_dies(tmp_path, standings):
    rng, half = np.random.default_rng(3), KILLS // 2
    up_, down = (drawn(rng, sends(each), k) for each, k in ((AGENT, 2), (HEAD, half)))
    victims = [(str(rng.choice(NAMES)), f) for f in up_] + [(COORDINATOR, f) for f in down]
    with Kept(tmp_path, NAMES, ONE_PASS) as kept:
        begin(kept)
        for phase, (name, fault) in enumerate(victims, 1):
            strike(kept, phase, name, replace(fault, pid=kept.server_pid), dies=SERVER)
            kept.check(phase, standings[phase])


class Recorder:
    """Hears what agents send to the coordinator, by client and update."""

    def __init__(self) -> None:
        self.heard: dict[tuple[str, int], set[bytes]] = defaultdict(set)

    def keep(self, subject: str, data: bytes) -> None:
        client = subject.rpartition(".")[2]
        message = decode_up(data, client, DIM)[1]
        if isinstance(message, BatchSums):
            self.heard[client, message.update].add(message.numbers.tobytes())


R = TypeVar("R", bound=Recorder)


@contextmanager
def recorded(running: Running, out: R) -> Iterator[R]:
    """Listen beside the coordinator, with its certificate, as long as the block lasts."""
    ready, ended = threading.Event(), threading.Event()

    async def listen() -> None:
        bundle = running.coordinator_bundle
        async with connected(bundle) as line:
            await line.listen(up(bundle.federation, "*"))
            ready.set()
            while not ended.is_set():
                await asyncio.sleep(0.02)
                await line.flush()
                while line.heard:
                    out.keep(*line.heard.pop(0))

    thread = threading.Thread(target=lambda: asyncio.run(listen()))
    thread.start()
    try:
        assert ready.wait(PATIENCE)
        yield out
    finally:
        ended.set()
        thread.join(PATIENCE)


@pytest.mark.slow
def test_with_noise_no_slot_has_two_releases(tmp_path):
    agents = plan(4, {k: v for k, v in AGENT.items() if k != "UPDATE decisions"}, NAMES)
    heads = plan(5, HEAD, (COORDINATOR,))
    with Kept(tmp_path, NAMES, SILO) as kept:
        start_all(kept)
        kept.gather()
        with recorded(kept.running, Recorder()) as recorder:
            kept.play(0)
            for phase, (name, fault) in enumerate([*agents[:6], *heads[:3]], 1):
                strike(kept, phase, name, fault)
            arrays = state(kept.children[COORDINATOR])
            finished = dict(
                zip(arrays["releases.keys"].tolist(), arrays["releases.numbers"], strict=True)
            )
            wanted = [(name, update) for update in finished for name in NAMES]
            eventually(lambda: all(recorder.heard[key] for key in wanted), "what was sent")
        assert len(finished) == 10
        assert {len(each) for each in recorder.heard.values()} == {1}
        for update, total in finished.items():
            each = [np.frombuffer(*recorder.heard[name, update], np.int64) for name in NAMES]
            np.testing.assert_array_equal(total, np.sum(each, axis=0))
        for name in NAMES:
            spent = kept.children[name].tell("privacy")
            slots = sorted(update for client, update in recorder.heard if client == name)
            assert spent["last"] == max(slots)
            assert spent["releases"] >= len(slots)  # one may have been written, and not sent
            kept.check_log(name, 10 * EACH)
