"""The results of a demonstration, counted in the files that it leaves, not from reports."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np

from fedglb.federation.agent.store import AgentStore
from fedglb.federation.bundle import Bundle
from fedglb.federation.coordinator.store import CoordinatorStore
from fedglb.federation.coordinator.traffic import Traffic
from fedglb.federation.demo.plan import DemoPlan, file_of
from fedglb.federation.demo.stream import stream
from fedglb.privacy.accounting import gdp_epsilon
from fedglb.protocol import Coordinator
from fedglb.typing import FloatArray


class KilledAgent(msgspec.Struct, frozen=True):
    """The agent that was killed.

    Parameters
    ----------
    agent
        Its name.
    decisions
        How many it had acknowledged when it was killed.
    returned
        How many it found in its file when it was started again.
    seconds
        How long it was away.
    """

    agent: str
    decisions: int
    returned: int
    seconds: float


class Summary(msgspec.Struct, frozen=True):
    """The results of a demonstration.

    Parameters
    ----------
    clients, seed, seconds
        Number of agents, seed, and how long it took.
    decisions
        Decisions with their rewards in the agents' files.
    acknowledged, lost
        Rewards that agents acknowledged, and those of them that are not in their files.
    regret, separate_regret
        The regret of the federation, and of separate learners on the same arms and users.
    updates, rounds, scalars
        Global updates; rounds and numbers sent in them.
    messages, bytes
        All that went over the wire, heartbeats included.
    killed
        The agent that was killed.
    epsilon, delta
        The privacy of the updates that there were; None: there was none.
    """

    clients: int
    seed: int
    seconds: float
    decisions: int
    acknowledged: int
    lost: int
    regret: float
    separate_regret: float
    updates: int
    rounds: int
    scalars: int
    messages: int
    bytes: int
    killed: KilledAgent
    epsilon: float | None = None
    delta: float | None = None


def summarise(
    plan: DemoPlan,
    folder: Path,
    acknowledged: Mapping[str, set[str]],
    baseline: FloatArray,
    killed: KilledAgent,
    seconds: float,
) -> Summary:
    """Read the files of agents and coordinator, which no process may have open."""
    found = [_read_agent(plan, folder, i) for i in range(plan.clients)]
    lost = sum(
        len(acknowledged[name] - ids) for name, (ids, _) in zip(plan.names, found, strict=True)
    )
    bundle = folder / "federation" / "coordinator"
    agreement = Bundle.read(bundle).agreement  # with the roster, which no plan knows
    store = CoordinatorStore(bundle / "state.db", agreement)
    try:
        updates, kept = store.updates(), store.state()
    finally:
        store.close()
    scalars, traffic = 0, Traffic()
    privacy, noise = agreement.algorithm.privacy, agreement.setting.noise
    spent = None if noise is None else noise.spent(int(updates["update"].max() or 0))  # type: ignore[arg-type]
    if kept is not None:
        coordinator = Coordinator.from_arrays(agreement.algorithm, agreement.setting, kept[0])
        scalars, traffic = coordinator.ledger.scalars, Traffic.unpack(kept[1])
    return Summary(
        clients=plan.clients,
        seed=plan.seed,
        seconds=seconds,
        decisions=sum(len(ids) for ids, _ in found),
        acknowledged=sum(len(ids) for ids in acknowledged.values()),
        lost=lost,
        regret=sum(regret for _, regret in found),
        separate_regret=float(np.sum(baseline[:, -1])),
        updates=len(updates),
        rounds=int(updates["rounds"].sum()),
        scalars=scalars,
        messages=traffic.messages,
        bytes=traffic.size,
        killed=killed,
        epsilon=None if spent is None or privacy is None else gdp_epsilon(spent, privacy.delta),
        delta=None if privacy is None else privacy.delta,
    )


def _read_agent(plan: DemoPlan, folder: Path, index: int) -> tuple[set[str], float]:
    """Return the decisions with rewards in an agent's file, and their regret."""
    file = AgentStore(file_of(folder, plan.names[index]), "process")
    try:
        rows = file.played()
    finally:
        file.close()
    offers = zip(rows, stream(plan, index), strict=False)
    return {row[0] for row in rows}, sum(offer.regret(row[1]) for row, offer in offers)
