"""The coordinator's page in a real Chromium: it says what the coordinator's state says."""

from __future__ import annotations

import json
import signal
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import msgspec
import pytest

from fedglb.federation.coordinator.board import Board
from fedglb.service.coordinator import serving
from fedglb.service.listening import Listen
from fedglb.service.pages import size
from tests.federation.helpers.browser import chromium
from tests.federation.helpers.json_processes import agent, coordinator
from tests.federation.helpers.nats_federation import PATIENCE, eventually, federation, table
from tests.federation.helpers.nats_process import free_port
from tests.federation.helpers.recorded import stream
from tests.service.test_coordinator import EVIL, picture

ROWS = """rows => Object.fromEntries(rows.map(row => [row.querySelector(".name").textContent, {
    present: row.querySelector(".where").textContent === "here",
    samples: row.querySelector(".samples").textContent,
    share: row.querySelector(".share").textContent}]))"""


@pytest.fixture(scope="module")
def browser():
    with chromium() as out:
        yield out


class Watched:
    """A page in the browser, and all that it asked for or complained of."""

    def __init__(self, browser: Any, url: str, **options: Any) -> None:
        self.url, self.asked, self.complaints = url, [], []
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(1e3 * PATIENCE)
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", lambda said: self.complaints.append(said.text))
        self.page.goto(url)

    def live(self) -> None:
        self.page.wait_for_selector("body[data-live=yes]")

    def text(self, selector: str) -> str:
        return self.page.locator(selector).inner_text()

    def shown(self) -> dict[str, Any]:
        """The values on the page, all of one moment."""
        totals = ("present", "updates", "samples", "rounds")
        return {
            "totals": {name: self.text(f"#total-{name}") for name in totals},
            "bytes": self.text("#total-bytes"),
            "members": self.page.eval_on_selector_all("#members tbody tr", ROWS),
            "updates": self.page.eval_on_selector_all(
                "#updates tbody tr .number", "cells => cells.map(cell => Number(cell.textContent))"
            ),
            "alarms": self.page.eval_on_selector_all(
                "#alarms li", "items => items.map(item => item.dataset.kind)"
            ),
        }

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()


def said(status: dict[str, Any]) -> dict[str, Any]:
    """What a page shows of this status."""
    totals = status["totals"]
    return {
        "totals": {
            "present": str(sum(m["present"] for m in status["members"])),
            **{name: f"{totals[name]:,}" for name in ("updates", "samples", "rounds")},
        },
        "bytes": size(totals["bytes"]),
        "members": {
            m["name"]: {
                "present": m["present"],
                "samples": f"{m['samples']:,}",
                "share": f"{m['share']:.1%}",
            }
            for m in status["members"]
        },
        "updates": [u["number"] for u in status["updates"]][::-1],
        "alarms": [alarm["kind"] for alarm in status["alarms"]],
    }


# -- a federation at work --------------------------------------------------------------------------


@pytest.mark.slow
def test_values_are_the_coordinators_while_agents_come_go_and_are_killed(browser, tmp_path):
    port = free_port()
    url, state = f"http://127.0.0.1:{port}/", tmp_path / "state.db"
    options = ("--http", f"127.0.0.1:{port}", "--absent-after", "4")

    def status() -> dict[str, Any]:
        with urllib.request.urlopen(f"{url}status.json", timeout=PATIENCE) as answer:
            return json.load(answer)

    with ExitStack() as stack:
        running = stack.enter_context(federation(tmp_path, ["a", "b"], table(6, 3)))
        head = coordinator(running, state, *options)
        stack.callback(lambda: head.__exit__())
        eventually(lambda: _answers(url), "the page answers")
        page = stack.enter_context(Watched(browser, url))
        page.live()

        def agrees(what: str, condition: Callable[[dict[str, Any]], bool]) -> None:
            """Wait until the state is so and the page shows that very state."""

            def holds() -> bool:
                before, shown, after = status(), page.shown(), status()
                same = said(before) == shown or said(after) == shown
                return same and condition(before)

            eventually(holds, what)

        def present(found: dict[str, Any]) -> set[str]:
            return {m["name"] for m in found["members"] if m["present"]}

        agrees("nobody is there yet", lambda s: s["members"] and not present(s))
        agents = {name: stack.enter_context(agent(running, name, tmp_path)) for name in "ab"}
        for name, process in agents.items():
            process.next()  # it is ready
            X, y = stream(name, 3, 5)
            for t, (x, reward) in enumerate(zip(X.tolist(), y.tolist(), strict=True), 1):
                process.ask(do="play", arms=[x], rewards=[reward], t=t)
        agrees("two have come", lambda s: present(s) == {*"ab"})

        agents["a"].ask(do="request")
        agrees("an update", lambda s: s["totals"]["updates"] == 1 and s["totals"]["samples"] == 10)
        assert page.text("#m-b .samples") == "5"
        assert page.text("#m-b .share") == "50.0%"

        agents["b"].process.send_signal(signal.SIGKILL)
        agrees("one was killed", lambda s: present(s) == {"a"})
        assert page.text("#m-b .where").startswith("seen ")
        stack.enter_context(agent(running, "b", tmp_path)).next()
        agrees("the killed one is back", lambda s: present(s) == {*"ab"})

        page.complaints.clear()
        head.process.send_signal(signal.SIGKILL)  # the coordinator itself
        page.page.wait_for_selector("body[data-live=no]")
        assert "does not answer" in page.text("#live")
        again = stack.enter_context(coordinator(running, state, *options))
        eventually(lambda: _answers(url), "the page answers again")
        page.live()
        page.complaints.clear()  # of the time when nobody answered
        agrees("as before", lambda s: present(s) == {*"ab"} and s["totals"]["updates"] == 1)
        assert again.process.poll() is None
        assert page.complaints == []
        assert {each.startswith(url) for each in page.asked} == {True}


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}healthz", timeout=PATIENCE) as answer:
            return answer.status == 200
    except (urllib.error.URLError, ConnectionError):
        return False


# -- how it looks ----------------------------------------------------------------------------------


@pytest.fixture
def board():
    out = Board()
    out.latest = picture(clients=250)
    return out


@pytest.fixture
def url(board):
    with serving(board, Listen.parse("127.0.0.1:0")) as out:
        yield out


def test_without_a_script_the_page_has_everything(browser, url, board):
    with Watched(browser, url, java_script_enabled=False) as page:
        assert page.text("#total-updates") == "2"
        assert page.page.locator("#members tbody tr").count() == 250
        assert page.page.locator("#updates-figure circle").count() == 2
        assert page.page.locator(".filter").is_hidden()


@pytest.mark.some(1)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits_the_screen_and_keeps_to_its_policy(browser, url, scheme, width):
    screen = {"width": width, "height": 844}
    with Watched(browser, url, viewport=screen, color_scheme=scheme) as page:
        page.live()
        assert page.page.evaluate("document.documentElement.scrollWidth") == width
        colour = page.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, colour[4:-1].split(","))) < 200) == (scheme == "dark")
        assert page.complaints == []  # a refusal of the policy would be one
        assert {each.startswith(url) for each in page.asked} == {True}
        assert EVIL in page.text("#alarms")  # as text


def test_many_clients_can_be_searched_and_stay_where_they_are(browser, url, board):
    with Watched(browser, url) as page:
        page.live()
        page.page.fill("#filter", "shop-24")
        visible = page.page.locator("#members tbody tr:visible")
        assert visible.count() == 11  # shop-24 and shop-240 to 249
        page.page.fill("#filter", "")
        page.page.check("#absent")
        assert visible.all_inner_texts()[0].startswith("shop-1\t")
        assert visible.count() == 1
        page.page.uncheck("#absent")
        page.page.evaluate("document.getElementById('members').scrollTop = 1500")
        page.page.evaluate("document.getElementById('m-shop-60').dataset.mark = 'same row'")
        members = list(board.latest.members)
        members[61] = msgspec.structs.replace(members[61], samples=12_345, present=False)
        board.latest = msgspec.structs.replace(board.latest, members=tuple(members[:-1]))
        eventually(lambda: page.text("#m-shop-61 .samples") == "12,345", "the change is shown")
        assert page.page.evaluate("document.getElementById('members').scrollTop") == 1500
        assert page.page.locator("#m-shop-60[data-mark]").count() == 1
        assert page.page.locator("#members tbody tr").count() == 249
        names = page.page.eval_on_selector_all(
            "#members tbody tr .name", "cells => cells.map(cell => cell.textContent)"
        )
        assert names == [m.name for m in board.latest.members]
