"""What a run leaves: totals, a trace over time, a row for every global update."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from fedglb.kernels.play import Log
from fedglb.protocol import Client, Coordinator, UpdateRecord
from fedglb.typing import FloatArray, IntArray

_TRACE = {
    "t": pl.Int64, "regret": pl.Float64, "reward": pl.Float64, "syncs": pl.Int64,
    "rounds": pl.Int64, "transfers": pl.Int64, "scalars": pl.Int64,
}  # fmt: skip
_UPDATES = {
    "t": pl.Int64, "client": pl.Int64, "n": pl.Int64, "rounds": pl.Int64,
    "gradient_norm": pl.Float64, "gap": pl.Float64, "projected": pl.Boolean,
    "alpha": pl.Float64, "theta_star_inside": pl.Boolean,
}  # fmt: skip


@dataclass(frozen=True)
class Run:
    """The result of a simulation.

    Attributes
    ----------
    regret, reward, syncs, rounds, transfers, scalars
        Totals at the horizon.
    trace
        One row a step, cumulative: t, regret, reward, syncs, rounds, transfers, scalars.
    updates
        One row a global update: t, client (0-based; null for a schedule's), n, rounds,
        gradient_norm, gap, projected, alpha and theta_star_inside right after it. (One-UCB-GLM
        has none: its `syncs` are the paper's count, one an interaction.)
    choices
        Shape (T, N): the arms played, −1 where a client did not act.
    ledger
        One row a message type: messages, transfers and scalars, up and down.
    theta
        The last shared model (None if there is none).
    parameters
        What was run: algorithm and its parts, exploration, problem, N, K, T, seed, engine.
    caveats
        What is not proven in this run.
    """

    regret: float
    reward: float
    syncs: int
    rounds: int
    transfers: int
    scalars: int
    trace: pl.DataFrame = field(repr=False)
    updates: pl.DataFrame = field(repr=False)
    choices: IntArray = field(repr=False)
    ledger: pl.DataFrame = field(repr=False)
    theta: FloatArray | None = field(repr=False)
    parameters: dict[str, Any] = field(repr=False)
    caveats: tuple[str, ...] = field(repr=False)

    def summary(self) -> dict[str, Any]:
        """Return what a script would read: parameters, totals, caveats."""
        totals = ("regret", "reward", "syncs", "rounds", "transfers", "scalars")
        return {
            **self.parameters,
            **{name: getattr(self, name) for name in totals},
            "caveats": list(self.caveats),
        }


class Recorder:
    """Collects what a run leaves, step by step.

    Attributes
    ----------
    log
        Choices, and regret and reward so far at the end of each step.
    counts
        At the end of each step: syncs, rounds, transfers, scalars; shape (4, T).
    updates
        One row a global update.
    """

    def __init__(self, horizon: int, clients: int, parameter: FloatArray | None) -> None:
        self.log = Log(
            choices=np.full((horizon, clients), -1, dtype=np.int64),
            regret=np.zeros(horizon),
            reward=np.zeros(horizon),
            interactions=np.zeros(horizon, dtype=np.int64),
            totals=np.zeros(3),
        )
        self.counts = np.zeros((4, horizon), dtype=np.int64)
        self.updates: list[tuple[Any, ...]] = []
        self.parameter = parameter

    def played(self, t: int, client: int, arm: int, regret: float, reward: float) -> None:
        """Enter one interaction."""
        self.log.choices[t - 1, client] = arm
        self.log.totals[:] += (regret, reward, 1.0)

    def updated(self, record: UpdateRecord, client: Client) -> None:
        """Enter one global update; `client` is any that holds the new model."""
        alpha = client.alpha
        self.updates.append(
            (
                record.t, record.client, record.samples, record.rounds, record.gradient_norm,
                record.gap, record.projected, alpha, holds(client, self.parameter, alpha),
            )
        )  # fmt: skip

    def stepped(self, t: int) -> None:
        """Enter the regret and reward so far at the end of a step."""
        regret, reward, interactions = self.log.totals
        self.log.regret[t - 1] = regret
        self.log.reward[t - 1] = reward
        self.log.interactions[t - 1] = interactions

    def counted(self, first: int, last: int, coordinator: Coordinator) -> None:
        """Enter the communication so far at the end of the steps `first` … `last`."""
        ledger = coordinator.ledger
        totals = (coordinator.syncs, coordinator.rounds, ledger.transfers, ledger.scalars)
        self.counts[:, first - 1 : last] = np.array(totals)[:, None]

    def trace(self) -> pl.DataFrame:
        """Return one row a step."""
        t = np.arange(1, self.log.regret.size + 1)
        return pl.DataFrame(
            [t, self.log.regret, self.log.reward, *self.counts], schema=_TRACE, orient="col"
        )

    def update_frame(self) -> pl.DataFrame:
        """Return one row a global update."""
        return pl.DataFrame(self.updates, schema=_UPDATES, orient="row")


def holds(client: Client, parameter: FloatArray | None, alpha: float) -> bool | None:
    """Return whether the client's ellipsoid of radius α holds θ*; None if θ* is not known.

    Before any data θ* on the sphere lies on its very edge: rounding must not push it out.
    """
    if parameter is None:
        return None
    error = client.state.centre - parameter
    return bool(np.sqrt(error @ client.state.matrix @ error) <= alpha * (1.0 + 1e-9))
