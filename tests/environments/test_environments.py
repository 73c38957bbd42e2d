"""Arms and rewards: the laws they follow, and that nobody's choice changes them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fedglb as fg

PROBLEM = fg.Problem(4, radius=1.7)


def whole(env, horizon, seed):
    blocks = list(env.blocks(horizon, seed))
    assert blocks[0].first == 1
    return (
        np.concatenate([b.arms for b in blocks]),
        np.concatenate([b.means for b in blocks]),
        np.concatenate([b.uniforms for b in blocks]),
        len(blocks),
    )


def test_the_papers_synthetic_problem():
    env = fg.Synthetic(PROBLEM, clients=20, arms=25)
    arms, means, uniforms, _ = whole(env, 200, seed=1)
    theta = env.parameter(1)
    assert_allclose(np.linalg.norm(theta), 1.7)
    assert arms.shape == (200, 20, 25, 4)
    assert_allclose(np.linalg.norm(arms, axis=-1), 1.0, atol=1e-12)
    assert_allclose(means, 1 / (1 + np.exp(-(arms @ theta))), rtol=1e-12)
    flat = arms.reshape(-1, 4)
    n = len(flat)
    assert np.abs(flat.mean(axis=0)).max() < 5 / np.sqrt(4 * n)  # 5σ: uniform on the sphere
    assert np.abs(flat.T @ flat / n - np.eye(4) / 4).max() < 5 / np.sqrt(n)
    assert uniforms.min() >= 0.0
    assert uniforms.max() < 1.0
    assert len({env.parameter(seed).tobytes() for seed in range(20)}) == 20


def test_all_algorithms_see_the_same_arms_and_noise():
    env = fg.Synthetic(PROBLEM, clients=3, arms=1)
    runs = [fg.simulate(a, env, 30, seed=3) for a in (fg.n_ons_glm(), fg.dislinucb(1.0))]
    assert runs[0].reward == runs[1].reward  # one arm: same rewards, whatever was learnt
    assert runs[0].reward != fg.simulate(fg.n_ons_glm(), env, 30, seed=4).reward


@pytest.mark.parametrize("link", [fg.Logistic(), fg.Probit(), fg.Identity(), fg.Poisson()])
def test_rewards_have_their_means(link):
    problem = fg.Problem(2, link, noise=1.0 if link.name == "poisson" else None)
    env = fg.Synthetic(problem, clients=50, arms=1)
    run = fg.simulate(fg.dislinucb(np.inf), env, 400, seed=1)
    _, means, _, _ = whole(env, 400, seed=1)
    spread = {"identity": problem.R, "poisson": np.sqrt(abs(means.mean()))}.get(link.name, 0.5)
    assert abs(run.reward - means.sum()) < 5 * spread * np.sqrt(means.size)


def recorded(T=6, N=2, K=3, **kwargs):
    rng = np.random.default_rng(0)
    arms = rng.standard_normal((T, N, K, 4))
    arms /= np.linalg.norm(arms, axis=-1, keepdims=True)
    means = rng.random((T, N, K))
    if "rewards" not in kwargs:
        kwargs.setdefault("uniforms", rng.random((T, N)))
    return fg.Recorded(PROBLEM, arms, means, **kwargs), arms, means


def test_recorded_rewards_and_regret():
    rewards = np.zeros((6, 2, 3))
    rewards[:, :, 1] = 1.0
    env, _, means = recorded(rewards=rewards)
    run = fg.simulate(fg.n_ons_glm(), env)
    assert env.horizon == 6
    assert run.reward == (run.choices == 1).sum()
    played = np.take_along_axis(means, run.choices[..., None], axis=2)[..., 0]
    assert_allclose(run.regret, (means.max(axis=2) - played).sum())
    assert_allclose(run.trace["regret"].to_numpy()[-1], run.regret)


def test_recorded_uniforms_are_sampled_by_the_link():
    uniforms = np.full((6, 2), 0.5)
    env, _, means = recorded(uniforms=uniforms)
    run = fg.simulate(fg.n_ons_glm(), env)
    played = np.take_along_axis(means, run.choices[..., None], axis=2)[..., 0]
    assert run.reward == (played > 0.5).sum()


def test_who_does_not_act_does_not_play():
    active = np.ones((6, 2), dtype=bool)
    active[2:4, 1] = False
    env, _, _ = recorded(active=active)
    run = fg.simulate(fg.fedglb_ucb(0.0, fg.Newton()), env)
    assert_array_equal(run.choices == -1, ~active)
    assert run.syncs == active.sum()


def test_a_shorter_horizon_is_fine_a_longer_one_is_not():
    env, _, _ = recorded()
    assert fg.simulate(fg.n_ons_glm(), env, horizon=4).choices.shape == (4, 2)
    with pytest.raises(fg.InvalidInput, match=r"horizon = 7 .* 6 steps"):
        fg.simulate(fg.n_ons_glm(), env, horizon=7)


def test_theta_star_is_reported_where_it_is_known():
    env, _, _ = recorded(parameter=[0.5, 0.0, 0.0, 0.0])
    run = fg.simulate(fg.fedglb_ucb(0.0), env)
    assert set(run.updates["theta_star_inside"]) <= {True, False}
    unknown = fg.simulate(fg.fedglb_ucb(0.0), recorded()[0])
    assert set(unknown.updates["theta_star_inside"]) == {None}
