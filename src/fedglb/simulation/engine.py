"""Common to both engines: the coordinator, the recorder, the result."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

from fedglb.algorithms import Algorithm
from fedglb.environments import Environment
from fedglb.kernels.linalg import solve
from fedglb.privacy import PrivacyStatement, SimulatedNoise, state
from fedglb.protocol import Client, Coordinator
from fedglb.protocol.messages import BITS, Entry, Ledger
from fedglb.protocol.update import UpdateRecord
from fedglb.simulation.results import Recorder, Run
from fedglb.typing import FloatArray

_PARTS = ("local_update", "global_update", "confidence", "choice")


class Engine(ABC):
    """One run: a coordinator and N clients, or one learner for all if it is centralised."""

    name: str

    def __init__(self, algorithm: Algorithm, env: Environment, horizon: int, seed: int) -> None:
        self.algorithm, self.env, self.horizon, self.seed = algorithm, env, horizon, seed
        self.setting = algorithm.setting(env.problem, env.clients, horizon)
        for code, arguments in algorithm.rehearsals(self.setting):
            code.rehearse(arguments, compiled=True)
        self.coordinator = Coordinator(algorithm, self.setting, range(self.setting.clients))
        self.noise = SimulatedNoise(seed)
        self.recorder = Recorder(horizon, env.clients, env.parameter(seed))

    @abstractmethod
    def client(self, i: int) -> Client:
        """Return client i (the one learner, if the algorithm is centralised)."""

    def holder(self, record: UpdateRecord) -> int:
        """Return a client with the model of an update."""
        return record.client if isinstance(record.client, int) else 0

    def _theta(self) -> FloatArray | None:
        """Return θ of the last model that all clients share; or None."""
        if self.algorithm.centralised:
            return self.client(0).state.theta.copy()
        model = self.coordinator.model
        if model is None:
            return None
        if model.theta is None:  # a linear model consists of A and b
            assert model.b is not None
            return solve(model.matrix, model.b)
        return model.theta

    def result(self) -> Run:
        """Return the result of the run."""
        centralised = self.algorithm.centralised
        ledger = self._count_centralised() if centralised else self.coordinator.ledger
        caveats = self.algorithm.caveats(self.env.problem)
        return self.recorder.result(
            ledger, self._theta(), self._parameters(), caveats, self._privacy()
        )

    def _count_centralised(self) -> Ledger:
        """Count as the paper does for a centralised learner, which has no updates.

        Each interaction is one update with one round, and a gradient to each client.
        """
        interactions, d = self.recorder.log.interactions, self.env.problem.dim
        transfers = self.env.clients * interactions
        scalars = d * transfers
        self.recorder.counts[:] = interactions, interactions, transfers, scalars, BITS * scalars
        total, numbers = int(transfers[-1]), int(scalars[-1])
        entry = Entry(total, total, numbers, BITS * numbers)
        return Ledger({("Centralised", "down"): entry} if total else {})

    def _privacy(self) -> PrivacyStatement | None:
        privacy, plan = self.algorithm.privacy, self.setting.noise
        if privacy is None or plan is None:
            return None
        learns = self.algorithm.local_update.learns
        return state(privacy, plan, self.coordinator.syncs, simulated=True, learns=learns)

    def _parameters(self) -> dict[str, Any]:
        algorithm = self.algorithm
        # Runs are the same up to their first tie: if this seed draws nothing, none does.
        drew = len(self.recorder.drawn) > 0
        return {
            "algorithm": algorithm.name,
            **{name: repr(getattr(algorithm, name)) for name in _PARTS},
            "trigger": repr(algorithm.trigger.resolved(self.setting)),
            "exploration": algorithm.exploration,
            "ridge": algorithm.ridge if algorithm.ridge_rule is None else repr(algorithm.ridge),
            "delta": algorithm.delta,
            **described_run(self.env, self.horizon, self.seed),
            "randomised": self.env.randomised or algorithm.randomised or drew,
            "engine": self.name,
        }


def described_run(env: Environment, horizon: int, seed: int) -> dict[str, Any]:
    """Return the parameters of a run that are not the algorithm's."""
    problem = env.problem
    return {
        "environment": env.described(),
        "link": problem.link.name,
        "dim": problem.dim,
        "radius": problem.S,
        "noise": None if math.isnan(problem.R) else problem.R,
        "curvature": problem.c_mu,
        "clients": env.clients,
        "arms": env.arms,
        "horizon": horizon,
        "seed": seed,
    }
