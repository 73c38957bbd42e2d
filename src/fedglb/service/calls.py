"""What each path does with the agent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from fedglb.errors import InvalidInput, one_of
from fedglb.federation import Agent, Decision
from fedglb.service.answers import json_answer
from fedglb.service.bodies import read
from fedglb.service.export import ndjson, parquet
from fedglb.service.limits import Limits
from fedglb.service.messages import (
    Batch,
    Choose,
    Chosen,
    ChosenBatch,
    Observe,
    Observed,
    Rewarded,
    RewardedBatch,
)
from fedglb.service.openapi import VERSION
from fedglb.service.problem import Refused, problem_of

T = TypeVar("T")
_choose = msgspec.json.Decoder(Choose).decode
_observe = msgspec.json.Decoder(Observe).decode
_batch = msgspec.json.Decoder(Batch).decode
_FORMATS = {
    "ndjson": (ndjson, "application/x-ndjson"),
    "parquet": (parquet, "application/vnd.apache.parquet"),
}
_AT_A_TIME = 20  # items of a batch: then other requests have their turn


class Calls:
    """The agent's calls, asked for over HTTP.

    They run on the event loop itself: the agent's lock and its file admit one at a time anyway,
    and a thread per call costs more than the call.

    Parameters
    ----------
    agent
        The agent.
    limits
        What a request may bring.
    """

    def __init__(self, agent: Agent, limits: Limits) -> None:
        self._agent, self._limits = agent, limits
        self._exports = 0

    async def choose(self, request: Request) -> Response:
        """Answer `POST /v1/choose`."""
        return json_answer(self._chosen(_choose(await read(request, self._limits))))

    async def observe(self, request: Request) -> Response:
        """Answer `POST /v1/observe`."""
        return json_answer(self._observed(_observe(await read(request, self._limits))))

    async def choose_batch(self, request: Request) -> Response:
        """Answer `POST /v1/choose/batch`."""
        results = []
        for found in await self._each(request, lambda item: self._chosen(_choose(item))):
            if isinstance(found, Decision):
                results.append(Chosen(200, found))
            else:
                problem = problem_of(found)
                results.append(Chosen(problem.status, problem=problem))
        return json_answer(ChosenBatch(results))

    async def observe_batch(self, request: Request) -> Response:
        """Answer `POST /v1/observe/batch`."""
        results = []
        for found in await self._each(request, lambda item: self._observed(_observe(item))):
            if isinstance(found, Observed):
                results.append(Rewarded(200))
            else:
                problem = problem_of(found)
                results.append(Rewarded(problem.status, problem))
        return json_answer(RewardedBatch(results))

    async def status(self, _: Request) -> Response:
        """Answer `GET /v1/status`."""
        return json_answer(self._agent.status)

    async def export(self, request: Request) -> Response:
        """Answer `GET /v1/export`: the log, in pieces, which are made in a thread."""
        name = one_of("format", request.query_params.get("format", "ndjson"), _FORMATS)
        pieces, kind = _FORMATS[name]
        self._check()  # before an answer begins
        if self._exports >= self._limits.most_exports:
            detail = f"{self._exports} exports are running: come again"
            raise Refused(503, "busy", detail, {"Retry-After": "5"})
        self._exports += 1
        return _Export(pieces(self._agent), name, kind, self._exported)

    async def health(self, _: Request) -> Response:
        """Answer `GET /healthz`: the process is there and answers."""
        return json_answer({"status": "ok", "version": VERSION})

    async def ready(self, _: Request) -> Response:
        """Answer `GET /readyz`: the agent would answer, with or without its federation."""
        self._check()
        return json_answer({"status": "ready"})

    def _check(self) -> None:
        """Raise `Unavailable` if the agent is closed."""
        _ = self._agent.status

    # -- one item ----------------------------------------------------------------------------------

    def _chosen(self, asked: Choose) -> Decision:
        if len(asked.arms) > self._limits.most_arms:
            allowed = f"at most {self._limits.most_arms} arms"
            raise InvalidInput("arms", f"{len(asked.arms)} arms", allowed)
        return self._agent.choose(asked.arms, asked.ids, t=asked.t, key=asked.key)

    def _observed(self, asked: Observe) -> Observed:
        self._agent.observe(asked.id, asked.reward)
        return Observed(asked.id)

    async def _each(
        self, request: Request, action: Callable[[msgspec.Raw], T]
    ) -> list[T | Exception]:
        """Do something with each item of a batch; return what it returned, or the error."""
        items = _batch(await read(request, self._limits)).batch
        if len(items) > self._limits.most_batch:
            allowed = f"at most {self._limits.most_batch} items"
            raise InvalidInput("batch", f"{len(items)} items", allowed)
        found: list[T | Exception] = []
        for number, item in enumerate(items):
            if number % _AT_A_TIME == _AT_A_TIME - 1:
                await asyncio.sleep(0)
            try:
                found.append(action(item))
            except Exception as error:  # each item has its own
                found.append(error)
        return found

    def _exported(self) -> None:
        self._exports -= 1


class _Export(StreamingResponse):
    """A stream that says when it is over, however it ends."""

    def __init__(self, pieces: Iterator[bytes], name: str, kind: str, over: Callable[[], None]):
        headers = {"Content-Disposition": f'attachment; filename="log.{name}"'}
        super().__init__(pieces, 200, headers, kind)
        self._over = over

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._over()
