"""The coordinator's live page: GET only, from the newest status on the board."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

from prometheus_client.core import Metric
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from fedglb.federation.coordinator.board import Board
from fedglb.federation.coordinator.status import CoordinatorStatus
from fedglb.io.durations import in_words
from fedglb.privacy import spent_text
from fedglb.service.figures import bars, over_time
from fedglb.service.guard import Access, Guard, Handler
from fedglb.service.listening import Listen
from fedglb.service.metrics import Metrics, coordinator_metrics
from fedglb.service.pages import (
    TEMPLATES,
    clock,
    commas,
    duration,
    security_headers,
    size,
    static_file,
)
from fedglb.service.problem import Refused
from fedglb.service.server import serve_in_thread

_HEADERS = security_headers(
    "style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'"
)
_MAX_CONCURRENT, _MAX_STREAMS = 100, 50
_LOOK_EVERY, _COMMENT_EVERY = 0.25, 10.0  # seconds between looks at the board, and comments
_STALE = 60.0  # seconds without a new status: the coordinator hangs or computes


class Page:
    """The handlers of the live page, which shows the newest status on the board."""

    def __init__(self, board: Board) -> None:
        self._board, self._metrics = board, Metrics(self._collect)
        self.stopping = False  # ends all event streams
        self._streams = 0
        self._shown: tuple[CoordinatorStatus | None, dict[str, str]] = (None, {})

    def app(self, access: Access) -> Guard:
        """Return the ASGI application."""
        return Guard(self.handlers(), access, self._metrics, _MAX_CONCURRENT, _HEADERS)

    def handlers(self) -> dict[str, tuple[str, Handler]]:
        """Return the method and the handler of each path."""
        paths: dict[str, Handler] = {
            "/": self.document, "/status.json": self.status, "/events": self.events,
            "/metrics": self.metrics, "/healthz": self.health,
        }  # fmt: skip
        paths |= dict.fromkeys(("/page.css", "/page.js", "/icon.svg"), static_file)
        return {path: ("GET", handler) for path, handler in paths.items()}

    def _latest(self) -> CoordinatorStatus:
        status = self._board.latest
        if status is None:
            detail = "the coordinator is starting: try again"
            raise Refused(503, "unavailable", detail, {"Retry-After": "1"})
        return status

    def _parts(self, status: CoordinatorStatus) -> dict[str, str]:
        """Return the parts of the page, rendered once for all readers."""
        if self._shown[0] is not status:
            self._shown = (status, sections(status))
        return self._shown[1]

    def _collect(self) -> Iterator[Metric]:
        return coordinator_metrics(self._latest())

    async def document(self, _: Request) -> Response:
        """Answer `GET /`."""
        status = self._latest()
        template = TEMPLATES.get_template("coordinator.html")
        text = template.render(federation=status.federation, parts=self._parts(status))
        return Response(text, media_type="text/html")

    async def status(self, _: Request) -> Response:
        """Answer `GET /status.json`."""
        return Response(self._latest().to_json(), media_type="application/json")

    async def metrics(self, _: Request) -> Response:
        """Answer `GET /metrics`."""
        self._latest()  # raises 503 without a status
        return self._metrics.answer()

    async def health(self, _: Request) -> Response:
        """Answer `GET /healthz`: the coordinator has written a status within a minute."""
        age = time.time() - self._latest().time
        if age > _STALE:
            raise Refused(503, "unavailable", f"no new status for {age:.0f} s")
        return PlainTextResponse("ok\n")

    async def events(self, _: Request) -> Response:
        """Answer `GET /events`: server-sent events with the parts that have changed."""
        self._latest()
        if self._streams >= _MAX_STREAMS:
            raise Refused(503, "busy", f"{_MAX_STREAMS} readers are connected: try again")
        return StreamingResponse(self._changes(), media_type="text/event-stream")

    async def _changes(self) -> AsyncIterator[str]:
        self._streams += 1
        try:
            before: dict[str, str] = {}
            sent = 0.0
            while not self.stopping:
                parts = self._parts(self._latest())
                changed = {k: v for k, v in parts.items() if before.get(k) != v}
                if changed:
                    before, sent = parts, time.monotonic()
                    yield f"event: parts\ndata: {json.dumps(changed)}\n\n"
                elif time.monotonic() - sent > _COMMENT_EVERY:
                    sent = time.monotonic()
                    yield ": still here\n\n"
                await asyncio.sleep(_LOOK_EVERY)
        finally:
            self._streams -= 1


@contextmanager
def serving(board: Board, listen: Listen) -> Iterator[str]:
    """Serve the page in a thread inside this block; yield its URL."""
    board.watched = True
    page = Page(board)
    app = page.app(Access(listen.token, listen.hosts, browser=True))
    with serve_in_thread(app, listen) as url:
        try:
            yield f"{url}/"
        finally:
            page.stopping = True


def sections(status: CoordinatorStatus) -> dict[str, str]:
    """Return the parts of the page that change, as HTML by their ids.

    A browser first gets all parts, then those that have changed.
    """
    macros: Any = TEMPLATES.get_template("parts.html").module
    counted = status.schedule is None
    label = "Samples in the model over time"
    model = over_time(status.updates, lambda u: u.samples or 0, "{:,.0f}".format, label, 190)
    seconds = over_time(status.updates, lambda u: u.seconds, duration, "Duration of updates", 110)
    ends = {each.name: each.ends for each in status.certificates}
    parts = {
        "state": macros.state(status),
        "about": macros.about(status),
        "clock": macros.as_of(status),
        "alarms": macros.alarms(status.alarms),
        "totals": macros.totals(_tiles(status)),
        "updates-figure": macros.samples_over_time(model) if counted else macros.uncounted(),
        "duration-figure": macros.seconds_over_time(seconds),
        "samples-figure": macros.bars(bars(status.members)) if counted else macros.uncounted(),
        "weights": macros.weights(status.weights) if status.weights else macros.unweighted(),
        "members-count": macros.members_count(status.members),
        "members": macros.members(status.members, ends, status.spread is not None),
        "updates": macros.updates(status.updates[::-1]),
        "events": macros.events([e for e in status.events[::-1] if e.kind != "updating"]),
        "caveats": macros.caveats(status.caveats),
        "certificates": macros.certificates(sorted(status.certificates, key=lambda c: c.ends)),
    }
    return {name: str(text).strip() for name, text in parts.items()}


def _tiles(status: CoordinatorStatus) -> list[tuple[str, str, str]]:
    """Return the name, the value and the text of each total."""
    totals = status.totals
    newest = f"updates, the last {clock(status.updates[-1].at)}" if status.updates else "updates"
    tiles = [
        ("present", f"{status.present}", f"of {len(status.members)} clients present"),
        ("updates", f"{totals.updates:,}", newest),
        _progress(status),
        ("rounds", f"{totals.rounds:,}", f"rounds, {totals.scalars:,} numbers sent"),
        ("bytes", size(totals.bytes), f"in {totals.sent:,} messages"),
    ]
    if (spread := status.spread) is not None:
        text = f"logits: how far weights differ; effects ± {spread.effects:.2g}"
        tiles.append(("spread", f"± {spread.theta:.2g}", text))
    if (memory := status.memory) is not None:
        half = "∞" if memory.half_life is None else in_words(memory.half_life)
        older = "" if memory.since is None else f"; those before {clock(memory.since)} count less"
        tiles.append(("memory", half, f"until a sample counts half{older}"))
    rewards = [
        m.rewards for m in status.members if m.present and m.rewards and m.rewards.recent_count
    ]
    if rewards:
        count = sum(each.recent_count for each in rewards)
        mean = sum(each.recent_total for each in rewards) / count
        tiles.append(("reward", f"{mean:.3g}", f"mean of {count:,} recent rewards"))
    return tiles


def _progress(status: CoordinatorStatus) -> tuple[str, str, str]:
    """Return the tile of samples or, on a schedule, which hides them, of budget or updates."""
    if status.privacy is not None:
        spent, epsilon = status.privacy.spent, status.privacy.epsilon
        return "epsilon", spent_text(spent, epsilon), f"of ε = {epsilon:g} spent"
    if status.schedule is not None:
        return "schedule", f"{status.schedule.done}", f"of {status.schedule.updates} updates done"
    return "samples", commas(status.totals.samples), "samples in the model"
