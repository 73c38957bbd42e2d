"""A web service that only decodes a body and inserts a row into SQLite, in two frameworks.

`python -m benchmarks.bare_service KIND FILE` (starlette, threads, litestar) prints its URL. What a
request costs here is what the framework, the server and the insert cost: `benchmarks/service.py`
sets the agent's service beside it.
"""

from __future__ import annotations

import asyncio
import socket
import sqlite3
import sys
from typing import Any

import msgspec
import uvicorn


class Choose(msgspec.Struct, forbid_unknown_fields=True):
    """What the agent's service takes too."""

    arms: list[list[float]]
    ids: list[str | int] | None = None
    t: int | None = None
    key: str | None = None


class Observe(msgspec.Struct, forbid_unknown_fields=True):
    """What the agent's service takes too."""

    id: str
    reward: float


class Rows:
    """One table, written to as an agent writes to its file."""

    def __init__(self, path: str) -> None:
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        for statement in (
            "PRAGMA locking_mode=EXCLUSIVE", "PRAGMA journal_mode=WAL",
            "PRAGMA synchronous=NORMAL",
            "CREATE TABLE made(number INTEGER PRIMARY KEY, id TEXT, x BLOB, reward REAL)",
        ):  # fmt: skip
            self._db.execute(statement)
        self._insert = "INSERT INTO made(id, x, reward) VALUES (?, ?, ?)"

    def choose(self, body: Choose) -> dict[str, Any]:
        """Insert a row."""
        x = msgspec.msgpack.encode(body.arms[0])
        number = self._db.execute(self._insert, (None, x, None)).lastrowid
        return {"id": f"00000000-{number}", "arm": 0, "arm_id": None, "score": 0.5, "width": 0.5}

    def observe(self, body: Observe) -> dict[str, Any]:
        """Insert a row."""
        self._db.execute(self._insert, (body.id, None, body.reward))
        return {"id": body.id}


def with_starlette(rows: Rows, threads: bool = False) -> Any:
    """Return the application; `threads`: the rows are written in a thread, beside the loop."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    chosen, observed = msgspec.json.Decoder(Choose), msgspec.json.Decoder(Observe)

    async def choose(request: Request) -> Response:
        body = chosen.decode(await request.body())
        answer = await asyncio.to_thread(rows.choose, body) if threads else rows.choose(body)
        return Response(msgspec.json.encode(answer), media_type="application/json")

    async def observe(request: Request) -> Response:
        body = observed.decode(await request.body())
        answer = await asyncio.to_thread(rows.observe, body) if threads else rows.observe(body)
        return Response(msgspec.json.encode(answer), media_type="application/json")

    return Starlette(
        routes=[
            Route("/v1/choose", choose, methods=["POST"]),
            Route("/v1/observe", observe, methods=["POST"]),
        ]
    )


def with_litestar(rows: Rows) -> Any:
    from litestar import Litestar, post

    @post("/v1/choose", status_code=200)  # type: ignore[untyped-decorator]
    async def choose(data: Choose) -> dict[str, Any]:
        return rows.choose(data)

    @post("/v1/observe", status_code=200)  # type: ignore[untyped-decorator]
    async def observe(data: Observe) -> dict[str, Any]:
        return rows.observe(data)

    # annotations are text here, which Litestar looks up among these
    return Litestar([choose, observe], openapi_config=None, signature_types=[Choose, Observe])


def main() -> None:
    kind, path = sys.argv[1:]
    rows = Rows(path)
    app = with_litestar(rows) if kind == "litestar" else with_starlette(rows, kind == "threads")
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    config = uvicorn.Config(
        app, loop="uvloop", http="httptools", access_log=False, log_level="error", lifespan="off"
    )
    uvicorn.Server(config).run([listener])


if __name__ == "__main__":
    main()
