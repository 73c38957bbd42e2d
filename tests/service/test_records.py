"""Records over HTTP: encoded by the agent's schema, refused by the name of a field; the model."""

from __future__ import annotations

import dataclasses
import json

import pytest

import fedglb as fg
from fedglb.service.agent import RequestLimits, make_app
from tests.service.asgi import get, post

FEATURES = fg.Features(
    context={"country": fg.Category(["DE", "FR"])},
    arm={
        "category": fg.Category(["shoes", "books"]),
        "price": fg.Number([5, 50]),
        "tags": fg.Tags(buckets=4),
    },
    crosses=[("context.country", "arm.category")],
)
CONTEXT = {"country": "DE"}
ARMS = [{"category": "shoes", "price": 59.9, "tags": ["new"]}, {"category": "books"}]
ASKED = {"arms": ARMS, "ids": ["sneaker", "atlas"], "context": CONTEXT}


@pytest.fixture
def shop(tmp_path):
    with fg.Agent.open(tmp_path / "shop.db", features=FEATURES) as out:
        yield out


@pytest.fixture
def app(shop):
    return make_app(shop, limits=RequestLimits(max_body=20_000, max_arms=50, max_batch=30))


def kept(agent: fg.Agent) -> list[dict]:
    return [json.loads(each) for each in agent.export()["record"]]


def test_what_is_chosen_is_what_python_would_encode(app, shop):
    found = post(app, "/v1/choose", ASKED)
    assert found.status == 200, found
    decision = found.json()
    row = shop.export().row(0, named=True)
    wanted = FEATURES.encode(ARMS, CONTEXT)[decision["arm"]]
    assert row["x"] == wanted.tolist()
    (record,) = kept(shop)
    assert record["context"] == CONTEXT
    assert record["arm"] == ARMS[decision["arm"]]
    assert decision["arm_id"] == ASKED["ids"][decision["arm"]]
    assert post(app, "/v1/observe", {"id": decision["id"], "reward": 1}).status == 200
    assert shop.status.samples == 1


def test_excluded_arms_are_not_played(app, shop):
    for name, index in (("sneaker", 1), ("atlas", 0)):
        decision = post(app, "/v1/choose", {**ASKED, "exclude": [name]}).json()
        assert decision["arm"] == index
        assert decision["arm_id"] != name
    refused = post(app, "/v1/choose", {**ASKED, "exclude": ["sneaker", "atlas"]})
    assert (refused.status, refused.json()["argument"]) == (400, "exclude")
    without = {"arms": ARMS, "exclude": ["sneaker"]}
    assert post(app, "/v1/choose", without).json()["argument"] == "exclude"
    assert len(shop.export()) == 2


def test_a_batch_of_records(app, shop):
    items = [
        ASKED,
        {"arms": [*ARMS, {"price": "cheap"}]},
        {"arms": [[1.0] + [0.0] * (FEATURES.dim - 1)]},
        {"arms": ARMS, "context": {"country": 7}},
        {"arms": ARMS, "exclude": [1]},
    ]
    results = post(app, "/v1/choose/batch", {"batch": items}).json()["results"]
    assert [each["status"] for each in results] == [200, 400, 200, 400, 400]
    assert results[1]["problem"]["argument"] == "arms[2].price"
    assert results[3]["problem"]["argument"] == "context.country"
    assert len(shop.export()) == 2


@pytest.mark.parametrize(
    ("asked", "argument", "value", "allowed"),
    [
        ({"arms": [*ARMS, *ARMS, {"price": "cheap"}]}, "arms[4].price", "cheap", "a number"),
        ({"arms": [{"category": 3}]}, "arms[0].category", 3, "a text"),
        ({"arms": [{"tags": "new"}]}, "arms[0].tags", "new", "a list of texts"),
        ({"arms": [{"tags": [None]}]}, "arms[0].tags", "[None]", "a list of texts"),
        ({"arms": [{"price": {"EUR": 3}}]}, "arms[0].price", "{'EUR': 3}", "a number"),
        ({"arms": ARMS, "context": {"country": []}}, "context.country", "[]", "a text"),
        ({"arms": [ARMS[0], [0.5, 0.5]]}, "arms[1]", "[0.5, 0.5]", "a record, as arms[0] is"),
        ({"arms": [[0.5], ARMS[1]]}, "arms[1]", str(ARMS[1]), "a vector, as arms[0] is"),
        ({"arms": [], "context": CONTEXT}, "arms", "[]", "at least one arm"),
        ({"arms": ARMS * 26}, "arms", "52 arms", "at most 50 arms"),
    ],
)
def test_a_wrong_value_is_named_with_its_place(app, shop, asked, argument, value, allowed):
    for path in ("/v1/choose", "/v1/preview"):
        found = post(app, path, asked)
        assert (found.status, found.problem) == (400, "invalid-input")
        said = found.json()
        assert (said["argument"], said["value"]) == (argument, value)
        assert allowed in said["allowed"]
    assert len(shop.export()) == 0


DEEP = b"[" * 5000 + b"]" * 5000


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b'{"arms": [{"price": NaN}]}', 400, "malformed"),
        (b'{"arms": [{"price": Infinity}]}', 400, "malformed"),
        (b'{"arms": [{"price": 1e999}]}', 400, "out of range"),
        (b'{"arms": [{"more": ' + DEEP + b"}]}", 400, "nested too deeply"),
        (b'{"arms": [{"price": 1}], "context": ' + DEEP + b"}", 400, "Expected `object | null`"),
        (b'{"arms": [{"price": 1, "price": 2}]}', 400, "'price' occurs twice"),
        (b'{"arms": [{"price": 1}], "context": {"country": "DE", "country": "FR"}}', 400,
         "'country' occurs twice"),
        (b'{"arms": [{"price": 1}], "arms": [{"price": 2}]}', 400, "'arms' occurs twice"),
        (b'{"arms": [{"more": {"a:": 1, "a:": null}}]}', 400, "'a:' occurs twice"),
        (b'{"arms": [{"price": 1, "pric\\u0065": 2}]}', 400, "'price' occurs twice"),
        (b'{"arms": [1, 2]}', 400, "$.arms[0]"),
        (b'{"arms": ["shoes"]}', 400, "$.arms[0]"),
        (b'{"arms": [null]}', 400, "$.arms[0]"),
        (b'{"arms": {"price": 1}}', 400, "$.arms"),
        (b'{"arms": [{"price": 1}], "context": [1]}', 400, "$.context"),
        (b'{"arms": [{"price": 1}], "exclude": "a"}', 400, "$.exclude"),
        (b'{"arms": [{"price": 1}], "user": {}}', 400, "user"),
        (b'{"arms": [{"price": ' + b"1" * 30_000 + b"}]}", 413, "at most"),
    ],
)  # fmt: skip
def test_json_that_is_no_request(app, shop, body, status, said):
    for path in ("/v1/choose", "/v1/preview"):
        found = post(app, path, body)
        assert found.status == status, found
        assert said in found.json()["detail"]
    batch = post(app, "/v1/choose/batch", b'{"batch": [' + body + b"]}")
    problem = batch.json()["results"][0]["problem"] if batch.status == 200 else batch.json()
    assert problem["status"] == status
    assert len(shop.export()) == 0


def test_names_that_occur_once_are_not_refused(app, shop):
    for asked in (
        {"arms": [{"tags": ["a:b", '":{\\', "::"]}], "ids": ["x:1"], "key": "view:1"},
        {"arms": [{"a:b": {"c": {"c": 1}}, "c": 1}], "context": None, "ids": None, "t": None},
        {"arms": [{}, {}], "exclude": [], "context": {}},
    ):
        assert post(app, "/v1/choose", asked).status == 200, asked
    twice = b'{"id": "a-1", "reward": 1, "reward": 0}'
    assert "occurs twice" in post(app, "/v1/observe", twice).json()["detail"]
    twice = b'{"batch": [], "batch": [{"arms": [{}]}]}'
    assert "occurs twice" in post(app, "/v1/choose/batch", twice).json()["detail"]
    assert len(shop.export()) == 3


def test_records_without_a_schema_and_vectors_with_one(agent, shop, app):
    refused = post(make_app(agent), "/v1/choose", ASKED)
    assert (refused.status, refused.json()["argument"]) == (400, "arms")
    assert "without features" in refused.json()["allowed"]
    assert len(agent.export()) == 0
    x = FEATURES.encode(ARMS, CONTEXT).tolist()
    assert post(app, "/v1/choose", {"arms": x}).status == 200
    assert len(shop.export()) == 1


def test_other_fields_are_counted_or_refused(app, shop, tmp_path):
    asked = {"arms": [{"price": 1, "colour": "red"}]}
    assert post(app, "/v1/choose", asked).status == 200
    assert get(app, "/v1/status").json()["ignored"] == shop.status.ignored == 1
    with fg.Agent.open(tmp_path / "strict.db", features=FEATURES, strict=True) as strict:
        refused = post(make_app(strict), "/v1/choose", asked)
        assert (refused.status, refused.json()["argument"]) == (400, "arms[0].colour")
        assert len(strict.export()) == 0


# -- looking inside ----------------------------------------------------------------------------


def taught(agent: fg.Agent) -> None:
    agent.absorb(ARMS * 30, [1.0, 0.0] * 30, contexts=[CONTEXT] * 60)
    agent._own_updates.close()  # waits for the update that this starts


def test_the_model(app, shop):
    taught(shop)
    wanted = shop.model()
    found = get(app, "/v1/model")
    assert found.json() == json.loads(json.dumps(dataclasses.asdict(wanted)))
    assert [w["feature"] for w in found.json()["weights"]] == list(FEATURES.names)
    strongest = get(app, "/v1/model?strongest=3").json()["weights"]
    assert [w["feature"] for w in strongest] == [w.feature for w in wanted.strongest(3)]
    assert len(get(app, "/v1/model?strongest=999999999").json()["weights"]) == FEATURES.dim
    for wrong in ("0", "-1", "x", "1e3", "", "9" * 5000, "%D9%A1"):
        refused = get(app, f"/v1/model?strongest={wrong}")
        assert (refused.status, refused.json()["argument"]) == (400, "strongest"), wrong


def test_why_an_arm_was_played(app, shop):
    taught(shop)
    id_ = post(app, "/v1/choose", ASKED).json()["id"]
    found = get(app, f"/v1/explain?id={id_}")
    assert found.status == 200
    assert found.json() == json.loads(json.dumps(dataclasses.asdict(shop.explain(id_))))
    assert found.json()["runner_up"] is not None
    assert get(app, "/v1/explain").json()["argument"] == "id"
    for wrong in ("", "x", f"{id_}0", "a-1", "%00-1"):
        refused = get(app, f"/v1/explain?id={wrong}")
        assert (refused.status, refused.problem) == (404, "unknown-decision"), wrong


def test_what_an_expired_decision_was_is_not_explained(tmp_path):
    with fg.Agent.open(tmp_path / "a.db", features=FEATURES, max_pending=1) as agent:
        app = make_app(agent)
        first = post(app, "/v1/choose", ASKED).json()["id"]
        post(app, "/v1/choose", ASKED)
        assert get(app, f"/v1/explain?id={first}").status == 410


def test_a_preview_writes_nothing(app, shop):
    taught(shop)
    before = shop.export()
    found = post(app, "/v1/preview", ASKED).json()["arms"]
    assert [each["arm_id"] for each in found] == ["sneaker", "atlas"]
    assert sum(each["probability"] for each in found) == pytest.approx(1.0)
    assert found[0]["estimate"] > found[1]["estimate"]
    (only,) = post(app, "/v1/preview", {**ASKED, "exclude": ["sneaker"]}).json()["arms"]
    assert (only["arm"], only["probability"]) == (1, 1.0)
    assert shop.export().equals(before)
    assert post(app, "/v1/preview", {**ASKED, "key": "k"}).problem == "malformed"


def test_vectors_have_a_model_too(agent):
    app = make_app(agent)
    assert [w["feature"] for w in get(app, "/v1/model").json()["weights"]] == ["x[0]", "x[1]"]
    found = post(app, "/v1/preview", {"arms": [[1.0, 0.0], [0.0, 1.0]]}).json()["arms"]
    assert [each["arm"] for each in found] == [0, 1]
    id_ = post(app, "/v1/choose", {"arms": [[1.0, 0.0]]}).json()["id"]
    assert get(app, f"/v1/explain?id={id_}").json()["runner_up"] is None
