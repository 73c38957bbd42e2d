"""Five agents and a coordinator, with their files, on recorded data: what they choose and learn."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import fedglb as fg
from tests.federation.helpers import lossy_network as federation
from tests.unchanged.runs import digest, unordered

NAMES = ("a", "b", "c", "d", "e")
ARMS, HORIZON = 6, 30


def recording() -> tuple[np.ndarray, np.ndarray]:
    """Return arms (T, N, K, d) and the reward that each would give; no two are equally long."""
    rng = np.random.default_rng(7)
    arms = rng.integers(-1024, 1025, (HORIZON, len(NAMES), ARMS, federation.DIM)) / 2048.0
    chances = 0.5 + (arms * np.array([0.75, -0.5])).sum(axis=3)
    thresholds = rng.integers(0, 1024, (HORIZON, len(NAMES), 1)) / 1024.0
    return arms, (thresholds < chances).astype(float)


def digests(folder: Path) -> dict[str, str]:
    """Play the recording, one event after the other."""
    arms, rewards = recording()
    choices = np.full(rewards.shape[:2], -1)
    models: list[np.ndarray] = []
    steps: list[int] = []
    agreement = federation.agreed(algorithm=fg.fedglb_ucb(0.4, fg.Newton(), exploration=0.3))
    with federation.harness(folder, NAMES, agreement) as running:
        running.until(running.everybody_here)
        for t in range(HORIZON):
            for i, node in enumerate(running.all()):
                decision = node.calls.choose(arms[t, i], t=t + 1)
                choices[t, i] = decision.arm
                reward = float(rewards[t, i, decision.arm])
                asked = node.calls.observe(decision.id, reward)
                if asked:
                    node.agent_session.note_trigger(asked)
                    running.request(node.name)
                    running.until(lambda: running.shared(len(steps) + 1))
                    model = running.coordinator.model
                    steps.append(model.t)
                    models += [model.theta, model.matrix]
        coordinator = running.coordinator
        assert coordinator.syncs == len(steps) >= 5
        values = [
            choices, steps, coordinator.ledger.frame().drop("message", "bits"),
            coordinator.syncs, coordinator.rounds, models,
        ]  # fmt: skip
        clients = [
            unordered(node.learner.protocol_client.to_arrays().values()) for node in running.all()
        ]
    return {
        "discrete": digest(values, floats=False),
        "bits": digest(values),
        "clients": digest(clients),
    }
