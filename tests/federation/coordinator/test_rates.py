"""What one client may send, and what the others notice of one that sends more: nothing."""

from __future__ import annotations

import asyncio
import dataclasses

import msgspec
import numpy as np
import pytest

from fedglb.federation.coordinator.rates import Rate, RateLimiter, Rates
from fedglb.federation.names import up
from fedglb.federation.wire.codec import MAX_BYTES, encode, kind_of
from fedglb.federation.wire.messages import Admitted, Goodbye, Heartbeat, Hello, Withdrawal
from fedglb.protocol.messages import Covariance, Derivatives, SyncRequest
from tests.federation.helpers.in_process import Serving, honest, same
from tests.federation.helpers.lossy_network import DIM, POLICY, ask, updated
from tests.federation.helpers.nats_federation import PATIENCE, connected

FLOOD = 10_000
RATES = Rates()


def messages(running) -> dict[str, bytes]:
    """One valid payload of each kind that the client c can send, and two that are none."""
    part = running.nodes["c"].agent_session
    x = np.zeros(DIM)
    kinds = {
        "hello": part.hello(),
        "heartbeat": Heartbeat(0, 0),
        "sync_request": SyncRequest("c", 4, 0),
        "goodbye": Goodbye(),
        "withdrawal": Withdrawal(1),
        "covariance": Covariance("c", 1, 4, np.eye(DIM)),
        "derivatives": Derivatives("c", 1, 1, x),
    }
    return {
        **{name: encode(message, part.session) for name, message in kinds.items()},
        "garbage": b"\x00garbage",
        "large": bytes(MAX_BYTES),
    }


def flood(running, payload: bytes, count: int = FLOOD) -> int:
    """Send a payload very often at one moment; return how many were read."""
    read = 0
    for _ in range(count):
        if running.session.gate.admits("c", payload, running.now):
            read += 1
            running.tell(running.session.receive("c", payload, running.now))
    return read


KINDS = [
    "hello", "heartbeat", "sync_request", "goodbye", "withdrawal", "covariance", "derivatives",
    "garbage", "large",
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_flood_is_dropped_unread_counted_and_reported_once(running, kind, monkeypatch):
    running.run(1.0)
    writes = []
    write = running.file.write_member
    monkeypatch.setattr(
        running.file, "write_member", lambda *given: writes.append(given[0]) or write(*given)
    )
    read = flood(running, messages(running)[kind])
    assert read <= RATES.heartbeat.burst  # the largest burst
    assert running.session.gate.dropped == {"c": FLOOD - read}
    assert len(writes) <= (2 if kind == "goodbye" else 0)
    running.run(30.0)
    [event] = [e for e in running.events if e.kind == "limited"]
    assert event.facts["client"] == "c"
    assert sum(event.facts["dropped"].values()) == FLOOD - read


@pytest.mark.parametrize("kind", KINDS)
def test_the_others_update_while_one_client_floods(join, kind):
    """Their model is that of an update with its honest answers, or without it: to the bit."""
    running = join()
    payload, step = messages(running)[kind], running.step

    def flooded() -> None:
        flood(running, payload, 500)  # 10,000 a second
        step()

    running.step = flooded
    ask(running)
    running.until(lambda: running.coordinator.finished > 0 and running.idle)
    fitted = sorted(running.coordinator.covered)
    assert fitted in (["a", "b"], ["a", "b", "c"])
    assert running.session.gate.dropped["a"] == running.session.gate.dropped["b"] == 0
    quiet = join(names=fitted)
    updated(quiet)
    assert same(running.coordinator.model, quiet.coordinator.model)


def test_answers_that_were_asked_for_are_always_read():
    gate = RateLimiter(Rates(answer=Rate(1.0, burst=1), bytes=Rate(1.0, burst=10)), answer_size=200)
    answer = encode(Covariance("a", 1, 4, np.eye(DIM)), "s")
    assert not gate.admits("a", answer, 0.0)  # too large for somebody who was not asked
    for now in range(100):
        gate.grant("a", float(now))
        assert gate.admits("a", answer, float(now))
    for _ in range(1000):  # repeated requests to somebody who is silent
        gate.grant("a", 100.0)
    assert sum(gate.admits("a", answer, 100.0) for _ in range(1000)) <= 5


def test_a_bucket_fills_again_and_not_above_its_burst():
    gate = RateLimiter(Rates(heartbeat=Rate(2.0, burst=4)), answer_size=0)
    beat = encode(Heartbeat(0, 0), "s")
    assert [gate.admits("a", beat, 0.0) for _ in range(5)] == [True] * 4 + [False]
    assert [gate.admits("a", beat, 1.0) for _ in range(3)] == [True] * 2 + [False]
    assert [gate.admits("a", beat, 1e6) for _ in range(5)] == [True] * 4 + [False]
    assert gate.admits("a", beat, 5.0) is False  # a clock that runs backwards gives nothing


def test_the_kind_is_read_in_any_order_of_keys():
    body = {"session": "s", "requested_at": 0, "update": 1, "type": "Heartbeat"}
    assert kind_of(b"fgb\x05" + msgspec.msgpack.encode(body)) == "Heartbeat"
    for wrong in ("", "81", "80", "81a47479706501", "c1", "ff"):
        assert kind_of(b"fgb\x04" + bytes.fromhex(wrong)) is None
    assert kind_of(b"fgb\x02" + msgspec.msgpack.encode(body)) is None
    assert kind_of(b"") is kind_of(b"fgb") is None


def test_updates_keep_an_interval_and_the_request_waits(join):
    running = join(policy=dataclasses.replace(POLICY, min_interval=3.0))
    session = running.nodes["b"].agent_session.session
    for _ in range(200):  # 10 s
        request = SyncRequest("b", 5, running.coordinator.finished)
        running.tell(running.session.receive("b", encode(request, session), running.now))
        running.step()
    started = [e for e in running.events if e.kind == "updating"]
    assert len(started) == 4  # at 0, 3, 6 and 9 s
    assert running.coordinator.ledger.entries["SyncRequest", "up"].messages == 4


def test_a_request_that_waits_ends_with_its_client(join):
    running = join(policy=dataclasses.replace(POLICY, min_interval=30.0))
    updated(running)
    running.feed()
    ask(running, "c")
    running.run(1.0)
    running.leave("c")
    running.run(60.0)
    assert running.coordinator.finished == 1
    assert running.idle


def test_a_client_that_left_and_came_back_is_written_as_present(running):
    """A coordinator that restarts waits for it, as for the others."""
    hello, session = running.nodes["c"].agent_session.hello(), running.session
    session.mute("c", 1.0, running.now)
    assert not running.file.members()["c"].present
    session.receive("c", encode(hello, running.nodes["c"].agent_session.session), running.now)
    assert running.file.members()["c"].present


def test_a_hello_that_changes_nothing_writes_nothing(running, monkeypatch):
    monkeypatch.setattr(running.file, "write_member", lambda *_: pytest.fail("written"))
    running.say(running.nodes["a"], running.nodes["a"].agent_session.hello())
    del running.said[:]
    running.run(1.0)
    assert len(running.heard("down", Admitted, "a")) == 1


def later(wait, *given, **facts):
    return asyncio.ensure_future(asyncio.to_thread(wait, *given, **facts))


def test_a_flood_over_the_wire_is_not_listened_to_and_the_others_go_on(shared, tmp_path):
    """A real server: the flooder is left out, and comes back when it is quiet."""
    bundle, subject = shared.bundle("c"), up("demo", "c")
    hello = encode(Hello("file", 0, "test", bundle.agreement.facts()), "s")
    with (
        Serving(shared, tmp_path / "state.db") as serving,
        honest(shared, tmp_path, serving, {"a": 7, "b": 4}) as agents,
    ):

        async def scene() -> None:
            async with connected(bundle) as flooder:
                await flooder.say(subject, hello)
                await later(serving.wait, "joined", client="c")
                left = later(serving.wait, "left", client="c")
                while not left.done():  # as fast as they go
                    for _ in range(500):
                        await flooder.say(subject, encode(Heartbeat(0, 0), "s"))
                    await flooder.flush()
                assert "it floods, and is muted for 10 s" in left.result().text
                assert serving.session.gate.dropped["c"] > 200
                agents["a"].request_update()
                for agent in agents.values():
                    assert await asyncio.to_thread(agent.wait_for_model, 1, PATIENCE)
                finished = await later(serving.wait, "updated", number=1)
                assert (finished.facts["clients"], finished.facts["samples"]) == (2, 11)
                while serving.session.members.session("c") != "s":
                    await flooder.say(subject, hello)  # it is heard again after a while
                    await asyncio.sleep(0.5)

        asyncio.run(asyncio.wait_for(scene(), 2 * PATIENCE))
        assert set(serving.session.gate.dropped) == {"c"}
        assert serving.wait("limited", client="c")
