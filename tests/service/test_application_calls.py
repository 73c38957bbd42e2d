"""Rankings, prefetching, forgetting and comparing through both clients, and on the command line."""

from __future__ import annotations

import asyncio
import functools
import json
import math
from typing import Any

import pytest

import fedglb as fg
from fedglb.federation import Agent, AlreadyObserved, DecisionExpired, UnknownDecision
from fedglb.service.agent import make_app
from fedglb.service.listening import Listen
from fedglb.service.server import serve_in_thread
from tests.cli import in_process
from tests.federation.helpers.nats_federation import eventually

OFFER = [[0.6, 0.0], [0.0, 1.0], [0.6, 0.6], [-0.2, 0.4]]
IDS = ["pen", "book", "bag", 7]


class Awaited:
    """The asynchronous client, each of whose calls is waited for."""

    def __init__(self, client: fg.AsyncAgentClient) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._client, name)

        @functools.wraps(call)
        def waited(*given: Any, **more: Any) -> Any:
            async def run() -> Any:
                return await call(*given, **more)

            return asyncio.run(run())

        return waited


@pytest.fixture
def url(agent):
    with serve_in_thread(make_app(agent), Listen.parse("127.0.0.1:0")) as url:
        yield url


@pytest.fixture(params=["client", "async client"])
def client(request, url):
    if request.param == "client":
        with fg.AgentClient(url) as out:
            yield out
    else:
        out = Awaited(fg.AsyncAgentClient(url))
        yield out
        out.close()


def test_a_ranking(client, agent):
    shown = client.rank(OFFER, 3, IDS, exclude=["pen"], key="view", subject="ann")
    assert {d.arm_id for d in shown} == {"book", "bag", 7}
    assert [IDS[d.arm] for d in shown] == [d.arm_id for d in shown]
    assert client.rank(OFFER, 3, IDS, exclude=["pen"], key="view") == shown
    assert agent.rank(OFFER, 3, IDS, exclude=["pen"], key="view") == shown
    ids = [d.id for d in shown]
    client.observe_ranking(ids, [ids[1]])
    assert agent.export()["id"].to_list() == ids
    assert agent.export()["reward"].to_list() == [0.0, 1.0, None]
    with pytest.raises(AlreadyObserved) as again:
        client.observe_ranking(ids, [ids[1]])
    assert again.value.same
    with pytest.raises(AlreadyObserved) as other:
        client.observe_ranking(ids, [ids[0]])
    assert not other.value.same
    assert agent.status.samples == 2


@pytest.mark.parametrize(
    ("call", "given", "argument"),
    [
        ("rank", {"arms": OFFER, "count": 0}, "count"),
        ("rank", {"arms": OFFER, "count": 101}, "count"),
        ("choose", {"arms": OFFER, "subject": ""}, "subject"),
        ("choose", {"arms": OFFER, "played": 4}, "played"),
        ("choose", {"arms": OFFER, "played": 0, "propensity": 0.0}, "propensity"),
        ("choose", {"arms": OFFER, "propensity": 0.5}, "propensity"),
        ("choose", {"arms": OFFER, "played": 0, "prefetch": True}, "played"),
        ("observe_ranking", {"ids": [], "clicked": []}, "ids"),
        ("observe_ranking", {"ids": ["a-1"], "clicked": ["a-2"]}, "clicked"),
        ("observe_ranking", {"ids": ["a-1", "a-1"], "clicked": []}, "ids"),
        ("forget", {}, "subject"),
        ("forget", {"subject": "x" * 201}, "subject"),
    ],
)
def test_what_is_refused(client, agent, call, given, argument):
    with pytest.raises(fg.InvalidInput) as refused:
        getattr(client, call)(**given)
    assert refused.value.argument == argument
    assert agent.export().height == 0


def test_a_decision_made_ahead_of_time(client, agent):
    ahead = client.choose(OFFER, IDS, prefetch=True, key="next page")
    more = client.rank(OFFER, 2, prefetch=True)
    assert client.choose(OFFER, IDS, prefetch=True, key="next page") == ahead
    assert agent.export().height == 0
    with pytest.raises(UnknownDecision, match="activate"):
        client.observe(ahead.id, 1.0)
    with pytest.raises(UnknownDecision):
        client.activate([ahead.id, "nobody-1"])
    assert agent.export().height == 0
    for _ in range(2):
        client.activate(d.id for d in (ahead, *more))
    client.observe(ahead.id, 1.0)
    assert agent.export()["id"].to_list() == [ahead.id, more[0].id, more[1].id]
    assert agent.export()["reward"].to_list() == [1.0, None, None]


def test_forgetting(client, agent):
    about = {name: client.choose(OFFER, subject=name).id for name in ("ann", "bob", "cay", "dan")}
    for k, id_ in enumerate(about.values()):
        client.observe(id_, float(k % 2))
    ahead = client.choose(OFFER, subject="ann", prefetch=True).id
    assert client.forget(subject="ann") == 2
    assert client.forget(subject="ann") == 0
    with pytest.raises(UnknownDecision):
        client.activate([ahead])
    with pytest.raises(UnknownDecision):  # all or none
        client.forget([about["bob"], about["ann"]])
    assert client.forget([about["bob"]], subject="cay") == 2
    assert agent.export()["id"].to_list() == [about["dan"]]
    assert agent.status.samples == 1


def test_an_apprentice(client, agent):
    none = client.compare()
    assert (none.decisions, none.agreed, none.other, none.agent) == (0, None, None, None)
    for k in range(12):
        made = client.choose(OFFER, IDS, played=k % 4, propensity=0.25)
        assert (made.arm, made.arm_id, made.propensity) == (k % 4, IDS[k % 4], 0.25)
        assert made.proposed in range(4)
        client.observe(made.id, float(k % 2))
    assert math.isnan(client.choose(OFFER, played=1).propensity)
    found = client.compare()
    assert found == agent.compare()
    assert (found.decisions, found.other.value) == (12, 0.5)
    assert found.verdict.startswith("too early")


def test_a_batch_of_decisions_and_rankings(client, agent):
    one, shown, wrong, apart, last = client.choose_batch(
        [
            {"arms": OFFER, "ids": IDS},
            {"arms": OFFER, "ids": IDS, "count": 3, "subject": "ann"},
            {"arms": OFFER, "count": 0},
            {"arms": OFFER, "count": 2, "played": 1},
            {"arms": OFFER, "count": 1, "prefetch": True},
        ]
    )
    assert IDS[one.arm] == one.arm_id
    assert isinstance(shown, tuple)
    assert len({d.arm_id for d in shown}) == 3
    assert (wrong.argument, apart.argument) == ("count", "played")
    assert len(last) == 1
    assert agent.export()["id"].to_list() == [one.id, *(d.id for d in shown)]
    assert client.forget(subject="ann") == 3


class TestSilence:
    """Default rewards, and rewards that come after them."""

    @pytest.fixture(params=["replace", "refuse"])
    def agent(self, request, tmp_path):
        rules = {"default_reward": 0.0, "reward_after": 0.001, "late": request.param}
        with Agent.open(tmp_path / "agent.db", fg.Problem(dim=2), **rules) as out:
            out.late = request.param
            yield out

    def test_a_late_reward(self, client, agent):
        shown = [d.id for d in client.rank(OFFER, 3)]
        eventually(lambda: agent.status.defaulted == 3, "default rewards")
        if agent.late == "refuse":
            with pytest.raises(AlreadyObserved):
                client.observe(shown[0], 1.0)
            with pytest.raises(AlreadyObserved):
                client.observe_ranking(shown, [shown[0]])
            assert agent.export()["reward"].to_list() == [0.0, 0.0, 0.0]
            return
        client.observe_ranking(shown, [shown[1]])
        eventually(lambda: agent.status.replaced == 2, "late rewards")
        assert agent.export()["reward"].to_list() == [0.0, 1.0, None]
        assert agent.export()["defaulted"].to_list() == [False, False, False]
        assert agent.status.samples == 2


class TestExpiry:
    @pytest.fixture
    def agent(self, tmp_path):
        with Agent.open(tmp_path / "agent.db", fg.Problem(dim=2), max_pending=2) as out:
            yield out

    def test_a_ranking_that_has_expired(self, client, agent):
        shown = [d.id for d in client.rank(OFFER, 2)]
        client.choose(OFFER)
        with pytest.raises(DecisionExpired):
            client.observe_ranking(shown, [])
        assert agent.status.samples == 0


def test_the_command_forgets_while_the_service_runs(url, agent):
    made = [agent.choose(OFFER, subject=name) for name in ("ann", "bob", "cay", "dan", "ann")]
    for decision in made:
        agent.observe(decision.id, 1.0)
    found = in_process.agent("forget", url, "--subject", "ann", "--subject", "nobody")
    assert (found.returncode, found.stdout) == (0, "2 decisions are forgotten\n")
    given = ("--id", made[1].id, "--id", made[2].id, "--json")
    found = in_process.agent("forget", url, *given)
    assert (found.returncode, json.loads(found.stdout)) == (0, {"forgotten": 2})
    assert agent.export()["id"].to_list() == [made[3].id]
    for options, code, text in (
        ((), 2, "--subject = None"),
        (("--id", "nobody-1"), 1, "not in this agent's file"),
        (("--subject", "x" * 201), 2, "--subject = "),
    ):
        found = in_process.agent("forget", url, *options)
        assert found.returncode == code
        assert text in found.stderr
    assert agent.status.samples == 1
