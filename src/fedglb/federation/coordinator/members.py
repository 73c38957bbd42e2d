"""The sessions of a federation's clients: which are admitted, rejected or slow."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from fedglb.federation.agreement import ROSTER, Agreement
from fedglb.federation.coordinator.store import MemberRecord
from fedglb.federation.wire.messages import Hello

_ENDED = 64  # ended sessions that are remembered per client
_LONGEST = 3600.0  # maximum seconds for which a client is not asked


@dataclass
class MemberSession:
    """An admitted session: its id, its file's identity, and when its last message came."""

    id: str
    instance: str
    last_seen: float


class Members:
    """The sessions of all clients; a client has one at a time.

    An agent that restarts with the same file replaces its earlier session at once, and that
    session cannot come back. An agent with another file under the same certificate has to wait
    until the first has been silent for `absent_after` seconds: the holder of a copied
    certificate cannot push its owner out.
    """

    def __init__(self, agreement: Agreement, absent_after: float) -> None:
        self._agreement, self._absent_after = agreement, absent_after
        self._sessions: dict[str, MemberSession] = {}
        self._latest: dict[str, str] = {}  # each client's newest session, also of absent ones
        self._ended: dict[str, deque[str]] = {}

    def rejection_reason(
        self,
        client: str,
        session: str,
        hello: Hello,
        records: Mapping[str, MemberRecord],
        now: float,
    ) -> str | None:
        """Return why a client is not admitted, or None if it is."""
        differences = self._agreement.differences(hello.agreement)
        if differences:
            changed = any(text.startswith(f"{ROSTER}:") for text in differences)
            how = " (both need the newest roster.json; the coordinator a restart)" * changed
            return f"{client} does not agree with the federation: {'; '.join(differences)}{how}"
        most = self._agreement.max_clients
        if client not in records and len(records) >= most:
            return f"too many clients with {client}: max_clients is {most}"
        if self.has_ended(client, session):
            return f"another agent with a copy of {client}'s file has replaced this one"
        current = self._sessions.get(client)
        if current is None or current.id == session or current.instance == hello.instance:
            return None
        if now - current.last_seen <= self._absent_after:
            return f"an agent with another file already uses {client}'s certificate"
        return None

    def admit(self, client: str, session: str, instance: str, now: float) -> None:
        """Make this the client's session; its earlier one ends for good."""
        if self._latest.get(client, session) != session:
            self.end(client)
        self._sessions[client] = MemberSession(session, instance, now)
        self._latest[client] = session

    def drop(self, client: str) -> None:
        """Count a client as absent; its session may come back until it has another one."""
        self._sessions.pop(client, None)

    def end(self, client: str) -> None:
        """End a client's session for good."""
        self.drop(client)
        if client in self._latest:
            self._ended.setdefault(client, deque(maxlen=_ENDED)).append(self._latest.pop(client))

    def touch_all(self, now: float) -> None:
        """Restart the absence clock of all clients: they did not cause the silence."""
        for session in self._sessions.values():
            session.last_seen = now

    def touch(self, client: str, session: str, now: float) -> bool:
        """Return whether this is the client's session; if so, note that it was seen now."""
        current = self._sessions.get(client)
        if current is None or current.id != session:
            return False
        current.last_seen = now
        return True

    def has_ended(self, client: str, session: str) -> bool:
        """Return whether this session of the client has ended for good."""
        return session in self._ended.get(client, ())

    def session(self, client: str) -> str:
        """Return the id of a client's session, empty if it has none."""
        return self._sessions[client].id if client in self._sessions else ""

    def silence(self, client: str, now: float) -> float | None:
        """Return the seconds since a client's last message; None without a session."""
        return now - self._sessions[client].last_seen if client in self._sessions else None

    def silent(self, now: float) -> list[str]:
        """Return the clients that sent nothing for more than `absent_after` seconds."""
        return [c for c, s in self._sessions.items() if now - s.last_seen > self._absent_after]

    def __contains__(self, client: str) -> bool:
        return client in self._sessions

    def __len__(self) -> int:
        return len(self._sessions)


class Stragglers:
    """Clients that are present but do not answer.

    After one update without an answer a client is asked after the others. After m > 1 in a row it
    is not asked for 2^m time limits, up to an hour. When asked, it has the whole time limit: a
    client that is slow now and then is not shut out for good. Taking part in one update to the
    end resets the count.
    """

    def __init__(self) -> None:
        self._misses: dict[str, tuple[int, float]] = {}  # updates in a row, and the last one's time

    def missed(self, client: str, now: float) -> None:
        """Note that an update went on without this client, because it did not answer."""
        self._misses[client] = self.count(client) + 1, now

    def answered(self, client: str) -> None:
        """Note that this client took part in an update, to the end."""
        self._misses.pop(client, None)

    def count(self, client: str) -> int:
        """Return the number of updates in a row without its answer."""
        return self._misses[client][0] if client in self._misses else 0

    def pause(self, client: str, time_limit: float, now: float) -> float:
        """Return the seconds until it is asked again."""
        count, at = self._misses.get(client, (0, 0.0))
        if count < 2:
            return 0.0
        whole = min(time_limit * 2.0 ** min(count, 60), max(_LONGEST, time_limit))
        return max(0.0, at + whole - now)
