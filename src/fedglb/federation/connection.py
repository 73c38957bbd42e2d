"""A connection to the NATS server that reconnects by itself, also with a renewed certificate."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime

import nats
from nats.aio.client import Client as Nats
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from fedglb.errors import InvalidInput
from fedglb.federation.bundle import Bundle

log = logging.getLogger(__name__)
_PAUSE = 1.0  # seconds between two attempts to connect
_RAREST = 300.0  # seconds between two attempts after many refusals
_TIMEOUT = 5.0  # seconds per attempt
_POLL = 0.5  # seconds between two checks of the connection
_LOOK = 5.0  # seconds between two checks of the certificate's files
_QUIET = 3600.0  # seconds until the same warning is logged again
_REFUSED = "authorization violation"  # the server's answer to an unknown client
#: Errors of a connection that ended without a reason.
_LOST = (
    nats.errors.UnexpectedEOF, nats.errors.StaleConnectionError, ConnectionResetError,
    BrokenPipeError,
)  # fmt: skip
_chance = random.SystemRandom()  # leaves the application's random numbers unchanged


def _matters(record: logging.LogRecord) -> bool:
    """Drop asyncio's warning about every TLS connection that ends."""
    return "eof_received" not in str(record.msg)


logging.getLogger("asyncio").addFilter(_matters)


class Connection:
    """Subscribes to subjects and publishes; the protocol repeats lost messages.

    `on_message` is awaited with subject and payload, one message after the other. Messages with
    headers or a reply subject are dropped: no member sends such messages, so an attacker made the
    server send them. `on_connect` is awaited after every connection. `turns` bounds the number of
    simultaneous handshakes of the connections that share it. `on_refused` is called with the reason
    if the server refuses this member's certificate or the server's is not trusted; the pauses
    between attempts then grow, until the server admits the member or the certificate's files are
    replaced.
    """

    def __init__(
        self,
        bundle: Bundle,
        subjects: str | Sequence[str],
        on_message: Callable[[str, bytes], Awaitable[None]],
        on_connect: Callable[[], Awaitable[None]],
        turns: asyncio.Semaphore | None = None,
        on_refused: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self._bundle = bundle
        self._subjects = [subjects] if isinstance(subjects, str) else list(subjects)
        self._on_message, self._on_connect = on_message, on_connect
        self._turns = asyncio.Semaphore() if turns is None else turns
        self._on_refused, self._refusals = on_refused, 0
        self._reason: str | None = None  # of the last refusal since the last connection
        self._nats: Nats | None = None
        self._logged: dict[str, float] = {}
        self._subscriptions: dict[str, Subscription] = {}

    @property
    def connected(self) -> bool:
        """Whether there is a connection right now."""
        return self._nats is not None and self._nats.is_connected

    async def run(self) -> None:
        """Stay connected until cancelled."""
        while True:
            pause = _PAUSE
            try:
                await self._stay(await self._begin())
            except Exception as error:  # e.g. a half-replaced certificate
                pause = self._after(error)
            finally:
                await self._drop()
            await self._rest(pause)

    async def _begin(self) -> tuple[object, ...]:
        """Connect; return which certificate is in use."""
        files = self._bundle.replaced()
        async with self._turns:
            self._nats, self._subscriptions = await self._connected()
        self._refusals, self._reason = 0, None
        self._logged.clear()
        await self.listen(self._subjects)  # they may have changed meanwhile
        await self._on_connect()
        return files

    async def _stay(self, files: tuple[object, ...]) -> None:
        """Return when the connection has ended.

        When the certificate's files are replaced, it opens the new connection before it closes the
        old one, and keeps the old one if that fails.
        """
        looks, next_look = 0, time.monotonic() + _LOOK
        # Polled, not awaited: the library's callback for the end can get lost in a task that the
        # library itself cancels.
        while self.connected:
            await asyncio.sleep(min(_POLL, _LOOK))
            if time.monotonic() < next_look:
                continue
            found = self._bundle.replaced()
            if found == files:
                looks = 0
            elif await self._switched():
                files, looks = found, 0
            else:
                looks += 1  # a longer pause next time
            next_look = time.monotonic() + min(_LOOK * 2**looks, _RAREST)

    async def _switched(self) -> bool:
        """Connect with the current certificate; False: the old connection stays."""
        try:
            async with self._turns:
                new, subscriptions = await self._connected()
        except Exception as error:
            self._log_rarely(f"the renewed certificate is not used yet: {self._text(error)}")
            return False
        old, self._nats, self._subscriptions = self._nats, new, subscriptions
        await self.listen(self._subjects)  # they may have changed meanwhile
        log.info("%s: connected with the renewed certificate", self._bundle.server)
        if old is not None:
            try:
                with contextlib.suppress(OSError, nats.errors.Error, TimeoutError):
                    async with asyncio.timeout(_TIMEOUT):
                        await old.drain()  # handle what it has received
            finally:
                await _close(old)
        return True

    async def listen(self, subjects: Sequence[str]) -> None:
        """Subscribe to these subjects and to no others, now and after every connection."""
        self._subjects = list(subjects)
        if not self.connected or self._nats is None:
            return
        with contextlib.suppress(OSError, nats.errors.Error):
            await self._subscribe(self._nats, self._subscriptions)
            for subject in [s for s in self._subscriptions if s not in self._subjects]:
                await self._subscriptions.pop(subject).unsubscribe()

    async def _subscribe(self, connection: Nats, made: dict[str, Subscription]) -> None:
        for subject in self._subjects:
            if subject not in made:
                made[subject] = await connection.subscribe(subject, cb=self._received)

    async def _connected(self) -> tuple[Nats, dict[str, Subscription]]:
        """Return a new connection and its subscriptions."""
        options = self._bundle.connection()  # `InvalidInput` for an unusable folder
        connection, errors = Nats(), []
        subscriptions: dict[str, Subscription] = {}

        async def on_error(error: Exception) -> None:
            if not connection.is_connected:
                errors.append(error)  # raised below, or explained by the next attempt
            elif not isinstance(error, (*_LOST, nats.errors.AuthorizationError)):
                self._log_rarely(self._text(error))

        try:
            # Instead of the library's reconnecting, `run` connects again: the library would keep
            # the first certificates, deliver queued messages late, and wait for ever after a first
            # handshake that failed.
            async with asyncio.timeout(_TIMEOUT):
                await connection.connect(
                    **options,
                    name=self._bundle.client,
                    inbox_prefix=f"_INBOX.{self._bundle.client}",
                    allow_reconnect=False,
                    ping_interval=10,
                    pending_size=0,
                    error_cb=on_error,
                )
            await self._subscribe(connection, subscriptions)
            await connection.flush(_TIMEOUT)  # now the old connection may end
        except BaseException as error:
            await _close(connection)
            # A refused client may see the connection end before it reads the reason.
            reasons = [each for each in errors if _REFUSED in str(each).lower()]
            if reasons and isinstance(error, Exception):
                raise reasons[0] from error
            raise
        return connection, subscriptions

    def _after(self, error: Exception) -> float:
        """Log the error and return the seconds to wait."""
        reason = self._refusal(error)
        if reason is None:
            self._log_rarely(self._text(error))
            return _PAUSE
        self._on_refused(reason)
        self._reason = reason
        self._log_rarely(f"{reason}. The pauses between attempts grow")
        self._refusals += 1
        longest = min(_PAUSE * 2.0 ** min(self._refusals, 30), _RAREST)
        return longest * _chance.uniform(0.5, 1.0)  # not all agents at once

    def _refusal(self, error: Exception) -> str | None:
        """Return why further attempts with these certificates are useless, or None."""
        if isinstance(error, InvalidInput):
            return str(error)
        name = self._bundle.client
        with contextlib.suppress(InvalidInput):
            ends = self._bundle.certificate().ends
            if ends < datetime.now(UTC):
                return f"{name}'s certificate expired on {ends.date()}: ask for a renewed one"
        if isinstance(error, ssl.SSLCertVerificationError):
            why = f"{error.verify_message}: check the clock, ca.pem and the server's certificate"
            return f"the server's certificate is not trusted: {why}"
        if _REFUSED in str(error).lower():
            how = "ask the operator whether it was revoked, or for a renewed bundle"
            return f"revoked or unknown to the server: it does not admit {name}; {how}"
        # The connection ended without a reason: assume the reason of the last refusal.
        return self._reason if isinstance(error, _LOST) else None

    async def _rest(self, seconds: float) -> None:
        """Wait, but only until the certificate's files are replaced."""
        files, deadline = self._bundle.replaced(), time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0.0:
            await asyncio.sleep(min(left, _LOOK))
            if self._bundle.replaced() != files:
                self._refusals = 0
                return

    def _text(self, error: Exception) -> str:
        return f"{type(error).__name__}: {error}"

    def _log_rarely(self, text: str) -> None:
        """Log a warning; repeat the same one only after an hour or a connection."""
        now = time.monotonic()
        if now - self._logged.get(text, -_QUIET) >= _QUIET:
            log.warning("%s: %s", self._bundle.server, text)
            self._logged[text] = now

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
        """Wait up to a second until the server has received all published messages."""
        if self._nats is not None:
            with contextlib.suppress(OSError, nats.errors.Error, asyncio.TimeoutError):
                await self._nats.flush(1)

    async def _drop(self) -> None:
        if self._nats is not None:
            await _close(self._nats)
        self._nats = None


async def _close(connection: Nats) -> None:
    with contextlib.suppress(OSError, nats.errors.Error, TimeoutError):
        # after a failed handshake it would never return
        async with asyncio.timeout(_PAUSE):
            await connection.close()
