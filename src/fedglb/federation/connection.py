"""A connection to the NATS server that reconnects by itself."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence

import nats
from nats.aio.client import Client as Nats
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from fedglb.federation.bundle import Bundle

log = logging.getLogger(__name__)
_PAUSE = 1.0  # seconds between two attempts to connect
_TIMEOUT = 5.0  # seconds per attempt
_POLL = 0.5  # seconds between two checks of the connection


def _matters(record: logging.LogRecord) -> bool:
    """Drop asyncio's warning about every TLS connection that ends: nothing is wrong then."""
    return "eof_received" not in str(record.msg)


logging.getLogger("asyncio").addFilter(_matters)


class Connection:
    """Subscribes to subjects and publishes; the protocol repeats whatever is lost.

    Parameters
    ----------
    bundle
        The member's bundle: its certificate and the server's address.
    subjects
        The subject to subscribe to, or several.
    on_message
        Awaited with subject and payload, one message after the other. Messages with headers or a
        reply subject are dropped: no member sends such messages, so an attacker made the server
        send them.
    on_connect
        Awaited after every connection, the first included.
    turns
        What bounds the number of handshakes at a time, where many connections share it.
    """

    def __init__(
        self,
        bundle: Bundle,
        subjects: str | Sequence[str],
        on_message: Callable[[str, bytes], Awaitable[None]],
        on_connect: Callable[[], Awaitable[None]],
        turns: asyncio.Semaphore | None = None,
    ) -> None:
        self._bundle = bundle
        self._subjects = [subjects] if isinstance(subjects, str) else list(subjects)
        self._on_message, self._on_connect = on_message, on_connect
        self._turns = asyncio.Semaphore() if turns is None else turns
        self._nats: Nats | None = None
        self._last_error = ""
        self._subscriptions: dict[str, Subscription] = {}

    @property
    def connected(self) -> bool:
        """Whether there is a connection right now."""
        return self._nats is not None and self._nats.is_connected

    async def run(self) -> None:
        """Stay connected until cancelled."""
        while True:
            try:
                async with self._turns:
                    await self._connect()
                # Polled, not awaited: the library's callback for the end can get lost, in a task
                # that the library itself cancels.
                while self.connected:
                    await asyncio.sleep(_POLL)
            except Exception as error:  # e.g. a certificate that is being replaced
                self._log_once(error)
            finally:
                await self._drop()
            await asyncio.sleep(_PAUSE)

    async def _connect(self) -> None:
        async def on_error(error: Exception) -> None:
            self._log_once(error)

        self._nats = Nats()
        # Instead of the library's own reconnecting, `run` connects again: the library would keep
        # the first certificates, deliver queued messages late, and wait for ever after a first
        # handshake that failed.
        await asyncio.wait_for(
            self._nats.connect(
                **self._bundle.connection(),
                name=self._bundle.client,
                inbox_prefix=f"_INBOX.{self._bundle.client}",
                allow_reconnect=False,
                ping_interval=10,
                pending_size=0,
                error_cb=on_error,
            ),
            _TIMEOUT,
        )
        self._last_error = ""
        self._subscriptions = {}
        await self._subscribe(self._nats)
        await self._on_connect()

    async def listen(self, subjects: Sequence[str]) -> None:
        """Subscribe to these subjects and to no others, now and after every connection."""
        self._subjects = list(subjects)
        if not self.connected or self._nats is None:
            return
        with contextlib.suppress(OSError, nats.errors.Error):
            await self._subscribe(self._nats)
            for subject in [s for s in self._subscriptions if s not in self._subjects]:
                await self._subscriptions.pop(subject).unsubscribe()

    async def _subscribe(self, connection: Nats) -> None:
        for subject in self._subjects:
            if subject not in self._subscriptions:
                found = await connection.subscribe(subject, cb=self._received)
                self._subscriptions[subject] = found

    def _log_once(self, error: Exception) -> None:
        """Log an error, unless it is the same as the last: attempts are made every second."""
        text = f"{type(error).__name__}: {error}"
        if text != self._last_error:
            log.warning("%s: %s", self._bundle.server, text)
        self._last_error = text

    async def _received(self, message: Msg) -> None:
        if not message.headers and not message.reply:
            await self._on_message(message.subject, message.data)

    async def publish(self, subject: str, payload: bytes) -> bool:
        """Publish; return False if there is no connection."""
        if not self.connected or self._nats is None:
            return False
        try:
            await self._nats.publish(subject, payload)
        except (OSError, nats.errors.Error):
            return False
        return True

    async def flush(self) -> None:
        """Wait, for a second at most, until the server has what was published."""
        if self._nats is not None:
            with contextlib.suppress(OSError, nats.errors.Error, asyncio.TimeoutError):
                await self._nats.flush(1)

    async def _drop(self) -> None:
        if self._nats is not None:
            with contextlib.suppress(OSError, nats.errors.Error, TimeoutError):
                # bounded: after a handshake that failed it would never return
                await asyncio.wait_for(self._nats.close(), _PAUSE)
        self._nats = None
