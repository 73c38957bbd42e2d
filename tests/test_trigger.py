"""When updates happen."""

from __future__ import annotations

import pytest

import fedglb as fg
from fedglb.trigger import Always, Event, Never, Schedule


def steps(updates: int, horizon: int) -> list[int]:
    algorithm = fg.fedglb_ucb_1(updates)
    setting = algorithm.setting(fg.Problem(2), 3, horizon)
    return [t for t in range(1, horizon + 1) if algorithm.trigger.due(setting, t)]


@pytest.mark.parametrize("horizon", [1, 7, 10, 97])
def test_a_schedule_has_exactly_b_updates(horizon):
    for updates in range(1, horizon + 1):
        period = horizon // updates
        assert steps(updates, horizon) == [k * period for k in range(1, updates + 1)]


def test_a_schedule_needs_a_horizon_and_no_more_updates_than_steps():
    with pytest.raises(fg.InvalidInput, match=r"updates = 11 .* at most B = T = 10"):
        steps(11, 10)
    with pytest.raises(fg.InvalidInput, match="horizon"):
        fg.fedglb_ucb_1(2).setting(fg.Problem(2), 3, None)


def test_the_event_is_at_the_threshold_or_above():
    event = Event(6.0)
    assert event.fires(t=5, t_last=2, log_gain=2.0)
    assert not event.fires(t=5, t_last=2, log_gain=1.999999)
    assert Event(0.0).fires(t=3, t_last=3, log_gain=0.7)
    assert not Event(1e-300).fires(t=3, t_last=3, log_gain=0.7)
    assert not Event(float("inf")).fires(t=10**9, t_last=0, log_gain=1e9)


def test_always_and_never():
    assert Always().fires(1, 1, 0.0)
    assert not Never().fires(10, 0, 5.0)


def test_a_sync_in_the_middle_of_a_step_serves_the_clients_after_it_at_once():
    env = fg.Synthetic(fg.Problem(3), clients=4, arms=5)
    seen = {}

    def watch(t, i, client):
        seen[t, i] = (client.state.epoch, client.state.t_last)

    run = fg.simulate(
        fg.fedglb_ucb(0.5, fg.Newton()), env, 20, seed=1, engine="reference", observer=watch
    )
    rows = run.updates.select("t", "client").rows()
    middle = [(t, i) for t, i in rows if i < 3]
    assert middle
    for t, i in middle:
        assert seen[t, i + 1] == (seen[t, i][0] + 1, t)
    # and t − t_last = 0 for them: nobody asks again in that step
    assert len({t for t, _ in rows}) == len(rows)


def test_schedule_parameter_is_checked():
    with pytest.raises(fg.InvalidInput, match="updates"):
        Schedule(0)
