"""40,000 bodies, drawn from a seed: whatever comes, an answer, and never the service's fault."""

from __future__ import annotations

import asyncio
import json
import random
import string
from collections import Counter

import msgspec
import polars as pl
import pytest

import fedglb as fg
from fedglb.federation.agent.comparison import Comparison
from fedglb.service.agent import RequestLimits, make_app
from tests.service.asgi import JSON, ask, get, post

POSTS = (
    "/v1/choose", "/v1/observe", "/v1/choose/batch", "/v1/observe/batch", "/v1/preview",
    "/v1/request-update", "/v1/freeze", "/v1/unfreeze",
    "/v1/observe/ranking", "/v1/activate", "/v1/forget",
)  # fmt: skip
NAMES = [
    "arms", "ids", "t", "key", "id", "reward", "batch", "context", "exclude", "price", "x", "count",
    "subject", "prefetch", "played", "propensity", "clicked",
    "update", "explore",
]  # fmt: skip
OFTEN = (*POSTS, *["/v1/choose"] * 4, *["/v1/choose/batch", "/v1/activate"] * 2)
NEED_UPDATES = {"/v1/request-update", "/v1/freeze"}  # an agent alone with vectors makes none
SUBJECTS = ["ann", "bob", "ß", "\x00", "", "x" * 300]
ALLOWED = {200, 202, 400, 404, 409, 410, 413, 415}
ODD = [
    b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1e999", b"1e-999", b"-0.0", b"9" * 400,
    b"1" + b"0" * 5000, b"0.1e", b"01", b"+1", b".5", b"1.", b"0x10", b"null", b"true", b"[]",
    b"{}", b'""', b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\u0000"', b'"\xff"', b'"\xed\xa0\x80"',
    b'"\\x"', b"'a'", b"[" * 5000, b"[" * 3000 + b"]" * 3000, b'{"a":' * 3000,
    b"9223372036854775808",
    b"-9223372036854775809", b"18446744073709551616", b"1.7976931348623157e308", b"5e-324",
]  # fmt: skip


def value(rng: random.Random, depth: int = 0) -> bytes:
    """Return some JSON, or what is almost JSON."""
    kind = rng.randrange(9 if depth < 4 else 6)
    if kind < 2:
        return rng.choice(ODD)
    if kind == 2:
        return repr(rng.uniform(-2.0, 2.0)).encode()
    if kind == 3:
        return str(rng.randrange(-(2**70), 2**70) >> rng.randrange(70)).encode()
    if kind < 6:
        text = "".join(rng.choices(string.printable + "ß€𝄞\u2028\x00", k=rng.randrange(8)))
        return json.dumps(text).encode()
    inner = [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    if kind == 6:
        names = (json.dumps(rng.choice(NAMES)) for _ in inner)
        pairs = (name.encode() + b":" + each for name, each in zip(names, inner, strict=True))
        return b"{" + b",".join(pairs) + b"}"
    return b"[" + b",".join(inner) + b"]"


def record(rng: random.Random) -> dict:
    """Return a record, mostly of the schema."""
    values = [None, 7.5, -1, 10**300, "a", "ß", True, ["new"], ["a", "a"], [], {}, [1], 1.5]
    kinds = {"price": [7.5, 3, None, 10**400], "category": ["a", "ß", None], "tags": [["a"], []]}
    return {
        name: rng.choice(values if rng.random() < 0.1 else kinds.get(name, values))
        for name in rng.sample(["price", "category", "tags", "more"], k=rng.randrange(4))
    }


def right(rng: random.Random, path: str, ids: list[str]) -> dict:
    """Return a request that is as it should be, but for its numbers perhaps."""
    if path.endswith("/batch"):
        one = path.removesuffix("/batch")
        return {"batch": [right(rng, one, ids) for _ in range(rng.randrange(4))]}
    if path == "/v1/request-update":
        return {}
    if path == "/v1/observe":
        return {"id": rng.choice([*ids[-3:], "x-1"]), "reward": rng.choice([0, 1, 0.5, 2, -1])}
    if path == "/v1/freeze":
        return rng.choice([{}, {"update": rng.choice([None, 0, 1, 2, -1, 2**70, 1.5])}])
    if path == "/v1/unfreeze":
        return {}
    some = rng.sample(ids[-12:], k=min(len(ids), rng.randrange(4)))
    if rng.random() < 0.1:
        some.append(rng.choice(["x-1", "", "-", f"-{10**18}", "ß-1", "\x00-1", f"{'x' * 9000}-1"]))
    if path == "/v1/observe/ranking":
        return {"ids": some, "clicked": [id_ for id_ in [*some, "x-1"] if rng.random() < 0.2]}
    if path == "/v1/activate":
        return {"ids": some}
    if path == "/v1/forget":
        asked = {"ids": some[:1]} if rng.random() < 0.2 else {}
        if rng.random() < 0.5:
            asked["subject"] = rng.choice(SUBJECTS)
        return asked
    count = rng.choice([0, 1, 2, 3])
    dims = rng.choices([2, 2, 2, 3], k=count)
    asked = {"arms": [[rng.uniform(-0.8, 0.8) for _ in range(dim)] for dim in dims]}
    if rng.random() < 0.5:
        asked = {"arms": [record(rng) for _ in range(count)], "context": record(rng)}
    if rng.random() < 0.3:
        asked["ids"] = [rng.choice(["a", "b\x00", 1, -1, 2**70]) for _ in range(count)]
    if rng.random() < 0.2:
        asked["exclude"] = rng.choices(["a", "b\x00", 1, -1], k=rng.randrange(3))
    if path == "/v1/preview":
        return asked
    if rng.random() < 0.3:
        asked["t"] = rng.choice([0, 1, 5, 2**40, 2**60, -1])
    if rng.random() < 0.3:
        asked["key"] = rng.choice(["k1", "k2", "", "ß", "x" * 300])
    if rng.random() < 0.2:
        asked["explore"] = rng.choice([0, 0.0, 0.5, 1, 2, -1])
    for name, values in (
        ("count", [1, 2, 3, 100, 101, 0, -1, 2**70]),
        ("subject", SUBJECTS),
        ("prefetch", [True, True, False]),
        ("played", [0, 0, 0, 1, 2, 99, -1]),
        ("propensity", [0.5, 1, 1e-9, 5e-324, 1e-200, 0, -0.0, 2, 1e308]),
    ):
        often = name == "prefetch" or (name == "propensity" and "played" in asked)
        if rng.random() < (0.6 if often else 0.07):
            asked[name] = rng.choice(values)
    return asked


def body(rng: random.Random, path: str, ids: list[str]) -> bytes:
    """Return a body: right, with a part replaced, with bytes replaced, or anything."""
    kind = rng.randrange(6)
    if kind == 0:
        return bytes(rng.randrange(256) for _ in range(rng.randrange(200)))
    if kind == 1:
        return value(rng)
    asked = right(rng, path, ids)
    if kind == 2 and asked:
        asked[rng.choice([*asked, "x"])] = "REPLACED"
        return json.dumps(asked).encode().replace(b'"REPLACED"', value(rng))
    text = bytearray(json.dumps(asked).encode())
    if kind == 3:
        for _ in range(rng.randrange(1, 4)):
            text[rng.randrange(len(text))] = rng.randrange(256)
    if kind == 4:
        return bytes(text[: rng.randrange(len(text) + 1)]) * rng.choice([1, 1, 2])
    return bytes(text)


@pytest.fixture(params=["vectors", "records"])
def agent(request, tmp_path):
    fields = {"price": fg.Number([5, 50]), "category": fg.Category(), "tags": fg.Tags(buckets=4)}
    schema = fg.Features(
        arm=fields, context=fields, crosses=[("context.category", "arm.category")], budget=64
    )
    given = {"problem": fg.Problem(dim=2)} if request.param == "vectors" else {"features": schema}
    with fg.Agent.open(tmp_path / "agent.db", **given) as out:
        yield out


class Model:
    """What the answers say: which decisions there are, and about whom."""

    def __init__(self) -> None:
        self.here: dict[str, str | None] = {}  # the subject of each
        self.ahead: dict[str, str | None] = {}

    def chosen(self, asked: dict, found: dict) -> list[str]:
        """Return the ids; those with a key may have been answered before."""
        made = [d["id"] for d in found.get("ranking") or [found.get("decision", found)]]
        for id_ in made:
            if id_ not in self.here and id_ not in self.ahead:
                place = self.ahead if asked.get("prefetch") else self.here
                place[id_] = asked.get("subject")
        return made

    def activated(self, asked: dict) -> int:
        """Return how many have happened only now."""
        happened = self.ahead.keys() & set(asked["ids"])
        for id_ in happened:
            self.here[id_] = self.ahead.pop(id_)
        return len(happened)

    def forgotten(self, asked: dict) -> int:
        """Return how many."""
        gone = set(asked.get("ids", ()))
        if (subject := asked.get("subject")) is not None:
            gone |= {id_ for id_, whose in (self.here | self.ahead).items() if whose == subject}
        for id_ in gone:
            self.here.pop(id_, None)
            self.ahead.pop(id_, None)
        return len(gone)


@pytest.mark.some(1)
@pytest.mark.parametrize("seed", range(4))
def test_whatever_comes_is_answered(app, agent, seed):
    rng, ids, seen, model = random.Random(seed), [], Counter(), Model()

    async def all_of_them() -> None:
        for _ in range(10_000):
            path = rng.choice(OFTEN)
            given = body(rng, path, ids)
            headers = JSON if rng.random() < 0.95 else {"content-type": "text/plain"}
            answer = await ask(app, "POST", path, given, headers)
            assert answer.status in ALLOWED, (path, given, answer)
            found = json.loads(answer.body, parse_constant=pytest.fail)  # no NaN, either
            seen[answer.status] += 1
            if answer.status >= 400:
                assert answer.problem
                continue
            seen[path] += 1
            # an item that was refused may have bytes that are no text, and any number
            asked = json.loads(given.decode(errors="replace"), parse_int=lambda k: int(k[:100]))
            if path == "/v1/choose":
                ids.extend(model.chosen(asked, found))
            elif path == "/v1/activate":
                seen["activated"] += model.activated(asked)
            elif path == "/v1/forget":
                assert found["forgotten"] == model.forgotten(asked), given
                seen["forgotten"] += found["forgotten"]
            for k, each in enumerate(found.get("results", [])):
                assert each["status"] in ALLOWED, (path, given, each)
                if "problem" not in each and path == "/v1/choose/batch":
                    ids.extend(model.chosen(asked["batch"][k], each))

    asyncio.run(all_of_them())
    missing = {200, 400, 404, 409, 415, *POSTS} - set(seen)
    assert missing == (NEED_UPDATES if agent.features is None else set())
    assert min(seen["activated"], seen["forgotten"]) > 0
    # what was answered is in the log, and nothing else
    log = agent.export()
    assert sorted(model.here) == sorted(log["id"])
    assert agent.status.samples == log["reward"].is_not_null().sum()
    compared = log.filter(pl.col("proposed").is_not_null() & pl.col("reward").is_not_null())
    found = msgspec.json.decode(get(app, "/v1/compare").body, type=Comparison)
    assert found.decisions == compared.height


@pytest.mark.parametrize(
    ("path", "given"),
    [
        ("/v1/observe/ranking", {"ids": "MANY", "clicked": []}),
        ("/v1/observe/ranking", {"ids": ["a-1"], "clicked": "MANY"}),
        ("/v1/activate", {"ids": "MANY"}),
        ("/v1/forget", {"ids": "MANY"}),
        ("/v1/choose", {"arms": [[1, 0]], "ids": ["a-1"], "exclude": "MANY"}),
        ("/v1/choose", {"arms": [[1, 0]], "ids": "MANY"}),
    ],
)
def test_a_million_ids_are_answered(tmp_path, path, given):
    many = json.dumps([f"x-{k}" for k in range(10**6)])
    text = json.dumps(given).replace('"MANY"', many).encode()
    with fg.Agent.open(tmp_path / "agent.db", fg.Problem(dim=2)) as agent:
        assert post(make_app(agent), path, text).status == 413
        answer = post(make_app(agent, limits=RequestLimits(max_body=2**25)), path, text)
        assert answer.status in (200, 400, 404)
        assert len(answer.body) < 5000
        assert agent.export().height == (answer.status == 200)


@pytest.mark.parametrize(
    ("path", "text", "name"),
    [
        ("/v1/activate", b'{"ids":["a-1"],"ids":["b:1"]}', "ids"),
        ("/v1/observe/ranking", b'{"ids":["a-1"],"clicked":[],"clicked":["a-1"]}', "clicked"),
        ("/v1/forget", b'{"subject":"ann","subject":"bob"}', "subject"),
        ("/v1/forget", b'{"ids":[],"subject":"ann","ids":[]}', "ids"),
        ("/v1/choose", b'{"arms":[[1,0]],"prefetch":true,"prefetch":false}', "prefetch"),
        ("/v1/choose", b'{"arms":[[1,0]],"count":1,"count":null}', "count"),
        ("/v1/choose", b'{"arms":[[1,0]],"subject":"a","\\u0073ubject":"b"}', "subject"),
    ],
)
def test_a_name_that_occurs_twice_is_refused(tmp_path, path, text, name):
    with fg.Agent.open(tmp_path / "agent.db", fg.Problem(dim=2)) as agent:
        answer = post(make_app(agent), path, text)
        assert (answer.status, answer.problem) == (400, "malformed")
        assert repr(name) in answer.json()["detail"]
        assert agent.export().height == 0


def test_heads_of_all_kinds_are_answered(app):
    rng = random.Random(9)
    paths = ["/", "/docs", "/healthz", "/metrics", "/v1/status", "/v1/export"]
    paths += ["/v1/choose", "/v1/%00", "/v1/model", "/v1/explain", "/v1/compare", "/v1/forget"]
    queries = ["", "?format=", "?format=parquet&format=%ff", "?%00", "?id=%ff-1", "?strongest=-1"]
    names = ["host", "origin", "authorization", "content-type", "content-length", "accept", "range"]

    async def some() -> None:
        for _ in range(1000):
            headers = {
                rng.choice(names): "".join(
                    map(chr, rng.choices(range(32, 256), k=rng.randrange(20)))
                )
                for _ in range(rng.randrange(4))
            }
            method = rng.choice(["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "X"])
            path = rng.choice(paths) + rng.choice(queries)
            answer = await ask(app, method, path, b"", headers)
            assert answer.status < 500, (method, path, headers, answer)

    asyncio.run(some())
