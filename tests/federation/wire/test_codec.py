"""The wire format: exact round trips, every bound, and no bytes that do harm."""

from __future__ import annotations

import dataclasses
import re
import struct
from pathlib import Path
from typing import Any, get_args

import msgspec
import numpy as np
import pytest

import fedglb as fg
from fedglb.errors import InvalidInput
from fedglb.federation.agreement import Agreement
from fedglb.federation.wire import codec as wire
from fedglb.federation.wire.arrays import max_numbers
from fedglb.federation.wire.codec import Malformed, OtherVersion, decode_down, decode_up, encode
from fedglb.federation.wire.messages import (
    Admitted,
    Downward,
    Freeze,
    Goodbye,
    Heartbeat,
    Hello,
    HelloRequest,
    NewSchema,
    Rejected,
    Upward,
    Withdrawal,
)
from fedglb.federation.wire.sum_messages import (
    AllHere,
    Consent,
    SessionKey,
    SessionKeys,
    SumCall,
    SumOffer,
    SumReady,
)
from fedglb.model import SharedModel, triangle_size
from fedglb.protocol.messages import (
    MESSAGES,
    BatchSums,
    Covariance,
    Derivatives,
    Evaluate,
    MaskedSum,
    ModelSums,
    NewModel,
    SumsRequest,
    SyncRequest,
)
from tests.protocol.driver import Federation, communicating, equal_arrays

DIMS = (1, 2, 10, 118)
BIG = 2**53 - 1


ROWS = 2  # arms with effects


def symmetric(d: int, seed: int = 0) -> np.ndarray:
    """A symmetric matrix with the doubles that get lost first."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(d, d)) * 10.0 ** rng.integers(-300, 300, size=(d, d))
    A[rng.random((d, d)) < 0.2] = -0.0
    A[rng.random((d, d)) < 0.2] = 5e-324
    A[rng.random((d, d)) < 0.1] = -2.2e-310
    return np.where(np.tri(d, dtype=bool), A, A.T)  # a sum would make 0.0 of -0.0


def vector(d: int, seed: int = 1) -> np.ndarray:
    return np.resize([-0.0, 5e-324, 1e308, np.pi], d) * (1.0 if seed % 2 else -1.0)


def whole(d: int) -> np.ndarray:
    """So many whole numbers as a vector and a triangle have, with the largest that there are."""
    return np.resize(np.array([-(2**63), 2**63 - 1, 0, -1]), d + triangle_size(d))


def upward(d: int) -> list[Upward]:
    A, v = symmetric(d), vector(d)
    return [
        Hello("i" * 64, 0, "fedglb 0.1.0", {}),
        Hello("", BIG, "ä" * 200, {f"k{i}" + "ß" * 196: "v" * 200 for i in range(200)}),
        Heartbeat(0, BIG),
        Heartbeat(0, BIG, np.array([3.0, -0.0, 2.0, 5e-324])),
        Heartbeat(0, BIG, np.array([3.0, -0.0, 2.0, 5e-324]), BIG),
        Goodbye(),
        Withdrawal(7),
        SyncRequest("c", BIG, 3),
        Covariance("c", 1, 0, A),
        Covariance("c", 1, BIG, A, v),
        Derivatives("c", 1, 2, v),
        Derivatives("c", 1, 2, v, A),
        Derivatives("c", 1, 2, v, None, -0.0),
        Derivatives("c", 1, 2, v, A, float("inf")),
        ModelSums("c", 1, BIG, v, A),
        ModelSums("c", 1, BIG, v, A, np.resize(v, ROWS * (d + 3)), np.array([0.5, 2.0, 1.0]), A, A),
        BatchSums("c", 1, whole(d)),
        SessionKey(BIG, b"k" * 32, b"s" * 80),
        SumReady(BIG),
        MaskedSum("c", 1, BIG, whole(d), b"s" * 80),
        Consent(1, b"t" * 32, bytes(32)),
    ]


def downward(d: int) -> list[Downward]:
    A, v, few = symmetric(d, 1), vector(d, 2), np.array([0.5, 1e-300])
    effects = np.resize(v, 2 + ROWS * (d + 3))
    full = SharedModel(9, A, few, v, v, symmetric(d, 2), 0.5, effects, few, few, A, few, BIG)
    return [
        Admitted(4),
        Admitted(4, BIG),
        Rejected("", member=False),
        Rejected("…" * 1000, member=True),
        NewSchema(2, 0, "{}"),
        NewSchema(BIG, BIG, "ü" * 2**19),
        Freeze(0),
        Freeze(BIG, 4, SharedModel(9, A, few, theta=v)),
        Freeze(1, BIG, full),
        HelloRequest(),
        SessionKeys([]),
        SessionKeys(
            [("a" * 64, BIG, "s" * 64, b"k" * 32, b"s" * 80), ("b", 1, "", bytes(32), b"")]
        ),
        SumOffer(1, bytes(32), 3),
        SumCall(1, BIG, b"\x1f" * 8192, b"d" * 32, b"t" * 32),
        AllHere(1, b"t" * 32, []),
        AllHere(1, b"t" * 32, [b"s" * 80, b""]),
        SumsRequest("c", 1),
        SumsRequest("c", 2, 1),
        SumsRequest("c", 2, 1, BIG),
        Evaluate("c", 1, 2, 0, v, hessian=True, loss=False),
        Evaluate("c", 1, 2, 0, v, hessian=True, loss=False, now=BIG),
        Evaluate("c", 1, 2, BIG, v, hessian=False, loss=True),
        NewModel("c", 1, 5, SharedModel(9, A, np.empty(0))),
        NewModel("c", 1, 5, SharedModel(9, A, few, theta=v)),
        NewModel("c", 1, 5, SharedModel(9, A, few, b=v)),
        NewModel("c", 1, 5, SharedModel(9, A, few, v, v, symmetric(d, 2), 5e-324), 4),
        NewModel("c", 1, 5, full, 4),
        NewModel("c", 1, 5, SharedModel(9, A, np.arange(float(max_numbers(d))))),
    ]


def content(value: Any) -> Any:
    """What a message says, comparable to the bit."""
    if dataclasses.is_dataclass(value):
        fields = dataclasses.fields(value)
        return (type(value), *(content(getattr(value, field.name)) for field in fields))
    if isinstance(value, np.ndarray):
        assert value.dtype in (np.float64, np.int64)
        return value.shape, value.tobytes()
    if isinstance(value, float):
        return struct.pack("<d", value)
    return type(value), value


def arrays(value: Any) -> list[np.ndarray]:
    parts = [getattr(value, f.name) for f in dataclasses.fields(value)]
    inner = [a for p in parts if isinstance(p, SharedModel) for a in arrays(p)]
    return [p for p in parts if isinstance(p, np.ndarray)] + inner


@pytest.mark.parametrize("d", DIMS)
def test_round_trips_are_exact(d):
    up, down = ((m, decode_up) for m in upward(d)), ((m, decode_down) for m in downward(d))
    for message, decode in (*up, *down):
        session, back = decode(encode(message, "s-1"), "c", d, ROWS)
        assert session == "s-1"
        assert content(back) == content(message)
        for array in arrays(back):
            assert array.flags.writeable
            assert array.flags.c_contiguous
            assert array.flags.owndata
            assert array.dtype.isnative


def test_the_round_trips_are_of_doubles_that_get_lost():
    A = symmetric(118)
    assert np.array_equal(A, A.T)
    assert np.any((A == 0.0) & np.signbit(A))
    assert np.any((A != 0.0) & (np.abs(A) < np.finfo(float).tiny))


def test_the_sender_is_the_receivers_word():
    data = encode(SyncRequest("mallory", 3, 0), "s")
    assert b"mallory" not in data
    assert decode_up(data, "alice", 2) == ("s", SyncRequest("alice", 3, 0))


def test_what_is_none_is_not_sent_and_nil_is_none():
    body = fields(Covariance("c", 1, 2, np.eye(2)))
    assert set(body) == {"type", "session", "update", "samples", "matrix"}
    assert decode_up(framed(body | {"b": None}), "c", 2)[1].b is None
    assert set(fields(SumsRequest("c", 1))) == {"type", "session", "update"}  # as before


def test_the_lower_triangle_is_sent_row_by_row():
    body = fields(Covariance("c", 1, 2, np.array([[1.0, 9.0], [2.0, 3.0]])))
    assert body["matrix"] == struct.pack("<3d", 1.0, 2.0, 3.0)
    A = np.asfortranarray([[1.0, 2.0, 4.0], [2.0, 3.0, 5.0], [4.0, 5.0, 6.0]])
    body = fields(Covariance("c", 1, 2, A))
    assert body["matrix"] == struct.pack("<6d", *range(1, 7))


def test_numpys_numbers_are_numbers():
    message = Derivatives("c", np.int64(1), np.int32(2), np.zeros(1), None, np.float64(0.5))
    back = decode_up(encode(message, "s"), "c", 1)[1]
    assert content(back) == content(Derivatives("c", 1, 2, np.zeros(1), None, 0.5))


# -- what the package says -----------------------------------------------------------------------


class OverTheWire(Federation):
    """A federation in which every message is bytes in between."""

    def pass_on(self, message):
        decode = decode_up if message.upward else decode_down
        return super().pass_on(decode(encode(message, "s"), message.client, self.d, 1024)[1])


@pytest.mark.parametrize("name", communicating())
def test_a_federation_over_the_wire_is_the_same_to_the_bit(name):
    runs = [kind(communicating()[name], fg.Problem(3), 3, 20) for kind in (Federation, OverTheWire)]
    for run in runs:
        run.run()
    plain, wired = runs
    assert plain.coordinator.syncs > 0
    assert plain.choices == wired.choices
    assert [content(m) for m in plain.sent] == [content(m) for m in wired.sent]
    for ours, theirs in zip(plain.clients, wired.clients, strict=True):
        assert equal_arrays(ours.to_arrays(), theirs.to_arrays())


@pytest.mark.parametrize("name", [n for n in communicating() if not n.startswith("variant")])
def test_every_agreement_fits_into_a_hello(name):
    fields = {f"field {k}": fg.Number([0, 1]) for k in range(100)}
    given = {"features": fg.Features(arm=fields), "reward_limit": 1e300}
    facts = Agreement(given["features"].problem(), communicating()[name], 5, **given).facts()
    hello = Hello("i", 0, "fedglb", facts)
    assert decode_up(encode(hello, "s"), "c", 3) == ("s", hello)


# -- refusals ------------------------------------------------------------------------------------


def fields(message: Upward | Downward) -> dict[str, Any]:
    return msgspec.msgpack.decode(encode(message, "s")[4:])


def framed(body: object) -> bytes:
    return b"fgb\x05" + msgspec.msgpack.encode(body)


D = 3
V, M = b"\0" * 8 * D, b"\0" * 8 * triangle_size(D)
NO_COUNT = (-1, 2**53, 2**64 - 1, 1.0, True, None, "1", b"1", [], {})
NO_VECTOR = (b"", V[:-1], V + b"\0", V + V, M, "0" * len(V), 1.0, [0.0] * D)
NO_MATRIX = (b"", M[:-1], M + b"\0", V, b"\0" * 8 * D * D, "0" * len(M), [])
NO_INTEGERS = (b"", V, M, V + M[:-1], V + M + b"\0" * 8, "0" * len(V + M), None, [1])
NO_FLAG = (0, 1, None, "true", b"")
NO_LOSS = ("1", b"", True, [])


def no_text(most: int) -> tuple[object, ...]:
    return ("x" * (most + 1), "ä" * (most + 1), b"x", 1, None)


NO_FACTS = (
    None, [], "a", {"a": 1}, {"a": None}, {1: "a"}, {"k" * 201: ""}, {"": "v" * 201},
    {str(i): "" for i in range(201)},
)  # fmt: skip
NO_NUMBERS = (b"\0" * 7, b"\0" * 8 * (max_numbers(D) + 1), "", None, [])
NO_NUMBERS_GIVEN = tuple(v for v in NO_NUMBERS if v is not None)  # nil is read as omitted
NO_ROWS = (b"\0" * 7, b"\0" * 8 * (D + 4), b"\0" * 8 * (3 + ROWS * (D + 3)), "", [])
NO_KEY = (b"", b"k" * 31, b"k" * 33, "k" * 32, None, 1, [], {})
NO_SIGNATURE = (b"s" * 81, "s", None, 1, [], {})
NO_SIGNATURES = (None, b"", {}, 1, *([each] for each in NO_SIGNATURE))
NO_BITMAP = (b"b" * 8193, "b", None, 1, [], {})
GOOD_KEY = ["a", 1, "s1", b"k" * 32, b"s"]
NO_KEYS = (
    None, b"", {}, 1, [1], [[]], [GOOD_KEY[:4]], [[*GOOD_KEY, 1]],
    *([[*GOOD_KEY[:k], wrong, *GOOD_KEY[k + 1 :]]] for k, wrong in
      enumerate(("a" * 65, -1, "s" * 65, b"k" * 31, b"s" * 81))),
)  # fmt: skip
MODEL: dict[str, tuple[object, ...]] = {
    "model.t": NO_COUNT, "model.matrix": NO_MATRIX, "model.radius_terms": NO_NUMBERS,
    "model.theta": NO_VECTOR, "model.b": NO_VECTOR, "model.gradient_matrix": NO_MATRIX,
    "model.ridge": NO_LOSS, "model.effects": NO_ROWS,
    "model.ridges": NO_NUMBERS_GIVEN, "model.spread": NO_NUMBERS_GIVEN,
    "model.directions": NO_MATRIX,
    "model.memory": NO_NUMBERS_GIVEN,
    "model.now": tuple(v for v in NO_COUNT if v is not None),
}  # fmt: skip
REFUSED: dict[type, dict[str, tuple[object, ...]]] = {
    Hello: {
        "instance": no_text(64), "update": NO_COUNT, "software": no_text(200),
        "agreement": NO_FACTS,
    },
    Heartbeat: {
        "update": NO_COUNT, "requested_at": NO_COUNT, "rewards": NO_NUMBERS_GIVEN,
        "frozen": NO_COUNT,
    },
    Goodbye: {},
    Withdrawal: {"update": NO_COUNT},
    SyncRequest: {"t": NO_COUNT, "update": NO_COUNT},
    Covariance: {"update": NO_COUNT, "samples": NO_COUNT, "matrix": NO_MATRIX, "b": NO_VECTOR},
    ModelSums: {
        "update": NO_COUNT, "samples": NO_COUNT, "gradient": NO_VECTOR, "hessian": NO_MATRIX,
        "effects": NO_ROWS, "spread": NO_NUMBERS_GIVEN, "residuals": NO_MATRIX,
        "information": NO_MATRIX,
    },
    BatchSums: {"update": NO_COUNT, "numbers": NO_INTEGERS},
    SessionKey: {"generation": NO_COUNT, "key": NO_KEY, "signature": NO_SIGNATURE},
    SumReady: {"update": NO_COUNT},
    MaskedSum: {
        "update": NO_COUNT, "attempt": NO_COUNT, "numbers": NO_INTEGERS, "signature": NO_SIGNATURE,
    },
    Consent: {"update": NO_COUNT, "transcript": NO_KEY, "seed": NO_KEY},
    Derivatives: {
        "update": NO_COUNT, "round": NO_COUNT, "gradient": NO_VECTOR, "hessian": NO_MATRIX,
        "loss": NO_LOSS,
    },
    Admitted: {"update": NO_COUNT, "released": NO_COUNT},
    Rejected: {"reason": no_text(1000), "member": NO_FLAG},
    NewSchema: {"revision": NO_COUNT, "after": NO_COUNT, "features": no_text(2**20)},
    Freeze: {
        "update": NO_COUNT, "models": NO_COUNT, "model": ([], {}, b"", "m", {"t": 1}), **MODEL,
    },
    HelloRequest: {},
    SessionKeys: {"keys": NO_KEYS},
    SumOffer: {"update": NO_COUNT, "digest": NO_KEY, "model": NO_COUNT},
    SumCall: {
        "update": NO_COUNT, "attempt": NO_COUNT, "members": NO_BITMAP, "digest": NO_KEY,
        "transcript": NO_KEY,
    },
    AllHere: {"update": NO_COUNT, "transcript": NO_KEY, "signatures": NO_SIGNATURES},
    SumsRequest: {"update": NO_COUNT, "model": NO_COUNT, "now": NO_COUNT},
    Evaluate: {
        "update": NO_COUNT, "round": NO_COUNT, "since": NO_COUNT, "theta": NO_VECTOR,
        "hessian": NO_FLAG, "loss": NO_FLAG, "now": NO_COUNT,
    },
    NewModel: {
        "update": NO_COUNT, "covered": NO_COUNT, "model": (None, [], {}, b"", "m", {"t": 1}),
        "models": NO_COUNT, **MODEL,
    },
}  # fmt: skip
OPTIONAL = {
    "b", "hessian", "loss", "model", "rewards", "frozen", "model.theta", "model.b",
    "model.gradient_matrix", "model.ridge", "models", "released", "effects", "model.effects",
    "model.ridges", "spread", "residuals", "information", "model.spread", "model.directions",
    "model.memory", "model.now", "now",
}  # fmt: skip


def paths(body: dict[str, Any], prefix: str = "") -> list[str]:
    """All fields of a message, those of its model as `model.…`."""
    inner = body["model"] if isinstance(body.get("model"), dict) else {}
    return [prefix + name for name in body] + (paths(inner, "model.") if inner else [])


def fullness(body: dict[str, Any]) -> int:
    return len(paths(body))


def changed(body: dict[str, Any], path: str, *value: object) -> dict[str, Any]:
    """The message with another value of a field, or without the field."""
    name, _, rest = path.partition(".")
    if rest:
        return body | {name: changed(body[name], rest, *value)}
    return {k: v for k, v in body.items() if k != name} | dict.fromkeys(
        [name][: len(value)], *value
    )


def samples_of(kind: type, d: int = D) -> tuple[Any, Any]:
    """The fullest message of a type, and its decoder."""
    for messages, decode in ((upward(d), decode_up), (downward(d), decode_down)):
        found = [m for m in messages if type(m) is kind]
        if found:
            return max(found, key=lambda m: len(encode(m, "s"))), decode
    raise AssertionError(kind)


@pytest.mark.parametrize("kind", REFUSED, ids=lambda k: k.__name__)
def test_every_field_out_of_range_is_refused(kind):
    message, decode = samples_of(kind)
    good = fields(message)
    decode(framed(good), "c", D, ROWS)
    table = {"session": no_text(64), **REFUSED[kind]}
    most = max((fields(m) for m in upward(D) + downward(D) if type(m) is kind), key=fullness)
    assert {*paths(most)} == {"type", *table}  # the table leaves no field out
    for name, values in table.items():
        for value in values:
            with pytest.raises(Malformed):
                decode(framed(changed(most, name, value)), "c", D, ROWS)
        bare = changed(most, name)
        needed = {Evaluate: {"hessian", "loss"}, ModelSums: {"hessian"}, NewModel: {"model"}}
        if name in OPTIONAL - needed.get(kind, set()):
            decode(framed(bare), "c", D, ROWS)
        else:
            with pytest.raises(Malformed):
                decode(framed(bare), "c", D, ROWS)
    for extra in ("client", "x" * 10_000):
        with pytest.raises(Malformed, match="unknown field") as caught:
            decode(framed(good | {extra: "alice"}), "c", D, ROWS)
        assert len(str(caught.value)) < 300
    if kind is NewModel:
        with pytest.raises(Malformed, match="unknown field"):
            decode(framed(changed(good, "model.session", "s")), "c", D, ROWS)


@pytest.mark.parametrize("kind", REFUSED, ids=lambda k: k.__name__)
def test_the_other_direction_is_refused(kind):
    message, decode = samples_of(kind)
    other = decode_down if decode is decode_up else decode_up
    with pytest.raises(Malformed):
        other(encode(message, "s"), "c", D, ROWS)


@pytest.mark.parametrize("kind", REFUSED, ids=lambda k: k.__name__)
def test_another_dimension_truncated_and_extended(kind):
    message, decode = samples_of(kind)
    data = encode(message, "s")
    if arrays(message) and kind is not Heartbeat:  # whose numbers are four in any dimension
        for d in (D - 1, D + 1):
            with pytest.raises(Malformed, match="bytes"):
                decode(data, "c", d, ROWS)
    for end in range(len(data)) if len(data) < 2000 else range(0, len(data), 97):
        with pytest.raises(Malformed):
            decode(data[:end], "c", D, ROWS)
    for more in (b"\0", b"\xc0", data):
        with pytest.raises(Malformed):
            decode(data + more, "c", D, ROWS)


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4, 255])
def test_another_version_is_named(version):
    data = b"fgb" + bytes([version]) + b"whatever is there"
    for decode in (decode_up, decode_down):
        with pytest.raises(OtherVersion, match=rf"format {version}\b.*format 5\b") as caught:
            decode(data, "c", D, ROWS)
        assert caught.value.version == version


@pytest.mark.parametrize(
    "data",
    [
        b"", b"f", b"fgb", b"FGB\x05\x80", b"fgb\x05", b"fgb\x05\xc1", b"fgb\x05\x80",
        b"fgb\x05\xdf\xff\xff\xff\xff", b"fgb\x05\xdd\xff\xff\xff\xff", b"fgb\x05\x81" * 9999,
        b"fgb\x05" + b"\x81\xa1x" * 99_999, b"fgb\x05\x81\xa1x" + b"\x91" * 99_999,
        b"fgb\x05\x82\xa4type\xa7Goodbye\xa7session\xc6\xff\xff\xff\xff",
        b"fgb\x05\x82\xa4type\xa7Goodbye\xa7session\xdb\xff\xff\xff\xff",
        b"fgb\x05\x82\xa4type\xa7Goodbye\xa7session\xa1\xff",
        b"fgb\x05\x82\xa7session\xa1s\xa4type\xda\x7f\xff" + b"Q" * 0x7FFF,
        b"fgb\x05" + b"\0" * wire.MAX_BYTES,
    ],
    ids=range(17),
)  # fmt: skip
def test_bytes_that_mean_harm(data):
    for decode in (decode_up, decode_down):
        with pytest.raises(Malformed) as caught:
            decode(data, "c", D, ROWS)
        assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "message",
    [
        Heartbeat(-1, 0), Heartbeat(2**53, 0), Heartbeat(2**70, 0), Heartbeat(True, 0),
        Heartbeat(1.0, 0), Heartbeat(None, 0),
        Hello("i" * 65, 0, "", {}), Hello("", 0, "", {"a": 1}), Hello("", 0, "\ud800", {}),
        Hello("", 0, "", {str(i): "" for i in range(201)}), Rejected("x" * 1001, member=False),
        Hello("", 0, "", {"a": object()}),
        Covariance("c", 0, 0, np.zeros((2, 3))), Covariance("c", 0, 0, np.zeros(2)),
        Covariance("c", 0, 0, np.eye(2), np.zeros(3)),
        Derivatives("c", 0, 0, np.zeros(2), np.eye(3)),
        NewModel("c", 0, 0, SharedModel(0, np.eye(2), np.zeros(max_numbers(2) + 1))),
        Covariance("c", 0, 0, np.zeros((1500, 1500))), "hello",
        ModelSums("c", 0, 0, np.zeros(2), np.eye(2), np.zeros(6)),
        ModelSums("c", 0, 0, np.zeros(2), np.eye(2), np.zeros((1, 5))),
    ],
    ids=range(21),
)  # fmt: skip
def test_what_would_be_refused_is_not_sent(message):
    with pytest.raises(InvalidInput) as caught:
        encode(message, "s")
    assert len(str(caught.value)) < 300


def test_a_session_is_bounded():
    encode(Goodbye(), "")
    with pytest.raises(InvalidInput):
        encode(Goodbye(), "s" * 65)


def test_the_page_has_every_message_and_every_field_in_order():
    page = (Path(__file__).parents[3] / "docs" / "reference.md").read_text()
    found = {}
    for kind, rest in re.findall(r"^\*\*`(\w+)`\*\*: (?!`)(.*?)(?=^\*\*|^##)", page, re.S | re.M):
        rows = re.findall(r"^- (`.*?) \(", rest, re.M)
        found[kind] = [name for row in rows for name in re.findall(r"`([\w.]+)`", row)]
    every = upward(D) + downward(D)
    sent = {
        kind.name: max((fields(m) for m in every if type(m) is kind), key=fullness)
        for kind in REFUSED
    }
    assert found == {name: paths(body)[2:] for name, body in sent.items()}
    for kinds, goes_up in ((Upward, True), (Downward, False)):
        assert {kind.upward for kind in get_args(kinds)} == {goes_up}
    assert str(wire.MAX_BYTES) in page
    assert f"| 3 | the version of this format: `{wire.VERSION:02}` |" in page


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
