"""Requests to the application itself: no socket and no server."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

JSON = {"content-type": "application/json"}
CUT = b"<the connection ends>"  # as a piece of a body


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def problem(self) -> str:
        """The name of the problem."""
        assert self.headers["content-type"] == "application/problem+json"
        found = self.json()
        assert found["status"] == self.status
        assert found["title"]
        assert found["detail"]
        return found["type"].removeprefix("urn:fedglb:problem:")


async def ask(
    app: Any,
    method: str,
    path: str,
    body: bytes = b"",
    headers: dict[str, str] | None = None,
    pieces: list[bytes] | None = None,
) -> Answer:
    given = {"host": "127.0.0.1:8731", **(headers or {})}
    given = {key: value for key, value in given.items() if value is not None}
    where, _, query = path.partition("?")
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
        "path": where, "raw_path": where.encode(), "query_string": query.encode(),
        "root_path": "", "scheme": "http", "server": ("127.0.0.1", 8731),
        "client": ("127.0.0.1", 1),
        "headers": [(k.encode(), v.encode("latin-1")) for k, v in given.items()],
    }  # fmt: skip
    left = [body] if pieces is None else list(pieces)
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if not left:
            await asyncio.Event().wait()  # a client that waits for its answer
        if left[0] == CUT:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    found = {key.decode(): value.decode("latin-1") for key, value in sent[0]["headers"]}
    return Answer(sent[0]["status"], found, b"".join(m.get("body", b"") for m in sent[1:]))


def get(app: Any, path: str, headers: dict[str, str] | None = None) -> Answer:
    return asyncio.run(ask(app, "GET", path, headers=headers))


def post(app: Any, path: str, value: Any, headers: dict[str, str] | None = None) -> Answer:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return asyncio.run(ask(app, "POST", path, body, {**JSON, **(headers or {})}))
