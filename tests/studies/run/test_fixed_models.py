"""Play at random and the best-fitting fixed models, against sums written out here."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import fedglb as fg
from fedglb.studies.run.fixed_models import fit, fixed_models

RNG = np.random.default_rng(7)
T, N, K, d = 6, 3, 4, 2
ARMS = RNG.uniform(-0.7, 0.7, (T, N, K, d))
MEANS = RNG.uniform(0.0, 1.0, (T, N, K))


def rows(env, horizon=T):
    frame = fixed_models(env, horizon, [5], jobs=1)
    return {name: (regret, reward) for name, _, regret, reward in frame.iter_rows()}


def test_sums_over_all_steps_and_clients():
    rewards = (MEANS > 0.5).astype(float)
    env = fg.Recorded(fg.Problem(dim=d), ARMS, MEANS, rewards=rewards)
    found = rows(env)
    best = MEANS.max(axis=2)
    assert found["random play"] == pytest.approx(
        ((best - MEANS.mean(axis=2)).sum(), rewards.mean(axis=2).sum())
    )
    X, y = ARMS.reshape(-1, d), MEANS.reshape(-1)
    for name, theta in {
        "best-fitting linear model": np.linalg.lstsq(X, y, rcond=None)[0],
        "best-fitting logistic model": minimize(
            lambda w: np.sum(np.logaddexp(0, X @ w) - y * (X @ w)), np.zeros(d), tol=1e-12
        ).x,
    }.items():
        regret = reward = 0.0
        for t in range(T):
            for i in range(N):
                k = int(np.argmax(ARMS[t, i] @ theta))
                regret += best[t, i] - MEANS[t, i, k]
                reward += rewards[t, i, k]
        assert found[name] == pytest.approx((regret, reward)), name


def test_those_who_do_not_act_do_not_count():
    active = np.zeros((T, N), dtype=bool)
    active[2, 1] = True
    env = fg.Recorded(fg.Problem(dim=d), ARMS, MEANS, np.zeros((T, N)), active=active)
    regret, reward = rows(env)["random play"]
    one = MEANS[2, 1]
    assert (regret, reward) == pytest.approx((one.max() - one.mean(), one.mean()))


def test_a_model_of_the_right_class_has_no_regret_at_all():
    env = fg.Synthetic(fg.Problem(dim=3), clients=4, arms=5)
    found = rows(env, 50)
    assert found["best-fitting logistic model"][0] == pytest.approx(0.0, abs=1e-9)
    assert found["random play"][0] > 1.0


@pytest.mark.parametrize("link", [fg.Logistic(), fg.Probit(), fg.Poisson(), fg.Identity()])
def test_a_fit_finds_the_parameter_of_exact_means(link):
    X = RNG.uniform(-0.5, 0.5, (200, 3))
    theta = np.array([1.0, -2.0, 0.5])
    np.testing.assert_allclose(fit(link, X, link.mean(X @ theta)), theta, atol=1e-3)


def test_separable_rewards_give_a_finite_model():
    X = RNG.uniform(-0.5, 0.5, (200, 3))
    y = (X[:, 0] > 0).astype(float)
    theta = fit(fg.Logistic(), X, y)
    assert np.isfinite(theta).all()
    assert ((X @ theta > 0) == (y > 0)).mean() > 0.99
