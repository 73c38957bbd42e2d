"""How a demonstration stands, for whoever looks at it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedglb.demo.plan import DemoPlan
from fedglb.demo.shop import ShopReport
from fedglb.typing import FloatArray

#: What an agent's process is doing.
STARTING, WAITING, PLAYING, KILLED, RETURNING, DONE = (
    "starting", "waiting", "deciding", "killed", "coming back", "done",
)  # fmt: skip


@dataclass
class AgentState:
    """One agent: what it is doing, and what it last said."""

    doing: str = STARTING
    said: ShopReport | None = None
    present: bool = False  # in the coordinator's eyes

    @property
    def decisions(self) -> int:
        """Decisions whose rewards are acknowledged."""
        return 0 if self.said is None else self.said.decisions

    @property
    def connected(self) -> bool:
        """Whether it has a connection and is taken in."""
        return self.said is not None and self.said.connected and self.said.welcome


@dataclass
class DemoState:
    """All that a view shows.

    Parameters
    ----------
    plan, seats
        What is played, and by whom.
    address
        Where the server listens.
    notes
        What happened so far that is worth a line.
    update
        The last update, as the coordinator told it; empty before the first.
    updates, size
        Updates so far, and bytes on the wire.
    separate
        The regret of separate learners after each decision (N, T), when it is known.
    """

    plan: DemoPlan
    seats: dict[str, AgentState]
    address: str = ""
    notes: list[str] = field(default_factory=list)
    update: Mapping[str, Any] = field(default_factory=dict)
    updates: int = 0
    size: int = 0
    separate: FloatArray | None = None

    @property
    def decisions(self) -> int:
        """Decisions of all agents."""
        return sum(seat.decisions for seat in self.seats.values())

    @property
    def present(self) -> int:
        """Agents that are present in the coordinator's eyes."""
        return sum(seat.present for seat in self.seats.values())

    @property
    def regret(self) -> float:
        """The agents' regret, together."""
        return sum(s.said.regret for s in self.seats.values() if s.said is not None)

    @property
    def alone(self) -> float | None:
        """What separate learners had after as many decisions each."""
        if self.separate is None:
            return None
        made = [seat.decisions for seat in self.seats.values()]
        return float(sum(self.separate[i, n - 1] for i, n in enumerate(made) if n))
