"""What the client does when there is no answer, or it is told to come again."""

from __future__ import annotations

import asyncio
import json
import math
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType

import numpy as np
import pytest

import fedglb as fg
from fedglb.federation import AlreadyObserved, DecisionExpired, Unavailable, UnknownDecision

ARMS = [[1.0, 0.0], [0.0, 1.0]]
DECISION = {
    "id": "a-1", "arm": 0, "arm_id": None, "score": 0.5, "width": 0.25, "propensity": 1.0,
    "model": 0, "propensity_error": 0.0,
}  # fmt: skip
CUT = "cut"  # the connection ends without an answer


def refused(status: int, name: str, **more: object) -> tuple[int, dict, dict]:
    problem = {
        "type": f"urn:fedglb:problem:{name}", "title": "No", "status": status, "detail": "because",
    }  # fmt: skip
    return status, {**problem, **more}, {}


PROXY = (502, "a proxy's own words", {"Content-Type": "text/html", "Retry-After": "0"})
BUSY = (503, refused(503, "busy")[1], {"Retry-After": "0"})


@contextmanager
def scripted(*answers: object) -> Iterator[tuple[str, list[tuple[str, dict]]]]:
    """A server that gives these answers, one after the other; the last one for ever."""
    left, asked, lock = list(answers), [], threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            with lock:
                asked.append((self.path, json.loads(body or b"{}")))
                answer = left.pop(0) if len(left) > 1 else left[0]
            if answer == CUT:
                self.close_connection = True
                return
            status, value, headers = answer
            headers = {"Content-Type": "application/json", **headers}
            text = json.dumps(value).encode()
            self.send_response(status)
            for name, each in {**headers, "Content-Length": str(len(text))}.items():
                self.send_header(name, each)
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_request_without_an_answer_is_made_again_with_the_same_key():
    answers = (CUT, BUSY, CUT, (200, DECISION, {}))
    with scripted(*answers) as (url, asked), fg.AgentClient(url) as client:
        assert client.choose(ARMS).id == "a-1"
        client.choose(ARMS)
    keys = [body["key"] for _, body in asked]
    assert len(keys) == 5
    assert len(set(keys[:4])) == 1
    assert keys[4] != keys[0]


def test_a_repeated_reward_that_is_there_was_this_ones():
    there = refused(409, "already-observed", same=True)
    for answers, error in [
        ([CUT, there], None),
        ([there], AlreadyObserved),  # nothing was lost: the application asked twice
        ([BUSY, there], AlreadyObserved),  # it was refused, so it was not this one's
        ([CUT, refused(409, "already-observed", same=False)], AlreadyObserved),
        ([CUT, (200, {"id": "a-1"}, {})], None),
        ([PROXY, there], None),  # it may have gone through
    ]:
        with scripted(*answers) as (url, _), fg.AgentClient(url) as client:
            if error is None:
                client.observe("a-1", 1.0)
            else:
                with pytest.raises(error):
                    client.observe("a-1", 1.0)


def test_the_clicks_on_a_ranking_that_are_there_were_this_ones():
    there = refused(409, "already-observed", same=True)
    for answers, error in [
        ([CUT, there], None),
        ([there], AlreadyObserved),
        ([CUT, refused(409, "already-observed", same=False)], AlreadyObserved),
    ]:
        with scripted(*answers) as (url, asked), fg.AgentClient(url) as client:
            if error is None:
                client.observe_ranking(("a-1", "a-2"), {"a-2"})
            else:
                with pytest.raises(error):
                    client.observe_ranking(("a-1", "a-2"), {"a-2"})
        sent = ("/v1/observe/ranking", {"ids": ["a-1", "a-2"], "clicked": ["a-2"]})
        assert asked == [sent] * len(answers)


def test_what_was_forgotten_before_the_answer_was_lost_is_gone():
    """All decisions are gone when the call returns, whoever has deleted them."""
    unknown, one = refused(404, "unknown-decision"), (200, {"forgotten": 1}, {})
    with scripted(CUT, unknown, unknown, one) as (url, asked), fg.AgentClient(url) as client:
        assert client.forget(["a-1", "a-2"]) == 1
    assert [body["ids"] for _, body in asked] == [["a-1", "a-2"]] * 2 + [["a-1"], ["a-2"]]
    with scripted(CUT, unknown, one, unknown) as (url, asked), fg.AgentClient(url) as client:
        assert client.forget(["a-1"], subject="u") == 1
    assert [body for _, body in asked[2:]] == [{"ids": [], "subject": "u"}, {"ids": ["a-1"]}]
    with scripted(unknown) as (url, asked), fg.AgentClient(url) as client:
        with pytest.raises(UnknownDecision):  # no answer was lost
            client.forget(["a-1", "a-2"])
        assert len(asked) == 1


def test_a_repeated_batch_of_rewards():
    results = [
        {"status": 200},
        {"status": 409, "problem": refused(409, "already-observed", same=True)[1]},
        {"status": 404, "problem": refused(404, "unknown-decision")[1]},
    ]
    rewards = [("a-1", 1.0), ("a-2", 0.0), ("a-3", 1.0)]
    with scripted(CUT, (200, {"results": results}, {})) as (url, _), fg.AgentClient(url) as client:
        found = client.observe_batch(rewards)
        assert found[:2] == [None, None]
        assert isinstance(found[2], UnknownDecision)
        assert isinstance(client.observe_batch(rewards)[1], AlreadyObserved)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refused(400, "invalid-input", argument="arms", value=1, allowed="x"), fg.InvalidInput),
        (refused(400, "malformed"), fg.InvalidInput),
        (refused(413, "too-large"), fg.InvalidInput),
        (refused(404, "unknown-decision"), UnknownDecision),
        (refused(410, "decision-expired"), DecisionExpired),
        (refused(401, "unauthorized"), Unavailable),
        (refused(507, "storage"), Unavailable),
        (refused(418, "something-newer"), Unavailable),
        ((500, "a proxy's own words", {}), Unavailable),
    ],
)
def test_an_answer_is_not_asked_for_again(answer, error):
    with scripted(answer) as (url, asked), fg.AgentClient(url) as client:
        with pytest.raises(error):
            client.observe("a-1", 1.0)
        assert len(asked) == 1


def test_patience_ends():
    with (
        scripted(BUSY) as (url, _),
        fg.AgentClient(url, patience=0.3) as client,
        pytest.raises(Unavailable, match="No: because"),
    ):
        client.choose(ARMS)
    with pytest.raises(Unavailable, match="no answer from"):
        fg.AgentClient(url, patience=0.05).choose(ARMS)
    with pytest.raises(Unavailable, match="no answer from unix:///nowhere"):
        fg.AgentClient("unix:///nowhere.sock", patience=0.0).choose(ARMS)


def test_a_service_that_says_nothing_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(Unavailable, match="timed out"):
            fg.AgentClient(url, timeout=0.05, patience=0.0).choose(ARMS)


def test_numbers_that_json_has_not_come_back():
    absent = {**DECISION, "score": None, "width": None, "propensity": None, "newer": 1}
    with scripted((200, absent, {})) as (url, _), fg.AgentClient(url) as client:
        found = client.choose(ARMS)
    assert found.score == -math.inf
    assert math.isnan(found.propensity)
    assert found.propensity_error == 0.0


def test_a_batch_has_decisions_and_errors():
    problem = refused(400, "invalid-input", argument="arms", value=1, allowed="x")[1]
    results = [{"status": 200, "decision": DECISION}, {"status": 400, "problem": problem}]
    with scripted((200, {"results": results}, {})) as (url, asked), fg.AgentClient(url) as client:
        first, second = client.choose_batch([{"arms": ARMS, "ids": ["a", "b"]}, {"arms": ARMS}])
    assert first == fg.federation.Decision(**DECISION)
    assert isinstance(second, fg.InvalidInput)
    batch = asked[0][1]["batch"]
    assert batch[0]["ids"] == ["a", "b"]
    assert batch[0]["key"] != batch[1]["key"]


def test_the_async_client_has_the_same_calls():
    async def use(url: str) -> None:
        async with fg.AsyncAgentClient(url, connections=2) as client:
            found = await asyncio.gather(*(client.choose(ARMS) for _ in range(6)))
            assert {each.id for each in found} == {"a-1"}
            with pytest.raises(fg.InvalidInput):
                await client.choose([[math.nan, 0.0]])
            await client.observe("a-1", 1.0)

    with scripted(CUT, (200, DECISION, {})) as (url, _):
        asyncio.run(use(url))


def test_records_are_sent_as_they_are():
    items = ({"price": np.float32(0.5), "tags": ("a",)}, MappingProxyType({"price": None}))
    with scripted((200, DECISION, {})) as (url, asked), fg.AgentClient(url) as client:
        given = {"ids": ["a", np.int64(2)], "context": {"age": np.int64(31)}, "exclude": ("a",)}
        client.choose(items, **given)
        client.choose(ARMS, ids=[], exclude=[])
    wanted = {
        "arms": [{"price": 0.5, "tags": ["a"]}, {"price": None}], "ids": ["a", 2],
        "context": {"age": 31}, "exclude": ["a"],
    }  # fmt: skip
    assert {k: v for k, v in asked[0][1].items() if k != "key"} == wanted
    assert {k: v for k, v in asked[1][1].items() if k != "key"} == {"arms": ARMS, "ids": []}


def test_a_batch_of_records():
    results = [{"status": 200, "decision": DECISION}]
    with scripted((200, {"results": results}, {})) as (url, asked), fg.AgentClient(url) as client:
        client.choose_batch([{"arms": [{"a": 1}], "context": {}, "exclude": ["x"], "t": 3}])
    (sent,) = asked[0][1]["batch"]
    assert sent.pop("key")
    assert sent == {"arms": [{"a": 1}], "context": {}, "exclude": ["x"], "t": 3}


def test_records_that_json_has_not_are_refused_before_they_are_sent():
    client = fg.AgentClient("http://127.0.0.1:1", patience=0.0)
    deep: list = []
    deep.append(deep)
    for arms, context, argument in [
        ([{"price": math.nan}], None, "arms"),  # null would be a missing value
        ([{"price": 1.0}], {"age": math.inf}, "context"),
        ([{"price": object()}], None, "arms"),
        ([{"price": 1.0}], {"age": deep}, "context"),
    ]:
        for call in (client.choose, client.preview):
            with pytest.raises(fg.InvalidInput, match=f"^{argument} = "):
                call(arms, context=context)


def test_looking_inside():
    weight = {"feature": "constant", "weight": 0.5, "sd": 0.25}
    model = {"update": 3, "samples": 7, "weights": [weight]}
    arm = {"arm_id": "a", "estimate": 0.5, "contributions": [{"feature": "x", "value": 1.0}]}
    explanation = {"id": "a-1 &?", "played": arm, "runner_up": None}
    previewed = {"arms": [{"arm": 0, "arm_id": "a", "estimate": 0.5, "probability": 1.0}]}
    answers = [(200, each, {}) for each in (model, explanation, previewed) * 2]

    async def same(url: str) -> list:
        async with fg.AsyncAgentClient(url) as client:
            return [
                await client.model(),
                await client.explain("a-1 &?"),
                await client.preview([{"price": 1}], ["a"], context={}, exclude=["b"]),
            ]

    with scripted(*answers) as (url, asked), fg.AgentClient(url) as client:
        found = [
            client.model(),
            client.explain("a-1 &?"),
            client.preview([{"price": 1}], ["a"], context={}, exclude=["b"]),
        ]
        assert asyncio.run(same(url)) == found
    assert found[0].strongest(1)[0].weight == 0.5
    assert found[1].played.contributions[0].feature == "x"
    assert found[2][0].probability == 1.0
    paths = [path for path, _ in asked[:3]]
    assert paths == ["/v1/model", "/v1/explain?id=a-1%20%26%3F", "/v1/preview"]
    wanted = {"arms": [{"price": 1}], "ids": ["a"], "context": {}, "exclude": ["b"]}
    assert asked[2][1] == asked[5][1] == wanted


def test_an_update_is_requested():
    async def request(url: str) -> None:
        async with fg.AsyncAgentClient(url) as client:
            await client.request_update()

    with scripted(CUT, (202, {"model": 3}, {})) as (url, asked), fg.AgentClient(url) as client:
        client.request_update()
        asyncio.run(request(url))
    assert asked == [("/v1/request-update", {})] * 3
    with scripted(refused(409, "no-updates")) as (url, asked), fg.AgentClient(url) as client:
        with pytest.raises(Unavailable, match="No: because"):
            client.request_update()
        assert len(asked) == 1


def test_arguments_that_are_not_allowed():
    for url in ("", "127.0.0.1:8731", "ftp://x", "http://", "http://x:port", "http://x/path",
                "unix://host/x"):  # fmt: skip
        with pytest.raises(fg.InvalidInput, match="url"):
            fg.AgentClient(url)
    for name, value in (("timeout", 0.0), ("patience", -1.0), ("connections", 0)):
        with pytest.raises(fg.InvalidInput, match=name):
            fg.AsyncAgentClient("http://127.0.0.1:1", **{name: value})
