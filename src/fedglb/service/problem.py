"""Exceptions as problem JSON (RFC 9457), and back: a client raises what the agent raised."""

from __future__ import annotations

import logging
import math
import sqlite3
from collections.abc import Mapping

import msgspec

from fedglb.errors import InvalidInput
from fedglb.federation import AlreadyObserved, DecisionExpired, Unavailable, UnknownDecision
from fedglb.io.json_names import RepeatedName
from fedglb.service.messages import ProblemDetails

MEDIA_TYPE = "application/problem+json"
_PREFIX = "urn:fedglb:problem:"
_LONGEST = 500  # characters of a text: an invalid value may be a million numbers
_log = logging.getLogger("fedglb.service")

#: The name and the title of each problem. The names are part of the interface.
TITLES = {
    "invalid-input": "Invalid value",
    "malformed": "Malformed JSON or wrong fields",
    "too-large": "The request is too large",
    "too-slow": "The body did not arrive in time",
    "not-json": "The body is not declared as JSON",
    "unauthorized": "The token is missing or wrong",
    "forbidden": "Cross-origin request or wrong Host header",
    "not-found": "Unknown path",
    "method-not-allowed": "The path does not support this method",
    "unknown-decision": "Unknown decision",
    "already-observed": "The decision already has a reward",
    "decision-expired": "The decision has expired",
    "no-updates": "The agent cannot request an update",
    "busy": "Too many requests at a time",
    "unavailable": "The service cannot answer now",
    "storage": "The agent's file cannot be read or written",
    "internal": "An error inside the service",
}


class Refused(Exception):
    """A request refused before it reaches the agent or the coordinator."""

    def __init__(
        self, status: int, name: str, detail: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.problem = _problem(status, name, detail)
        self.headers = dict(headers or {})


def problem_of(error: Exception) -> ProblemDetails:
    """Return an exception as a problem; an unexpected one is logged; its text is not sent."""
    match error:
        case Refused():
            return error.problem
        case InvalidInput():
            found = _problem(400, "invalid-input", str(error))
            found.argument, found.allowed = error.argument, error.allowed
            found.value = _plain(error.value)
            return found
        case msgspec.DecodeError() | UnicodeDecodeError() | RepeatedName():
            return _problem(400, "malformed", str(error))
        case RecursionError():
            return _problem(400, "malformed", "the JSON is nested too deeply")
        case UnknownDecision():
            return _problem(404, "unknown-decision", str(error))
        case AlreadyObserved():
            found = _problem(409, "already-observed", str(error))
            found.same = error.same
            return found
        case DecisionExpired():
            return _problem(410, "decision-expired", str(error))
        case Unavailable():
            return _problem(503, "unavailable", str(error))
        case sqlite3.Error():
            return _problem(507 if "full" in str(error) else 503, "storage", str(error))
    _log.error("a request failed", exc_info=error)
    return _problem(500, "internal", "see the service's log")


def raised(problem: ProblemDetails) -> Exception:
    """Return the exception that a problem stands for."""
    match problem.type.removeprefix(_PREFIX):
        case "invalid-input":
            return InvalidInput(
                problem.argument or "?", problem.value, problem.allowed or "another value"
            )
        case "malformed" | "too-large":
            return InvalidInput("request", problem.title, problem.detail)
        case "unknown-decision":
            return UnknownDecision(problem.detail)
        case "already-observed":
            return AlreadyObserved(problem.detail, same=bool(problem.same))
        case "decision-expired":
            return DecisionExpired(problem.detail)
    return Unavailable(f"{problem.title}: {problem.detail}")


def _problem(status: int, name: str, detail: str) -> ProblemDetails:
    return ProblemDetails(_PREFIX + name, TITLES[name], status, _short(detail))


def _plain(value: object) -> str | int | float | None:
    """Return a value for JSON: numbers as they are, anything else as a short text."""
    if value is None or (isinstance(value, float) and math.isfinite(value)):
        return value
    if type(value) is int and abs(value) < 2**63:
        return value
    return _short(value if isinstance(value, str) else repr(value))


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " …"
