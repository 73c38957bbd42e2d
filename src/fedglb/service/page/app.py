"""The page as an ASGI application: it only answers GET, and only shows what the board has."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from functools import lru_cache
from pathlib import Path

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from fedglb.federation.coordinator.board import Board
from fedglb.federation.coordinator.status import CoordinatorStatus
from fedglb.service.page.document import document
from fedglb.service.page.listen import Listen
from fedglb.service.page.metrics import metrics
from fedglb.service.page.sections import sections

_FILES = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_MOST_LISTENING = 50
_LOOK_EVERY, _BREATH = 0.25, 10.0  # seconds between two looks, and between two signs of life
_STALE = 60.0  # seconds without a new picture: the coordinator stands still, or computes


class Page:
    """The answers, over the newest status of a board.

    Parameters
    ----------
    board
        Where the coordinator's status is.
    stopping
        Returns whether the server is about to stop: then streams of events end.
    """

    def __init__(self, board: Board, stopping: Callable[[], bool]) -> None:
        self._board, self._stopping = board, stopping
        self._listening = 0
        self._shown: tuple[CoordinatorStatus | None, dict[str, str]] = (None, {})

    def routes(self) -> list[Route]:
        """Return which path has which answer."""
        answers = {
            "/": self._document, "/status.json": self._status, "/events": self._events,
            "/metrics": self._metrics, "/healthz": self._health,
        }  # fmt: skip
        files = [Route(f"/{name}", _file(name), methods=["GET"]) for name in _FILES]
        return [Route(p, a, methods=["GET"]) for p, a in answers.items()] + files

    def _latest(self) -> CoordinatorStatus:
        status = self._board.latest
        if status is None:
            raise _NotYet
        return status

    def _parts(self, status: CoordinatorStatus) -> dict[str, str]:
        """Return the parts of the page; all who listen get the same ones."""
        if self._shown[0] is not status:
            self._shown = (status, sections(status))
        return self._shown[1]

    async def _document(self, _: Request) -> Response:
        status = self._latest()
        text = document(status.federation, self._parts(status))
        return Response(text, media_type="text/html")

    async def _status(self, _: Request) -> Response:
        return Response(self._latest().to_json(), media_type="application/json")

    async def _metrics(self, _: Request) -> Response:
        return Response(metrics(self._latest()), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _health(self, _: Request) -> Response:
        age = time.time() - self._latest().time
        if age > _STALE:
            return PlainTextResponse(f"no sign of life for {age:.0f} s\n", 503)
        return PlainTextResponse("ok\n")

    async def _events(self, _: Request) -> Response:
        self._latest()
        if self._listening >= _MOST_LISTENING:
            return PlainTextResponse("too many listen already\n", 503)
        return StreamingResponse(self._changes(), media_type="text/event-stream")

    async def _changes(self) -> AsyncIterator[str]:
        """Give all parts first, then those that have changed, until the server stops."""
        self._listening += 1
        try:
            before: dict[str, str] = {}
            said = 0.0
            while not self._stopping():
                parts = self._parts(self._latest())
                changed = {k: v for k, v in parts.items() if before.get(k) != v}
                if changed:
                    before, said = parts, time.monotonic()
                    yield f"event: parts\ndata: {json.dumps(changed)}\n\n"
                elif time.monotonic() - said > _BREATH:
                    said = time.monotonic()
                    yield ": still here\n\n"
                await asyncio.sleep(_LOOK_EVERY)
        finally:
            self._listening -= 1


class _NotYet(Exception):
    """The coordinator has not said anything yet."""


async def _starting(_: Request, __: Exception) -> Response:
    return PlainTextResponse("the coordinator is starting\n", 503, {"Retry-After": "1"})


def make_app(board: Board, listen: Listen, stopping: Callable[[], bool] = lambda: False) -> ASGIApp:
    """Return the application; `listen` says who may see it."""
    page = Page(board, stopping)
    inner = Starlette(routes=page.routes(), exception_handlers={_NotYet: _starting})

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def with_headers(message: dict[str, object]) -> None:
            if message["type"] == "http.response.start":
                added = [(k.lower().encode(), v.encode()) for k, v in _HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *added]}  # type: ignore[misc]
            await send(message)

        refusal = listen.refusal(scope["path"], dict(scope["headers"]))
        if refusal is None:
            await inner(scope, receive, with_headers)  # type: ignore[arg-type]
            return
        code, why = refusal
        asks = {"WWW-Authenticate": 'Basic realm="fedglb", charset="UTF-8"'} if code == 401 else {}
        await PlainTextResponse(why + "\n", code, asks)(scope, receive, with_headers)  # type: ignore[arg-type]

    return guarded


def _file(name: str) -> Callable[[Request], Response]:
    @lru_cache
    def content() -> bytes:
        return (Path(__file__).parent / name).read_bytes()

    def answer(_: Request) -> Response:
        return Response(content(), media_type=_FILES[name])

    return answer
