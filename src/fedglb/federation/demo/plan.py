"""The parameters of a demonstration: all that its processes must agree on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from fedglb.environments import Synthetic
from fedglb.errors import integer, number
from fedglb.federation.agreement import Agreement, AgreementTable
from fedglb.io.atomic import atomic_write
from fedglb.problem_table import ProblemTable

FEDERATION = "demo"
_FILE = "plan.json"
#: The demonstration takes half a minute: a schedule of seconds, from the coordinator's start.
_PRIVATE: dict[str, Any] = {
    "name": "fedglb-private", "updates": 20, "first": 3.0, "growth": 1.1,
    "privacy": {"epsilon": 8.0, "delta": 1e-6, "honest": 0.6},
}  # fmt: skip
_MINIMUM = 3  # clients in a secure sum


class DemoPlan(msgspec.Struct, frozen=True):
    """The parameters of a demonstration.

    Parameters
    ----------
    clients, decisions
        How many agents, and how many decisions each of them makes.
    seed
        Seed of arms and users.
    pace
        Decisions per second and agent: the rate at which its users come.
    arms, dim
        K and d.
    threshold
        D of the event trigger; the algorithm is `fedglb_auto`, which has nothing else to tune.
    private
        Whether it is `fedglb_private` instead: updates on a schedule of seconds, noise, and with
        three clients or more secure sums.

    Examples
    --------
    >>> DemoPlan(clients=2).names
    ('shop-1', 'shop-2')
    """

    clients: int = 5
    decisions: int = 400
    seed: int = 1
    pace: float = 50.0
    arms: int = 25
    dim: int = 10
    threshold: float = 1.0
    private: bool = False

    def __post_init__(self) -> None:
        integer("clients", self.clients, at_most=100)
        integer("decisions", self.decisions, at_least=10)
        integer("seed", self.seed, at_least=0)
        number("pace", self.pace, above=0.0)

    @property
    def names(self) -> tuple[str, ...]:
        """The agents' names."""
        return tuple(f"shop-{i}" for i in range(1, self.clients + 1))

    @property
    def table(self) -> AgreementTable:
        """What the federation agrees on, for `operator.init`."""
        problem = ProblemTable(self.dim)
        if not self.private:
            return AgreementTable(self.clients, problem, self.alone)
        if self.clients < _MINIMUM:  # too few to hide one among the others
            silo = {**_PRIVATE, "privacy": {**_PRIVATE["privacy"], "noise": "silo"}}
            return AgreementTable(self.clients, problem, silo)
        return AgreementTable(self.clients, problem, _PRIVATE, minimum=_MINIMUM)

    @property
    def alone(self) -> dict[str, Any]:
        """What separate learners run, as a file writes it."""
        return {"name": "fedglb-auto", "threshold": self.threshold}

    @property
    def agreement(self) -> Agreement:
        """The same as problem and algorithm."""
        return self.table.build()

    @property
    def environment(self) -> Synthetic:
        """Where arms and rewards come from."""
        return Synthetic(self.agreement.problem, self.clients, self.arms)

    def write(self, folder: Path) -> None:
        """Write it where every process of the demonstration finds it."""
        atomic_write(folder / _FILE, msgspec.json.encode(self))

    @classmethod
    def read(cls, folder: Path) -> DemoPlan:
        """Read what `write` wrote."""
        return msgspec.json.decode((folder / _FILE).read_bytes(), type=cls)


def bundle_of(folder: Path, name: str) -> Path:
    """Return where an agent's bundle is."""
    return folder / "federation" / "clients" / name


def file_of(folder: Path, name: str) -> Path:
    """Return where an agent's own file is."""
    return folder / "agents" / f"{name}.db"
