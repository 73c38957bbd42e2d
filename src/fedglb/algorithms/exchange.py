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
    """Add one client's sums since its last upload to A and b, and send both to some clients.

    It is one transfer up, and one down for each recipient; it needs no rounds.

    He et al. (2022), Algorithm 1 (FedLinUCB): upload, global update, download. Li and Wang (AISTATS
    2022), Async-LinUCB: the same with the download event, whose γ_D is 1 + C.
    """

    stored_name = "Exchange"

    refits = False
    #: None (default): only the uploading client gets A and b. A number C ≥ 0: every client whose
    #: own sums have a determinant below det A/(1 + C) gets them; infinity: no client ever.
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
    """Only the requesting client takes part; clients have different models (see `Exchange`)."""

    download: float | None

    def check(self, trigger: Any, confidence: Any) -> None:
        """Raise unless the parts work with a different model in each client."""
        if type(trigger).due is not Trigger.due:
            allowed = "a trigger by which a client asks, which this solver serves alone"
            raise InvalidInput("trigger", trigger, allowed)
        if type(confidence).radius_terms is not Confidence.radius_terms:
            allowed = "a radius without numbers from the coordinator, which differ from client to "
            raise InvalidInput("confidence", confidence, f"{allowed}client with this solver")

    def begins(self, held: int, newest: int) -> bool:
        """Return True: the newest model need not be for this client."""
        return True

    def participants(self, clients: Iterable[Id], asked_by: Id | None) -> list[Id]:
        """Return the requesting client."""
        if asked_by is None:
            raise InvalidInput("client", None, "the requesting client")
        return [asked_by]

    def uploaded(self, local: LocalUpdate[Any], states: Iterable[LocalState]) -> None:
        """Restart the clients' gains if no model need follow."""
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
        """Return the requesting client, or all that lag: log(det A / det A_j) > log(1 + C).

        A_j is client j's matrix (Li and Wang, AISTATS 2022, Async-LinUCB: the download event).
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
