"""A shop's records, some schemas of them, and what an agent with such records does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import fedglb as fg
from fedglb.federation import Agent
from tests.federation.helpers.agent_driver import client

KINDS, COUNTRIES = ("shoes", "books", "toys"), ("DE", "FR", "IT")
OLD = fg.Features(
    context={"country": fg.Category(["DE", "FR"])},
    arm={"kind": fg.Category(["shoes", "books"]), "price": fg.Number([5, 50])},
    crosses=[("context.country", "arm.kind")],
)
#: With a field more, which records had before the schema did, and one less.
NEW = fg.Features(
    context={"country": fg.Category(buckets=4), "age": fg.Number([18, 40, 70])},
    arm={"kind": fg.Category(["shoes", "books", "toys"]), "tags": fg.Tags(buckets=3)},
    crosses=[("context.age", "arm.kind")],
)
#: As many features as `OLD`.
EQUAL = fg.Features(
    context={"country": fg.Category(["IT", "FR"])},
    arm={"kind": fg.Category(["toys", "books"]), "price": fg.Number([1, 9])},
    crosses=[("context.country", "arm.kind")],
)
assert EQUAL.dim == OLD.dim


def item(rng: np.random.Generator) -> dict[str, Any]:
    """Draw an arm; some fields are missing, or in no schema."""
    out: dict[str, Any] = {"kind": str(rng.choice(KINDS)), "price": float(rng.integers(1, 90))}
    if rng.random() < 0.5:
        out["tags"] = [str(each) for each in rng.choice(["new", "sale", "red"], 2)]
    if rng.random() < 0.2:
        out["price"] = None
    if rng.random() < 0.2:
        out["shelf"] = int(rng.integers(9))
    return out


def visitor(rng: np.random.Generator) -> dict[str, Any]:
    """Draw a context."""
    return {"country": str(rng.choice(COUNTRIES)), "age": int(rng.integers(10, 90))}


def past(
    seed: int | str, count: int
) -> tuple[list[dict[str, Any]], list[float], list[dict[str, Any]], list[str]]:
    """Samples: arms, rewards, contexts, ids; the first ones are the same for every count."""
    rng = np.random.default_rng([ord(c) for c in str(seed)])
    rows = []
    for _ in range(count):
        arm, context = item(rng), visitor(rng)
        liked = (arm["kind"] == "shoes") == (context["country"] == "DE")
        reward = float(rng.random() < (0.8 if liked else 0.3))
        rows.append((arm, reward, context, f"item-{rng.integers(6)}"))
    arms, rewards, contexts, ids = map(list, zip(*rows, strict=True))
    return arms, rewards, contexts, ids


def visit(agent: Any, seed: int | str, first: int, last: int) -> list[str]:
    """Let an agent take the samples of `past` from one to another; return the decisions' ids."""
    arms, rewards, contexts, ids = past(seed, last)
    out = []
    for k in range(first, last):
        made = agent.choose([arms[k]], [ids[k]], context=contexts[k])
        agent.observe(made.id, rewards[k])
        out.append(made.id)
    return out


def calm(agent: Agent) -> None:
    """Wait until an agent that is alone makes no update."""
    assert agent._own_updates is not None
    agent._own_updates.close()


def no_updates(agent: Agent) -> Agent:
    """Keep an agent that is alone from updates of its own."""
    agent._own_updates = None
    return agent


def learned(agent: Agent) -> dict[str, np.ndarray]:
    """What an agent has learned, but for numbers of updates and steps."""
    arrays = client(agent).to_arrays()
    for name in ("update", "adopted", "frozen", "last_t"):
        del arrays[name]
    return {name: np.asarray(value) for name, value in arrays.items()}


def contents(path: Path) -> dict[str, bytes]:
    """The bytes of a file and of those beside it."""
    return {f.name: f.read_bytes() for f in path.parent.glob(path.name + "*") if f.is_file()}
