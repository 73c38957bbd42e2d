"""FedLinUCB: exchanges of one client with the coordinator, and what they leave with whom.

What it and Async-LinUCB refuse, say and learn.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedglb as fg
from fedglb.algorithms.async_linucb import AsyncRidge
from fedglb.algorithms.exchange import Exchange
from fedglb.algorithms.fedlinucb import FedLinUCB, FrozenRidge
from fedglb.federation.agreement import Agreement
from fedglb.parts.confidence import Linear
from fedglb.parts.trigger import Growth, Schedule
from fedglb.protocol import Coordinator
from fedglb.protocol.messages import SyncRequest
from tests.parts.confidence.coverage import CLIENTS, DELTA, coverage, small_problem

LINEAR = fg.Problem(dim=3, link=fg.Identity(), noise=0.3)


def exchanging(threshold=1.0, clients=3):
    algorithm = fg.fedlinucb(threshold, confidence=fg.Fixed(0.5))
    setting = algorithm.setting(LINEAR, clients, None)
    members = [fg.Client(i, algorithm, setting) for i in range(clients)]
    return algorithm, setting, members, Coordinator(algorithm, setting, range(clients))


def deliver(members, coordinator, up):
    """Deliver messages until nobody has any; return who got models."""
    got = []
    while up:
        down = [sent for m in up for sent in coordinator.receive(m)]
        got += [m.client for m in down if m.name == "NewModel"]
        up = [sent for m in down for sent in members[m.client].receive(m)]
    return got


def test_only_the_client_that_asks_talks_and_learns():
    _, _, members, coordinator = exchanging()
    a, b, c = np.eye(3)
    assert members[1].observe(a, 0.5, 1) == []  # det(I + aaᵀ) = 2 is not more than 2
    assert members[1].observe(b, 0.5, 1) == [SyncRequest(1, 1, 0)]
    members[1].observe(c, 0.5, 1)
    members[0].observe(a, 1.0, 1)
    before = members[0].to_arrays()
    deliver(members, coordinator, [SyncRequest(1, 1, 0)])
    assert coordinator.syncs == 1
    assert [m.adopted for m in members] == [0, 1, 0]
    assert all(np.array_equal(before[k], v) for k, v in members[0].to_arrays().items())
    np.testing.assert_allclose(members[1].state.matrix, np.eye(3) + np.eye(3))
    np.testing.assert_allclose(members[1].state.theta, 0.25 * np.ones(3))
    # client 0 gets what client 1 has uploaded, and client 1 nothing of client 0's
    up = members[0].observe(a, 1.0, 2)
    deliver(members, coordinator, up)
    assert [m.adopted for m in members] == [2, 1, 0]
    np.testing.assert_allclose(members[0].state.matrix, np.diag([4.0, 2.0, 2.0]))
    np.testing.assert_allclose(members[1].state.matrix, 2.0 * np.eye(3))
    np.testing.assert_allclose(coordinator.model.b, [2.5, 0.5, 0.5])
    assert coordinator.last_update.samples == 5


def test_own_samples_wait_until_the_next_exchange():
    _, _, members, _ = exchanging(threshold=10.0)
    before = members[0].scores(np.eye(3))
    for t in range(1, 4):
        assert members[0].observe([0.6, 0.0, 0.8], 1.0, t) == []
    assert np.array_equal(members[0].scores(np.eye(3)), before)
    assert members[0].state.log_gain == pytest.approx(np.log(4.0))


def test_an_exchange_is_a_transfer_up_and_one_down():
    env = fg.Synthetic(LINEAR, clients=5, arms=6)
    run = fg.simulate(fg.fedlinucb(0.5, 0.05), env, 60, seed=2)
    numbers = 3 * 4 // 2 + 3
    assert run.syncs > 10
    assert run.rounds == 0
    assert run.transfers == 2 * run.syncs
    assert run.scalars == 2 * run.syncs * numbers
    assert set(run.updates["client"]) == set(range(5))


def test_a_coordinator_goes_on_in_the_middle_of_an_exchange():
    algorithm, setting, members, coordinator = exchanging()
    members[2].observe([1.0, 0.0, 0.0], 1.0, 1)
    (up,) = members[2].observe([0.0, 1.0, 0.0], 1.0, 1)
    (request,) = coordinator.receive(up)
    again = Coordinator.from_arrays(algorithm, setting, coordinator.to_arrays())
    assert list(again.participants) == [2]
    (answer,) = members[2].receive(request)
    (one,), (two,) = coordinator.receive(answer), again.receive(answer)
    assert one.client == two.client == 2
    assert np.array_equal(one.model.matrix, two.model.matrix)


def test_a_schedule_cannot_begin_one():
    _, _, _, coordinator = exchanging()
    with pytest.raises(fg.InvalidInput, match="the requesting client"):
        coordinator.begin(1)


def test_the_trigger_is_strict():
    level = Growth(1.0).level
    assert not Growth(1.0).fires(5, 1, np.log1p(1.0))
    assert Growth(1.0).fires(5, 5, np.nextafter(np.log(2.0), 1.0))
    assert level > np.log(2.0)
    assert not Growth(0.0).fires(1, 0, 0.0)
    assert not Growth(np.inf).fires(1, 0, 1e9)


def parts(local_update, global_update, **given):
    made = {"trigger": Growth(1.0), "confidence": fg.Fixed(1.0), **given}
    return fg.Algorithm("x", local_update, global_update, **made)


FROZEN, ASYNC = (FrozenRidge(), Exchange()), (AsyncRidge(), Exchange(1.0))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: fg.fedlinucb(0.0), "threshold = 0"),
        (lambda: fg.fedlinucb(-1.0), "threshold = -1"),
        (lambda: fg.fedlinucb(np.inf), "threshold = inf"),
        (lambda: fg.fedlinucb(np.nan), "threshold = nan"),
        (lambda: FedLinUCB("much"), "threshold"),
        (lambda: Growth(-0.1), "C >= 0"),
        (lambda: parts(*FROZEN, trigger=Schedule(3)), "a client asks"),
        (lambda: parts(*FROZEN, confidence=Linear()), "confidence"),
        (lambda: parts(*FROZEN, ridge=fg.Evidence()), "ridge"),
        (lambda: fg.fedlinucb(1.0).setting(LINEAR, 2, None), "horizon"),
        (lambda: Agreement(LINEAR, fg.fedlinucb(1.0), 3), "FedLinUCB"),
        (lambda: Agreement(LINEAR, fg.fedlinucb(1.0, confidence=fg.Fixed(1)), 3), "FedLinUCB"),
        (lambda: fg.async_linucb(-1.0), "threshold = -1.0"),
        (lambda: fg.async_linucb(np.nan), "nan"),
        (lambda: fg.async_linucb(1.0, "often"), "download = 'often'"),
        (lambda: fg.async_linucb(1.0, download=-1.0), "download = -1.0"),
        (lambda: parts(*ASYNC, trigger=Schedule(3)), "a client asks"),
        (lambda: parts(*ASYNC, confidence=Linear()), "confidence"),
        (lambda: parts(*ASYNC, ridge=fg.Evidence()), "ridge"),
        (lambda: Agreement(LINEAR, fg.async_linucb(1.0), 3), "fit all samples"),
    ],
)
def test_what_is_not_allowed(make, words):
    with pytest.raises(fg.InvalidInput) as error:
        make()
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("preset", "words"), [(fg.fedlinucb, "union"), (fg.async_linucb, "proven for one client")]
)
def test_caveats(preset, words):
    (linear,) = preset(1.0).caveats(LINEAR)
    (logistic,) = preset(1.0).caveats(fg.Problem(dim=3))
    assert words in linear
    assert "no coverage is claimed" in logistic


@pytest.mark.some(1)
@pytest.mark.parametrize("threshold", [1.0 / CLIENTS**2, 1.0])
def test_coverage(threshold):
    algorithm = fg.fedlinucb(threshold, delta=DELTA)
    seen = coverage(algorithm, small_problem("identity"), 40, range(20))
    assert seen.lost == 0.0
    narrow = fg.fedlinucb(threshold, 0.02, delta=DELTA)
    assert coverage(narrow, small_problem("identity"), 40, range(20), first=9).lost > 3 * DELTA


FIXED = {"confidence": fg.Fixed(0.5)}


@pytest.mark.parametrize(
    ("learner", "other", "share"),
    [
        (fg.fedlinucb(0.5, **FIXED), replace(fg.fedlinucb(0.5, **FIXED), trigger=Growth(np.inf)),
         0.3),
        (fg.async_linucb(0.5, 2.0, **FIXED), fg.async_linucb(0.5, np.inf, **FIXED), 0.6),
    ],
    ids=["than who never learns", "than who learns alone"],
)  # fmt: skip
def test_regret_grows_slower_than_time_and(learner, other, share):
    env = fg.Synthetic(LINEAR, clients=5, arms=10)
    for seed in range(3):
        run, idle = fg.compare([learner, other], env, 300, seed)
        half = run.trace["regret"][149]
        assert run.regret - half < 0.6 * half
        assert run.regret < share * idle.regret
