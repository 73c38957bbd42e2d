"""Members come and go while the federation runs."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

import fedglb as fg
from fedglb.protocol.messages import Covariance, Derivatives, NewModel, SyncRequest
from fedglb.protocol.update import GATHERING, IDLE, SOLVING
from tests.protocol.driver import Federation, communicating, equal_arrays, same_model

D, N, T = 3, 4, 20


def federation(name: str = "newton", members=range(N)) -> Federation:
    """Clients with samples, of which `members` have joined in this order."""
    fed = Federation(communicating()[name], fg.Problem(D), N, T)
    for i in range(N):
        for t in range(1, 6):
            fed.interact(i, t)
    fed.coordinator = fg.Coordinator(fed.algorithm, fed.setting)
    for i in members:
        fed.coordinator.join(i)
    return fed


def until(fed: Federation, stop) -> list:
    """Begin an update and deliver until `stop(coordinator)`; return what is under way."""
    queue = fed.coordinator.begin(6)
    while not stop(fed.coordinator):
        queue += fed.pass_on(queue.pop(0))
    return queue


def models(fed: Federation, queue) -> dict:
    """Deliver the rest; return the models by client."""
    found = {}
    fed.hook = lambda m: found.update({m.client: m}) if isinstance(m, NewModel) else None
    fed.deliver(queue)
    return found


def state(fed: Federation) -> dict:
    """The coordinator's state, which a restart must not change."""
    arrays = fed.coordinator.to_arrays()
    twin = fg.Coordinator.from_arrays(fed.algorithm, fed.setting, arrays)
    assert equal_arrays(twin.to_arrays(), arrays)
    assert twin.missing() == fed.coordinator.missing()
    return arrays


def in_first_round(coordinator) -> bool:
    return coordinator.phase == SOLVING and len(coordinator.update.replies) == 2


# -- joining -------------------------------------------------------------------------------------


def test_an_empty_federation_does_nothing():
    fed = federation(members=[])
    before = state(fed)
    assert fed.coordinator.begin(6) == fed.coordinator.end_step(6) == []
    assert fed.coordinator.missing() == fed.coordinator.outstanding() == []
    assert equal_arrays(state(fed), before)
    scheduled = federation("variant 1", [])
    assert scheduled.coordinator.end_step(5) == []
    assert scheduled.coordinator.phase == IDLE


def test_the_order_of_joining_does_not_matter():
    expected = None
    for order in itertools.permutations(range(N)):
        fed = federation(members=order)
        fed.deliver(fed.coordinator.begin(6))
        expected = state(fed) if expected is None else expected
        assert equal_arrays(state(fed), expected)
    at_once = federation()
    at_once.coordinator = fg.Coordinator(at_once.algorithm, at_once.setting, range(N))
    at_once.deliver(at_once.coordinator.begin(6))
    assert equal_arrays(state(at_once), expected)


def test_joining_twice_changes_nothing():
    fed = federation()
    for stop in (lambda c: c.phase == GATHERING, in_first_round):
        until(fed, stop)
        before = state(fed)
        fed.coordinator.join(1)
        assert equal_arrays(state(fed), before)
        fed.coordinator.abandon()


@pytest.mark.parametrize(("members", "client"), [(range(N), N), ([0], "a"), ([0], None)])
def test_who_cannot_join_is_refused(members, client):
    fed = federation(members=members)
    before = state(fed)
    with pytest.raises(fg.InvalidInput, match="clients"):
        fed.coordinator.join(client)
    assert equal_arrays(state(fed), before)


def test_ids_are_of_one_kind_with_those_that_left():
    fed = federation()
    fed.deliver(fed.coordinator.begin(6))
    for i in range(N):
        fed.coordinator.leave(i)
    before = state(fed)
    with pytest.raises(fg.InvalidInput, match="clients"):
        fed.coordinator.join("a")
    assert equal_arrays(state(fed), before)


def test_there_is_room_again_when_a_member_leaves():
    fed = federation()
    fed.coordinator.leave(0)
    fed.coordinator.join(N)
    assert list(fed.coordinator.clients) == [1, 2, 3, N]


def test_there_is_none_once_that_member_took_part():
    """N of the setting, which the radii divide δ by, bounds the number of all clients ever."""
    fed = federation()
    fed.deliver(fed.coordinator.begin(6))
    fed.coordinator.leave(0)
    before = state(fed)
    with pytest.raises(fg.InvalidInput, match="clients = 5: expected at most 4"):
        fed.coordinator.join(N)
    assert equal_arrays(state(fed), before)
    fed.coordinator.join(0)
    assert list(fed.coordinator.clients) == [0, 1, 2, 3]


@pytest.mark.parametrize("stop", [lambda c: c.phase == GATHERING, in_first_round])
@pytest.mark.parametrize("name", ["newton", "variant 3"])
def test_who_joins_during_an_update_gets_its_model_only(name, stop):
    fed, without = federation(name, [0, 1, 3]), federation(name, [0, 1, 3])
    queue = until(fed, stop)
    fed.coordinator.join(2)
    state(fed)
    assert 2 not in fed.coordinator.participants
    before = state(fed)
    assert fed.coordinator.receive(Covariance(2, fed.coordinator.started, 1, np.eye(D))) == []
    assert equal_arrays(state(fed), before)
    found = models(fed, queue)
    assert [found[i].covered for i in range(N)] == [5, 5, 0, 5]
    without.deliver(without.coordinator.begin(6))
    assert same_model(fed.coordinator, without.coordinator)
    # and in the next update it takes part
    fed.deliver(fed.coordinator.begin(7))
    assert fed.coordinator.covered.keys() == set(range(N))


# -- leaving -------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", [lambda c: c.phase == GATHERING, in_first_round])
@pytest.mark.parametrize("name", ["newton", "agd", "variant 3"])
def test_the_update_goes_on_without_who_leaves(name, stop):
    fed, without = federation(name), federation(name, [0, 1, 3])
    queue = until(fed, stop)
    queue = [m for m in queue if m.client != 2] + fed.coordinator.leave(2)
    state(fed)
    assert models(fed, queue).keys() == {0, 1, 3}
    without.deliver(without.coordinator.begin(6))
    assert same_model(fed.coordinator, without.coordinator)


def test_who_left_gets_nothing_and_says_nothing():
    fed = federation()
    fed.deliver(fed.coordinator.begin(6))
    assert fed.coordinator.leave(2) == fed.coordinator.leave(2) == []
    assert fed.coordinator.covered[2].samples == 5
    assert all(m.client != 2 for m in fed.coordinator.begin(7))
    before = state(fed)
    for late in (SyncRequest(2, 7, 9), Covariance(2, fed.coordinator.started, 1, np.eye(D))):
        with pytest.raises(fg.InvalidInput, match="client"):
            fed.coordinator.receive(late)
    assert equal_arrays(state(fed), before)


def test_variant_3_remembers_who_left():
    fed = federation("variant 3")
    fed.deliver(fed.coordinator.begin(6))
    fed.coordinator.leave(2)
    fed.deliver(fed.coordinator.begin(7))
    state(fed)
    fed.coordinator.join(2)
    assert fed.coordinator.covered[2].samples == 5
    message = fed.coordinator.model_for(2)
    assert message.covered == 5
    fed.clients[2].receive(message)
    fed.deliver(fed.coordinator.begin(8))
    M = sum(c.samples.X.T @ c.samples.X for c in fed.clients)  # each sample once
    np.testing.assert_allclose(fed.coordinator.model.matrix, np.eye(D) + M, rtol=1e-12)


def test_when_all_leave_the_update_is_off():
    fed = federation()
    until(fed, in_first_round)
    sent = [fed.coordinator.leave(i) for i in (3, 0, 1)]
    assert any(sent[:2])  # the solve began again with those left
    assert fed.coordinator.leave(2) == []
    assert fed.coordinator.phase == IDLE
    assert fed.coordinator.model is None
    assert state(fed)["clients"].size == 0


# -- samples that are lost -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["newton", "variant 3"])
def test_what_a_client_has_lost_is_not_covered(name):
    fed = federation(name)
    fed.deliver(fed.coordinator.begin(6))
    queue = until(fed, lambda c: c.phase == SOLVING)
    queue = [m for m in queue if m.client != 2] + fed.coordinator.drop_samples(2)
    state(fed)
    assert 2 not in fed.coordinator.participants
    assert 2 not in fed.coordinator.covered
    fed.clients[2] = fg.Client(2, fed.algorithm, fed.setting)  # with nothing in its file
    found = models(fed, queue)
    assert [found[i].covered for i in range(N)] == [5, 5, 0, 5]
    fed.clients[2].observe_unchecked(np.array([0.0, 0.6, 0.8]), 1.0, 7)
    fed.deliver(fed.coordinator.begin(7))
    assert fed.coordinator.covered[2].samples == 1
    assert fed.coordinator.drop_samples(9) == []


# -- abandoning ----------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", [lambda c: c.phase == GATHERING, in_first_round])
def test_an_abandoned_update_leaves_no_model(stop):
    fed, calm = federation(), federation()
    queue = until(fed, stop)
    number = fed.coordinator.started
    fed.coordinator.abandon()
    fed.coordinator.abandon()
    state(fed)
    assert (fed.coordinator.phase, fed.coordinator.missing()) == (IDLE, [])
    assert (fed.coordinator.model, fed.coordinator.syncs) == (None, 0)
    fed.deliver(queue)  # what was under way changes nothing
    assert fed.coordinator.phase == IDLE
    fed.deliver(fed.coordinator.begin(6))
    assert fed.coordinator.finished == number + 1
    calm.deliver(calm.coordinator.begin(6))
    assert same_model(fed.coordinator, calm.coordinator)


# -- coming back ---------------------------------------------------------------------------------


def test_who_comes_back_gets_the_newest_model():
    fed = federation(members=[0, 1, 2])
    assert fed.coordinator.model_for(0) is None
    fed.deliver(fed.coordinator.begin(6))
    fed.coordinator.join(3)
    until(fed, in_first_round)  # of the next one, whose number is not that of the model
    ledger = fed.coordinator.ledger
    messages, scalars = ledger.messages, ledger.scalars
    found = [fed.coordinator.model_for(i) for i in (1, 3)]
    assert [(m.update, m.covered) for m in found] == [(1, 5), (1, 0)]
    assert (ledger.messages, ledger.scalars) == (messages + 2, scalars + 2 * found[0].scalars())
    fed.clients[3].receive(found[1])
    assert fed.clients[3].adopted == 1
    with pytest.raises(fg.InvalidInput, match="client"):
        fed.coordinator.model_for(9)


# -- what is missing, and what is counted --------------------------------------------------------


def test_missing_are_those_whose_answer_is_not_there():
    fed = federation()
    requests = fed.coordinator.begin(6)
    assert fed.coordinator.missing() == list(range(N))
    rounds = []
    for i in (2, 0, 3, 1):
        assert i in fed.coordinator.missing()
        rounds = fed.coordinator.receive(fed.pass_on(requests[i])[0])
        assert i not in fed.coordinator.missing() or rounds
    fed.coordinator.receive(fed.pass_on(rounds[2])[0])
    assert fed.coordinator.missing() == [0, 1, 3]
    assert [m.client for m in fed.coordinator.outstanding()] == [0, 1, 3]
    state(fed)


def test_the_ledger_counts_each_message_once():
    steady, noisy = federation(), federation()
    steady.deliver(steady.coordinator.begin(6))
    queue, dropped = noisy.coordinator.begin(6), 0
    while queue:
        message = queue.pop(0)
        queue += noisy.pass_on(message)
        if message.upward:  # again, and again with other numbers: the first one counts
            before = state(noisy)
            kind = type(message)
            other = {"matrix": np.zeros((D, D))} if kind is Covariance else {"gradient": None}
            for again in (message, dataclasses.replace(message, **other)):
                assert noisy.coordinator.receive(again) == []
                dropped += 1
            assert equal_arrays(state(noisy), before)
        again = noisy.coordinator.outstanding()  # sent once more, and counted no more
        assert {m.client for m in again} == set(noisy.coordinator.missing())
    assert dropped > 4 * N
    assert noisy.coordinator.ledger == steady.coordinator.ledger
    assert same_model(noisy.coordinator, steady.coordinator)


def test_stale_answers_are_dropped_and_not_counted():
    fed = federation()
    old = Covariance(1, 0, 3, np.eye(D))
    fed.coordinator.begin(5)
    assert fed.coordinator.receive(old) == []
    fed.coordinator.abandon()
    queue = until(fed, in_first_round)
    before = state(fed)
    update = fed.coordinator.started
    for stale in (
        old,
        Derivatives(3, update, 0, np.zeros(D)),
        Derivatives(3, update - 1, 1, np.zeros(D)),
        Covariance(3, update, 1, np.eye(D)),
    ):
        assert fed.coordinator.receive(stale) == []
    assert equal_arrays(state(fed), before)
    assert fed.coordinator.receive(SyncRequest(3, 13, 99)) == []  # one update at a time
    fed.deliver(queue)
    assert fed.coordinator.syncs == 1
