"""Synthetic arms and recorded ones: their laws, and that blocks and threads change no draw."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import fedglb as fg
from fedglb.environments import base
from fedglb.kernels import threads

PROBLEM = fg.Problem(4, radius=1.7)


def test_the_parameter_is_as_long_as_the_radius_and_another_for_each_seed():
    env = fg.Synthetic(PROBLEM, clients=20, arms=25)
    assert_allclose(np.linalg.norm(env.parameter(1)), 1.7)
    assert len({env.parameter(seed).tobytes() for seed in range(20)}) == 20


def test_all_algorithms_see_the_same_arms_and_noise():
    env = fg.Synthetic(PROBLEM, clients=3, arms=1)
    runs = [fg.simulate(a, env, 30, seed=3) for a in (fg.n_ons_glm(), fg.dislinucb(1.0))]
    assert runs[0].reward == runs[1].reward  # one arm: same rewards, whatever was learnt
    assert runs[0].reward != fg.simulate(fg.n_ons_glm(), env, 30, seed=4).reward


def drawn(env, horizon, seed=1):
    blocks = list(env.checked_blocks(horizon, seed))
    return [
        np.concatenate([getattr(block, name) for block in blocks])
        for name in ("arms", "means", "uniforms")
    ]


def test_the_size_of_a_block_and_the_number_of_threads_change_nothing(monkeypatch):
    env = fg.Synthetic(fg.Problem(dim=3), clients=7, arms=5)
    expected = drawn(env, 11)
    monkeypatch.setattr(threads, "_LEAST_NUMBERS", 1)
    for numbers, count in itertools.product([1, 100, 1000, 10**7], ["1", "2", "3", "50"]):
        monkeypatch.setattr(base, "BLOCK_NUMBERS", numbers)
        monkeypatch.setenv("NUMBA_NUM_THREADS", count)
        for made, before in zip(drawn(env, 11), expected, strict=True):
            assert_array_equal(made, before)


def test_more_clients_or_steps_leave_the_others_draws():
    few = drawn(fg.Synthetic(fg.Problem(dim=3), clients=2, arms=5), 4)
    more = drawn(fg.Synthetic(fg.Problem(dim=3), clients=5, arms=5), 9)
    for small, large in zip(few, more, strict=True):
        assert_array_equal(small, large[:4, :2])


def test_means_are_those_of_the_arms():
    for link in (fg.Logistic(), fg.Poisson(), fg.Identity(), fg.Probit()):
        problem = fg.Problem(dim=4, link=link, radius=2.0, noise=0.5)
        env = fg.Synthetic(problem, clients=3, arms=6)
        arms, means, _ = drawn(env, 5)
        expected = link.mean(arms @ env.parameter(1))
        assert_allclose(means, expected, rtol=1e-13, atol=1e-15)


# -- laws: at fixed seeds, so that nothing here is left to chance ------------------------------


@pytest.mark.parametrize("d", [1, 2, 3, 7, 20])
def test_arms_are_uniform_on_the_sphere(d):
    arms, _, noise = drawn(fg.Synthetic(fg.Problem(dim=d), clients=20, arms=25), 40, seed=d)
    x = arms.reshape(-1, d)
    assert_allclose(np.linalg.norm(x, axis=1), 1.0, rtol=1e-14)
    # a coordinate of a uniform unit vector: its square is Beta(1/2, (d − 1)/2)
    if d > 1:
        for j in range(d):
            square = stats.beta(0.5, 0.5 * (d - 1))
            assert stats.kstest(x[:, j] ** 2, square.cdf).pvalue > 1e-3 / d
            assert stats.binomtest(int((x[:, j] > 0.0).sum()), len(x)).pvalue > 1e-3 / d
    # E x xᵀ = I/d; an entry off the diagonal has variance 1/(d(d + 2)) per arm
    covariance = x.T @ x / len(x) - np.eye(d) / d
    assert np.abs(covariance).max() < 5.0 / np.sqrt(len(x) * d)
    assert stats.kstest(noise.ravel(), "uniform").pvalue > 1e-3


def test_steps_clients_arms_seeds_and_roles_are_independent():
    """Correlations of a coordinate between neighbours along every way, each N(0, 1/n)."""
    env = fg.Synthetic(fg.Problem(dim=3), clients=20, arms=25)
    arms, _, noise = drawn(env, 60, seed=1)
    other, _, other_noise = drawn(env, 60, seed=2)
    x = arms[..., 0] * np.sqrt(3.0)
    u = (noise - 0.5) * np.sqrt(12.0)
    pairs = {
        "steps": (x[1:], x[:-1]),
        "clients": (x[:, 1:], x[:, :-1]),
        "arms": (x[:, :, 1:], x[:, :, :-1]),
        "coordinates": (x, arms[..., 1] * np.sqrt(3.0)),
        "seeds": (x, other[..., 0] * np.sqrt(3.0)),
        "noise of steps": (u[1:], u[:-1]),
        "noise of clients": (u[:, 1:], u[:, :-1]),
        "noise of seeds": (u, (other_noise - 0.5) * np.sqrt(12.0)),
        "noise and arms": (u, x[:, :, 0]),
    }
    for way, (a, b) in pairs.items():
        assert abs((a * b).mean()) < 4.0 / np.sqrt(a.size), way


def test_the_parameter_is_not_one_of_the_arms():
    env = fg.Synthetic(fg.Problem(dim=10), clients=3, arms=5)
    arms, _, _ = drawn(env, 3)
    assert np.abs(arms.reshape(-1, 10) @ env.parameter(1)).max() < 1.0 - 1e-6


# -- arrays ------------------------------------------------------------------------------------


def recorded(T=6, N=2, K=3, **kwargs):
    rng = np.random.default_rng(0)
    arms = rng.standard_normal((T, N, K, 4))
    arms /= np.linalg.norm(arms, axis=-1, keepdims=True)
    means = rng.random((T, N, K))
    if "rewards" not in kwargs:
        kwargs.setdefault("uniforms", rng.random((T, N)))
    return fg.Recorded(PROBLEM, arms, means, **kwargs), means


def test_recorded_rewards_and_regret_and_uniforms_that_the_link_samples():
    rewards = np.zeros((6, 2, 3))
    rewards[:, :, 1] = 1.0
    for given in ({"rewards": rewards}, {"uniforms": np.full((6, 2), 0.5)}):
        env, means = recorded(**given)
        run = fg.simulate(fg.n_ons_glm(), env)
        played = np.take_along_axis(means, run.choices[..., None], axis=2)[..., 0]
        assert run.reward == ((run.choices == 1) if "rewards" in given else played > 0.5).sum()
        assert_allclose(run.regret, (means.max(axis=2) - played).sum())
        assert_allclose(run.trace["regret"].to_numpy()[-1], run.regret)
    assert env.horizon == 6


def test_who_does_not_act_does_not_play():
    active = np.ones((6, 2), dtype=bool)
    active[2:4, 1] = False
    env, _ = recorded(active=active)
    run = fg.simulate(fg.fedglb_ucb(0.0, fg.Newton()), env)
    assert_array_equal(run.choices == -1, ~active)
    assert run.syncs == active.sum()


def test_a_shorter_horizon_is_fine_a_longer_one_is_not():
    env, _ = recorded()
    assert fg.simulate(fg.n_ons_glm(), env, horizon=4).choices.shape == (4, 2)
    with pytest.raises(fg.InvalidInput, match=r"horizon = 7: expected at most 6"):
        fg.simulate(fg.n_ons_glm(), env, horizon=7)


def test_theta_star_is_reported_where_it_is_known():
    env, _ = recorded(parameter=[0.5, 0.0, 0.0, 0.0])
    run = fg.simulate(fg.fedglb_ucb(0.0), env)
    assert set(run.updates["theta_star_inside"]) <= {True, False}
    unknown = fg.simulate(fg.fedglb_ucb(0.0), recorded()[0])
    assert set(unknown.updates["theta_star_inside"]) == {None}
