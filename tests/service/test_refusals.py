"""Requests that do not reach the agent: too much, too slow, not JSON, from elsewhere."""

from __future__ import annotations

import asyncio
import base64
import json

import pytest

import fedglb as fg
from fedglb.service.agent import RequestLimits, make_app
from fedglb.service.guard import Access
from tests.service.asgi import CUT, JSON, ask, get, post

ARMS = [[1.0, 0.0], [0.0, 1.0]]
BODY = json.dumps({"arms": ARMS}).encode()
TOKEN = "0123456789abcdef-token"


def test_paths_that_there_are_not(app):
    for path in ("/v1", "/v1/choose/", "//v1/choose", "/v1/choose/x", "/etc/passwd"):
        found = get(app, path)
        assert (found.status, found.problem) == (404, "not-found"), path
        assert found.json()["detail"] == "unknown path; see /openapi.json"


def test_methods_that_a_path_has_not(app):
    for method, path in [("GET", "/v1/choose"), ("PUT", "/v1/observe"), ("POST", "/v1/status")]:
        found = asyncio.run(ask(app, method, path, BODY, JSON))
        assert (found.status, found.problem) == (405, "method-not-allowed")
        assert found.headers["allow"]
    assert asyncio.run(ask(app, "HEAD", "/healthz")).status == 200
    assert asyncio.run(ask(app, "OPTIONS", "/v1/choose")).status == 405  # no CORS


def test_a_body_has_to_be_declared_as_json(app, agent):
    form = ("application/x-www-form-urlencoded", "multipart/form-data")
    for kind in (None, "text/plain", *form, "json"):
        found = asyncio.run(ask(app, "POST", "/v1/choose", BODY, {"content-type": kind}))
        assert (found.status, found.problem) == (415, "not-json"), kind
    assert len(agent.export()) == 0
    for kind in ("application/json; charset=utf-8", "Application/JSON"):
        assert post(app, "/v1/choose", BODY, {"content-type": kind}).status == 200


def test_a_body_that_is_too_large(app, agent):
    body = BODY + b" " * 20_000
    pieces = [body[:9000], body[9000:18000], body[18000:], b"never read"]
    declared = {**JSON, "content-length": str(len(body))}
    for headers, sent in ((declared, []), (JSON, pieces)):
        found = asyncio.run(ask(app, "POST", "/v1/choose", headers=headers, pieces=sent))
        assert (found.status, found.problem) == (413, "too-large"), headers
        assert found.headers["connection"] == "close"
    assert len(agent.export()) == 0


def test_a_body_in_pieces(app):
    pieces = [BODY[i : i + 1] for i in range(len(BODY))]
    found = asyncio.run(ask(app, "POST", "/v1/choose", headers=JSON, pieces=pieces))
    assert found.status == 200


def test_a_connection_that_ends_before_the_body_is_no_fault(app, agent, caplog):
    for pieces in ([CUT], [BODY[:9], CUT], [BODY, CUT]):
        found = asyncio.run(ask(app, "POST", "/v1/choose", headers=JSON, pieces=pieces))
        assert (found.status, found.problem) == (400, "malformed")
    assert caplog.text == ""
    assert len(agent.export()) == 0


def test_a_body_that_does_not_arrive(agent):
    app = make_app(agent, limits=RequestLimits(read_timeout=1))
    found = asyncio.run(ask(app, "POST", "/v1/choose", headers=JSON, pieces=[]))
    assert (found.status, found.problem) == (408, "too-slow")


def test_too_many_arms_and_too_long_a_batch(app):
    found = post(app, "/v1/choose", {"arms": [[0.0, 0.0]] * 51})
    assert (found.status, found.json()["allowed"]) == (400, "at most 50 arms")
    found = post(app, "/v1/choose/batch", {"batch": [0] * 31})
    assert (found.status, found.json()["allowed"]) == (400, "at most 30 items")


def test_too_many_at_a_time_are_told_to_come_again(agent):
    app = make_app(agent, limits=RequestLimits(max_concurrent=2))

    async def crowd() -> None:
        slow = [
            asyncio.create_task(ask(app, "POST", "/v1/choose", headers=JSON, pieces=[]))
            for _ in range(2)
        ]
        await asyncio.sleep(0)
        refused = await ask(app, "POST", "/v1/choose", BODY, JSON)
        assert (refused.status, refused.problem) == (503, "busy")
        assert refused.headers["retry-after"] == "1"
        assert (await ask(app, "GET", "/healthz")).status == 200
        for each in slow:
            each.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
        assert (await ask(app, "POST", "/v1/choose", BODY, JSON)).status == 200

    asyncio.run(crowd())


def test_a_browser_that_was_sent_from_elsewhere_is_refused(app, agent):
    for name, text, status in [
        ("host", "127.0.0.1:9", 200),
        ("host", "LOCALHOST", 200),
        ("host", "[::1]:8731", 200),
        ("host", "evil.example", 403),
        ("host", "127.0.0.1.evil.example:8731", 403),
        ("host", "localhost@evil.example", 403),
        ("host", "", 403),
        ("host", None, 403),
        ("origin", "http://127.0.0.1:8731", 200),
        ("origin", "http://127.0.0.1:3000", 403),
        ("origin", "https://evil.example", 403),
        ("origin", "null", 403),
    ]:
        headers, before = {name: text}, len(agent.export())
        found = post(app, "/v1/choose", BODY, headers)
        assert found.status == status, headers
        assert len(agent.export()) - before == (status == 200), headers
        if status == 403:
            assert found.problem == "forbidden", headers
            assert get(app, "/v1/export", headers).status == 403, headers


def test_a_page_of_another_origin_cannot_make_a_browser_ask(agent, app, monkeypatch):
    """An image of it costs an export; the page itself, and whoever types an address, may ask."""
    exports, export = [], agent.export_batches
    monkeypatch.setattr(agent, "export_batches", lambda **k: exports.append(1) or export(**k))
    every = [path for path, (method, _) in app.handlers.items() if method == "GET"]
    assert {"/v1/export", "/v1/model", "/v1/status", "/metrics", "/", "/docs"} < {*every}
    for site in ("cross-site", "same-site", "something-newer"):  # same site: another port
        for path in every:
            for dest in ("image", "iframe", "empty", None):
                headers = {"sec-fetch-site": site, "sec-fetch-dest": dest}
                found = get(app, path, headers)
                assert (found.status, found.problem) == (403, "forbidden"), (path, headers)
        link = {"sec-fetch-site": site, "sec-fetch-dest": "document"}
        assert get(app, "/v1/export", link).status == get(app, "/metrics", link).status == 403
        assert get(app, "/", link).status == get(app, "/docs", link).status == 200
        assert get(app, "/", {**link, "origin": "https://evil.example"}).status == 403
    assert not exports
    for site in ("same-origin", "none", None):  # None: not a browser, or an old one
        for path in ("/", "/v1/export", "/v1/status", "/metrics", "/agent.js"):
            assert get(app, path, {"sec-fetch-site": site}).status == 200, (site, path)
    assert len(exports) == 3


def test_a_token_is_asked_for(agent):
    app = make_app(agent, access=Access(TOKEN))
    basic = base64.b64encode(f"anybody:{TOKEN}".encode()).decode()  # only the page takes it
    for given in (None, "", TOKEN, "Bearer", "Bearer ", "Basic " + TOKEN, f"Basic {basic}",
                  f"Bearer {TOKEN}x", "Bearer é"):  # fmt: skip
        headers = {"authorization": given}
        for path in ("/", "/v1/status", "/v1/export", "/metrics", "/openapi.json", "/docs", "/no"):
            found = get(app, path, headers)
            assert (found.status, found.problem) == (401, "unauthorized"), (given, path)
            assert found.headers["www-authenticate"] == "Bearer"
        assert post(app, "/v1/choose", BODY, headers).status == 401, given
        assert get(app, "/healthz", headers).status == get(app, "/readyz", headers).status == 200
    assert len(agent.export()) == 0


def test_a_right_token_opens(agent):
    app = make_app(agent, access=Access(TOKEN))
    for kind in ("Bearer", "bearer"):
        headers = {"authorization": f"{kind} {TOKEN}"}
        assert post(app, "/v1/choose", BODY, headers).status == 200
    assert TOKEN not in repr(Access(TOKEN))
    described = get(app, "/openapi.json", headers).json()
    assert described["security"] == [{"token": []}]


def test_limits_are_checked():
    for name in ("max_body", "max_arms", "max_batch", "max_concurrent"):
        with pytest.raises(fg.InvalidInput, match=name):
            RequestLimits(**{name: 0})
