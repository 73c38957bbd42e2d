"""A web service that only decodes a body and inserts a row into SQLite.

`python -m benchmarks.bare_service FILE` prints its URL. What a request costs here is what the
framework, the server and the insert cost: `benchmarks/service.py` sets the agent's service beside
it.
"""

from __future__ import annotations

import socket
import sqlite3
import sys
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fedglb.service.messages import Choose, Observe


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


def application(rows: Rows) -> Starlette:
    """Return the application."""
    chosen, observed = msgspec.json.Decoder(Choose), msgspec.json.Decoder(Observe)

    async def choose(request: Request) -> Response:
        answer = rows.choose(chosen.decode(await request.body()))
        return Response(msgspec.json.encode(answer), media_type="application/json")

    async def observe(request: Request) -> Response:
        answer = rows.observe(observed.decode(await request.body()))
        return Response(msgspec.json.encode(answer), media_type="application/json")

    return Starlette(
        routes=[
            Route("/v1/choose", choose, methods=["POST"]),
            Route("/v1/observe", observe, methods=["POST"]),
        ]
    )


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    config = uvicorn.Config(
        application(Rows(sys.argv[1])), loop="uvloop", http="httptools", access_log=False,
        log_level="error", lifespan="off",
    )  # fmt: skip
    uvicorn.Server(config).run([listener])


if __name__ == "__main__":
    main()
