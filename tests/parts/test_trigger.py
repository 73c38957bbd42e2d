"""When updates happen."""

from __future__ import annotations

import numpy as np
import pytest

import fedglb as fg
from fedglb.parts.trigger import Always, Event, Geometric, Never, Schedule
from fedglb.samples import Samples


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
    with pytest.raises(fg.InvalidInput, match=r"updates = 11: .*at most B = T = 10"):
        steps(11, 10)
    with pytest.raises(fg.InvalidInput, match="horizon"):
        fg.fedglb_ucb_1(2).setting(fg.Problem(2), 3, None)
    with pytest.raises(fg.InvalidInput, match="updates"):
        Schedule(0)


def test_the_event_is_at_the_threshold_or_above():
    event = Event(6.0)
    assert event.fires(t=5, t_last=2, log_gain=2.0)
    assert not event.fires(t=5, t_last=2, log_gain=1.999999)
    assert Event(0.0).fires(t=3, t_last=3, log_gain=0.7)
    assert not Event(1e-300).fires(t=3, t_last=3, log_gain=0.7)
    assert not Event(float("inf")).fires(t=10**9, t_last=0, log_gain=1e9)
    assert Always().fires(1, 1, 0.0)
    assert not Never().fires(10, 0, 5.0)


def test_own_samples_take_the_place_of_steps():
    event = Event(6.0, clock="own samples")
    assert event.fires(t=5, t_last=5, log_gain=2.0, samples=3)
    assert not event.fires(t=500, t_last=0, log_gain=2.0, samples=2)
    assert not event.fires(t=5, t_last=2, log_gain=1.999999, samples=3)
    assert not Event(float("inf"), "own samples").fires(10, 0, 1e9, samples=10**9)
    assert event.clocked_by == "own samples"
    for part in (Event(6.0), Schedule(3), Always(), Never()):
        assert part.clocked_by == "steps"
    with pytest.raises(fg.InvalidInput, match=r"clock = 'samples': .*own samples"):
        Event(6.0, clock="samples")


@pytest.mark.parametrize("clock", ["steps", "own samples"])
def test_a_large_gain_is_an_event_whatever_the_clock(clock):
    event = Event(6.0, clock, max_gain=1.0)
    assert event.fires(t=5, t_last=5, log_gain=1.0, samples=1)
    assert not event.fires(t=5, t_last=5, log_gain=0.999999, samples=1)
    assert event.fires(t=17, t_last=5, log_gain=0.5, samples=12)
    assert fg.fedglb_mix(6.0).trigger == Event(6.0, max_gain=1.0)
    assert fg.fedglb_mix(float("inf")).trigger == Event(float("inf"))
    with pytest.raises(fg.InvalidInput, match=r"max_gain = 0: .*> 0"):
        Event(6.0, max_gain=0)


def test_the_default_threshold_follows_from_the_setting():
    algorithm = fg.fedglb_mix(ridge=0.5)
    setting = algorithm.setting(fg.Problem(4, radius=2.0), 20, 300)
    gain = 4 * np.log(1 + setting.problem.c_mu * 20 * 300 / (4 * 0.5))
    trigger = algorithm.trigger.resolved(setting)
    assert trigger.level == pytest.approx(300 / (20 * gain))
    assert trigger == Event(trigger.level, max_gain=1.0)
    env = fg.Synthetic(setting.problem, clients=20, arms=3)
    assert fg.simulate(algorithm, env, 300).parameters["trigger"] == repr(trigger)
    with pytest.raises(fg.InvalidInput, match=r"threshold = None: .*D >= 0, e\.g\. 0\.1"):
        algorithm.setting(fg.Problem(4), 20, None)


@pytest.mark.parametrize(
    "algorithm",
    [
        fg.fedglb_ucb(1.0, fg.Newton()), fg.fedglb_ucb_3(4), fg.dislinucb(1.0), fg.n_ucb_glm(),
        fg.n_ons_glm(),
    ],
    ids=lambda a: a.name,
)  # fmt: skip
def test_updates_are_the_own_samples_that_the_model_does_not_cover(algorithm):
    """Of every local update that a clock of own samples can serve, replayed samples included."""
    env = fg.Synthetic(fg.Problem(2), clients=3, arms=4)
    seen = []

    def watch(t, i, client):
        seen.append(client.state.updates == len(client.samples) - client.covered)

    fg.simulate(algorithm, env, 12, seed=1, engine="reference", observer=watch)
    assert len(seen) == 36
    assert all(seen)
    # samples that came while the model was fitted are replayed
    setting = algorithm.setting(env.problem, 3, 12)
    local, samples = algorithm.local_update, Samples(2)
    for y in (0.0, 1.0, 1.0):
        samples.append(np.array([0.6, 0.8]), y)
    state = local.begin(setting)
    local.replay(setting, state, samples, 1)
    assert state.updates == 2


PRIVACY = fg.GaussianMechanism(0.5, 1e-6)


def geometric(horizon, *given, privacy=None, clients=3):
    algorithm = fg.fedglb_private(*given, privacy=privacy)
    setting = algorithm.setting(fg.Problem(2), clients, horizon)
    found = algorithm.trigger.steps(setting)
    assert [t for t in range(1, horizon + 1) if algorithm.trigger.due(setting, t)] == list(found)
    return found


@pytest.mark.parametrize("privacy", [None, PRIVACY], ids=["no noise", "noise"])
@pytest.mark.parametrize("horizon", [1, 2, 7, 10, 97, 2000])
def test_a_geometric_schedule_has_distinct_steps_within_the_horizon(horizon, privacy):
    for updates in {1, 2, 3, min(30, horizon), horizon // 2, horizon} - {0}:
        if updates > min(horizon, 150):
            continue
        found = geometric(horizon, updates, privacy=privacy)
        assert list(found) == sorted(set(found))
        assert found[0] >= 1
        assert found[-1] <= horizon
        room = horizon - found[0] + 1
        assert len(found) == min(updates, room)  # B of them, where there is room


@pytest.mark.parametrize("first", [1, 2.5, 10, 40])
@pytest.mark.parametrize("growth", [None, 1.001, 1.3, 2.0, 100.0])
def test_the_steps_by_hand(first, growth):
    horizon, updates = 100, 12
    schedule = Geometric(updates, first, growth)
    found = schedule.steps(fg.fedglb_private(1).setting(fg.Problem(2), 3, horizon))
    factor = (horizon / first) ** (1 / updates) if growth is None else growth
    expected, before = [], 0
    for k in range(updates):
        before = max(int(np.ceil(round(first * factor**k, 9))), before + 1)
        expected += [before] if before <= horizon else []
    assert list(found) == expected


def test_a_growth_that_no_double_holds():
    setting = fg.fedglb_private(1).setting(fg.Problem(2), 3, 1000)
    assert Geometric(900, 1, 100.0).steps(setting) == (1, 100)
    assert Geometric(900, 1000, 1e300).steps(setting) == (1000,)


def test_without_noise_updates_begin_at_once_and_with_it_later():
    assert geometric(1000, 10)[0] == 1
    late, later = (
        geometric(1000, 10, privacy=fg.GaussianMechanism(e, 1e-6))[0] for e in (1.0, 0.1)
    )
    assert 1 < late < later <= 250
    assert (
        geometric(1000, 10, privacy=fg.GaussianMechanism(1e-4, 1e-6))[0] == 250
    )  # T/4 at the latest
    many = geometric(1000, 10, privacy=fg.GaussianMechanism(1.0, 1e-6), clients=300)[0]
    assert many < late
    assert geometric(1000, 10, 7, privacy=PRIVACY)[0] == 7


def test_a_geometric_schedule_in_seconds():
    times = Geometric(4, first=60.0, growth=2.0).seconds()
    assert times == (60.0, 120.0, 240.0, 480.0)
    setting = fg.fedglb_private(4, 60.0, growth=2.0).setting(fg.Problem(2), 3, None)
    assert setting.horizon is None
    with pytest.raises(fg.InvalidInput, match="growth = 10"):
        Geometric(40, first=60.0, growth=10.0).seconds()


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ((0,), "updates = 0"), ((2.5,), "updates = 2.5"), ((3, 0.0), "first = 0"),
        ((3, -1.0), "first = -1"), ((3, float("nan")), "first = nan"),
        ((3, float("inf")), "first = inf"), ((3, 1.0, 1.0), "growth = 1"),
        ((3, 1.0, 0.5), "growth = 0.5"), ((3, None, float("inf")), "growth = inf"),
    ],
)  # fmt: skip
def test_a_geometric_schedule_that_cannot_be_is_refused(given, named):
    with pytest.raises(fg.InvalidInput, match=named):
        Geometric(*given)


def test_a_geometric_schedule_that_does_not_fit_is_refused():
    with pytest.raises(fg.InvalidInput, match=r"updates = 11: .*at most B = T = 10"):
        geometric(10, 11)
    with pytest.raises(fg.InvalidInput, match=r"first = 11: .*at most the horizon, 10"):
        geometric(10, 2, 11)
    for given, named in (((3,), "first"), ((3, 5.0), "growth"), ((3, None), "first")):
        with pytest.raises(fg.InvalidInput, match=f"{named} = None: .*federation"):
            fg.fedglb_private(*given).setting(fg.Problem(2), 3, None)


def test_schedules_tell_nothing_of_samples_and_others_do():
    assert Geometric(3).public
    assert Schedule(3).public
    assert not any(part.public for part in (Event(1.0), Always(), Never()))
    assert (Geometric(3).max_updates, Schedule(4).max_updates) == (3, 4)
    assert Event(1.0).max_updates is None
