"""The coordinator as a service: a `CoordinatorSession` over NATS."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import logging
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from fedglb.errors import InvalidInput
from fedglb.federation.alarms import LOOK_EVERY, Alarm, AlarmBoard, described, facts_of, low_disk
from fedglb.federation.bundle import Bundle
from fedglb.federation.connection import Connection
from fedglb.federation.coordinator.alarms import current_alarms
from fedglb.federation.coordinator.board import Board, answering, place_of
from fedglb.federation.coordinator.duplicate_coordinator import Announcement
from fedglb.federation.coordinator.events import MOST_UPDATES, CoordinatorEvent, History
from fedglb.federation.coordinator.policy import CoordinatorPolicy
from fedglb.federation.coordinator.session import CoordinatorSession, Outgoing
from fedglb.federation.coordinator.status import CoordinatorStatus, status_of
from fedglb.federation.coordinator.store import CoordinatorStore
from fedglb.federation.errors import Superseded, Unavailable
from fedglb.federation.frozen import read_frozen
from fedglb.federation.names import COORDINATOR, down, present, up
from fedglb.federation.preload import preload
from fedglb.federation.sqlite import named_damage, remedy

log = logging.getLogger(__name__)
_TICK = 0.05  # seconds
_ANNOUNCE = 1.0  # seconds between two announcements to other coordinators
_MUTE = 10.0  # seconds for which a flooding client is muted
_HEAR_ALL = 0.5  # seconds in between with a subscription to all
_MANY = 2000  # with more clients there is no subscription per client
_LISTEN = 0.3  # seconds to notice another coordinator after connecting
_MAX_MESSAGES, _MAX_BYTES = 64, 32 * 1024 * 1024  # waiting, per client


class Inbox:
    """Received messages in the order of their arrival, up to a number and a size per client.

    A message over the limit is dropped: if it was needed, the request is sent again.
    """

    def __init__(self) -> None:
        self._queue: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()
        self._messages: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()

    def put(self, client: str, payload: bytes) -> bool:
        """Append a message; return False if this client's limit is reached."""
        full = self._messages[client] >= _MAX_MESSAGES
        if full or self._bytes[client] + len(payload) > _MAX_BYTES:
            return False
        self._messages[client] += 1
        self._bytes[client] += len(payload)
        self._queue.put_nowait((client, payload))
        return True

    async def get(self, timeout: float) -> tuple[str, bytes] | None:
        """Return the next message, or None if none comes in time."""
        try:
            client, payload = self._queue.get_nowait()
        except asyncio.QueueEmpty:
            try:
                # Python 3.11's `wait_for` forgets a cancellation that comes with a message, and
                # the coordinator would never stop.
                async with asyncio.timeout(timeout):
                    client, payload = await self._queue.get()
            except TimeoutError:
                return None
        self._messages[client] -= 1
        self._bytes[client] -= len(payload)
        return client, payload


class Service:
    """Runs a federation's coordinator until it is cancelled; see `CoordinatorSession`."""

    def __init__(
        self,
        bundle: Bundle,
        store: CoordinatorStore,
        policy: CoordinatorPolicy,
        on_event: Callable[[CoordinatorEvent], None],
        after: int = 0,
        board: Board | None = None,
    ) -> None:
        preload(bundle.agreement)
        self._bundle = bundle
        self._board = Board() if board is None else board
        self._history, self._began = History(store.last_updates(MOST_UPDATES)), time.time()
        self._is_connected: Callable[[], bool] = lambda: False
        self._connected_at = self._began

        def emit(event: CoordinatorEvent) -> None:
            self._history.add(event, time.time())
            on_event(event)

        def tell(alarm: Alarm, starts: bool) -> None:
            text = described(alarm, starts)
            log.info("%s", text)
            emit(CoordinatorEvent("alarm", text, facts_of(alarm, starts)))

        self._alarms = AlarmBoard(tell)
        self._store, self._policy, self._emit = store, policy, emit
        rules = bundle.sum_rules()
        self.session = CoordinatorSession(
            bundle.agreement, store, policy, emit, after, rules=rules,
            frozen=read_frozen(bundle.folder),
        )  # fmt: skip
        self._bundle_file = bundle.agreement_file()
        self._own, self._both = Announcement.new(), present(bundle.federation)
        self._listens_until: float | None = None  # None: it speaks to clients
        self._superseded: Superseded | None = None
        self._unreadable = ""  # why the operator's file could not be read
        self._muted: dict[str, float] = {}  # flooding clients, and when their muting ends
        self._hears_all_until = 0.0
        self._seen: set[str] = set()

    async def run(self) -> None:
        """Serve until cancelled; the state is written then, if no update is in progress."""
        inbox = Inbox()
        every_client = up(self._bundle.federation, "*")
        prefix = len(every_client) - 1

        async def on_message(subject: str, payload: bytes) -> None:
            if subject == self._both:
                await self._hear_coordinator(payload)
                return
            client = subject[prefix:]
            self._seen.add(client)
            admitted = self.session.gate.admits(client, payload, time.monotonic())
            if admitted and not inbox.put(client, payload):
                self.session.gate.count(client, "waiting")

        async def on_connect() -> None:
            self._listens_until = time.monotonic() + _LISTEN
            await self._announce()

        subjects = [every_client, self._both]
        self._connection = Connection(self._bundle, subjects, on_message, on_connect)
        self._is_connected = lambda: self._connection.connected
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._connection.run())
                tasks.create_task(self._process(inbox))
                tasks.create_task(self._board.keep_current(self.status))
                tasks.create_task(self._look_for_alarms())
        except asyncio.CancelledError:
            self.session.stop()
            raise

    def status(self) -> CoordinatorStatus:
        """Return the coordinator's status."""
        alarms = self._look()
        return status_of(
            self._bundle,
            self.session,
            self._history,
            self._board.certificates,
            started=self._began,
            lost=self._lost(),
            alarms=alarms,
        )

    def _lost(self) -> float | None:
        """Return when the connection to the NATS server was lost; None: connected."""
        if not self._is_connected():
            return self._connected_at
        self._connected_at = time.time()
        return None

    def _look(self) -> tuple[Alarm, ...]:
        """Return the alarms that stand, after a look at their conditions."""
        now, certificates = time.time(), self._board.certificates
        found = current_alarms(
            self.session, self._history, certificates, now, started=self._began, lost=self._lost()
        )
        disk = low_disk(self._store.path.absolute().parent, self._alarms.stands("disk"))
        return self._alarms.look((*found, *disk), now)

    async def _look_for_alarms(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY)
            try:
                self._look()
            except Exception:  # a fault here must not stop updates
                log.exception("cannot look for alarms")

    async def _process(self, inbox: Inbox) -> None:
        """Handle messages in the order of their arrival, and the clock in between."""
        next_tick = next_word = time.monotonic()
        while True:
            if self._superseded is not None:
                raise self._superseded
            now = time.monotonic()
            if self._listens_until is not None:
                if now < self._listens_until or not self._connection.connected:
                    await asyncio.sleep(_TICK)
                    continue
                self._listens_until = None
                await self._publish(self.session.start(now))
            if now >= next_word:
                next_word = now + _ANNOUNCE
                await self._announce()
                await self._look_for_frozen()
                await self._look_for_schema(now)
            if now >= next_tick and self._connection.connected:
                next_tick = now + _TICK
                await self._mute_floods(now)
                await self._handle(lambda: self.session.tick(time.monotonic()), "the clock")
            received = await inbox.get(_TICK)
            if received is not None and received[0] not in self._muted:
                client, payload = received
                now = time.monotonic()
                await self._handle(
                    functools.partial(self.session.receive, client, payload, now),
                    f"a message of {client}",
                )

    async def _look_for_schema(self, now: float) -> None:
        """Take up a newer schema of records in the coordinator's folder.

        The session starts anew on the same file: an update in progress is given up, and all
        clients say hello.
        """
        found = self._bundle.agreement_file()
        if found == self._bundle_file:
            return
        self._bundle_file = found
        try:
            bundle = Bundle.read(self._bundle.folder)
            agreement, before = bundle.agreement, self.session.agreement
            if agreement.facts() == before.facts():
                return
            if not agreement.is_older(before.facts()):
                names = ", ".join(found.name for found in before.compare(agreement.facts()))
                allowed = "the agreement as it was, or a newer schema of records"
                raise InvalidInput(names, str(bundle.folder), allowed)
        except InvalidInput as error:
            log.error("the coordinator continues with the agreement it had: %s", error)
            return
        preload(agreement)
        self._store.change_schema(agreement)
        revision, dim = agreement.revision, agreement.problem.dim
        text = f"the schema of records is number {revision} now, with {dim} features"
        self._emit(CoordinatorEvent("schema", text, {"revision": revision}))
        self._bundle = bundle
        self.session = CoordinatorSession(agreement, self._store, self._policy, self._emit)
        await self._publish(self.session.start(now))

    async def _look_for_frozen(self) -> None:
        """Take up what the operator has frozen."""
        try:
            found = read_frozen(self._bundle.folder)
        except InvalidInput as error:
            if str(error) != self._unreadable:
                log.error("the coordinator continues as it was: %s", error)
            self._unreadable = str(error)
            return
        if found != self.session.frozen:
            await self._publish(self.session.freeze(found))

    async def _mute_floods(self, now: float) -> None:
        """Mute flooding clients: the server drops their messages, at no cost here.

        Subscribes to each known client except these, instead of to all clients. A new client is
        heard when that ends, after ten seconds: then all clients are heard for a while.
        """
        if now < self._hears_all_until:
            return
        before = set(self._muted)
        for client in self.session.gate.floods(now):
            if client in self._muted or len(self._seen) <= _MANY:
                self._muted[client] = now + _MUTE
                await self._publish(self.session.mute(client, _MUTE, now))
        if any(until <= now for until in self._muted.values()):
            self._muted = {}  # all at once: new clients must be heard now and then
            self._hears_all_until = now + _HEAR_ALL
        if set(self._muted) != before:
            federation = self._bundle.federation
            known = sorted((self._seen | set(self.session.records)) - set(self._muted))
            heard = known if self._muted else ["*"]
            await self._connection.listen([*(up(federation, c) for c in heard), self._both])

    async def _announce(self) -> None:
        """Announce this coordinator to others."""
        own = self._own.at(self.session.coordinator.started)
        await self._connection.publish(self._both, msgspec.json.encode(own))

    async def _hear_coordinator(self, payload: bytes) -> None:
        other = self._own.other(payload)
        if other is None:
            return
        if self._own.at(self.session.coordinator.started).yields_to(other):
            self._superseded = Superseded(
                f"another coordinator of {self._bundle.federation} runs ({other}), and "
                "this one stops: it is younger, or has fewer updates. To keep this one, stop "
                "the other first"
            )
        elif self.session.note_duplicate(str(other), time.monotonic()):
            await self._announce()  # so that the other one stops before it sends anything

    async def _handle(self, action: Callable[[], Sequence[Outgoing]], cause: str) -> None:
        try:
            outgoing = action()
        except sqlite3.Error:  # unwritten state must not be sent: stop, for a restart
            raise
        except Exception:  # one client's message must not stop the service
            log.exception("could not handle %s", cause)
            return
        await self._publish(outgoing)

    async def _publish(self, outgoing: Sequence[Outgoing]) -> None:
        for client, payload in outgoing:
            await self._connection.publish(down(self._bundle.federation, client), payload)


@contextlib.contextmanager
def opened(bundle: Bundle, state: str | Path) -> Iterator[CoordinatorStore]:
    """Open a coordinator's file inside this block; `Superseded`: another coordinator has it open.

    From now on `fedglb federation status` says that this one starts.
    """
    if bundle.client != COORDINATOR:  # before a file is created
        raise InvalidInput("bundle", bundle.client, "the coordinator's bundle")
    store = CoordinatorStore(state, bundle.agreement)
    try:
        place_of(state).unlink(missing_ok=True)  # the socket of a killed one
        yield store
    finally:
        store.close()


def serve(
    bundle: Bundle,
    store: CoordinatorStore,
    state: str | Path,
    policy: CoordinatorPolicy,
    on_event: Callable[[CoordinatorEvent], None],
    after: int = 0,
    board: Board | None = None,
) -> None:
    """Run a coordinator until SIGINT or SIGTERM; `state` is its file, `store` has it open.

    Its status is served on a socket beside that file, and shown on `board`.
    """
    try:
        with named_damage("coordinator", state):
            service = Service(bundle, store, policy, on_event, after, board)
        gc.freeze()  # exempts libraries and compiled code from garbage collection
        asyncio.run(_until_signal(service, state))
    except (sqlite3.Error, BaseExceptionGroup) as error:
        # the first failed task of a group has the reason
        first = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else error
        if isinstance(first, sqlite3.Error):
            text = f"cannot write {state} ({first}): {remedy('coordinator', first)}"
            raise Unavailable(text) from first
        raise first from None


async def _until_signal(service: Service, state: str | Path) -> None:
    task, loop = asyncio.ensure_future(service.run()), asyncio.get_running_loop()
    for sign in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):  # Windows, where Ctrl-C works without it
            loop.add_signal_handler(sign, task.cancel)
    async with answering(state, service.status):
        with contextlib.suppress(asyncio.CancelledError):
            await task
