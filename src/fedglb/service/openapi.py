"""The OpenAPI description of the agent's API, generated from its messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

import msgspec

from fedglb.provenance import versions
from fedglb.service.messages import ProblemDetails
from fedglb.service.problem import MEDIA_TYPE

#: The release of the package.
VERSION = versions(("fedglb",)).get("fedglb", "unknown")
_REFERENCE = "#/components/schemas/{name}"


@dataclass(frozen=True)
class Path:
    """One path, for OpenAPI."""

    path: str
    method: str
    summary: str
    answer: Any  # a message, one of several (a union), or the media types of another answer
    body: type | None = None
    details: str = ""
    problems: Sequence[int] = ()  # status codes of refusals
    parameters: Sequence[dict[str, Any]] = ()  # of the query, as OpenAPI describes them
    example: Any = None  # of a body
    status: int = 200  # of the answer


def openapi(paths: Sequence[Path], token: bool) -> dict[str, Any]:
    """Return the description of all paths; `token`: whether they require a token."""
    given = (m for path in paths for m in (path.body, path.answer))
    every = [each for m in given if m and not isinstance(m, tuple) for each in _messages(m)]
    every.append(ProblemDetails)
    _, schemas = msgspec.json.schema_components(every, ref_template=_REFERENCE)
    operations: dict[str, Any] = {}
    for path in paths:
        operations.setdefault(path.path, {})[path.method.lower()] = _operation(path)
    described: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "fedglb agent",
            "version": VERSION,
            "description": "An agent that chooses arms and learns from rewards, as a service.",
        },
        "paths": operations,
        "components": {"schemas": schemas},
    }
    if token:
        described["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        described["security"] = [{"token": []}]
    return described


def _operation(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {
        "summary": path.summary,
        "operationId": path.path.strip("/").replace("/", "_").replace(".", "_") or "page",
        "responses": {str(path.status): {"description": "Done.", "content": _content(path.answer)}},
    }
    if path.details:
        found["description"] = path.details
    if path.parameters:
        found["parameters"] = list(path.parameters)
    if path.body is not None:
        content = _content(path.body)
        if path.example is not None:
            content["application/json"]["example"] = path.example
        found["requestBody"] = {"required": True, "content": content}
    for status in path.problems:
        content = {MEDIA_TYPE: _schema(ProblemDetails)}
        found["responses"][str(status)] = {"description": "Refused.", "content": content}
    return found


def _content(message: Any) -> dict[str, Any]:
    if isinstance(message, tuple):
        return {kind: {} for kind in message}
    return {"application/json": _schema(message)}


def _schema(message: Any) -> dict[str, Any]:
    found = [{"$ref": _REFERENCE.format(name=each.__name__)} for each in _messages(message)]
    return {"schema": found[0] if len(found) == 1 else {"anyOf": found}}


def _messages(message: Any) -> tuple[type, ...]:
    return get_args(message) or (message,)
