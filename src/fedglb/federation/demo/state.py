"""The state of a demonstration, for the view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedglb.federation.demo.plan import DemoPlan
from fedglb.federation.demo.shop import ShopReport
from fedglb.typing import FloatArray

#: What an agent's process is doing.
STARTING, WAITING, PLAYING, KILLED, RETURNING, DONE = (
    "starting", "waiting", "deciding", "killed", "coming back", "done",
)  # fmt: skip


@dataclass
class AgentState:
    """One agent: what it is doing, and its last report."""

    doing: str = STARTING
    report: ShopReport | None = None
    present: bool = False  # as the coordinator sees it

    @property
    def decisions(self) -> int:
        """Decisions whose rewards are acknowledged."""
        return 0 if self.report is None else self.report.decisions

    @property
    def connected(self) -> bool:
        """Whether it has a connection and is admitted."""
        return self.report is not None and self.report.connected and self.report.welcome


@dataclass
class DemoState:
    """All that the view shows.

    Parameters
    ----------
    plan, agents
        The parameters, and the state of each agent by name.
    address
        Where the server listens.
    notes
        What has happened so far, one line each.
    update
        The facts of the last update's event; empty before the first.
    updates, size
        Number of updates so far, and bytes on the wire.
    baseline
        The regret of separate learners after each decision, shape (N, T); None: not computed yet.
    """

    plan: DemoPlan
    agents: dict[str, AgentState]
    address: str = ""
    notes: list[str] = field(default_factory=list)
    update: Mapping[str, Any] = field(default_factory=dict)
    updates: int = 0
    size: int = 0
    baseline: FloatArray | None = None

    @property
    def decisions(self) -> int:
        """Number of decisions of all agents."""
        return sum(agent.decisions for agent in self.agents.values())

    @property
    def present(self) -> int:
        """Number of agents that the coordinator counts as present."""
        return sum(agent.present for agent in self.agents.values())

    @property
    def regret(self) -> float:
        """The sum of the agents' regrets."""
        return sum(s.report.regret for s in self.agents.values() if s.report is not None)

    @property
    def baseline_regret(self) -> float | None:
        """The regret of separate learners after as many decisions each."""
        if self.baseline is None:
            return None
        made = [agent.decisions for agent in self.agents.values()]
        return float(sum(self.baseline[i, n - 1] for i, n in enumerate(made) if n))
