"""Several models in one service: each under its name, and nothing of one touches another."""

from __future__ import annotations

import asyncio
import inspect
import signal

import pytest
from prometheus_client.parser import text_string_to_metric_families

import fedglb as fg
from fedglb.cli.agent.models import options_of, read_models
from fedglb.cli.agent.serve import serve as serve_command
from fedglb.federation.agent.alarms import KINDS
from fedglb.federation.alarms import Alarm
from fedglb.service.agent import PATHS
from fedglb.service.listening import Listen
from fedglb.service.models import Model, make_models_app
from fedglb.service.server import serve_in_thread
from tests.federation.helpers.browser import chromium
from tests.federation.helpers.json_processes import Service
from tests.federation.helpers.nats_federation import PATIENCE
from tests.service.asgi import ask, get, post

SHARED = {"/healthz", "/readyz", "/metrics"}
SCHEMA = fg.Features(arm={"price": fg.Number([5, 50])})
VECTORS, RECORDS = [[1.0, 0.0], [0.0, 1.0]], [{"price": 7.5}, {"price": 20.0}]


@pytest.fixture
def agents(tmp_path):
    with (
        fg.Agent.open(tmp_path / "front.db", fg.Problem(dim=2)) as front,
        fg.Agent.open(tmp_path / "mail.db", features=SCHEMA) as mail,
    ):
        yield {"front": front, "mail": mail}


@pytest.fixture
def app(agents):
    return make_models_app({name: Model(each, {"dim": "2"}) for name, each in agents.items()})


def test_each_call_goes_to_its_agent(app, agents):
    for name, arms in (("front", VECTORS), ("mail", RECORDS)):
        made = post(app, f"/v1/{name}/choose", {"arms": arms}).json()
        answer = post(app, f"/v1/{name}/observe", {"id": made["id"], "reward": 1})
        assert answer.status == 200, answer
    made = post(app, "/v1/mail/choose", {"arms": RECORDS}).json()
    assert post(app, "/v1/front/observe", {"id": made["id"], "reward": 1}).status == 404
    assert post(app, "/v1/front/choose", {"arms": RECORDS}).status == 400
    assert {name: get(app, f"/v1/{name}/status").json()["samples"] for name in agents} == {
        "front": 1,
        "mail": 1,
    }
    assert [each.export().height for each in agents.values()] == [1, 2]


def test_every_path_is_there_once_for_each_model(app, agents):
    for name in agents:
        described = get(app, f"/{name}/openapi.json").json()["paths"]
        wanted = {path.path.replace("/v1/", f"/v1/{name}/") for path in PATHS}
        assert set(described) == wanted
        for path, operation in described.items():
            asked = get(app, path) if "get" in operation else post(app, path, b"{}")
            assert asked.status not in (404, 405), path
        docs = get(app, f"/{name}/docs").body.decode()
        assert f'href="/{name}/openapi.json"' in docs
        assert f"/v1/{name}/choose" in docs
    for path in PATHS:
        missing = get(app, path.path) if path.method == "GET" else post(app, path.path, b"{}")
        assert (missing.status == 404) == (path.path not in SHARED), path
    for path in ("/docs", "/openapi.json", "/v1/other/choose", "/front", "/other/"):
        assert get(app, path).status == 404


def test_the_pages(app, agents):
    post(app, "/v1/mail/choose", {"arms": RECORDS})
    text = get(app, "/").body.decode()
    assert "not connected" not in text
    away = {"mail": Model(agents["mail"], {"federation": "shops"})}
    assert "not connected" in get(make_models_app(away), "/").body.decode()
    for name in agents:
        assert f'<a href="/{name}/">{name}</a>' in text
    text = get(app, "/mail/").body.decode()
    assert "<h1>Model mail</h1>" in text
    assert '<body data-calls="/v1/mail">' in text
    for link in ("/mail/docs", "/v1/mail/model", "/metrics", "/"):
        assert f'href="{link}"' in text
        assert get(app, link).status == 200
    assert "<td>/v1/mail/choose</td>" in text
    assert "/v1/mail/" not in get(app, "/front/").body.decode()


def test_the_metrics_have_a_label(app, agents):
    post(app, "/v1/mail/choose", {"arms": RECORDS})
    agents["mail"].absorb(RECORDS, [1.0, 0.0])
    text = get(app, "/metrics").body.decode()
    found = {
        (s.name, s.labels.get("model"), s.labels.get("path")): s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
    }
    assert found["fedglb_agent_samples", "front", None] == 0
    assert found["fedglb_agent_samples", "mail", None] == 2
    assert found["fedglb_requests_total", None, "/v1/mail/choose"] == 1
    assert text.count("# TYPE fedglb_agent_samples ") == 1


def test_the_alarms_of_each_model_are_in_the_metrics(app, agents):
    agents["mail"].alarms.look([Alarm("no_rewards", "none come")], now=1000.0)
    found = {
        (s.labels["model"], s.labels["name"]): s.value
        for family in text_string_to_metric_families(get(app, "/metrics").body.decode())
        for s in family.samples
        if s.name == "fedglb_alarm"
    }
    assert set(found) == {(model, kind) for model in ("front", "mail") for kind in KINDS}
    assert [key for key, value in found.items() if value] == [("mail", "no_rewards")]


@pytest.mark.parametrize(
    ("path", "status"), [("/mail/", 200), ("/mail/docs", 200), ("/v1/mail/export", 403)]
)
def test_a_link_of_another_origin_leads_to_pages_only(app, path, status):
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-dest": "document"}
    assert asyncio.run(ask(app, "GET", path, headers=headers)).status == status


def test_it_is_ready_when_all_are(app, agents):
    assert get(app, "/readyz").status == 200
    agents["mail"].close()
    assert get(app, "/readyz").status == 503
    assert get(app, "/healthz").status == 200
    assert post(app, "/v1/front/choose", {"arms": VECTORS}).status == 200
    assert post(app, "/v1/mail/choose", {"arms": RECORDS}).status == 503
    assert get(app, "/metrics").status == 200


@pytest.mark.parametrize("name", ["v1", "", "a/b", "a b", "ä", "x" * 65])
def test_names_that_no_path_can_have(agents, name):
    with pytest.raises(fg.InvalidInput, match=r"^model = "):
        make_models_app({name: Model(agents["front"], {})})
    if name != "v1":  # which a client finds out by asking
        with pytest.raises(fg.InvalidInput, match=r"^model = "):
            fg.AgentClient("http://127.0.0.1:1", model=name)


def test_the_page_of_a_model_in_a_browser(app, agents):
    with (
        serve_in_thread(app, Listen.parse("127.0.0.1:0")) as url,
        chromium() as browser,
        browser.new_page() as page,
    ):
        page.set_default_timeout(1000 * PATIENCE)
        page.goto(f"{url}/")
        page.click("text=mail")
        page.click("#preview button")
        page.wait_for_selector("#previewed td")
        agents["mail"].absorb(RECORDS, [1.0, 0.0])
        page.wait_for_selector("#total-samples:text-is('2')")  # the page renews itself
        assert page.text_content("#wrong") == ""


# -- the command -----------------------------------------------------------------------------------

CONFIG = """
[models.front]
file = "front.db"
dim = 2
explore = 0.5

[models.mail]
file = "sub/mail.db"
features = "mail.toml"
strict = true
"""


@pytest.fixture
def config(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "mail.toml").write_text(SCHEMA.to_toml())
    path = tmp_path / "shop.toml"
    path.write_text(CONFIG)
    return path


def test_a_service_with_two_models(config, monkeypatch):
    monkeypatch.chdir("/")  # paths are relative to the file
    with Service("--config", config, "--http", "127.0.0.1:0") as service:
        heard = service.hear(lambda event: event["event"] == "listening")
        assert heard["models"] == ["front", "mail"]
        url = heard["url"]
        with fg.AgentClient(url, model="front") as front, fg.AgentClient(url, model="mail") as mail:
            made = front.choose(VECTORS, ids=["a", "b"])
            front.observe(made.id, 1.0)
            mail.observe(mail.choose(RECORDS).id, 0.0)
            assert (front.status.samples, mail.status.samples) == (1, 1)
            with pytest.raises(fg.InvalidInput, match="colour"):
                mail.choose([{"colour": "red"}])  # strict
        nobody = fg.AgentClient(url, patience=0.0)
        with nobody, pytest.raises(fg.federation.Unavailable, match="unknown path"):
            nobody.choose(VECTORS)

        async def same() -> float:
            async with fg.AsyncAgentClient(url, model="front") as client:
                return (await client.choose(VECTORS, ids=["a", "b"], explore=1.0)).propensity

        assert asyncio.run(same()) == 0.5
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(PATIENCE) == 0
    with fg.Agent.open(config.parent / "sub" / "mail.db", features=SCHEMA) as agent:
        assert agent.status.samples == 1


def test_the_tables_have_the_options_of_the_command(config):
    hints = options_of(serve_command, "The agent")
    opened = set(inspect.signature(fg.Agent.open).parameters)
    assert set(hints) - {"dim", "link", "radius"} <= opened
    assert {"bundle", "explore", "durable", "wait", "log"} <= set(hints)
    found = read_models(config, serve_command, "The agent")
    assert set(found["front"]) == {"file", *hints}
    assert (found["front"]["explore"], found["mail"]["explore"]) == (0.5, 0.0)
    assert found["mail"]["features"] == config.parent / "mail.toml"
    assert found["front"]["bundle"] is None


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("explore = 0.5", "explroe = 0.5", "models.front.explroe = 0.5: expected"),
        ("explore = 0.5", 'explore = "half"', "models.front.explore = 'half': expected a number"),
        ("explore = 0.5", "explore = 2", "models.front.explore = 2.0: expected a share"),
        ("dim = 2\n", "", "models.front.dim = None: expected a number: --dim or --features is"),
        ("strict = true", "dim = 3", "models.mail.dim = 3: expected none: --dim and --features"),
        ("strict = true", 'durable = "never"', "models.mail.durable = 'never': expected"),
        ('file = "front.db"\n', "", "models.front.file = None: expected a value"),
        ('"front.db"', '"no/where/front.db"', "models.front.file = "),
        ("[models.mail]", "[models.v1]", "models.v1 = 'v1': expected another name"),
        ("[models.mail]", '[models."a b"]', "models.a b = 'a b': expected 1 to 64 of the"),
        ("[models.mail]", "[more.mail]", "more = {"),
        ('"sub/mail.db"', '"shop.toml"', "models.mail.file = "),
    ],
)
def test_a_wrong_table_is_one_clear_error_and_no_file_stays_open(config, serve, old, new, said):
    assert old in CONFIG
    config.write_text(CONFIG.replace(old, new))
    error = serve("--config", config).exception
    assert isinstance(error, fg.InvalidInput), error
    assert str(error).startswith(f"{config}: {said}"), error
    with fg.Agent.open(config.parent / "front.db", fg.Problem(dim=2)):
        pass  # nobody has it open


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "models = None"), ("[models]\n", "models = {}: expected at least one table")],
)
def test_a_file_without_models(config, serve, text, said):
    config.write_text(text)
    assert str(serve("--config", config).exception).startswith(f"{config}: {said}")


def test_errors_of_other_files_name_those(config, serve):
    (config.parent / "mail.toml").write_text(SCHEMA.to_toml().replace('"number"', '"numbr"'))
    error = serve("--config", config).exception
    assert str(error).startswith(f"{config.parent / 'mail.toml'}: arm.price.kind = 'numbr'")


def test_what_does_not_go_together(config, serve):
    for options in ([], [config.parent / "a.db", "--config", config]):
        found = serve(*options)
        assert (found.exit_code, "either FILE or --config" in found.output) == (2, True)
    error = serve("--config", config, "--explore", "0").exception
    assert (
        str(error) == f"--explore = 0.0: expected it in a table of {config}: each model has its own"
    )
    assert "--config = " in str(serve("--config", config.parent / "no.toml").exception)
    config.write_text(CONFIG.replace("sub/mail.db", "front.db"))
    found = serve("--config", config)
    assert (found.exit_code, "front.db" in found.output) == (1, True), found.output
