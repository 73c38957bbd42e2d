"""The service as an ASGI application."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fedglb.errors import InvalidInput
from fedglb.federation import (
    Agent,
    AgentStatus,
    AlreadyObserved,
    Decision,
    DecisionExpired,
    Unavailable,
    UnknownDecision,
)
from fedglb.service.access import Access
from fedglb.service.answers import json_answer, on_error, on_no_route, page_answer
from fedglb.service.calls import Calls
from fedglb.service.gate import Gate
from fedglb.service.limits import Limits
from fedglb.service.messages import (
    Choose,
    ChooseBatch,
    ChosenBatch,
    Observe,
    ObserveBatch,
    Observed,
    RewardedBatch,
)
from fedglb.service.metrics import Metrics
from fedglb.service.openapi import Path, openapi
from fedglb.service.pages import docs_page, status_page
from fedglb.service.problem import Refused

_FORMAT = {
    "name": "format",
    "in": "query",
    "schema": {"type": "string", "enum": ["ndjson", "parquet"], "default": "ndjson"},
}
_POSTED = (400, 408, 413, 415, 503, 507)
PATHS = (
    Path("/v1/choose", "POST", "Choose one of the arms.", Decision, Choose,
         "The same key with the same arms again gives the same decision.", _POSTED),
    Path("/v1/choose/batch", "POST", "Choose several times, in order.", ChosenBatch, ChooseBatch,
         "Each item has a status and an error of its own.", _POSTED),
    Path("/v1/observe", "POST", "Report the reward of a decision.", Observed, Observe,
         "Once it is answered, the sample is in the agent's file. A second reward is refused "
         "(409), and `same` says whether it equals the first.", (404, 409, 410, *_POSTED)),
    Path("/v1/observe/batch", "POST", "Report several rewards, in order.", RewardedBatch,
         ObserveBatch, "Each item has a status and an error of its own.", _POSTED),
    Path("/v1/status", "GET", "Say where the agent stands.", AgentStatus, problems=(503,)),
    Path("/v1/export", "GET", "Return the log, one row per decision.",
         ("application/x-ndjson", "application/vnd.apache.parquet"), problems=(400, 503),
         parameters=(_FORMAT,)),
    Path("/healthz", "GET", "Say that the process answers.", ("application/json",)),
    Path("/readyz", "GET", "Say whether the agent answers.", ("application/json",),
         problems=(503,)),
    Path("/metrics", "GET", "Return counters for Prometheus.", ("text/plain",)),
)  # fmt: skip
#: What a handler may raise.
_ERRORS = (
    InvalidInput, UnknownDecision, AlreadyObserved, DecisionExpired, Unavailable, sqlite3.Error,
    msgspec.MsgspecError, UnicodeDecodeError, RecursionError, Refused,
)  # fmt: skip


def make_app(
    agent: Agent,
    *,
    limits: Limits | None = None,
    access: Access | None = None,
    about: Mapping[str, str] | None = None,
) -> Gate:
    """Return the ASGI application of an agent, which stays the caller's to close.

    Parameters
    ----------
    agent
        The agent.
    limits
        How much it takes on.
    access
        Who may ask; None: whoever reaches it by a name of this machine.
    about
        What else the page says of the agent, by name.

    Returns
    -------
    Gate
        The application.
    """
    bounds, allowed = limits or Limits(), access or Access()
    calls, metrics = Calls(agent, bounds), Metrics(agent)
    begin, known = time.monotonic(), dict(about or {})
    described = openapi(PATHS, token=allowed.token is not None)
    explained = docs_page(described)

    async def page(_: Request) -> Response:
        status = msgspec.to_builtins(agent.status)
        uptime = time.monotonic() - begin
        return page_answer(status_page(known, status, metrics.counts(), uptime))

    async def description(_: Request) -> Response:
        return json_answer(described)

    async def docs(_: Request) -> Response:
        return page_answer(explained)

    async def counters(_: Request) -> Response:
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    routes = [
        Route("/v1/choose", calls.choose, methods=["POST"]),
        Route("/v1/observe", calls.observe, methods=["POST"]),
        Route("/v1/choose/batch", calls.choose_batch, methods=["POST"]),
        Route("/v1/observe/batch", calls.observe_batch, methods=["POST"]),
        Route("/v1/status", calls.status),
        Route("/v1/export", calls.export),
        Route("/healthz", calls.health),
        Route("/readyz", calls.ready),
        Route("/metrics", counters),
        Route("/openapi.json", description),
        Route("/docs", docs),
        Route("/", page),
    ]
    app = Starlette(
        routes=routes,
        exception_handlers={
            **dict.fromkeys(_ERRORS, on_error), HTTPException: on_no_route, Exception: on_error,
        },
    )  # fmt: skip
    app.router.redirect_slashes = False
    paths = frozenset(route.path for route in routes)
    return Gate(app, paths, allowed, metrics, bounds.most_waiting)
