"""The names that are sent and stored: another name is another wire format, another ledger."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

import fedglb as fg
from fedglb.federation.wire.codec import VERSION, encode
from fedglb.federation.wire.messages import Downward, Upward
from fedglb.protocol.messages import MESSAGES
from tests.federation.wire.test_codec import downward, upward

#: What each message holds on the wire, of version 1 of the format.
SENT = {
    "Hello": {"session", "instance", "update", "software", "agreement"},
    "Heartbeat": {"session", "update", "requested_at", "rewards"},
    "Goodbye": {"session"},
    "Withdrawal": {"session", "update"},
    "SyncRequest": {"session", "t", "update"},
    "Covariance": {"session", "update", "samples", "matrix", "b"},
    "ModelSums": {"session", "update", "samples", "gradient", "hessian"},
    "BatchSums": {"session", "update", "numbers"},
    "Derivatives": {"session", "update", "round", "gradient", "hessian", "loss"},
    "Admitted": {"session", "update", "released"},
    "Rejected": {"session", "reason", "member"},
    "HelloRequest": {"session"},
    "SumsRequest": {"session", "update", "model"},
    "Evaluate": {"session", "update", "round", "since", "theta", "hessian", "loss"},
    "NewModel": {"session", "update", "covered", "model"},
    "SessionKey": {"session", "generation", "key", "signature"},
    "SessionKeys": {"session", "keys"},
    "SumOffer": {"session", "update", "model", "digest"},
    "SumReady": {"session", "update"},
    "SumCall": {"session", "update", "attempt", "members", "digest", "transcript"},
    "MaskedSum": {"session", "update", "attempt", "numbers"},
    "AllHere": {"session", "update", "transcript"},
    "Consent": {"session", "update", "transcript", "seed"},
}
MODEL = {"t", "matrix", "radius_terms", "theta", "b", "gradient_matrix", "ridge"}
UP = {
    "Hello", "Heartbeat", "Goodbye", "Withdrawal", "SyncRequest", "Covariance", "ModelSums",
    "BatchSums", "Derivatives", "SessionKey", "SumReady", "MaskedSum", "Consent",
}  # fmt: skip


def test_what_is_sent():
    assert VERSION == 1
    found: dict[str, set[str]] = {}
    model: set[str] = set()
    for message in upward(2) + downward(2):
        body = msgspec.msgpack.decode(encode(message, "s")[4:])
        found.setdefault(body.pop("type"), set()).update(body)
        if body_of_model := body.get("model"):
            model.update(body_of_model if isinstance(body_of_model, dict) else ())
    assert found == SENT
    assert model == MODEL


@pytest.mark.parametrize(("kinds", "goes_up"), [(Upward, True), (Downward, False)])
def test_every_message_says_where_it_goes(kinds, goes_up):
    assert {kind.upward for kind in get_args(kinds)} == {goes_up}
    assert {kind.name for kind in get_args(kinds)} == (UP if goes_up else {*SENT} - UP)


def test_what_a_ledger_calls_messages():
    assert {(kind.name, "up" if kind.upward else "down") for kind in MESSAGES} == {
        ("SyncRequest", "up"), ("SumsRequest", "down"), ("Covariance", "up"),
        ("ModelSums", "up"), ("BatchSums", "up"), ("MaskedSum", "up"), ("Evaluate", "down"),
        ("Derivatives", "up"), ("NewModel", "down"),
    }  # fmt: skip
    env = fg.Synthetic(fg.Problem(dim=2), clients=2, arms=3)
    further = fg.fedglb_auto(solver=fg.OneExchange(within="deviation"))
    once = fg.fedglb_private(updates=2)
    runs = [
        fg.simulate(algorithm, env, horizon=8, seed=1)
        for algorithm in (fg.fedglb_ucb(threshold=0.1), fg.one_ucb_glm(), further, once)
    ]
    assert [set(run.ledger["message"]) for run in runs] == [
        {kind.name for kind in MESSAGES} - {"ModelSums", "BatchSums", "MaskedSum"},
        {"Centralised"},
        {kind.name for kind in MESSAGES} - {"Covariance", "BatchSums", "MaskedSum"},
        {"SumsRequest", "BatchSums", "NewModel"},
    ]
