"""One client uploads, and some clients get the sums: FedLinUCB's and Async-LinUCB's update."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedglb.errors import InvalidInput, number
from fedglb.parts.confidence import Confidence
from fedglb.parts.global_update import ClosedForm, Course, Holding, Objective
from fedglb.parts.global_update.base import Id, Steps
from fedglb.parts.local_update import LocalState, LocalUpdate
from fedglb.parts.trigger import Trigger


@dataclass(frozen=True)
class Exchange(ClosedForm):
    """Add what one client has gathered since its last upload to A and b, and give both to some.

    It is one transfer up, and one down for each client that gets them; no round is needed.

    He et al. (2022), Algorithm 1 (FedLinUCB): upload, global update, download. Li and Wang (AISTATS
    2022), Async-LinUCB: the same with the download event, whose γ_D is 1 + C.
    """

    stored_name = "Exchange"

    refits = False
    #: None (default): only the client that uploaded gets A and b. A number C ≥ 0: every client gets
    #: them whose own sums have a determinant less than det A/(1 + C); infinity: no client ever.
    download: float | None = None

    def __post_init__(self) -> None:
        if self.download is not None:
            number(
                "download", self.download, at_least=0.0, allow_infinite=True,
                allowed="a number C >= 0, infinity for no downloads at all, or None",
            )  # fmt: skip

    @property
    def course(self) -> Course:
        """One client at a time."""
        return OneClient(self.download)

    def solve(self, objective: Objective) -> Steps:
        """Return the solution without any query."""
        if objective.previous is not None:
            assert objective.previous.b is not None
            assert objective.moment is not None
            objective = replace(objective, moment=objective.previous.b + objective.moment)
        return super().solve(objective)


@dataclass(frozen=True)
class OneClient(Course):
    """Only the client that asks takes part; clients hold different models (see `Exchange`)."""

    download: float | None

    def check(self, trigger: Any, confidence: Any) -> None:
        """Raise unless the parts can do with models that each client holds for itself."""
        if type(trigger).due is not Trigger.due:
            allowed = "one by which a client asks: with this solver it takes part alone"
            raise InvalidInput("trigger", trigger, allowed)
        if type(confidence).radius_terms is not Confidence.radius_terms:
            allowed = "a radius without numbers from the coordinator, which differ from client to "
            raise InvalidInput("confidence", confidence, f"{allowed}client with this solver")

    def begins(self, held: int, newest: int) -> bool:
        """Return True: the newest model need not be for this client."""
        return True

    def participants(self, clients: Iterable[Id], asked_by: Id | None) -> list[Id]:
        """Return the client that asked."""
        if asked_by is None:
            raise InvalidInput("client", None, "the client that asks: it takes part alone")
        return [asked_by]

    def uploaded(self, local: LocalUpdate[Any], states: Iterable[LocalState]) -> None:
        """Let the clients' gains begin anew, where no model need follow."""
        if self.download is not None:
            for state in states:
                local.uploaded(state)

    def recipients(
        self,
        clients: Iterable[Id],
        participants: Iterable[Id],
        objective: Objective,
        prior: float,
        held: dict[Id, Holding],
    ) -> list[Id]:
        """Return the client that asked, or all that lag: log(det A / det A_j) > log(1 + C).

        A_j is what client j holds (Li and Wang, AISTATS 2022, Async-LinUCB: the download event).
        """
        if self.download is None:
            return list(participants)
        level = math.nextafter(math.log1p(self.download), math.inf)  # the condition is strict
        assert objective.covariance is not None
        everything = Holding.of(objective.matrix)
        nothing = Holding.of(prior * np.eye(len(objective.matrix)))
        for client in participants:
            held[client] = Holding.of(held.get(client, nothing).matrix + objective.covariance)
        found = [
            client
            for client in clients
            if everything.log_det - held.get(client, nothing).log_det >= level
        ]
        held.update(dict.fromkeys(found, everything))
        return found
