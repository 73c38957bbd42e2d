"""Async-LinUCB: what an upload leaves with whom, and who gets what after it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fedglb as fg
from fedglb.protocol import Coordinator
from tests.algorithms.test_fedlinucb import LINEAR, deliver
from tests.parts.confidence.coverage import DELTA, coverage, small_problem

A, B, C = np.eye(3)


def members(threshold=1.0, download=None, clients=3):
    algorithm = fg.async_linucb(threshold, download)
    setting = algorithm.setting(LINEAR, clients, None)
    found = [fg.Client(i, algorithm, setting) for i in range(clients)]
    return found, Coordinator(algorithm, setting, range(clients))


@pytest.mark.slow
def test_an_upload_without_a_download_begins_the_gain_anew_and_changes_no_choice():
    clients, coordinator = members(download=math.inf)
    assert clients[1].observe(A, 0.5, 1) == []  # det(I + aaᵀ) = 2 is not more than 2
    up = clients[1].observe(B, 0.5, 1)
    before, others = clients[1].scores(np.eye(3)), clients[0].to_arrays()
    assert deliver(clients, coordinator, up) == []
    state = clients[1].state
    assert (state.log_gain, state.log_ratio) == (0.0, pytest.approx(np.log(4.0)))
    assert_allclose(state.matrix, np.diag([2.0, 2.0, 1.0]))
    assert_array_equal(clients[1].scores(np.eye(3)), before)
    assert [c.adopted for c in clients] == [0, 0, 0]
    assert all(np.array_equal(others[k], v) for k, v in clients[0].to_arrays().items())
    # what it uploads next is what came since: (1 + 1/2)(1 + 1/2)(…) > 2 with the second sample
    assert clients[1].observe(A, 1.0, 2) == []
    up = clients[1].observe(B, 1.0, 2)
    assert deliver(clients, coordinator, up) == []
    assert_allclose(coordinator.model.matrix, np.diag([3.0, 3.0, 1.0]))
    assert_allclose(coordinator.model.b, [1.5, 1.5, 0.0])
    assert coordinator.syncs == 2


def test_who_lacks_enough_gets_the_sums_and_keeps_what_it_has_not_uploaded():
    clients, coordinator = members(1.1, 3.5)
    clients[0].observe(C, 1.0, 1)  # det is twice as large: not uploaded yet
    clients[1].observe(A, 0.5, 1)
    up = clients[1].observe(B, 0.5, 1)
    assert deliver(clients, coordinator, up) == []  # 4 is not more than 1 + 3.5
    clients[2].observe(A, 0.5, 2)
    up = clients[2].observe(C, 0.5, 2)  # now det A = 3·2·2: clients lack 12, 3 and 3 times
    assert deliver(clients, coordinator, up) == [0]
    assert [c.adopted for c in clients] == [2, 0, 0]
    first = clients[0].state
    assert_allclose(first.matrix, np.diag([3.0, 2.0, 3.0]))  # its own sample on top
    assert_allclose(first.b, [1.0, 0.5, 1.5])
    assert_allclose(first.theta, [1.0 / 3.0, 0.25, 0.5])
    assert first.log_gain == pytest.approx(np.log(1.5))  # as far as it is from its next upload
    assert first.log_ratio + first.log_gain == pytest.approx(np.log(18.0))
    # an upload of its own brings the sample up once, and is no reason to send it anything
    up = clients[0].observe(C, 1.0, 3) + clients[0].observe(C, 1.0, 3)
    assert deliver(clients, coordinator, up) == [1, 2]
    assert_allclose(coordinator.model.matrix, np.diag([3.0, 2.0, 5.0]))
    assert_allclose(first.matrix, coordinator.model.matrix)
    assert (clients[0].covered, clients[0].frozen, len(clients[0].samples)) == (0, 3, 3)


def test_a_coordinator_knows_who_has_what_after_a_restart():
    clients, coordinator = members(0.5, 1.0)
    rng = np.random.default_rng(4)
    seen = set()
    for t in range(1, 60):
        i = int(rng.integers(3))
        x = rng.standard_normal(3)
        up = clients[i].observe(x / np.linalg.norm(x), 0.3, t)
        coordinator = Coordinator.from_arrays(
            coordinator.algorithm, coordinator.setting, coordinator.to_arrays()
        )
        got = deliver(clients, coordinator, up)
        if up:
            seen.add(len(got))
        for j, client in enumerate(clients):  # what it has is what it uploaded or was sent
            held = coordinator.holdings[j].matrix if j in coordinator.holdings else np.eye(3)
            pending = client.samples.X[client.frozen :]
            assert_allclose(held + pending.T @ pending, client.state.matrix, atol=1e-12)
    assert seen == {0, 1, 2}


@pytest.mark.some(1)
@pytest.mark.parametrize("download", [None, 0.0, 0.25])
def test_with_a_download_event_as_easy_as_an_upload_everybody_gets_every_upload(download):
    env = fg.Synthetic(LINEAR, clients=5, arms=6)
    run = fg.simulate(fg.async_linucb(0.5, download), env, 60, seed=2)
    assert run.syncs > 5
    assert run.rounds == 0
    assert run.transfers == 5 * run.syncs
    assert run.scalars == run.transfers * (3 * 4 // 2 + 3)


def test_fewer_downloads_and_none():
    env = fg.Synthetic(LINEAR, clients=5, arms=6)
    easy, hard, none = (
        fg.simulate(fg.async_linucb(0.5, download), env, 100, seed=2)
        for download in (0.5, 4.0, math.inf)
    )
    assert none.transfers == none.syncs > easy.syncs  # who hears nothing learns for itself
    assert hard.syncs < hard.transfers < 3 * hard.syncs
    assert hard.transfers < easy.transfers
    assert set(none.ledger["message"]) == {"SyncRequest", "SumsRequest", "Covariance"}


@pytest.mark.slow
def test_coverage():
    """Nothing is proven for several clients; here the sets hold θ* all the same."""
    env = small_problem("identity")
    assert coverage(fg.async_linucb(1.0, 3.0, delta=DELTA), env, 40, range(20)).lost <= DELTA
    narrow = fg.async_linucb(1.0, 3.0, 0.1, delta=DELTA)
    assert coverage(narrow, env, 40, range(20), first=9).lost > 3 * DELTA
