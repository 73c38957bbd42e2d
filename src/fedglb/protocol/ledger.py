"""The communication ledger: it counts every message."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fedglb.protocol.messages import Message

if TYPE_CHECKING:
    import polars as pl


@dataclass
class Entry:
    """Totals of one kind of message in one direction."""

    messages: int = 0
    transfers: int = 0
    scalars: int = 0


@dataclass
class Ledger:
    """Messages, transfers and scalars, by message type and direction.

    A transfer is a message that carries numbers (the paper's C_T counts these).

    Examples
    --------
    >>> from fedglb.protocol.messages import SyncRequest
    >>> ledger = Ledger()
    >>> ledger.count(SyncRequest(client=0, t=3, update=0))
    >>> ledger.messages, ledger.transfers, ledger.scalars
    (1, 0, 0)
    """

    entries: dict[tuple[str, str], Entry] = field(default_factory=dict)

    def count(self, message: Message, times: int = 1) -> None:
        """Count a message, or `times` messages of the same kind and size."""
        direction = "up" if message.upward else "down"
        self.add(message.name, direction, times, message.scalars())

    def add(self, kind: str, direction: str, messages: int, scalars_each: int) -> None:
        """Count a number of messages of one kind and size at once."""
        entry = self.entries.setdefault((kind, direction), Entry())
        entry.messages += messages
        entry.transfers += messages if scalars_each > 0 else 0
        entry.scalars += messages * scalars_each

    @property
    def messages(self) -> int:
        """All messages."""
        return sum(e.messages for e in self.entries.values())

    @property
    def transfers(self) -> int:
        """Messages that carry numbers."""
        return sum(e.transfers for e in self.entries.values())

    @property
    def scalars(self) -> int:
        """Numbers carried."""
        return sum(e.scalars for e in self.entries.values())

    def frame(self) -> pl.DataFrame:
        """Return one row per message type: message, direction, messages, transfers, scalars."""
        import polars as pl

        rows = [
            (kind, direction, e.messages, e.transfers, e.scalars)
            for (kind, direction), e in self.entries.items()
        ]
        schema = {
            "message": pl.String, "direction": pl.String,
            "messages": pl.Int64, "transfers": pl.Int64, "scalars": pl.Int64,
        }  # fmt: skip
        return pl.DataFrame(rows, schema=schema, orient="row")
