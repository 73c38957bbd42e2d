"""The ASGI application of both services: checks access, finds the handler, counts requests."""

from __future__ import annotations

import hmac
import time
from base64 import b64decode
from collections.abc import Awaitable, Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fedglb.service.listening import LOOPBACK
from fedglb.service.metrics import Metrics
from fedglb.service.problem import MEDIA_TYPE, Refused, problem_of

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

Handler = Callable[[Request], Awaitable[Response]]
#: Paths without a token and without a limit: they only report that the service is alive.
OPEN = frozenset({"/healthz", "/readyz"})
#: How the paths of pages end, to which a link on a page of another origin may lead.
_PAGES = ("/", "/docs")
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True)
class Access:
    """The headers that a request must carry."""

    token: str | None = field(default=None, repr=False)  # in Authorization: Bearer; None: none
    hosts: Set[str] | None = LOOPBACK  # of the Host header; None: any
    browser: bool = False  # may ask its user for the token, as the password of Basic authentication

    def check(self, path: str, headers: Mapping[bytes, bytes]) -> None:
        """Raise `Refused` if a request is not admitted."""
        host, origin = headers.get(b"host", b""), headers.get(b"origin")
        if self.hosts is not None and _name(host) not in self.hosts:
            allowed = ", ".join(sorted(self.hosts))
            raise Refused(403, "forbidden", f"the Host header must be one of {allowed}")
        elsewhere = origin is not None and origin.partition(b"://")[2] != host
        # A browser sends no Origin where a page of another origin has an image, a frame or a link.
        if headers.get(b"sec-fetch-site", b"none") not in (b"none", b"same-origin"):
            linked = path.endswith(_PAGES) and headers.get(b"sec-fetch-dest") == b"document"
            elsewhere = elsewhere or not linked
        if elsewhere:
            raise Refused(403, "forbidden", "cross-origin request")
        if self.token is None or path in OPEN:
            return
        if not self._has_token(headers.get(b"authorization", b""), self.token):
            challenge = 'Basic realm="fedglb", charset="UTF-8"' if self.browser else "Bearer"
            raise Refused(
                401, "unauthorized", "the header Authorization: Bearer TOKEN is required",
                {"WWW-Authenticate": challenge},
            )  # fmt: skip

    def _has_token(self, authorization: bytes, token: str) -> bool:
        kind, _, given = authorization.partition(b" ")
        if kind.lower() == b"basic" and self.browser:  # with any user name
            try:
                given = b64decode(given, validate=True).partition(b":")[2]
            except ValueError:
                return False
        elif kind.lower() != b"bearer":
            return False
        # in constant time, against timing attacks
        return hmac.compare_digest(given.strip(), token.encode())


def _name(host: bytes) -> str:
    """Return a Host header without its port."""
    text = host.decode("latin-1").lower()
    return text.partition("]")[0] + "]" if text.startswith("[") else text.partition(":")[0]


class Guard:
    """An ASGI application: each request passes its checks, and each error becomes problem JSON.

    HEAD is allowed where GET is. `headers` are added to every answer. `make_room` ends a request
    whose body does not arrive, so that another can be answered; False: there is none.
    """

    make_room: Callable[[], bool] = staticmethod(lambda: False)

    def __init__(
        self,
        handlers: Mapping[str, tuple[str, Handler]],
        access: Access,
        metrics: Metrics,
        max_concurrent: int,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.handlers = handlers
        self._access, self._metrics, self._max = access, metrics, max_concurrent
        self._headers = [
            (name.lower().encode(), text.encode()) for name, text in (headers or {}).items()
        ]
        self._running = 0
        metrics.waiting.set_function(lambda: self._running)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return  # no web sockets: the server closes them
        begin, path, status = time.perf_counter(), scope["path"], 500
        self._running += 1
        try:
            try:
                handler = self._handler(scope)
                response = await handler(Request(scope, receive))
            except Exception as error:
                response = _refusal(error)
            status = response.status_code
            response.raw_headers += self._headers
            await response(scope, receive, send)
        finally:
            self._running -= 1
            known = path if path in self.handlers else "other"
            self._metrics.answered(known, status, time.perf_counter() - begin)

    def _handler(self, scope: Scope) -> Handler:
        """Return the handler of an admitted request."""
        path = scope["path"]
        self._access.check(path, dict(scope["headers"]))
        if self._running > self._max and path not in OPEN and not self.make_room():
            raise Refused(
                503, "busy", f"{self._max} requests are in progress: try again",
                {"Retry-After": "1"},
            )  # fmt: skip
        if path not in self.handlers:
            index = "/openapi.json" if "/openapi.json" in self.handlers else "/"
            raise Refused(404, "not-found", f"unknown path; see {index}")
        method, handler = self.handlers[path]
        allowed = ("GET", "HEAD") if method == "GET" else (method,)
        if scope["method"] not in allowed:
            detail = f"{path} requires {' or '.join(allowed)}"
            raise Refused(405, "method-not-allowed", detail, {"Allow": ", ".join(allowed)})
        return handler


def _refusal(error: Exception) -> Response:
    """Return an error as problem JSON."""
    problem = problem_of(error)
    headers = error.headers if isinstance(error, Refused) else {}
    return Response(_encode(problem), problem.status, headers, MEDIA_TYPE)
