"""The agent's page: what its charts count, what it does not say, and its form in a browser."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import threading
import time
from dataclasses import replace
from itertools import pairwise
from urllib.request import urlopen

import numpy as np
import pytest

import fedglb as fg
from fedglb.federation.agent import activity
from fedglb.federation.agent.activity import Activity, Period
from fedglb.service import agent_page
from fedglb.service.agent import make_app
from fedglb.service.agent_page import _tiles, example
from fedglb.service.figures import by_period
from fedglb.service.listening import Listen
from fedglb.service.server import serve_in_thread
from tests.federation.helpers.agent_driver import Alone, feed
from tests.federation.helpers.browser import chromium
from tests.federation.helpers.nats_federation import PATIENCE
from tests.service.asgi import ask, get, post
from tests.service.test_records import ARMS, CONTEXT, FEATURES

VECTORS = [[1.0, 0.0], [0.0, 1.0]]
EVIL = "<script>alert(1)</script>"


def aged(path, problem, seconds):
    """Make a decision for each of these ages; those of even index have a reward of 1."""
    with fg.Agent.open(path, problem) as agent:
        for k in range(len(seconds)):
            made = agent.choose(VECTORS)
            if k % 2 == 0:
                agent.observe(made.id, float(k % 4 == 0))
        agent.absorb(VECTORS, [1.0, 0.0])  # no decisions
    db, now = sqlite3.connect(path), time.time()
    for k, age in enumerate(seconds, 1):
        db.execute("UPDATE decisions SET made = ? WHERE number = ?", (now - age, k))
    db.commit()
    db.close()
    return fg.Agent.open(path, problem)


def test_activity_counts_decisions_and_rewards_by_time(tmp_path):
    hours = [60 * 3600.0, 40 * 3600.0, 40 * 3600.0, 39 * 3600.0, 1.0, 1.0, 1.0]
    with aged(tmp_path / "a.db", fg.Problem(dim=2), hours) as agent:
        found = agent.activity()
        assert found.width == 3600.0
        assert found.pending == 3
        assert sum(p.decisions for p in found.periods) == 6  # one is older than 48 hours
        assert found.periods[0].decisions >= 2
        assert found.periods[0].rewarded == 1
        assert found.periods[0].reward == 0.0
        assert found.periods[10].decisions == 0
        assert found.periods[10].reward is None
        log = [p for p in found.periods if p.decisions]
        assert sum(p.reward * p.rewarded for p in log if p.reward) == 1.0
        times = [p.begin for p in found.periods]
        assert all(b - a == 3600.0 for a, b in pairwise(times))
        assert times[-1] <= time.time() < times[-1] + 2 * 3600.0


@pytest.mark.parametrize(("age", "width"), [(1.0, 60.0), (7200.0, 300.0), (30_000.0, 900.0)])
def test_a_short_history_is_shown_in_short_periods(tmp_path, age, width):
    with aged(tmp_path / "a.db", fg.Problem(dim=2), [age, 1.0]) as agent:
        found = agent.activity()
        assert found.width == width
        assert len(found.periods) <= 49
        assert "5 minutes" in get(make_app(agent), "/").body.decode() or width != 300.0


def test_only_the_newest_decisions_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(activity, "_DECISIONS", 4)
    with aged(tmp_path / "a.db", fg.Problem(dim=2), [60.0 * k for k in range(9, 0, -1)]) as agent:
        found = agent.activity()  # of the last 4 rows two are absorbed samples
        assert sum(p.decisions for p in found.periods) == 2


def test_a_clock_that_went_back_is_no_fault(tmp_path):
    with aged(tmp_path / "a.db", fg.Problem(dim=2), [-7200.0, 5.0]) as agent:
        assert sum(p.decisions for p in agent.activity().periods) == 2
        assert get(make_app(agent), "/").status == 200


def test_calls_do_not_wait_for_the_page(app, agent, monkeypatch):
    reading, go_on = threading.Event(), threading.Event()
    real = agent.activity

    def slow() -> Activity:
        reading.set()
        assert go_on.wait(PATIENCE)
        return real()

    monkeypatch.setattr(agent, "activity", slow)

    async def both() -> list[int]:
        page = asyncio.create_task(ask(app, "GET", "/"))
        while not reading.is_set():
            await asyncio.sleep(0)
        status = (await ask(app, "GET", "/v1/status")).status
        go_on.set()
        return [status, (await page).status]

    assert asyncio.run(both()) == [200, 200]


def test_the_activity_is_not_read_for_each_reader(app, agent, monkeypatch):
    times, real = [], agent.activity

    def counted() -> Activity:
        times.append(1)
        return real()

    monkeypatch.setattr(agent, "activity", counted)
    for _ in range(3):
        assert get(app, "/").status == 200
    assert len(times) == 1
    monkeypatch.setattr(agent_page, "_KEEP", -1.0)
    get(app, "/")
    assert len(times) == 2


def test_an_agent_that_has_done_nothing(app):
    text = get(app, "/").body.decode()
    for said in ("No rewards in the last", "No decisions in the last", "Nothing is learned yet"):
        assert said in text


def test_the_page_shows_weights_and_no_record(tmp_path):
    with fg.Agent.open(tmp_path / "a.db", features=FEATURES) as agent:
        app = make_app(agent)
        asked = {"arms": [{"price": 31.25, "tags": ["secret-tag"]}], "ids": ["secret-id"],
                 "context": {"country": "secret-land"}}  # fmt: skip
        id_ = post(app, "/v1/choose", asked).json()["id"]
        post(app, "/v1/observe", {"id": id_, "reward": 1})
        post(app, "/v1/choose", asked)
        text = get(app, "/").body.decode()
        for secret in ("secret", "31.25", id_):
            assert secret not in text
        strongest = agent.model().strongest(1)[0]
        assert f'<td class="name">{strongest.feature}</td>' in text
        assert f'<td class="n">{strongest.weight:+.3f}</td>' in text
        assert f'<td class="n soft">{strongest.sd:.3f}</td>' in text
        assert '<b id="total-pending">1</b>' in text
        assert '<b id="total-samples">1</b>' in text
        assert "2 decisions, 1 rewarded" in text
        assert "1, mean of 1 rewards" in text


def test_shared_weights_are_beside_the_agents_own(tmp_path):
    """A coordinator's model, and a client that it has nothing of."""
    problem = fg.Problem(dim=3)
    with fg.Agent.open(tmp_path / "a.db", problem, algorithm=fg.fedglb_personal(1e9)) as agent:
        assert agent.model().shared is None
        rng = np.random.default_rng(0)
        feed(agent, rng, 30)
        Alone(agent).update(agent, t=30)
        feed(agent, rng, 30)
        app = make_app(agent)
        found = json.loads(get(app, "/v1/model?strongest=1").body)
        model = agent.model()
        [own], [shared] = found["weights"], found["shared"]
        assert own == vars(model.strongest(1)[0])
        assert shared["feature"] == own["feature"]
        assert shared in [vars(weight) for weight in model.shared]
        assert [w.weight for w in model.shared] != [w.weight for w in model.weights]
        text = get(app, "/").body.decode()
        assert '<th class="n">shared</th>' in text
        assert f"{shared['weight']:+.3f}" in text
        assert agent.status.distance is None  # there are no others
        assert "total-distance" not in text
        status = replace(agent.status, distance=3.14)
        assert ("distance", "3.1 ×") in [tile[:2] for tile in _tiles(status, agent.activity())]


def test_names_in_the_schema_are_escaped(tmp_path):
    schema = fg.Features(arm={f"a{EVIL.replace('=', '')}": fg.Category([EVIL, '"&'])})
    with fg.Agent.open(tmp_path / "a.db", features=schema) as agent:
        agent.absorb([{}], [1.0])
        text = get(make_app(agent), "/").body.decode()
    assert EVIL not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert 'id="w-arm.a&lt;script' in text


def test_the_examples_in_the_form_are_requests(tmp_path):
    for features in (FEATURES, None):
        problem = None if features else fg.Problem(dim=3)
        with fg.Agent.open(tmp_path / f"{features is None}.db", problem, features=features) as one:
            found = example(features, 3)
            body = f'{{"arms": {found["arms"]}'
            body += "}" if features is None else f', "context": {found["context"]}}}'
            answer = post(make_app(one), "/v1/preview", body.encode())
            assert len(answer.json()["arms"]) == 2, answer


def test_the_geometry_of_a_chart():
    periods = [Period(60.0 * k, k, k, value) for k, value in enumerate((-0.5, None, 1.0))]
    found = by_period(Activity(0, 60.0, tuple(periods)), lambda p: p.reward, str, "x", 100)
    assert [y for _, y, _ in found.marks] == pytest.approx([76 - 58 * 0.0, 76 - 58 * 1.0])
    assert [text for text, _ in found.levels] == ["1", "0.25", "-0.5"]
    assert 18 < found.zero < 76
    assert (found.first, found.last) == (-9 * 60.0, 180.0)  # never fewer than 12 periods
    assert found.marks[-1][0] == pytest.approx(100.0 - found.width / 2)
    assert re.fullmatch(r"M[\d. ]+L[\d. ]+", found.path)


# -- in a browser ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    with chromium() as out:
        yield out


@pytest.fixture
def page(browser, tmp_path):
    """The page of an agent that has learned that shoes sell; what the browser complains of."""
    with fg.Agent.open(tmp_path / "a.db", features=FEATURES) as agent:
        agent.absorb(ARMS * 30, [1.0, 0.0] * 30, contexts=[CONTEXT] * 60)
        with serve_in_thread(make_app(agent), Listen.parse("127.0.0.1:0")) as url:
            context, complaints = browser.new_context(), []
            out = context.new_page()
            out.set_default_timeout(1e3 * PATIENCE)
            out.on("pageerror", lambda error: complaints.append(str(error)))
            out.on("console", lambda said: complaints.append(said.text))
            out.goto(f"{url}/")
            yield out, agent, complaints, url
            context.close()


def test_the_form_previews_and_writes_nothing(page):
    shown, agent, complaints, _ = page
    before = agent.export()
    shown.fill("#context", '{"country": "DE"}')
    shown.fill("#arms", '[{"category": "shoes", "price": 59.9}, {"category": "books"}]')
    shown.click("#preview button")
    shown.wait_for_selector("#previewed td")
    cells = shown.eval_on_selector_all("#previewed td", "all => all.map(each => each.textContent)")
    wanted = agent.preview([{"category": "shoes", "price": 59.9}, {"category": "books"}],
                           context={"country": "DE"})  # fmt: skip
    assert [cells[0], cells[3]] == ["0", "1"]
    assert float(cells[1]) == pytest.approx(wanted[0].estimate, abs=1e-3)
    assert agent.export().equals(before)
    assert complaints == []


def test_what_is_wrong_in_the_form_is_said(page):
    shown, _, complaints, _ = page
    for arms, said in [
        ('[{"price": "cheap"}]', "arms[0].price = 'cheap'"),
        ("[{]", "arms is not JSON"),
        (f'[{{"price": "{EVIL}"}}]', EVIL),
    ]:
        shown.fill("#arms", arms)
        shown.click("#preview button")
        shown.locator("#wrong", has_text=said).wait_for()
    assert not any("alert" in each for each in complaints)


def test_the_page_renews_itself_and_keeps_what_is_typed(page):
    shown, agent, complaints, _ = page
    shown.fill("#arms", '[{"price": 1}]')
    agent.absorb([{}], [1.0])
    shown.wait_for_selector("#total-samples:text-is('61')")
    assert shown.input_value("#arms") == '[{"price": 1}]'
    assert complaints == []


def test_a_page_of_another_origin_cannot_use_it(browser, page):
    _, _, _, url = page
    context = browser.new_context()
    other = context.new_page()
    other.route("http://evil.example/", lambda route: route.fulfill(
        content_type="text/html", body="<form method=post enctype=text/plain></form>"))  # fmt: skip
    other.goto("http://evil.example/")
    asked = """url => fetch(url + "/v1/preview", {method: "POST", body: '{"arms": [[1]]}',
        headers: {"Content-Type": "application/json"}}).then(() => "answered", () => "refused")"""
    assert other.evaluate(asked, url) == "refused"
    with other.expect_navigation() as sent:
        other.evaluate("url => { document.forms[0].action = url; document.forms[0].submit(); }",
                       f"{url}/v1/preview")  # fmt: skip
    assert sent.value.status == 403
    other.goto(f"{url.replace('127.0.0.1', 'localhost')}/openapi.json")  # of another origin, too
    failed = "url => new Promise(done => { const x = new Image(); x.onerror = done; x.src = url; })"
    other.evaluate(f"url => ({failed})(url).then(() => null)", f"{url}/v1/export")
    with urlopen(f"{url}/metrics") as counted:
        assert b'{path="/v1/export",status="403"} 1.0' in counted.read()
    context.close()
