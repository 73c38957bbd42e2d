"""Clients that did not answer in time are asked last, then not at all for a growing while."""

from __future__ import annotations

from dataclasses import dataclass

_LONGEST = 3600.0  # seconds that a client is not asked, at most


@dataclass(frozen=True)
class Misses:
    """How many updates in a row a client did not answer, and when the last of them was."""

    count: int
    at: float


class Stragglers:
    """The clients that are present but did not answer, since their last update in full.

    After one update without an answer a client is asked after the others. After m > 1 in a row it
    is not asked at all for 2^m time limits, an hour at most. Once it is asked, it has the whole
    time limit: one that is slow now and then is not shut out for good. After one update that it
    took part in to the end, all is forgotten.
    """

    def __init__(self) -> None:
        self._misses: dict[str, Misses] = {}

    def missed(self, client: str, now: float) -> None:
        """Note that an update went on without this client, because it did not answer."""
        self._misses[client] = Misses(self.count(client) + 1, now)

    def answered(self, client: str) -> None:
        """Note that this client took part in an update, to the end."""
        self._misses.pop(client, None)

    def count(self, client: str) -> int:
        """Return how many updates in a row it did not answer."""
        return self._misses[client].count if client in self._misses else 0

    def pause(self, client: str, time_limit: float, now: float) -> float:
        """Return for how many seconds more it is not asked."""
        misses = self._misses.get(client)
        if misses is None or misses.count < 2:
            return 0.0
        whole = min(time_limit * 2.0 ** min(misses.count, 60), max(_LONGEST, time_limit))
        return max(0.0, misses.at + whole - now)
