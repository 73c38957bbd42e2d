"""HTTP as uvicorn and httptools speak it, with an end to what a client may send before a request.

httptools reads a head of any length, for any time.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_MOST_HEAD = 2**16  # bytes
_HEAD_SECONDS = 20.0


class BoundedProtocol(HttpToolsProtocol):
    """One connection: it is closed if a request's head is too long, or takes too long."""

    _head: int | None = 0  # bytes of a head that is not complete
    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, and wait for a while."""
        super().connection_made(transport)
        self._patience = self.loop.call_later(_HEAD_SECONDS, transport.close)

    def on_message_begin(self) -> None:
        """Begin a head."""
        self._head = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Go on with the body."""
        self._head = None
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """Read what came."""
        super().data_received(data)
        if self._head is not None:
            self._head += len(data)
            if self._head > _MOST_HEAD:
                self.transport.close()
            elif self._patience is None:
                self._patience = self.loop.call_later(_HEAD_SECONDS, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        if self._patience is not None:
            self._patience.cancel()
        super().connection_lost(exc)
