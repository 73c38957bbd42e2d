"""What every request passes: who may ask, how many at a time, and the count of all."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from fedglb.service.access import OPEN, Access
from fedglb.service.answers import problem_answer
from fedglb.service.metrics import Metrics
from fedglb.service.problem import Refused

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Gate:
    """An ASGI application around another one.

    Parameters
    ----------
    app
        The one that answers.
    paths
        Its paths; all others are counted together.
    access
        Who may ask.
    metrics
        Where requests are counted.
    most_waiting
        How many are read or answered at a time.
    """

    def __init__(
        self, app: ASGIApp, paths: frozenset[str], access: Access, metrics: Metrics,
        most_waiting: int,
    ) -> None:  # fmt: skip
        self._app, self._paths, self._access, self._metrics = app, paths, access, metrics
        self._most, self._waiting = most_waiting, 0
        metrics.waiting.set_function(lambda: self._waiting)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return  # no web sockets: the server closes them
        begin, path, status = time.perf_counter(), scope["path"], 500

        async def seen(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        self._waiting += 1
        try:
            self._access.check(path, dict(scope["headers"]))
            if self._waiting > self._most and path not in OPEN:
                raise Refused(
                    503, "busy", f"{self._most} requests are being answered: come again",
                    {"Retry-After": "1"},
                )  # fmt: skip
            await self._app(scope, receive, seen)
        except Refused as error:
            await problem_answer(error)(scope, receive, seen)
        finally:
            self._waiting -= 1
            known = path if path in self._paths else "other"
            self._metrics.answered(known, status, time.perf_counter() - begin)
