"""What each path does, asked of the application itself."""

from __future__ import annotations

import asyncio
import io
import json
import sqlite3

import msgspec
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import fedglb as fg
from fedglb.federation.agent import application_calls
from fedglb.service.agent import RequestLimits, make_app
from tests.federation.agent.test_full_disk import fill, make_room
from tests.federation.helpers.nats_federation import eventually
from tests.service.asgi import JSON, ask, get, post

ARMS = [[1.0, 0.0], [0.0, 1.0]]


def test_choose_and_observe_are_the_agents_own(app, agent, tmp_path):
    with fg.Agent.open(tmp_path / "other.db", fg.Problem(dim=2)) as other:
        arms = [[1.0, 0.0]]  # agents draw their own way
        for each in (agent, other):
            each.absorb(arms, [1.0])
        for reward in (1, 0.0, 1.0):
            found = post(app, "/v1/choose", {"arms": arms, "ids": [7]})
            wanted = other.choose(arms, ids=[7])
            assert found.status == 200
            assert found.headers["content-type"] == "application/json"
            decision = found.json()
            for name in ("arm", "arm_id", "propensity", "model"):
                assert decision[name] == getattr(wanted, name)
            answer = post(app, "/v1/observe", {"id": decision["id"], "reward": reward})
            assert (answer.status, answer.json()) == (200, {"id": decision["id"]})
            other.observe(wanted.id, reward)
    assert agent.status.samples == 4


def test_on_a_full_disk_a_choice_is_answered_and_its_reward_refused_with_the_reason(tmp_path):
    problem = fg.Problem(dim=2)
    with fg.Agent.open(tmp_path / "full.db", problem, on_full_disk="choose") as agent:
        app = make_app(agent)
        fill(agent)
        for _ in range(1000):
            decision = post(app, "/v1/choose", {"arms": ARMS}).json()
            if not decision["kept"]:
                break
        assert not decision["kept"]
        refused = post(app, "/v1/observe", {"id": decision["id"], "reward": 1.0})
        assert (refused.status, refused.problem) == (404, "unknown-decision")
        assert "the disk was full" in refused.json()["detail"]
        gone = post(app, "/v1/observe", {"id": "abc-1", "reward": 1.0})
        assert str(tmp_path) not in gone.json()["detail"]


def test_it_is_not_ready_while_the_disk_is_full(app, agent, monkeypatch):
    monkeypatch.setattr(application_calls, "_RECENT", 1e6)
    fill(agent)
    found = get(app, "/readyz")  # before any call
    assert (found.status, found.problem) == (503, "storage")
    assert "full" in found.json()["detail"]
    make_room(agent)
    assert get(app, "/readyz").json() == {"status": "ready"}
    fill(agent)
    answers = (post(app, "/v1/choose", {"arms": ARMS}).status for _ in range(1000))
    assert next(status for status in answers if status != 200) == 507
    assert get(app, "/readyz").status == 503
    make_room(agent)
    assert get(app, "/readyz").status == 200
    monkeypatch.setattr(agent._client.store, "try_to_write", lambda: 1 / 0)
    post(app, "/v1/choose", {"arms": ARMS})
    assert get(app, "/readyz").status == 200  # the decision was proof enough


def test_a_reward_without_room_is_seen_by_the_next_probe(app, agent, monkeypatch):
    monkeypatch.setattr(application_calls, "_RECENT", 1e6)
    id_ = post(app, "/v1/choose", {"arms": ARMS}).json()["id"]
    agent._client.store._db.execute("PRAGMA query_only=ON")
    assert get(app, "/readyz").status == 200  # nobody has noticed yet
    monkeypatch.setattr(application_calls, "_RECENT", 0.0)
    assert get(app, "/readyz").problem == "storage"  # it tries again after a while
    monkeypatch.setattr(application_calls, "_RECENT", 1e6)
    assert post(app, "/v1/observe", {"id": id_, "reward": 1}).problem == "storage"
    assert get(app, "/readyz").problem == "storage"
    agent._client.store._db.execute("PRAGMA query_only=OFF")
    assert get(app, "/readyz").status == 200


def test_it_is_ready_on_a_full_disk_if_it_chooses_all_the_same(tmp_path):
    options = {"on_full_disk": "choose"}
    with fg.Agent.open(tmp_path / "full.db", fg.Problem(dim=2), **options) as agent:
        app = make_app(agent)
        fill(agent)
        kept = [post(app, "/v1/choose", {"arms": ARMS}).json()["kept"] for _ in range(200)]
        assert not all(kept)
        assert get(app, "/readyz").status == 200


def test_a_key_makes_a_request_the_same(app, agent):
    asked = {"arms": ARMS, "key": "view-1", "t": 3}
    first = post(app, "/v1/choose", asked)
    assert post(app, "/v1/choose", asked).body == first.body
    assert post(app, "/v1/choose", {**asked, "arms": ARMS[:1]}).problem == "invalid-input"
    assert len(agent.export()) == 1


@pytest.mark.parametrize("path", ["/v1/choose", "/v1/preview"])
def test_an_id_has_at_most_200_characters(app, agent, path):
    assert post(app, path, {"arms": ARMS, "ids": ["é" * 200, 2**63 - 1]}).status == 200
    before = agent.export().height
    for wrong in ("x" * 201, "x" * 9000, 2**63):
        found = post(app, path, {"arms": ARMS, "ids": ["a", wrong]})
        assert (found.status, found.json()["argument"]) == (400, "ids[1]")
        assert "at most 200 characters" in found.json()["detail"]
    for call in ("/v1/observe", "/v1/observe/batch"):
        body = {"id": "x" * 9000 + "-1", "reward": 1}
        found = post(app, call, body if call == "/v1/observe" else {"batch": [body]})
        assert b"unknown-decision" in found.body
        assert len(found.body) < 500
    assert agent.export().height == before


def test_a_second_reward_is_a_conflict_that_says_whether_it_is_the_same(app):
    id_ = post(app, "/v1/choose", {"arms": ARMS}).json()["id"]
    assert post(app, "/v1/observe", {"id": id_, "reward": 1}).status == 200
    for reward, same in ((1, True), (0, False)):
        again = post(app, "/v1/observe", {"id": id_, "reward": reward})
        assert (again.status, again.problem) == (409, "already-observed")
        assert again.json()["same"] is same


def test_decisions_that_are_unknown_or_expired(tmp_path):
    with fg.Agent.open(tmp_path / "a.db", fg.Problem(dim=2), max_pending=1) as agent:
        app = make_app(agent)
        first = post(app, "/v1/choose", {"arms": ARMS}).json()["id"]
        post(app, "/v1/choose", {"arms": ARMS})
        expired = post(app, "/v1/observe", {"id": first, "reward": 1})
        assert (expired.status, expired.problem) == (410, "decision-expired")
        for id_ in ("", "x", "x-1", "../../etc/passwd", first + "0", "\u0000-1", "ß-7"):
            unknown = post(app, "/v1/observe", {"id": id_, "reward": 1})
            assert (unknown.status, unknown.problem) == (404, "unknown-decision")
            assert str(tmp_path).encode() not in unknown.body


def test_what_is_not_allowed_says_what_is(app):
    found = post(app, "/v1/choose", {"arms": [[3.0, 4.0]]}).json()
    assert found["argument"] == "norm of arms[0]"
    assert found["value"] == 5.0
    assert "norm <= 1" in found["allowed"]
    assert found["detail"].startswith("norm of arms[0] = 5.0: expected")
    found = post(app, "/v1/observe", {"id": "a-1", "reward": 2.0}).json()
    assert (found["argument"], found["value"]) == ("reward", 2.0)


def test_batches_answer_each_item_on_its_own(app, agent):
    items = [
        {"arms": ARMS, "key": "a"},
        {"arms": [[1.0, 0.0, 0.0]]},
        {"arms": "x"},
        {"arms": ARMS, "key": "a"},
        7,
        {"arms": ARMS, "color": "red"},
        {"arms": [[0.0, 0.0]] * 51},
    ]
    answer = post(app, "/v1/choose/batch", {"batch": items})
    assert answer.status == 200
    results = answer.json()["results"]
    assert [each["status"] for each in results] == [200, 400, 400, 200, 400, 400, 400]
    assert results[0]["decision"] == results[3]["decision"]
    assert results[1]["problem"]["argument"] == "arms.shape"
    assert results[6]["problem"]["allowed"] == "at most 50 arms"
    id_ = results[0]["decision"]["id"]
    rewards = [
        {"id": id_, "reward": 1},
        {"id": id_, "reward": 1},
        {"id": "x-9", "reward": 0},
        {"id": id_},
    ]
    results = post(app, "/v1/observe/batch", {"batch": rewards}).json()["results"]
    assert [each["status"] for each in results] == [200, 409, 404, 400]
    assert "problem" not in results[0]
    assert results[1]["problem"]["same"] is True
    assert agent.status.samples == 1


def test_other_requests_have_their_turn_during_a_batch(agent):
    app = make_app(agent)
    order = []

    async def batch() -> None:
        body = json.dumps({"batch": [{"arms": ARMS}] * 200}).encode()
        await ask(app, "POST", "/v1/choose/batch", body, JSON)
        order.append("batch")

    async def one() -> None:
        await ask(app, "GET", "/healthz")
        order.append("one")

    async def both() -> None:
        await asyncio.gather(batch(), one())

    asyncio.run(both())
    assert order == ["one", "batch"]


def test_an_update_cannot_be_requested_by_an_agent_that_makes_none(app, agent):
    found = post(app, "/v1/request-update", {})
    assert (found.status, found.problem) == (409, "no-updates")
    assert "this agent has no federation" in found.json()["detail"]
    for body in (b"", b"[]", b'{"model": 1}', b"null"):
        assert post(app, "/v1/request-update", body).problem == "malformed"
    assert get(app, "/v1/request-update").status == 405
    agent.close()
    assert post(app, "/v1/request-update", {}).problem == "unavailable"


def test_an_update_is_requested(tmp_path):
    schema = fg.Features(arm={"price": fg.Number([5, 50])})
    with fg.Agent.open(tmp_path / "a.db", features=schema) as agent:
        app = make_app(agent)
        agent.absorb([{"price": 7}, {"price": 40}], [1.0, 0.0])  # too few for one by itself
        assert agent.status.model == 0
        found = post(app, "/v1/request-update", {})
        assert (found.status, found.json()) == (202, {"model": 0})
        eventually(lambda: get(app, "/v1/status").json()["model"] > 0, "the update")


def test_status(app, agent):
    post(app, "/v1/choose", {"arms": ARMS})
    assert get(app, "/v1/status").json() == json.loads(msgspec.json.encode(agent.status))


@pytest.mark.parametrize("rows", [0, 5, 25])
def test_export(app, agent, rows, monkeypatch):
    monkeypatch.setattr("fedglb.service.agent._ROWS", 10)
    for k in range(rows):
        decision = agent.choose(ARMS, ids=["red", "blue"])
        if k % 2:
            agent.observe(decision.id, 1.0)
    log = agent.export()
    lines = get(app, "/v1/export?format=ndjson")
    assert lines.headers["content-type"].startswith("application/x-ndjson")
    found = [json.loads(line) for line in lines.body.splitlines()]
    assert [row["id"] for row in found] == log["id"].to_list()
    assert [row["reward"] for row in found] == log["reward"].to_list()
    assert get(app, "/v1/export").body == lines.body
    whole = get(app, "/v1/export?format=parquet")
    assert whole.headers["content-type"] == "application/vnd.apache.parquet"
    assert_frame_equal(pl.read_parquet(io.BytesIO(whole.body)), log)
    wrong = get(app, "/v1/export?format=csv")
    assert (wrong.status, wrong.problem) == (400, "invalid-input")


def test_no_more_exports_than_allowed_at_a_time(agent):
    app = make_app(agent, limits=RequestLimits(max_exports=1))

    async def several() -> list[int]:
        asked = (ask(app, "GET", "/v1/export?format=parquet") for _ in range(4))
        return sorted([each.status for each in await asyncio.gather(*asked)])

    assert asyncio.run(several()) == [200, 503, 503, 503]
    assert get(app, "/v1/export").status == 200  # the one that is over is not counted


def test_a_closed_agent_is_not_ready(app, agent):
    assert get(app, "/readyz").json() == {"status": "ready"}
    agent.close()
    for path in ("/readyz", "/v1/status", "/v1/export", "/"):
        found = get(app, path)
        assert (found.status, found.problem) == (503, "unavailable")
    assert post(app, "/v1/choose", {"arms": ARMS}).status == 503
    assert get(app, "/healthz").json()["status"] == "ok"
    assert b"fedglb_agent_samples" not in get(app, "/metrics").body


def test_metrics(app):
    id_ = post(app, "/v1/choose", {"arms": ARMS}).json()["id"]
    post(app, "/v1/observe", {"id": id_, "reward": 1})
    post(app, "/v1/observe", {"id": id_, "reward": 1})
    get(app, "/some/path/of/a/scanner")
    text = get(app, "/metrics").body.decode()
    for line in (
        'fedglb_requests_total{path="/v1/choose",status="200"} 1.0',
        'fedglb_requests_total{path="/v1/observe",status="409"} 1.0',
        'fedglb_requests_total{path="other",status="404"} 1.0',
        'fedglb_request_seconds_count{path="/v1/choose"} 1.0',
        "fedglb_agent_samples 1.0",
        "fedglb_agent_connected 0.0",
        "fedglb_agent_refused 0.0",
        "fedglb_requests_waiting 1.0",  # this one
    ):
        assert line in text.splitlines()
    assert "scanner" not in text


@pytest.mark.parametrize(
    ("error", "status"),
    [("database or disk is full", 507), ("disk I/O error", 503), ("database is locked", 503)],
)
def test_a_file_that_cannot_be_written_is_no_fault_of_the_request(
    app, agent, monkeypatch, error, status
):
    def fails(*_, **__):
        raise sqlite3.OperationalError(error)

    monkeypatch.setattr(agent, "choose", fails)
    found = post(app, "/v1/choose", {"arms": ARMS})
    assert (found.status, found.problem) == (status, "storage")


def test_a_fault_of_the_service_tells_nothing_of_it(app, agent, monkeypatch, caplog):
    monkeypatch.setattr(agent, "choose", lambda *_, **__: 1 / 0)
    found = post(app, "/v1/choose", {"arms": ARMS})
    assert (found.status, found.problem) == (500, "internal")
    batch = post(app, "/v1/choose/batch", {"batch": [{"arms": ARMS}]})
    assert batch.json()["results"][0]["problem"] == found.json()
    assert b"division" not in found.body
    assert caplog.text.count("a request failed") == caplog.text.count("ZeroDivisionError") == 2
