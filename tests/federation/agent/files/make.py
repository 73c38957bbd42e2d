"""Made `version-3.db` and `version-4.db`, with releases of these versions: what is in them.

It has decisions of every kind: with rewards, expired, waiting and forgotten ones, an adopted
model, and an update in progress.
"""

from __future__ import annotations

import sys

import numpy as np

import fedglb as fg
from fedglb.federation import Agent
from tests.federation.helpers.agent_driver import Alone, feed

PROBLEM = fg.Problem(dim=3)
RULES = {"explore": 0.25, "most_pending": 2}


def make(path: str) -> None:
    """Make the file."""
    rng = np.random.default_rng(17)
    with Agent.open(path, PROBLEM, **RULES) as agent:  # type: ignore[arg-type]
        ids = feed(agent, rng, 6)
        world = Alone(agent)
        world.update(agent, t=6)
        feed(agent, rng, 4)
        agent.forget([ids[1], ids[4]])
        for _ in range(3):  # one expires
            agent.choose(np.eye(3), ids=["red", "green", "blue"])
        world.begin(t=11)
        world.deliver(agent)
        agent.export().drop("offered").write_ndjson(f"{path}.ndjson")
        np.savez_compressed(f"{path}.npz", **agent._client.protocol_client.to_arrays())


if __name__ == "__main__":
    make(sys.argv[1])
