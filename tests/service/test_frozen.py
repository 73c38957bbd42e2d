"""Freezing over HTTP: the calls, the clients, the pages and the metrics."""

from __future__ import annotations

import asyncio
import time

import msgspec
import pytest

import fedglb as fg
from fedglb.federation import AgentStatus
from fedglb.federation.frozen import Frozen
from fedglb.federation.wire.messages import Freeze
from fedglb.service.agent import make_app
from fedglb.service.coordinator import sections
from fedglb.service.metrics import coordinator_metrics
from tests.federation.helpers.agent_driver import Alone
from tests.service.asgi import get, post
from tests.service.test_client import scripted
from tests.service.test_coordinator import picture

ARMS = {"arms": [[0.6, 0.0], [0.0, 0.8]]}


@pytest.fixture
def alone(agent):
    """The agent's coordinator, after two updates."""
    out = Alone(agent)
    for t in (1, 2):
        agent.observe(agent.choose([[0.6, 0.0]]).id, 1.0)
        out.update(agent, t)
    return out


def metric(app, name: str) -> float:
    lines = get(app, "/metrics").body.decode().splitlines()
    return next(
        float(line.split()[1]) for line in lines if line.startswith(f"fedglb_agent_{name} ")
    )


def test_freeze_and_unfreeze(app, agent, alone):
    assert 'id="frozen"' not in get(app, "/").body.decode()
    assert metric(app, "frozen") == 0
    found = post(app, "/v1/freeze", {"update": 1})
    assert (found.status, found.json()["update"], found.json()["by"]) == (200, 1, "agent")
    assert post(app, "/v1/choose", ARMS).json()["model"] == 1
    status = msgspec.json.decode(get(app, "/v1/status").body, type=AgentStatus)
    assert status.frozen == agent.status.frozen == msgspec.convert(found.json(), Frozen)
    text = get(app, "/").body.decode()
    assert "It chooses with the model of update 1,\nfrozen by its owner since" in text
    assert metric(app, "frozen") == 1
    refused = post(app, "/v1/freeze", {"update": 7})
    assert (refused.status, refused.json()["argument"]) == (400, "update")
    assert refused.json()["allowed"] == "one whose model is kept: 1, 2"
    assert post(app, "/v1/freeze", b'{"update": 1, "update": 2}').problem == "malformed"
    assert post(app, "/v1/freeze", {"update": None}).json()["update"] == 2
    assert post(app, "/v1/freeze", {}).json()["update"] == 2
    agent._session.receive(Freeze(1, 1, alone.coordinator.model))
    answer = post(app, "/v1/unfreeze", {}).json()["frozen"]
    assert (answer["update"], answer["by"]) == (1, "operator")
    assert "frozen by the operator since" in get(app, "/").body.decode()
    agent._session.receive(Freeze(0))
    assert post(app, "/v1/unfreeze", {}).json() == {"frozen": None}
    assert post(app, "/v1/choose", ARMS).json()["model"] == 2
    assert post(app, "/v1/unfreeze", {"update": 1}).problem == "malformed"


def test_a_decision_without_exploration(tmp_path):
    with fg.Agent.open(tmp_path / "a.db", fg.Problem(dim=2), explore=1.0) as agent:
        app, ids = make_app(agent), ["a", "b"]
        batch = [{**ARMS, "ids": ids, "explore": 0}] * 20
        results = post(app, "/v1/choose/batch", {"batch": batch}).json()["results"]
        assert all(each["decision"]["propensity"] != 0.5 for each in results)
        assert post(app, "/v1/choose", {**ARMS, "ids": ids}).json()["propensity"] == 0.5
        refused = post(app, "/v1/choose", {**ARMS, "explore": 2})
        assert (refused.status, refused.json()["argument"]) == (400, "explore")


def test_the_clients():
    frozen, decision = Frozen(3, 5.0, "agent"), {"id": "a-1", "arm": 0, "arm_id": None, "model": 3}
    answers = [msgspec.to_builtins(frozen), {"frozen": None}, decision]

    async def same(url: str) -> list:
        async with fg.AsyncAgentClient(url) as client:
            first = await client.freeze(3), await client.unfreeze()
            return [*first, await client.choose([[1.0]], explore=0)]

    with (
        scripted(*((200, each, {}) for each in answers * 2)) as (url, asked),
        fg.AgentClient(url) as client,
    ):
        found = [client.freeze(3), client.unfreeze(), client.choose([[1.0]], explore=0)]
        assert [repr(each) for each in asyncio.run(same(url))] == [repr(each) for each in found]
    assert found[:2] == [frozen, None]
    for first in (0, 3):
        paths = [path for path, _ in asked[first : first + 3]]
        assert paths == ["/v1/freeze", "/v1/unfreeze", "/v1/choose"]
        assert asked[first][1] == {"update": 3}
        assert asked[first + 1][1] == {}
        assert asked[first + 2][1]["explore"] == 0.0


def test_the_coordinators_page_and_metrics():
    assert 'id="frozen"' not in sections(picture())["state"]
    status = picture(frozen=Frozen(12, time.time()))
    assert "frozen at update 12 since" in sections(status)["state"]
    found = {family.name: family.samples[0].value for family in coordinator_metrics(status)
             if family.samples}  # fmt: skip
    assert found["fedglb_coordinator_frozen"] == 12
