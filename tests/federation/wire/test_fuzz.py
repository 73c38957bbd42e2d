"""Ten thousand payloads, valid ones that were changed and bytes at random: nobody else is harmed.

Against the decoders, a coordinator's session and an agent's, each with its file. Seeded: a failure
can be repeated.
"""

from __future__ import annotations

import logging

import msgspec
import numpy as np
import pytest

import fedglb as fg
from fedglb.federation.names import one_line
from fedglb.federation.wire.arrays import max_numbers
from fedglb.federation.wire.codec import Malformed, decode_down, decode_up, encode
from fedglb.federation.wire.messages import (
    Admitted,
    Freeze,
    Goodbye,
    Heartbeat,
    Hello,
    HelloRequest,
    NewSchema,
    Rejected,
    Withdrawal,
)
from fedglb.protocol.messages import (
    BatchSums,
    Covariance,
    Derivatives,
    Evaluate,
    ModelSums,
    NewModel,
    SumsRequest,
    SyncRequest,
)
from tests.federation.helpers.lossy_network import DIM, POLICY, agreed, ask, joined, texts
from tests.federation.wire import test_codec
from tests.federation.wire.test_codec import content

PAYLOADS = 10_000
ALGORITHMS = {"ucb": fg.fedglb_ucb(1e9, fg.Newton()), "one exchange": fg.fedglb_mix(1e9)}
ALGORITHMS["personal"] = fg.fedglb_personal(1e9)
LARGE = [0, 1, 2, 3, 2**31, 2**44, 2**53 - 1, 2**53, 2**63, 2**64 - 1, -1]
ODD = [
    *LARGE, None, True, "", "x" * 70, "\x00\n\x1b[2J", b"", b"\xff" * 8, float("nan"), 1e308,
    [], {},
]  # fmt: skip


def changed(payload: bytes, rng: np.random.Generator, depth: int = 0) -> bytes:
    """A valid payload with something wrong in its bytes or in its fields."""
    data = bytearray(payload)
    match rng.integers(8 if depth < 3 else 5):
        case 0:  # some bytes
            for _ in range(rng.integers(1, 6)):
                data[rng.integers(len(data))] = rng.integers(256)
        case 1:  # one bit
            data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
        case 2:  # cut off, or too long
            cut = int(rng.integers(len(data)))
            data = data[:cut] if rng.random() < 0.5 else data + data[cut:]
        case 3:  # bytes at random, with or without a header
            data = bytearray(rng.bytes(int(rng.integers(200))))
            data = data if rng.random() < 0.5 else bytearray(payload[:4]) + data
        case 4:  # some of it twice, or in the other order
            cut = int(rng.integers(len(data)))
            data = data[cut:] + data[:cut] if rng.random() < 0.5 else data[:cut] + data
        case _:  # a field has another value, is missing, or is one too many
            fields = msgspec.msgpack.decode(payload[4:])
            if not fields:
                return payload
            key = rng.choice(sorted(fields))
            value = fields[key]
            if isinstance(value, bytes) and len(value) >= 8 and len(value) % 8 == 0:  # numbers
                numbers = np.frombuffer(value, dtype="<f8").copy()
                numbers[rng.integers(len(numbers))] = rng.choice(
                    [np.nan, np.inf, -np.inf, 0.0, 1e300, -1e-300, rng.standard_normal()]
                )
                fields[key] = numbers.tobytes() if rng.random() < 0.8 else value[:-8]
            elif rng.random() < 0.15:
                del fields[key]
            elif rng.random() < 0.1:
                fields["client"] = "a"
            else:
                fields[key] = ODD[rng.integers(len(ODD))]
            try:
                data = bytearray(payload[:4] + msgspec.msgpack.encode(fields))
            except (OverflowError, msgspec.MsgspecError):
                return changed(payload, rng, depth + 1)
            if rng.random() < 0.2:
                return changed(bytes(data), rng, depth + 1) if len(data) > 4 else bytes(data)
    return bytes(data)


def test_the_decoders_refuse_or_return_what_can_be_sent_again():
    rng, D = np.random.default_rng(20_260_101), test_codec.D
    corpus = [encode(m, "s" * 32) for m in test_codec.upward(D) + test_codec.downward(D)]
    accepted: list[type] = []
    reasons: list[str] = []
    for _ in range(PAYLOADS):
        data = changed(corpus[rng.integers(len(corpus))], rng)
        for decode in (decode_up, decode_down):
            try:
                session, message = decode(data, "c", D, test_codec.ROWS)
            except Malformed as error:  # and nothing else
                reasons.append(str(error))
                continue
            accepted.append(type(message))
            again = decode(encode(message, session), "c", D, test_codec.ROWS)
            assert again[0] == session
            assert content(again[1]) == content(message)
            most = max_numbers(D)
            sizes = [(a.shape, a.size) for a in test_codec.arrays(message)]
            assert all(shape in {(D,), (D, D)} or size <= most for shape, size in sizes)
    assert max(map(len, reasons)) < 300
    assert len(reasons) > PAYLOADS
    assert len(accepted) > 500
    assert {*accepted} == {*test_codec.REFUSED}  # some of every type came through


def upward(running, rng: np.random.Generator) -> bytes:
    """A valid payload of the client c for the coordinator as it stands."""
    session = running.nodes["c"].agent_session
    coordinator = running.coordinator
    update = int(rng.choice([coordinator.started, coordinator.finished, coordinator.started + 1]))
    n, x, A = int(rng.integers(9)), rng.standard_normal(DIM), np.eye(DIM)
    kinds = [
        session.hello(),
        Hello("another", update, "test", session.hello().agreement),
        Heartbeat(update, n),
        Goodbye(),
        Withdrawal(update),
        SyncRequest("c", n + 1, update),
        Covariance("c", update, n, A),
        ModelSums("c", update, n, x, A),
        BatchSums("c", update, np.arange(5)),
        Derivatives("c", update, int(rng.integers(4)), x, A),
    ]
    which = rng.integers(len(kinds))
    name = session.session if rng.random() < 0.9 else "another"
    return encode(kinds[which], name)


@pytest.mark.some(1)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_coordinator_and_its_honest_clients_go_on(tmp_path, algorithm, caplog):
    rng = np.random.default_rng(1 if algorithm == "ucb" else 2)
    running = joined(tmp_path, agreement=agreed(algorithm=ALGORITHMS[algorithm]))
    updates = 0
    try:
        for k in range(PAYLOADS):
            payload = upward(running, rng)
            if rng.random() < 0.9:
                payload = changed(payload, rng)
            if running.session.gate.admits("c", payload, running.now):
                before = {c for c in running.coordinator.clients if c != "c"}
                out = running.session.receive("c", payload, running.now)
                for name, down in out:  # whatever it leads to is well-formed
                    decode_down(down, name, DIM, running.agreement.effects)
                running.tell(out)
                assert before <= set(running.coordinator.clients)
            if k % 10 == 0:
                running.step()
            if k % 200 == 0:  # its session may have ended: another one, or nothing more is read
                node = running.nodes["c"]
                node.agent_session.session = f"session-{k}"
                running.say(node, node.agent_session.hello())
            if k % 500 == 250:
                running.nodes["a"].feed(1)
                ask(running, "a")
        running.until(lambda: running.idle and running.coordinator.finished > 0)
        for name in "ab":  # they were excluded from nothing, and nothing they said was refused
            assert not [e for e in running.events if e.facts.get("client") == name and e.kind in (
                "excluded", "invalid", "rejected", "left", "limited", "restored")]  # fmt: skip
            assert name in running.coordinator.covered
        updates = running.coordinator.finished
        ask(running, "b")
        running.until(lambda: running.coordinator.finished > updates and running.idle)
        running.run(1.0)
        assert all(running.nodes[n].model == running.coordinator.finished for n in "ab")
        assert texts(running, "invalid")
        assert all(e.text == one_line(e.text) for e in running.events)
        assert not [r for r in caplog.records if r.exc_info]
        running.crash()  # its file is sound
        running.until(lambda: {"a", "b"} <= set(running.coordinator.clients))
    finally:
        running.close()


def downward(running, rng: np.random.Generator) -> bytes:
    """A valid payload for the agent b."""
    session = running.nodes["b"].agent_session
    model, adopted = running.coordinator.model, running.nodes["b"].model
    update, x = int(adopted + rng.integers(3)), rng.standard_normal(DIM)
    kinds = [
        Admitted(update),
        Rejected("for no reason", bool(rng.integers(2))),
        NewSchema(int(rng.integers(4)), update, "{}"),
        Freeze(0) if rng.integers(2) else Freeze(update + 1, update, model),
        HelloRequest(),
        SumsRequest("b", update, int(rng.integers(adopted + 2))),
        Evaluate("b", update, int(rng.integers(3)), int(rng.integers(6)), x, True, True),
        NewModel("b", adopted, int(rng.integers(5)), model),
    ]
    return encode(kinds[rng.integers(len(kinds))], session.session)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_agent_goes_on_and_loses_no_sample(tmp_path, algorithm, caplog):
    """What can be read and is not adopted changes nothing; no error escapes."""
    caplog.set_level(logging.CRITICAL)  # every refusal is logged
    rng = np.random.default_rng(3 if algorithm == "ucb" else 4)
    running = joined(tmp_path, agreement=agreed(algorithm=ALGORITHMS[algorithm]), policy=POLICY)
    try:
        ask(running)
        running.until(running.shared)
        node = running.nodes["b"]
        read = 0
        for k in range(PAYLOADS):
            payload = changed(downward(running, rng), rng)
            try:
                session, message = decode_down(payload, "b", DIM, running.agreement.effects)
            except Malformed:
                continue
            if isinstance(message, NewModel) and message.update > node.model + 3:
                continue  # the coordinator's word: after it, no other model would be adopted
            if session in ("", node.agent_session.session):
                read += 1
                for answer in node.agent_session.receive(message):
                    encode(answer, node.agent_session.session)  # whatever it says is well-formed
            if k % 500 == 0:
                node.feed(1)
        assert read > PAYLOADS / 50
        samples = node.learner.protocol_client.samples
        assert len(samples.y) == len(node.ids)
        assert np.isfinite(samples.X).all()
        node.feed(3)
        node.close()
        node.open()
        assert len(node.learner.protocol_client.samples.y) == len(node.ids)
    finally:
        running.close()
