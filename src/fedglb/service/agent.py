"""The agent's API: its calls over HTTP, its status page, and the description of both."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from fedglb.errors import InvalidInput, integer, one_of
from fedglb.federation import Agent, AgentStatus, Decision, Unavailable
from fedglb.federation.agent.comparison import Comparison
from fedglb.federation.agent.explain import Explanation, LearnedModel
from fedglb.federation.frozen import Frozen
from fedglb.io.json_names import RepeatedName, check_names
from fedglb.service.agent_page import AgentPage
from fedglb.service.guard import Access, Guard, Handler
from fedglb.service.messages import (
    Activate,
    BatchBody,
    Choose,
    ChooseBatch,
    ChooseResult,
    ChooseResults,
    Done,
    Forget,
    Forgotten,
    FreezeBody,
    Observe,
    ObserveBatch,
    Observed,
    ObserveRanking,
    ObserveResult,
    ObserveResults,
    Preview,
    Previewed,
    ProblemDetails,
    Ranking,
    RequestUpdate,
    UnfreezeBody,
    Unfrozen,
    UpdateRequested,
)
from fedglb.service.metrics import Metrics, agent_metrics
from fedglb.service.openapi import VERSION, Path, openapi
from fedglb.service.pages import TEMPLATES, security_headers, static_file
from fedglb.service.problem import Refused, problem_of

if TYPE_CHECKING:
    import polars as pl
    from starlette.types import Receive, Scope, Send

T = TypeVar("T")
_FORMAT = {
    "name": "format",
    "in": "query",
    "schema": {"type": "string", "enum": ["ndjson", "parquet"], "default": "ndjson"},
}
_STRONGEST = {
    "name": "strongest",
    "in": "query",
    "description": "Only so many weights: those farthest from 0, in their standard deviations.",
    "schema": {"type": "integer", "minimum": 1},
}
_ID = {"name": "id", "in": "query", "required": True, "schema": {"type": "string"}}
_POSTED = (400, 408, 413, 415, 503, 507)
_RECORDS = {
    "context": {"country": "DE", "age": 31},
    "arms": [{"category": "shoes", "price": 59.9}, {"category": "books", "price": None}],
    "ids": ["sneaker", "atlas"],
}
PATHS = (
    Path("/v1/choose", "POST", "Choose one of the arms.", Decision | Ranking, Choose,
         "Arms are vectors or, where the agent has a schema, records: all vectors, or all records. "
         "A repeated key with the same arms returns the same decision. With `count` the answer is "
         '`{"ranking": [decision, …]}`. With `prefetch` the decision happens when it is activated. '
         "With `played` another system has decided, and the agent learns as its apprentice.",
         _POSTED, example={**_RECORDS, "exclude": ["atlas"], "key": "view-1", "subject": "u-17"}),
    Path("/v1/choose/batch", "POST", "Choose several times, in order.", ChooseResults, ChooseBatch,
         "Each item has its own status and error.", _POSTED,
         example={"batch": [{"arms": [[1.0, 0.0], [0.0, 1.0]]}, {"arms": [[0.6, 0.8]]}]}),
    Path("/v1/observe", "POST", "Report the reward of a decision.", Observed, Observe,
         "An answer means that the sample is in the agent's file. A second reward is refused "
         "(409), and `same` says whether it equals the first.", (404, 409, 410, *_POSTED),
         example={"id": "5f0c6e1a-1", "reward": 1.0}),
    Path("/v1/observe/batch", "POST", "Report several rewards, in order.", ObserveResults,
         ObserveBatch, "Each item has its own status and error.", _POSTED),
    Path("/v1/observe/ranking", "POST", "Report the clicks on a ranking.", Done, ObserveRanking,
         "Clicked items have reward 1, items above the last click 0 (or the default reward); items "
         "below it were not seen and are not learned. All of it is stored, or nothing.",
         (404, 409, 410, *_POSTED), example={"ids": ["5f-1", "5f-2", "5f-3"], "clicked": ["5f-2"]}),
    Path("/v1/activate", "POST", "Let prefetched decisions happen.", Done, Activate,
         "No effect on decisions that have happened.", (404, *_POSTED), example={"ids": ["5f-1"]}),
    Path("/v1/forget", "POST", "Delete decisions and their samples for good.", Forgotten, Forget,
         "By id, and all of a subject. The agent's file and state no longer have them; the next "
         "update replaces the shared model. Backups and exports keep what they have.",
         (404, *_POSTED), example={"subject": "u-17"}),
    Path("/v1/compare", "GET", "Return how the agent would have done as the one in charge.",
         Comparison, details="Of decisions with `played`, by an off-policy estimate.",
         problems=(503,)),
    Path("/v1/preview", "POST", "Return what would be played, and how likely.", Previewed, Preview,
         "Nothing is written or learned.", _POSTED, example=_RECORDS),
    Path("/v1/model", "GET", "Return the weight of each feature.", LearnedModel,
         problems=(400, 503), parameters=(_STRONGEST,)),
    Path("/v1/explain", "GET", "Return why an arm was played.", Explanation, details=
         "What each feature of the arm and of the runner-up adds, by the present model.",
         problems=(400, 404, 410, 503), parameters=(_ID,)),
    Path("/v1/request-update", "POST", "Request an update with all samples so far.",
         UpdateRequested, RequestUpdate, "It comes later: `model` in the status then grows.",
         (409, *_POSTED), example={}, status=202),
    Path("/v1/freeze", "POST", "Choose with the model of an update from now on.", Frozen,
         FreezeBody, "Learning goes on. The models of the last ten updates are kept.", _POSTED,
         example={"update": 12}),
    Path("/v1/unfreeze", "POST", "Choose with the newest model again.", Unfrozen, UnfreezeBody,
         "The answer has the operator's word, if that holds.", _POSTED, example={}),
    Path("/v1/status", "GET", "Return the agent's status.", AgentStatus, problems=(503,)),
    Path("/v1/export", "GET", "Return the log, one row per decision.",
         ("application/x-ndjson", "application/vnd.apache.parquet"), problems=(400, 503),
         parameters=(_FORMAT,)),
    Path("/healthz", "GET", "Liveness: the process answers.", ("application/json",)),
    Path("/readyz", "GET", "Readiness: the agent chooses.", ("application/json",), details=
         "503 also while its disk is full, unless it chooses all the same (--on-full-disk choose).",
         problems=(503,)),
    Path("/metrics", "GET", "Return counters for Prometheus.", ("text/plain",)),
)  # fmt: skip
_decode_choose = msgspec.json.Decoder(Choose).decode
_decode_observe = msgspec.json.Decoder(Observe).decode
_decode_batch = msgspec.json.Decoder(BatchBody).decode
_decode_freeze = msgspec.json.Decoder(FreezeBody).decode
_decode_unfreeze = msgspec.json.Decoder(UnfreezeBody).decode
_decode_preview = msgspec.json.Decoder(Preview).decode
_decode_ranking = msgspec.json.Decoder(ObserveRanking).decode
_decode_activate = msgspec.json.Decoder(Activate).decode
_decode_forget = msgspec.json.Decoder(Forget).decode
_decode_request_update = msgspec.json.Decoder(RequestUpdate).decode
_encode = msgspec.json.Encoder().encode  # NaN and infinity become null
_JSON = "application/json"
_TURN = 20  # items of a batch between two chances for other requests
_ROWS, _BYTES = 10_000, 2**18  # of one piece of an export
_ARM: dict[type, str] = {dict: "record", list: "vector"}
_COUNT = re.compile("[1-9][0-9]{0,8}")
_DOCS = security_headers("style-src 'unsafe-inline'")


@dataclass(frozen=True)
class RequestLimits:
    """Limits on the size of one request and on concurrent requests."""

    max_body: int = 2**20  # bytes
    max_arms: int = 1000  # of one request; in a batch, of each item
    max_batch: int = 1000  # items
    max_concurrent: int = 256  # more are refused with 503
    max_exports: int = 2  # among them
    read_timeout: int = 10  # seconds until a body has arrived

    def __post_init__(self) -> None:
        for field in fields(self):
            integer(field.name, getattr(self, field.name))


def make_app(
    agent: Agent,
    *,
    limits: RequestLimits | None = None,
    access: Access | None = None,
    about: Mapping[str, str] | None = None,
) -> Guard:
    """Return the ASGI application of an agent, the caller closes the agent.

    Without `access`, loopback only and without a token. `about`: more rows for the status page.
    """
    limits, access = limits or RequestLimits(), access or Access()
    metrics = Metrics(lambda: agent_metrics(agent))
    described = openapi(PATHS, token=access.token is not None)
    api = AgentApi(agent, limits, metrics, about or {}, described)
    handlers = api.handlers() | shared_handlers([agent], metrics)
    return Guard(handlers, access, metrics, limits.max_concurrent)


def shared_handlers(agents: Sequence[Agent], metrics: Metrics) -> dict[str, tuple[str, Handler]]:
    """Return the handlers of the paths that a service has once, however many agents it has."""

    async def health(_: Request) -> Response:
        return _json({"status": "ok", "version": VERSION})  # the process answers

    async def ready(_: Request) -> Response:
        for agent in agents:
            try:
                agent.check_ready()
            except sqlite3.Error as error:
                raise Refused(503, "storage", str(error)) from None
        return _json({"status": "ready"})

    async def measured(_: Request) -> Response:
        return metrics.answer()

    out: dict[str, Handler] = {"/healthz": health, "/readyz": ready, "/metrics": measured}
    out |= dict.fromkeys(("/page.css", "/agent.js", "/icon.svg"), static_file)
    return {path: ("GET", handler) for path, handler in out.items()}


class AgentApi:
    """The handlers of the agent's paths.

    They call the agent on the event loop: its lock and its file admit one call at a time anyway,
    and a thread per call costs more than the call.
    """

    def __init__(
        self,
        agent: Agent,
        limits: RequestLimits,
        metrics: Metrics,
        about: Mapping[str, str],
        described: Mapping[str, Any],
        name: str = "",
    ) -> None:
        self._agent, self._limits = agent, limits
        self._page, self._described = AgentPage(agent, metrics, about, name), described
        self._exports = 0
        self._docs = TEMPLATES.get_template("docs.html").render(
            described=described, place=f"/{name}/openapi.json" if name else "/openapi.json"
        )

    def handlers(self) -> dict[str, tuple[str, Handler]]:
        """Return the method and the handler of each path."""
        described: dict[str, Handler] = {
            "/v1/choose": self.choose,
            "/v1/choose/batch": self.choose_batch,
            "/v1/observe": self.observe,
            "/v1/observe/batch": self.observe_batch,
            "/v1/observe/ranking": self.observe_ranking,
            "/v1/activate": self.activate,
            "/v1/forget": self.forget,
            "/v1/compare": self.compare,
            "/v1/preview": self.preview,
            "/v1/model": self.model,
            "/v1/explain": self.explain,
            "/v1/request-update": self.request_update,
            "/v1/freeze": self.freeze,
            "/v1/unfreeze": self.unfreeze,
            "/v1/status": self.status,
            "/v1/export": self.export,
        }
        pages: dict[str, Handler] = {"/": self.page, "/docs": self.docs, "/openapi.json": self.json}
        methods = {path.path: path.method for path in PATHS}
        out = {path: (methods[path], handler) for path, handler in described.items()}
        return out | {path: ("GET", handler) for path, handler in pages.items()}

    # -- choose and observe ----------------------------------------------------------------------

    async def choose(self, request: Request) -> Response:
        """Answer `POST /v1/choose`."""
        return _json(self._choose(await self._body(request)))

    async def observe(self, request: Request) -> Response:
        """Answer `POST /v1/observe`."""
        return _json(self._observe(await self._body(request)))

    async def choose_batch(self, request: Request) -> Response:
        """Answer `POST /v1/choose/batch`."""
        results = [
            ChooseResult(found.status, problem=found)
            if isinstance(found, ProblemDetails)
            else ChooseResult(200, ranking=found.ranking)
            if isinstance(found, Ranking)
            else ChooseResult(200, found)
            for found in await self._each(request, self._choose)
        ]
        return _json(ChooseResults(results))

    async def observe_batch(self, request: Request) -> Response:
        """Answer `POST /v1/observe/batch`."""
        results = [
            ObserveResult(found.status, found)
            if isinstance(found, ProblemDetails)
            else ObserveResult(200)
            for found in await self._each(request, self._observe)
        ]
        return _json(ObserveResults(results))

    def _choose(self, body: bytes | msgspec.Raw) -> Decision | Ranking:
        asked = _decode_choose(body)
        arms = self._arms(asked, body)
        if asked.count is None:
            return self._agent.choose(
                arms, asked.ids, context=asked.context, exclude=asked.exclude, t=asked.t,
                key=asked.key, subject=asked.subject, prefetch=asked.prefetch,
                played=asked.played, propensity=asked.propensity, explore=asked.explore,
            )  # fmt: skip
        for name in ("played", "propensity"):
            if getattr(asked, name) is not None:
                raise InvalidInput(name, getattr(asked, name), "none with `count`")
        return Ranking(
            self._agent.rank(
                arms, asked.count, asked.ids, context=asked.context, exclude=asked.exclude,
                t=asked.t, key=asked.key, subject=asked.subject, prefetch=asked.prefetch,
                explore=asked.explore,
            )
        )  # fmt: skip

    async def observe_ranking(self, request: Request) -> Response:
        """Answer `POST /v1/observe/ranking`."""
        body = await self._body(request)
        asked = _decode_ranking(body)
        check_names(bytes(body), 2)
        self._agent.observe_ranking(asked.ids, asked.clicked)
        return _json(Done(asked.ids))

    async def activate(self, request: Request) -> Response:
        """Answer `POST /v1/activate`."""
        body = await self._body(request)
        asked = _decode_activate(body)
        check_names(bytes(body), 1)
        self._agent.activate(asked.ids)
        return _json(Done(asked.ids))

    async def forget(self, request: Request) -> Response:
        """Answer `POST /v1/forget`, from a thread: all other samples are learned again."""
        body = await self._body(request)
        asked = _decode_forget(body)
        check_names(bytes(body), bool(asked.ids) + (asked.subject is not None))
        if not asked.ids and asked.subject is None:
            raise InvalidInput("subject", None, "a subject, or ids of decisions")
        forget = partial(self._agent.forget, asked.ids, subject=asked.subject)
        return _json(Forgotten(await asyncio.to_thread(forget)))

    async def compare(self, _: Request) -> Response:
        """Answer `GET /v1/compare`, from a thread."""
        return _json(await asyncio.to_thread(self._agent.compare))

    def _observe(self, body: bytes | msgspec.Raw) -> Observed:
        asked = _decode_observe(body)
        check_names(bytes(body), 2)
        self._agent.observe(asked.id, asked.reward)
        return Observed(asked.id)

    def _arms(self, asked: Choose | Preview, body: bytes | msgspec.Raw) -> Any:
        """Return the arms of a request: not too many, all vectors or all records."""
        arms: list[Any] = asked.arms
        if not arms:
            raise InvalidInput("arms", [], "at least one arm")
        if len(arms) > self._limits.max_arms:
            allowed = f"at most {self._limits.max_arms} arms"
            raise InvalidInput("arms", f"{len(arms)} arms", allowed)
        records = [arm for arm in arms if type(arm) is dict]
        if records and len(records) < len(arms):
            first = type(arms[0])
            k = next(k for k, arm in enumerate(arms) if type(arm) is not first)
            raise InvalidInput(("arms", k), arms[k], f"a {_ARM[first]}, as arms[0] is")
        values = msgspec.structs.astuple(asked)
        given = sum(v is not None and v is not False and v != [] for v in values)
        check_names(bytes(body), given + sum(map(len, records)) + len(asked.context or ()))
        return arms

    async def _each(
        self, request: Request, action: Callable[[msgspec.Raw], T]
    ) -> list[T | ProblemDetails]:
        """Call `action` with each item of a batch; return its results, or the problem."""
        body = await self._body(request)
        items = _decode_batch(body).batch
        if body.count(b":") != 1 + sum(bytes(item).count(b":") for item in items):
            raise RepeatedName("batch")
        if len(items) > self._limits.max_batch:
            allowed = f"at most {self._limits.max_batch} items"
            raise InvalidInput("batch", f"{len(items)} items", allowed)
        found: list[T | ProblemDetails] = []
        for number, item in enumerate(items):
            if number % _TURN == _TURN - 1:
                await asyncio.sleep(0)
            try:
                found.append(action(item))
            except Exception as error:  # each item has its own error
                found.append(problem_of(error))
        return found

    async def _body(self, request: Request) -> bytes:
        """Return the body of a request: declared as JSON, not too large, not too slow."""
        kind = request.headers.get("content-type", "")
        if kind != _JSON and kind.partition(";")[0].strip().lower() != _JSON:
            # A page of another origin cannot send this type without asking first (CORS preflight),
            # and the answer to that is 405.
            raise Refused(415, "not-json", "the header Content-Type: application/json is required")
        limit, pieces, size = self._limits.max_body, [], 0
        length = request.headers.get("content-length", "0")
        if length.isdecimal() and int(length) > limit:
            raise _too_large(limit)
        try:
            async with asyncio.timeout(self._limits.read_timeout):
                async for piece in request.stream():
                    pieces.append(piece)
                    size += len(piece)
                    if size > limit:
                        raise _too_large(limit)
        except ClientDisconnect:  # only the counters see this answer
            raise Refused(400, "malformed", "the connection ended before the body") from None
        except TimeoutError:
            detail = f"a body must arrive within {self._limits.read_timeout} s"
            raise Refused(408, "too-slow", detail, {"Connection": "close"}) from None
        return b"".join(pieces)

    # -- looking inside --------------------------------------------------------------------------

    async def preview(self, request: Request) -> Response:
        """Answer `POST /v1/preview`."""
        body = await self._body(request)
        asked = _decode_preview(body)
        found = self._agent.preview(
            self._arms(asked, body), asked.ids, context=asked.context, exclude=asked.exclude
        )
        return _json(Previewed(found))

    async def freeze(self, request: Request) -> Response:
        """Answer `POST /v1/freeze`."""
        body = await self._body(request)
        asked = _decode_freeze(body)
        check_names(body, 1)
        return _json(self._agent.freeze(asked.update))

    async def unfreeze(self, request: Request) -> Response:
        """Answer `POST /v1/unfreeze`."""
        _decode_unfreeze(await self._body(request))
        self._agent.unfreeze()
        return _json(Unfrozen(self._agent.status.frozen))

    async def model(self, request: Request) -> Response:
        """Answer `GET /v1/model`."""
        text = request.query_params.get("strongest")
        if text is not None and not _COUNT.fullmatch(text):
            raise InvalidInput("strongest", text, "a whole number >= 1")
        found = self._agent.model()
        if text is not None:
            found = found.only_strongest(int(text))
        return _json(found)

    async def explain(self, request: Request) -> Response:
        """Answer `GET /v1/explain`."""
        id_ = request.query_params.get("id")
        if id_ is None:
            raise InvalidInput("id", None, "the id of a decision: /v1/explain?id=ID")
        return _json(self._agent.explain(id_))

    # -- the rest --------------------------------------------------------------------------------

    async def request_update(self, request: Request) -> Response:
        """Answer `POST /v1/request-update`."""
        _decode_request_update(await self._body(request))
        model = self._agent.status.model  # raises if the agent is closed
        try:
            self._agent.request_update()
        except Unavailable as error:  # not now, and not later
            raise Refused(409, "no-updates", str(error)) from None
        return _json(UpdateRequested(model), 202)

    async def status(self, _: Request) -> Response:
        """Answer `GET /v1/status`."""
        return _json(self._agent.status)

    async def page(self, _: Request) -> Response:
        """Answer `GET /`."""
        return await self._page.document()

    async def docs(self, _: Request) -> Response:
        """Answer `GET /docs`."""
        return Response(self._docs, headers=_DOCS, media_type="text/html")

    async def json(self, _: Request) -> Response:
        """Answer `GET /openapi.json`."""
        return _json(self._described)

    async def export(self, request: Request) -> Response:
        """Answer `GET /v1/export`: the log in pieces, from a thread."""
        name = one_of("format", request.query_params.get("format", "ndjson"), _FORMATS)
        _ = self._agent.status  # raises if the agent is closed, before an answer begins
        if self._exports >= self._limits.max_exports:
            detail = f"{self._exports} exports are running: try again"
            raise Refused(503, "busy", detail, {"Retry-After": "5"})
        self._exports += 1
        return _Export(self._agent, name, self._exported)

    def _exported(self) -> None:
        self._exports -= 1


def _too_large(limit: int) -> Refused:
    # the rest of the body is not read, so the connection cannot be used again
    detail = f"a body has at most {limit} bytes: send fewer arms, or smaller batches"
    return Refused(413, "too-large", detail, {"Connection": "close"})


def _json(value: Any, status: int = 200) -> Response:
    return Response(_encode(value), status, media_type=_JSON)


class _Export(StreamingResponse):
    """The log as a file; calls `over` at the end, also if the client has gone."""

    def __init__(self, agent: Agent, name: str, over: Callable[[], None]) -> None:
        pieces, kind = _FORMATS[name]
        headers = {"Content-Disposition": f'attachment; filename="log.{name}"'}
        super().__init__(pieces(agent.export_batches(rows=_ROWS)), 200, headers, kind)
        self._over = over

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._over()


def _ndjson(batches: Iterator[pl.DataFrame]) -> Iterator[bytes]:
    """Return the log as lines of JSON; NaN and infinity become null."""
    for batch in batches:
        yield batch.write_ndjson().encode()


def _parquet(batches: Iterator[pl.DataFrame]) -> Iterator[bytes]:
    """Return the log as a Parquet file, written to disk first, not to memory."""
    from polars.io.plugins import register_io_source

    first = next(batches)  # there is always one, which may be empty

    def read(*_: object) -> Iterator[pl.DataFrame]:
        yield first
        yield from batches

    with tempfile.TemporaryDirectory(prefix="fedglb-export-") as folder:
        path = FilePath(folder) / "log.parquet"
        register_io_source(read, schema=first.schema).sink_parquet(path)
        with path.open("rb") as file:
            while piece := file.read(_BYTES):
                yield piece


_FORMATS = {
    "ndjson": (_ndjson, "application/x-ndjson"),
    "parquet": (_parquet, "application/vnd.apache.parquet"),
}
