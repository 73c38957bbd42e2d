"""Answers: JSON, pages, and problems."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from fedglb.service.problem import MEDIA_TYPE, Refused, problem_of

_log = logging.getLogger("fedglb.service")
_encode = msgspec.json.Encoder().encode
#: A page loads nothing, runs nothing, and is shown in no other page.
_PAGE = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def json_answer(value: Any, status: int = 200) -> Response:
    """Return a value as JSON; a number that is none is null."""
    return Response(_encode(value), status, media_type="application/json")


def page_answer(text: str) -> Response:
    """Return a page that needs nothing from elsewhere."""
    return Response(text, headers=_PAGE, media_type="text/html")


def problem_answer(error: Exception) -> Response:
    """Return an error as problem JSON."""
    problem = problem_of(error)
    if problem.status == 500:
        _log.error("a request failed", exc_info=error)
    headers = error.headers if isinstance(error, Refused) else {}
    return Response(_encode(problem), problem.status, headers, MEDIA_TYPE)


def on_error(_: Request, error: Exception) -> Response:
    """Answer an error that a handler raised."""
    return problem_answer(error)


def on_no_route(request: Request, error: Exception) -> Response:
    """Answer a request for a path or a method that there is not."""
    assert isinstance(error, HTTPException)
    path = request.url.path
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        detail = f"{path} takes {allowed}"
        return problem_answer(Refused(405, "method-not-allowed", detail, {"Allow": allowed}))
    detail = f"there is no {path}: /openapi.json has all paths"
    return problem_answer(Refused(404, "not-found", detail))
