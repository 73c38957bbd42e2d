"""A connection to the NATS server that keeps itself up."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

import nats
from nats.aio.client import Client as Nats
from nats.aio.msg import Msg

from fedglb.federation.bundle import Bundle

log = logging.getLogger(__name__)
_PAUSE = 1.0  # seconds between two attempts
_PATIENCE = 5.0  # seconds for one
_LOOK = 0.2  # seconds between two looks whether the connection still stands


def _matters(record: logging.LogRecord) -> bool:
    """Leave out asyncio's remark on every TLS connection that ends: it concerns nobody."""
    return "eof_received" not in str(record.msg)


logging.getLogger("asyncio").addFilter(_matters)


class Connection:
    """Subscribes to one subject and publishes; whatever is lost, the protocol asks for again.

    Parameters
    ----------
    bundle
        Who connects, and where to.
    subject
        What to subscribe to.
    on_message
        Called with subject and payload. Messages with headers or a reply subject are dropped:
        nobody in a federation sends such, so somebody else made the server send them.
    on_connect
        Awaited after every connection, the first included.
    """

    def __init__(
        self,
        bundle: Bundle,
        subject: str,
        on_message: Callable[[str, bytes], None],
        on_connect: Callable[[], Awaitable[None]],
    ) -> None:
        self._bundle, self._subject = bundle, subject
        self._on_message, self._on_connect = on_message, on_connect
        self._nats: Nats | None = None
        self._complaint = ""

    @property
    def connected(self) -> bool:
        """Whether the server is there right now."""
        return self._nats is not None and self._nats.is_connected

    async def run(self) -> None:
        """Stay connected until cancelled."""
        while True:
            try:
                await self._connect()
                # Looked at, not waited for: the library's own notice of the end can get lost,
                # in a task that it cancels itself.
                while self.connected:
                    await asyncio.sleep(_LOOK)
            except Exception as error:  # certificates replaced at the wrong moment, say
                self._complain(error)
            finally:
                await self._drop()
            await asyncio.sleep(_PAUSE)

    async def _connect(self) -> None:
        async def on_error(error: Exception) -> None:
            self._complain(error)

        self._nats = Nats()
        # The library's own reconnecting would keep the certificates of the first time, deliver
        # messages late that it kept meanwhile, and wait for ever after a first handshake that
        # failed: `run` begins anew instead.
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
            _PATIENCE,
        )
        self._complaint = ""
        await self._nats.subscribe(self._subject, cb=self._received)
        await self._on_connect()

    def _complain(self, error: Exception) -> None:
        """Log what is wrong, once as long as it is the same: attempts are made every second."""
        complaint = f"{type(error).__name__}: {error}"
        if complaint != self._complaint:
            log.warning("%s: %s", self._bundle.server, complaint)
        self._complaint = complaint

    async def _received(self, message: Msg) -> None:
        if not message.headers and not message.reply:
            self._on_message(message.subject, message.data)

    async def publish(self, subject: str, payload: bytes) -> bool:
        """Send, or return False if that is not possible now."""
        if not self.connected or self._nats is None:
            return False
        try:
            await self._nats.publish(subject, payload)
        except (OSError, nats.errors.Error):
            return False
        return True

    async def flush(self) -> None:
        """Wait a moment for what was published to have left."""
        if self._nats is not None:
            with contextlib.suppress(OSError, nats.errors.Error, asyncio.TimeoutError):
                await self._nats.flush(1)

    async def _drop(self) -> None:
        if self._nats is not None:
            with contextlib.suppress(OSError, nats.errors.Error, TimeoutError):
                # bounded: after a handshake that failed it would never return
                await asyncio.wait_for(self._nats.close(), _PAUSE)
        self._nats = None
