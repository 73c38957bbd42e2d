"""The pages and the description: true, whole, and without anything from elsewhere; the names."""

from __future__ import annotations

import dataclasses
import re

import msgspec
import pytest

import fedglb as fg
from fedglb.federation import AgentStatus, Decision
from fedglb.federation.agent.alarms import KINDS
from fedglb.federation.alarms import Alarm
from fedglb.protocol.messages import SumsRequest
from fedglb.service import messages
from fedglb.service.agent import PATHS, make_app
from fedglb.service.messages import Choose, Observe, Preview
from fedglb.service.problem import TITLES
from tests.service.asgi import get, post

#: The names that applications in other languages rest on: none may change or go.
FIELDS = {
    "Choose": [
        "arms", "ids", "t", "key", "context", "exclude", "count", "subject", "prefetch", "played",
        "propensity", "explore",
    ],
    "Ranking": ["ranking"],
    "ObserveRanking": ["ids", "clicked"],
    "Activate": ["ids"],
    "Forget": ["ids", "subject"],
    "Forgotten": ["forgotten"],
    "Done": ["ids"],
    "Preview": ["arms", "ids", "context", "exclude"],
    "Previewed": ["arms"],
    "Observe": ["id", "reward"],
    "FreezeBody": ["update"],
    "UnfreezeBody": [],
    "Unfrozen": ["frozen"],
    "BatchBody": ["batch"],
    "Observed": ["id"],
    "RequestUpdate": [],
    "UpdateRequested": ["model"],
    "ChooseResult": ["status", "decision", "ranking", "problem"],
    "ObserveResult": ["status", "problem"],
    "ChooseResults": ["results"],
    "ObserveResults": ["results"],
    "ProblemDetails": [
        "type", "title", "status", "detail", "argument", "value", "allowed", "same",
    ],
}  # fmt: skip
OF_DECISION = {
    "id", "arm", "arm_id", "score", "width", "propensity", "model", "propensity_error", "kept",
    "proposed",
}  # fmt: skip
OF_STATUS = {
    "connected",
    "admitted",
    "refused",
    "model",
    "samples",
    "requested_at",
    "frozen",
    "defaulted",
    "replaced",
}
WANTED_PATHS = {
    ("POST", "/v1/choose"), ("POST", "/v1/choose/batch"), ("POST", "/v1/observe"),
    ("POST", "/v1/observe/batch"), ("GET", "/v1/status"), ("GET", "/v1/export"),
    ("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/metrics"), ("POST", "/v1/preview"),
    ("GET", "/v1/model"), ("GET", "/v1/explain"), ("POST", "/v1/request-update"),
    ("POST", "/v1/freeze"), ("POST", "/v1/unfreeze"), ("POST", "/v1/observe/ranking"),
    ("POST", "/v1/activate"), ("POST", "/v1/forget"), ("GET", "/v1/compare"),
}  # fmt: skip
PROBLEMS = {
    "invalid-input", "malformed", "too-large", "too-slow", "not-json", "unauthorized", "forbidden",
    "not-found", "method-not-allowed", "unknown-decision", "already-observed",
    "decision-expired", "no-updates", "busy", "unavailable", "storage", "internal",
}  # fmt: skip
ARMS = [[0.123456, 0.0], [0.0, 0.654321]]


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_a_page_needs_nothing_from_elsewhere(app, path):
    found = get(app, path)
    assert found.headers["content-type"] == "text/html; charset=utf-8"
    assert found.headers["content-security-policy"].startswith("default-src 'none'")
    text = found.body.decode()
    assert "width=device-width" in text
    loaded = re.findall(r'<(?:script|link|img)\b[^>]*(?:src|href)="([^"]*)"', text)
    assert loaded == (["/icon.svg", "/page.css", "/agent.js"] if path == "/" else [])
    for each in loaded:
        part = get(app, each)
        assert part.status == 200
        text += part.body.decode().replace("http://www.w3.org/2000/svg", "")
    assert "prefers-color-scheme: dark" in text
    assert not re.search(r"https?://|[\"'(]//\w|@import|url\(|\bon\w+=| style=", text)


def test_the_page_can_be_neither_framed_nor_sent_elsewhere(app):
    policy = get(app, "/").headers["content-security-policy"]
    for part in ("form-action 'none'", "frame-ancestors 'none'", "script-src 'self'"):
        assert part in policy
    assert "unsafe" not in policy


def test_the_page_shows_totals_and_no_samples(app, agent):
    decision = post(app, "/v1/choose", {"arms": ARMS, "ids": ["customer-4711", "b"]}).json()
    post(app, "/v1/observe", {"id": decision["id"], "reward": 1})
    text = get(app, "/").body.decode()
    assert f"<th>samples</th><td>{agent.status.samples}</td>" in text
    assert '<td>/v1/observe</td><td class="n">200</td><td class="n">1</td>' in text
    for secret in (decision["id"], "customer-4711", "0.123456", "0.654321"):
        assert secret not in text
    for path in ("/v1/status", "/metrics", "/docs", "/healthz"):
        assert decision["id"].encode() not in get(app, path).body


def test_what_was_spent_of_a_privacy_budget_is_shown(tmp_path):
    """In the status, on the page, in the metrics; a client of the service reads the same."""
    silo = fg.GaussianMechanism(epsilon=1.0, delta=1e-6, noise="silo")
    private = fg.fedglb_private(4, first=60.0, growth=2.0, privacy=silo)
    with fg.Agent.open(tmp_path / "a.db", fg.Problem(dim=2), algorithm=private) as agent:
        agent._session.receive(SumsRequest("alone", 1, 0))
        app, spent = make_app(agent), agent.status.privacy
        assert 0.0 < spent.epsilon < 1.0
        read = msgspec.json.decode(get(app, "/v1/status").body, type=AgentStatus)
        assert read.privacy == spent
        assert f"epsilon {spent.epsilon}" in get(app, "/").body.decode()
        said = get(app, "/metrics").body.decode().splitlines()
        assert f"fedglb_agent_privacy_epsilon {spent.epsilon}" in said
        assert "fedglb_agent_privacy_budget 1.0" in said
        assert "fedglb_agent_privacy_releases 1.0" in said


def test_alarms_are_in_the_status_on_the_page_and_in_the_metrics(app, agent):
    def alarms() -> list[str]:
        return [
            line for line in get(app, "/metrics").body.decode().splitlines() if "_alarm{" in line
        ]

    assert get(app, "/v1/status").body.endswith(b'"alarms":[]}')
    assert "data-kind" not in get(app, "/").body.decode()
    assert alarms() == [f'fedglb_alarm{{name="{kind}"}} 0.0' for kind in KINDS]
    found = Alarm("disk", "<b>full</b>", 5.0, urgent=True), Alarm("no_rewards", "none", 6.0)
    agent.alarms.look(found, 10.0)
    read = msgspec.json.decode(get(app, "/v1/status").body, type=AgentStatus)
    assert read.alarms == found
    page = get(app, "/").body.decode()
    assert '<li data-kind="disk" class="urgent">' in page
    assert '<li data-kind="no_rewards">' in page
    assert "<b>full</b>" not in page
    assert [line.endswith(" 1.0") for line in alarms()] == [True, False, True, False]


def test_what_others_named_is_escaped(agent):
    app = make_app(agent, about={"client": "<b>x</b>", "federation": "a&b"})
    text = get(app, "/").body.decode()
    assert "<b>x</b>" not in text
    assert "&lt;b&gt;x&lt;/b&gt;" in text
    assert "not connected to its federation" in text


def test_every_path_is_described_and_every_description_is_a_path(app):
    described = get(app, "/openapi.json").json()
    assert set(described["paths"]) == {path.path for path in PATHS}
    for path in PATHS:
        found = get(app, path.path) if path.method == "GET" else post(app, path.path, b"{}")
        assert found.status not in (404, 405), path
        assert str(found.status) in described["paths"][path.path][path.method.lower()]["responses"]
    pages = {"/", "/docs", "/openapi.json", "/page.css", "/agent.js", "/icon.svg"}
    assert set(app.handlers) == set(described["paths"]) | pages
    text = get(app, "/docs").body.decode()
    for name in described["components"]["schemas"]:
        assert f'<h3 id="{name}">' in text


def test_the_description_is_that_of_the_messages(app):
    described = get(app, "/openapi.json").json()
    schemas = described["components"]["schemas"]
    for message in (Choose, Observe, Preview):
        fields = {field.encode_name for field in msgspec.structs.fields(message)}
        assert set(schemas[message.__name__]["properties"]) == fields
        assert schemas[message.__name__]["additionalProperties"] is False
    arm = schemas["Choose"]["properties"]["arms"]["items"]["anyOf"]
    assert [each["type"] for each in arm] == ["array", "object"]
    text = get(app, "/openapi.json").body.decode()
    references = set(re.findall(r'"#/components/schemas/(\w+)"', text))
    assert references <= set(schemas)


def test_examples_are_requests(app):
    for path in PATHS:
        if path.example is not None:
            assert msgspec.convert(path.example, path.body)
    assert '"price": 59.9' in get(app, "/docs").body.decode()


def test_paths_and_problems():
    assert {(path.method, path.path) for path in PATHS} >= WANTED_PATHS
    assert set(TITLES) >= PROBLEMS


def test_fields_of_messages():
    for name, fields in FIELDS.items():
        found = msgspec.structs.fields(getattr(messages, name))
        assert [field.encode_name for field in found] == fields


def test_fields_of_what_the_agent_answers():
    assert {field.name for field in dataclasses.fields(Decision)} >= OF_DECISION
    assert {field.name for field in dataclasses.fields(AgentStatus)} >= OF_STATUS
