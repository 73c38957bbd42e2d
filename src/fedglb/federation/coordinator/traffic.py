"""All messages sent and received, repeated ones and heartbeats included."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec


@dataclass
class Traffic:
    """Messages and bytes per message type and direction ("up": from a client, or "down").

    The protocol's `Ledger` counts every message of an update once, as the simulator does; this
    counts each time that one is sent or received, in bytes of payload.
    """

    entries: dict[str, tuple[int, int]] = field(default_factory=dict)

    def add(self, kind: str, direction: str, size: int) -> None:
        """Count one message."""
        key = f"{kind}.{direction}"  # stored, as are its two halves
        messages, total = self.entries.get(key, (0, 0))
        self.entries[key] = (messages + 1, total + size)

    @property
    def messages(self) -> int:
        """All messages."""
        return sum(messages for messages, _ in self.entries.values())

    @property
    def size(self) -> int:
        """All bytes."""
        return sum(total for _, total in self.entries.values())

    def pack(self) -> bytes:
        """Return it as bytes (JSON), as the coordinator's file has it."""
        return msgspec.json.encode(self.entries)

    @classmethod
    def unpack(cls, data: bytes) -> Traffic:
        """Return what `pack` packed."""
        return cls(msgspec.json.decode(data, type=dict[str, tuple[int, int]]))
