"""The application's calls: choose, observe, absorb, forget, export, backup.

None of these waits for the network or for a global update.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedglb.errors import (
    integer,
)
from fedglb.federation.agent.calls import is_full
from fedglb.federation.agent.choices import Choices
from fedglb.federation.agent.explain import Explanation, explained
from fedglb.federation.agent.ids import parse_id, parse_ids
from fedglb.federation.agent.log_reader import LogEnd
from fedglb.federation.agent.removal import Removal
from fedglb.federation.agent.rewards import Rewards

if TYPE_CHECKING:
    import polars as pl


_RECENT = 10.0  # seconds after a write in which there is room for another
_PAUSE = 0.01  # seconds between two attempts to empty the write-ahead log


class ApplicationCalls(Choices, Rewards):
    """The application's calls on a `DurableClient`; any thread may make them."""

    # -- forget ----------------------------------------------------------------------------------

    def forget(self, ids: Iterable[str], subject: str | None = None) -> int:
        """Delete decisions and their samples for good; return how many."""
        parsed = parse_ids("ids", ids)
        digest = None if subject is None else self._digest("subject", subject)
        with self._durable.long_calls():
            while (count := self._forgotten(parsed, digest)) is None:
                pass  # a new model or reward came meanwhile: compute it again
            while not self._scrubbed():
                time.sleep(_PAUSE)
        return count

    def _forgotten(
        self, parsed: Sequence[tuple[str, str, int]], subject: bytes | None
    ) -> int | None:
        """Delete decisions; None: the state changed meanwhile, and nothing was done."""
        durable, store = self._durable, self._durable.store
        with durable.locked():
            durable.ready()
            numbers = self._to_forget(parsed, subject)
            removal = Removal(durable, numbers)
        removal.compute()
        with durable.locked():
            durable.ready()
            if self._to_forget(parsed, subject) != numbers or not removal.holds():
                return None
            waiting, update = store.count_waiting_of(numbers), removal.withdraws_from
            durable.stale = True
            batches = removal.releases.batches() if durable.one_pass else None
            store.forget(numbers, update, batches, removal.model)
            durable.waiting -= waiting
            removal.install(update is not None)
            durable.stale = False
        return len(numbers)

    def _to_forget(
        self, parsed: Sequence[tuple[str, str, int]], subject: bytes | None
    ) -> list[int]:
        """Return the numbers of decisions; raise if one does not exist."""
        store = self._durable.store
        for id_, prefix, index in parsed:
            if store.outcome(index, prefix) == "unknown" and not store.is_prefetched(index, prefix):
                raise self._refusal(id_, prefix, index)
        more = [] if subject is None else store.of_subject(subject)
        return sorted({*(index for _, _, index in parsed), *more})

    def _scrubbed(self) -> bool:
        with self._durable.locked():
            self._durable.ready()
            return self._durable.store.scrub()

    # -- looking inside ---------------------------------------------------------------------------

    def explain(self, id: str) -> Explanation:  # noqa: A002
        """Return what the arms of a decision add up to."""
        prefix, index = parse_id(id)
        found = explained(self._durable, id, index, prefix)
        if found is None:
            raise self._refusal(id, prefix, index)
        return found

    def check_writable(self) -> None:
        """Raise SQLite's error if `choose` would, for want of room."""
        durable = self._durable
        durable.check()
        if time.monotonic() - durable.written_at < _RECENT:
            return
        try:
            with durable.locked():
                durable.ready()
                durable.store.try_to_write()
                durable.written_at = time.monotonic()
        except sqlite3.Error as error:
            if durable.rules.on_full_disk == "raise" or not is_full(error):
                raise

    # -- copies ----------------------------------------------------------------------------------

    def export_batches(self, rows: int) -> Iterator[pl.DataFrame]:
        """Return the log of decisions as it is now, in frames of `rows` rows."""
        integer("rows", rows)
        durable = self._durable
        with durable.locked():
            durable.ready()
            end = LogEnd(durable.number, durable.next_sequence - 1)
            agreement = durable.agreement
            found = durable.store.log(end, agreement.problem.dim, agreement.revision)
            return found.batches(rows)

    def backup(self, path: Path) -> None:
        """Write a copy of the file; other calls go on, except `forget`."""
        with self._durable.long_calls():
            with self._durable.locked():
                self._durable.ready()
            self._durable.store.backup(path)
