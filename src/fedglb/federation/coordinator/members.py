"""Who is in a federation: which sessions are taken in, and why others are not."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from fedglb.federation.agreement import Agreement
from fedglb.federation.coordinator.store import MemberRecord
from fedglb.federation.wire.messages import Hello

_FORMER = 64  # sessions that are remembered as over


@dataclass
class Session:
    """A session that was taken in: its id, its file's identity, and when it was last heard."""

    id: str
    instance: str
    seen: float


class Roster:
    """The sessions of all clients; a client has one at a time.

    A restart of the same file takes its place at once, and the session before it is over for
    good. Another file under the same certificate waits until the first has been silent for
    `absent_after` seconds: a certificate used twice does not push its owner out.
    """

    def __init__(self, agreement: Agreement, absent_after: float) -> None:
        self._agreement, self._absent_after = agreement, absent_after
        self._sessions: dict[str, Session] = {}
        self._last: dict[str, str] = {}  # the session of each client, also of one that is gone
        self._former: dict[str, deque[str]] = {}

    def rejection_reason(
        self, client: str, session: str, hello: Hello, known: Mapping[str, MemberRecord], now: float
    ) -> str | None:
        """Return why a client is not taken in, or None."""
        differences = self._agreement.differences(hello.agreement)
        if differences:
            return f"{client} does not agree with the federation: {'; '.join(differences)}"
        most = self._agreement.max_clients
        if client not in known and len(known) >= most:
            return f"{client} would be one client too many: max_clients is {most}"
        if session in self._former.get(client, ()):
            return f"another agent with the file of this one has taken the place of {client}"
        current = self._sessions.get(client)
        if current is None or current.id == session or current.instance == hello.instance:
            return None
        if now - current.seen <= self._absent_after:
            return f"an agent with another file speaks under the certificate of {client} already"
        return None

    def admit(self, client: str, session: str, instance: str, now: float) -> None:
        """Make this the client's session; the one before it is over for good."""
        if self._last.get(client, session) != session:
            self.end(client)
        self._sessions[client] = Session(session, instance, now)
        self._last[client] = session

    def drop(self, client: str) -> None:
        """End a client's session for now: it may come back, until there is another."""
        self._sessions.pop(client, None)

    def end(self, client: str) -> None:
        """End a client's session for good."""
        self.drop(client)
        if client in self._last:
            self._former.setdefault(client, deque(maxlen=_FORMER)).append(self._last.pop(client))

    def touch_all(self, now: float) -> None:
        """Begin the wait for all of them anew: it was not they who were silent."""
        for session in self._sessions.values():
            session.seen = now

    def touch(self, client: str, session: str, now: float) -> bool:
        """Whether this is the client's session; if so, it was heard now."""
        current = self._sessions.get(client)
        if current is None or current.id != session:
            return False
        current.seen = now
        return True

    def over(self, client: str, session: str) -> bool:
        """Whether this session is one that came to its end."""
        return session in self._former.get(client, ())

    def session(self, client: str) -> str:
        """Return the id of a client's session, empty if it has none."""
        return self._sessions[client].id if client in self._sessions else ""

    def silent(self, now: float) -> list[str]:
        """Return the clients that have not been heard for too long."""
        return [c for c, s in self._sessions.items() if now - s.seen > self._absent_after]

    def __contains__(self, client: str) -> bool:
        return client in self._sessions

    def __len__(self) -> int:
        return len(self._sessions)
