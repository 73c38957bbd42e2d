"""Memories: weights by age, refusals, restarts, and what a model's memory must be."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fedglb as fg
from fedglb.algorithms.catalog import build, in_words
from fedglb.kernels.ageing import thinned, weigh
from fedglb.parts.memory import Filters, NewSums
from fedglb.protocol.checks import check_model
from fedglb.protocol.client import replay
from fedglb.samples import Samples
from tests.protocol.driver import Federation


def weights(row, at, now):
    return weigh(np.array(row), np.array([at]), np.array([len(at)]), now)[0]


def test_a_weight_halves_with_each_half_life():
    at = np.array([0.0, 2.0, 5.0, 10.0, 12.0])
    assert_allclose(weights([0.25], at, 10.0), 0.5 ** np.array([2.5, 2.0, 1.25, 0.0, 0.0]))
    assert_array_equal(weights([0.0], at, 10.0), np.ones(5))


def test_a_rate_holds_for_its_time():
    # rate 1 before time 4, then 0, and 0.5 from 8 on
    row, at = [1.0, 4.0, 0.0, 8.0, 0.5], np.array([1.0, 4.0, 6.0, 9.0])
    assert_allclose(weights(row, at, 10.0), 0.5 ** np.array([4.0, 1.0, 1.0, 0.5]))
    assert_allclose(weights(row, at, 5.0), 0.5 ** np.array([3.0, 0.0, 0.0, 0.0]))


def test_a_sample_that_is_too_old_is_gone():
    assert weights([1.0], np.array([0.0]), 1e6)[0] == 0.0


def test_thinned_samples_follow_the_sum_of_the_weights():
    share = np.random.default_rng(1).random(500)
    taken = thinned(share)
    assert np.abs(np.cumsum(taken) - np.cumsum(share)).max() <= 0.5 + 1e-9
    assert thinned(np.ones(9)).all()
    assert not thinned(np.zeros(9)).any()


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_a_half_life_is_positive(value):
    with pytest.raises(fg.InvalidInput, match="half_life"):
        fg.HalfLife(value)
    with pytest.raises(fg.InvalidInput, match="half_lives"):
        fg.Adaptive((value,))


def test_half_lives_fall():
    for wrong in ((), (3.0, 3.0), (3.0, 4.0)):
        with pytest.raises(fg.InvalidInput, match="half_lives"):
            fg.Adaptive(wrong)
    assert fg.Adaptive([4, 3]) == fg.Adaptive((4.0, 3.0))
    assert fg.Adaptive().finite == (1024.0, 256.0, 64.0, 16.0)


@pytest.mark.parametrize(
    "given",
    [
        fg.n_ons_glm(), fg.one_ucb_glm(), fg.fedglb_ucb_3(3), fg.fedglb_private(3),
        fg.fedlinucb(0.5), fg.async_linucb(0.5),
        fg.fedglb_private(3, privacy=fg.GaussianMechanism(1.0, 1e-6)),
    ],
    ids=lambda a: a.name,
)  # fmt: skip
def test_who_does_not_fit_all_samples_again_cannot_forget(given):
    words = "privacy" if given.privacy else "fit all samples again"
    with pytest.raises(fg.InvalidInput, match=rf"memory = HalfLife.*{words}"):
        dataclasses.replace(given, memory=fg.HalfLife(3.0))


def test_what_is_adaptive_needs_sums_at_the_model():
    for solver in (fg.Newton(), fg.AGD()):
        with pytest.raises(fg.InvalidInput, match=r"memory = Adaptive.*OneExchange"):
            fg.fedglb_ucb(1.0, solver, memory=fg.Adaptive())


def test_names_in_files():
    for spec, memory, words in (
        ("forever", fg.Forever(), "forever"),
        ("half-life:100", fg.HalfLife(100.0), "half-life half_life=100.0"),
        ({"name": "half-life", "half_life": 7.5}, fg.HalfLife(7.5), "half-life half_life=7.5"),
        ("adaptive", fg.Adaptive(), "adaptive"),
        (
            {"name": "adaptive", "half_lives": [9.0, 3.0]},
            fg.Adaptive((9.0, 3.0)),
            "adaptive half_lives=(9.0, 3.0)",
        ),
    ):
        assert build("fedglb-auto", {"memory": spec}).memory == memory
        assert in_words(memory) == words
    for wrong in ("half-life", "half-life:soon", "short"):
        with pytest.raises(fg.InvalidInput, match="memory"):
            build("fedglb-auto", {"memory": wrong})


def test_proofs_are_for_samples_that_all_count():
    problem = fg.Problem(dim=2)
    assert not fg.fedglb_mix(1.0).caveats(problem)
    [note] = fg.fedglb_mix(1.0, memory=fg.HalfLife(9.0)).caveats(problem)
    assert note.startswith("HalfLife(half_life=9.0): ")


# -- models and messages ---------------------------------------------------------------------------


def federation(memory, N=3, T=25):
    algorithm = fg.fedglb_auto(0.3, effects=0, memory=memory)
    fed = Federation(algorithm, fg.Problem(3), N, T)
    fed.run()
    return fed


@pytest.mark.parametrize(
    "change",
    [
        {"memory": None}, {"now": None}, {"now": -1}, {"memory": np.empty(0)},
        {"memory": np.array([0.1, 5.0])}, {"memory": np.array([-0.1])},
        {"memory": np.array([0.1, 5.0, 0.0, 4.0, 0.1])}, {"memory": np.array([math.nan])},
        {"memory": np.zeros((1, 1))},
    ],
    ids=str,
)  # fmt: skip
def test_an_impossible_memory_is_refused(change):
    fed = federation(fg.Adaptive((8.0, 2.0)))
    good = fed.coordinator.model
    check_model(good, fed.algorithm, fed.setting)
    with pytest.raises(fg.InvalidInput, match=next(iter(change))):
        check_model(dataclasses.replace(good, **change), fed.algorithm, fed.setting)


def test_who_forgets_nothing_is_sent_no_memory():
    model = federation(fg.Forever()).coordinator.model
    assert (model.memory, model.now) == (None, None)
    model = federation(fg.HalfLife(4.0)).coordinator.model
    assert (model.memory, model.now) == (None, model.t)


def test_a_ledger_counts_the_memory_and_nothing_else():
    env = fg.Synthetic(fg.Problem(10), clients=5, arms=5)
    sizes = {}
    for memory in (fg.Forever(), fg.HalfLife(50.0), fg.Adaptive()):
        run = fg.simulate(fg.fedglb_auto(memory=memory), env, 60, seed=1)
        sizes[type(memory)] = run.scalars / run.syncs / 5
    assert sizes[fg.HalfLife] == sizes[fg.Forever]
    assert 1.0 <= sizes[fg.Adaptive] - sizes[fg.Forever] <= 9.0
    assert sizes[fg.Adaptive] <= 1.05 * sizes[fg.Forever]


def test_weighted_sums_are_within_the_bounds_of_honest_clients():
    for solver in (fg.LBFGS(), fg.Newton(), fg.AGD()):
        algorithm = fg.fedglb_ucb(0.3, solver, memory=fg.HalfLife(1.5))
        fed = Federation(algorithm, fg.Problem(3), 3, 20)
        fed.run()  # the coordinator refuses nothing
        assert fed.coordinator.syncs > 2


def test_old_samples_that_a_model_leaves_out_are_thinned_by_age():
    algorithm = fg.fedglb_auto(0.3, effects=0, memory=fg.HalfLife(10.0))
    fed = Federation(algorithm, fg.Problem(3), 3, 25)
    fed.run()
    client = fed.clients[0]
    state, n = client.state.copied(), 40
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((n, 3)) / 2.0, np.ones(n)
    at = state.base.now - np.arange(n, 0.0, -1.0) + 5.0  # the last five are newer
    before = state.updates
    replay(client.choosing, state, Samples.over(X, y, n, at), 0, 0)
    expected = np.sum(0.5 ** (np.maximum(state.base.now - at, 0.0) / 10.0))
    assert abs(state.updates - before - expected) <= 0.5


# -- the filters -----------------------------------------------------------------------------------


def test_the_longest_memory_is_taken_until_others_are_better():
    rng, d = np.random.default_rng(3), 3
    setting = fg.fedglb_auto().setting(fg.Problem(d), 5, None)
    filters, theta = Filters.begin(fg.Adaptive((64.0, 16.0)), d), np.array([1.0, 0.0, 0.0])
    H, b, last, taken = np.zeros((d, d)), np.zeros(d), None, []
    for t in range(10, 900, 10):  # ten samples per step; θ flips at 450
        fade = float(filters.faded(float(t))[filters.taken])
        W = 25.0 * np.eye(d)
        truth = theta if t <= 450 else -theta
        new = W @ truth + 5.0 * rng.standard_normal(d)
        at = np.zeros(d) if last is None else last
        before = None if last is None or filters.switched else fade * (H @ at - b)
        H, b = fade * H + W, fade * b + new
        sums = NewSums(H, H @ at - b, at, 100, before)
        filters = filters.after(sums, setting, float(t))
        last = np.linalg.solve(H + setting.ridge * np.eye(d), b)
        taken.append(filters.taken)
        if filters.switched:  # sums with the new weights follow
            H, b = filters.P[filters.taken].copy(), filters.w[filters.taken].copy()
            filters = dataclasses.replace(filters, switched=False)
    assert np.mean(np.array(taken[:45]) == 0) > 0.8
    assert 2 in taken[45:50]  # it is found within a few updates
    assert taken[-1] < 2  # and then memories grow again
    row = filters.in_force
    assert row.size >= 3
    assert row[0] == 1.0 / 16.0  # what came before the jump is forgotten by the short one
    assert 450.0 < row[1] < 600.0
