"""The thread that serves the page, beside the coordinator's own loop.

A solve that takes long keeps the coordinator's loop busy: the page still answers, with the last
status. And nothing that a browser does holds up an update.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from fedglb.federation.coordinator.board import Board
from fedglb.service.page.app import make_app
from fedglb.service.page.listen import Listen

_CONNECTIONS = 100
_STOP = 5.0  # seconds


@contextmanager
def serving(board: Board, listen: Listen) -> Iterator[str]:
    """Serve the page inside this block; give its address."""
    line = listen.bind()
    port = line.getsockname()[1]
    board.watched = True
    app = make_app(board, listen, lambda: server.should_exit)
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http="h11",
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        limit_concurrency=_CONNECTIONS,
        timeout_graceful_shutdown=1,
        ssl_certfile=None if listen.tls is None else listen.tls.certificate,
        ssl_keyfile=None if listen.tls is None else listen.tls.key,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([line],), name="page", daemon=True)
    thread.start()
    try:
        yield listen.url(port)
    finally:
        server.should_exit = True
        thread.join(_STOP)
        line.close()
