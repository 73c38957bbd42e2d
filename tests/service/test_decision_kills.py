"""kill -9 around every write of the calls that applications make, under HTTP load.

The service dies before or after a statement that a seed draws, in the middle of the work of four
visitors; `tests/service/visitors.py` says what its file must have, and what must be in memory.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from fedglb.algorithms import fedglb_auto
from fedglb.federation.agreement import Agreement
from fedglb.federation.preload import preload
from tests.federation.helpers.kill_points import Fault
from tests.service.visitors import (
    DEFAULT,
    FEATURES,
    GONE,
    ITEMS,
    PENDING,
    Struck,
    Visitor,
    rewarded,
)


def rewards(visitor: Visitor, shown: list[str], most: int = 8) -> None:
    """Report what was shown, or some of what was shown before, late and in any order."""
    rng, waiting = visitor.rng, visitor.waiting
    waiting.append(shown)
    while len(waiting) > rng.randrange(1, most):
        ids = waiting.pop(rng.randrange(len(waiting)))
        if rng.random() < 0.2:
            continue  # never
        if len(ids) == 1:
            visitor.observe(ids[0], float(rng.random() < 0.5))
            continue
        clicked = [id_ for id_ in ids if rng.random() < 0.4]
        if clicked and rng.random() < 0.3:  # the first click is reported at once
            visitor.observe(clicked[0], 1.0)
        visitor.observe_ranking(ids, clicked)


def silent(visitor: Visitor) -> None:
    """Some rewards come before the default one, some after it, some never."""
    rewards(visitor, visitor.choose(count=visitor.rng.choice([0, 0, 3])), most=30)


def ranked(visitor: Visitor) -> None:
    rewards(visitor, visitor.choose(count=visitor.rng.randrange(1, 4)))


def ahead(visitor: Visitor) -> None:
    """Some of what is prefetched happens, together with others or twice."""
    rng = visitor.rng
    made = visitor.choose(count=rng.choice([0, 0, 3]), ahead=True)
    if rng.random() < 0.7:
        visitor.tell(dict.fromkeys(made, PENDING), visitor.client.activate, made)
        visitor.client.activate(made)
        rewards(visitor, made)


def forgetful(visitor: Visitor) -> None:
    """A person has a few decisions, with and without rewards, prefetched ones too, and goes."""
    rng = visitor.rng
    subject, own = f"{visitor.name} no. {visitor.number}", []
    for _ in range(rng.randrange(1, 4)):
        count, early = rng.choice([0, 3]), rng.random() < 0.3
        made = visitor.choose(count=count, ahead=early, subject=subject)
        own += made
        if early and rng.random() < 0.5:
            visitor.tell(dict.fromkeys(made, PENDING), visitor.client.activate, made)
            early = False
        if not early and rng.random() < 0.6:
            visitor.observe_ranking(made, made[-1:])
    rewards(visitor, visitor.choose())  # of somebody who stays
    gone = dict.fromkeys(own, GONE)
    if rng.random() < 0.4:
        visitor.tell(gone, visitor.client.forget, subject=subject)
    elif rng.random() < 0.4:
        visitor.tell(gone, visitor.client.forget, own)


def taught(visitor: Visitor) -> None:
    """Another system has decided."""
    played = visitor.number % ITEMS
    rewards(visitor, visitor.choose(played=played, propensity=1.0 / (1 + played)))


@dataclass(frozen=True)
class Write:
    """What is written, and the statements that write it."""

    visit: Callable[[Visitor], None]
    statements: tuple[str, ...]
    rules: Mapping[str, Any] = field(default_factory=dict)


SILENCE = {"default_reward": DEFAULT, "reward_after": 0.1}
WRITES = {
    "default rewards": Write(
        silent,
        ("INSERT INTO late", "DELETE FROM late", "UPDATE decisions", "REPLACE INTO facts", "COMMIT",
         "BEGIN"),
        SILENCE,
    ),
    "rankings": Write(
        ranked,
        ("INSERT INTO decisions", "UPDATE decisions", "DELETE FROM offers", "BEGIN", "COMMIT"),
    ),
    "prefetching": Write(
        ahead,
        ("INSERT INTO prefetched", "INSERT INTO decisions", "UPDATE decisions",
         "DELETE FROM prefetched", "BEGIN", "COMMIT"),
    ),
    "forgetting": Write(
        forgetful,
        ("UPDATE decisions", "UPDATE prefetched", "DELETE FROM decisions",
         "DELETE FROM prefetched", "DELETE FROM offers", "DELETE FROM late", "REPLACE INTO facts",
         "COMMIT"),
        SILENCE,
    ),
    "an apprentice": Write(taught, ("INSERT INTO decisions", "UPDATE decisions")),
}  # fmt: skip


@pytest.mark.parametrize("kills", [3, pytest.param(40, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", WRITES)
def test_kills(tmp_path, name, kills):
    preload(Agreement(FEATURES.problem(), fedglb_auto(), 1, features=FEATURES), alone=True)
    write, rng = WRITES[name], random.Random(f"{name} {kills}")
    statements = rng.sample(write.statements, len(write.statements))
    with Struck(tmp_path, write.visit, write.rules, people=4) as place:
        for k in range(kills):
            when, count = rng.choice(["before", "after"]), rng.randrange(1, 8)
            fault = Fault(when, statements[k % len(statements)], count)
            place.strike(fault, between=0 if k and rng.random() < 0.25 else rng.randrange(1, 60))
        status, compared, rows = place.end()
    assert place.deaths == kills
    states = Counter(row.state[0] for row in rows.values())
    defaulted = sum(row.defaulted for row in rows.values())
    print(name, place.calls, states, defaulted, status.defaulted, status.replaced)
    if name == "default rewards":
        assert set(states) == {"observed", "unseen"}
        told = sum(row.state == rewarded(DEFAULT) and not row.defaulted for row in rows.values())
        # each that was learned is there, was replaced, or was told afterwards
        assert 0 <= status.defaulted - defaulted - status.replaced <= told
        assert min(defaulted, status.replaced) > 0
    elif name == "an apprentice":
        assert compared.decisions == states["observed"] > 0
        for row in rows.values():
            played = int(row.arm_id[-1])
            assert (int(row.arm_id.split("-")[1]) - 1) % ITEMS == row.log["arm"] == played
            assert row.log["propensity"] == 1.0 / (1 + played)
            assert row.log["proposed"] is not None
    else:
        wanted = {"rankings": "unseen", "prefetching": "ahead", "forgetting": "observed"}[name]
        assert min(states[wanted], states["observed"]) > 0
    assert name != "forgetting" or sum(len(each.gone()) for each in place.visitors) > 0
