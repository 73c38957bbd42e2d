"""What has come in and is not handled yet: nobody can fill it for the others."""

from __future__ import annotations

import asyncio
from collections import Counter

_MESSAGES, _BYTES = 64, 32 * 1024 * 1024  # of one client


class Inbox:
    """Messages in the order in which they came, so many and so large a client at most.

    What does not fit is dropped; an honest client is asked again.

    Examples
    --------
    >>> inbox = Inbox()
    >>> [inbox.put("a", b"beat") for _ in range(65)].count(True)
    64
    >>> inbox.put("b", b"beat")
    True
    """

    def __init__(self) -> None:
        self._queue: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()
        self._messages: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()

    def put(self, client: str, payload: bytes) -> bool:
        """Take a message in; False: this client has too much waiting."""
        full = self._messages[client] >= _MESSAGES
        if full or self._bytes[client] + len(payload) > _BYTES:
            return False
        self._messages[client] += 1
        self._bytes[client] += len(payload)
        self._queue.put_nowait((client, payload))
        return True

    async def get(self, patience: float) -> tuple[str, bytes] | None:
        """Return the next message, or None if none comes in time."""
        try:
            client, payload = self._queue.get_nowait()
        except asyncio.QueueEmpty:
            try:
                client, payload = await asyncio.wait_for(self._queue.get(), patience)
            except TimeoutError:
                return None
        self._messages[client] -= 1
        self._bytes[client] -= len(payload)
        return client, payload
