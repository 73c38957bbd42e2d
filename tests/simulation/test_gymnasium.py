"""Environments of this package for Gymnasium."""

from __future__ import annotations

import copy
import subprocess
import sys

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from numpy.testing import assert_array_equal

import fedglb as fg

PROBLEM = fg.Problem(dim=3)
ENV = fg.Synthetic(PROBLEM, clients=4, arms=5)


def with_gaps() -> fg.Recorded:
    """Six steps of two clients, of which client 1 acts in steps 2, 3 and 6 only."""
    rng = np.random.default_rng(1)
    active = np.array([[1, 0], [1, 1], [0, 1], [1, 0], [0, 0], [1, 1]], dtype=bool)
    arms, means = rng.standard_normal((6, 2, 4, 3)) / 5, rng.uniform(0.1, 0.9, (6, 2, 4))
    return fg.Recorded(PROBLEM, arms, means, rewards=(means > 0.5) * 1.0, active=active)


@pytest.mark.parametrize(("env", "client"), [(ENV, 0), (ENV, 3), (ENV, None), (with_gaps(), None)])
def test_gymnasium_checks_it(env, client):
    check_env(fg.to_gymnasium(env, client, horizon=6), skip_render_check=True)


def replayed(env, run, client=None):
    """Play the choices of a run through Gymnasium; return rewards, regrets and whose turns."""
    horizon, seed = run.parameters["horizon"], run.parameters["seed"]
    bandit = fg.to_gymnasium(env, client, horizon)
    observation, info = bandit.reset(seed=seed)
    reward, regrets, turns, over = 0.0, np.zeros(run.choices.shape), [], False
    while not over:
        t, i = info["t"], info["client"]
        turns.append((t, i))
        block = next(b for b in env.blocks(horizon, seed) if b.first + len(b.arms) > t)
        assert_array_equal(observation, block.arms[t - block.first, i])
        assert_array_equal(info["means"], block.means[t - block.first, i])
        observation, got, terminated, over, info = bandit.step(run.choices[t - 1, i])
        assert not terminated
        reward += got
        regrets[t - 1, i] = info["regret"]
    assert not observation.any()
    return reward, regrets, turns


def test_it_is_the_stream_that_simulations_play(monkeypatch):
    monkeypatch.setattr("fedglb.environments.base.BLOCK_NUMBERS", 7 * 4 * 5 * 3)
    run = fg.simulate(fg.n_ons_glm(0.2), ENV, 30, seed=3)
    reward, regrets, turns = replayed(ENV, run)
    assert reward == run.reward
    assert_array_equal(regrets, run.regrets)
    assert turns == [(t, i) for t in range(1, 31) for i in range(4)]
    _, regrets, turns = replayed(ENV, run, client=2)
    assert_array_equal(regrets[:, 2], run.regrets[:, 2])
    assert turns == [(t, 2) for t in range(1, 31)]


def test_who_does_not_act_has_no_turn(monkeypatch):
    monkeypatch.setattr("fedglb.environments.base.BLOCK_NUMBERS", 2 * 2 * 4 * 3)
    env = with_gaps()
    run = fg.simulate(fg.n_ons_glm(), env)
    reward, regrets, turns = replayed(env, run)
    assert (reward, turns) == (run.reward, [(1, 0), (2, 0), (2, 1), (3, 1), (4, 0), (6, 0), (6, 1)])
    assert_array_equal(regrets, run.regrets)
    assert replayed(env, run, client=1)[2] == [(2, 1), (3, 1), (6, 1)]


def test_seeds():
    bandit = fg.to_gymnasium(ENV, horizon=5, seed=7)
    first, info = bandit.reset()
    assert info["seed"] == 7
    assert_array_equal(first, next(ENV.blocks(5, 7)).arms[0, 0])
    second, info = bandit.reset()
    assert info["seed"] != 7
    assert (second != first).any()
    assert_array_equal(bandit.reset(seed=7)[0], first)
    assert_array_equal(bandit.reset()[0], second)  # what follows a seed follows it again


def test_a_copy_goes_on_by_itself(monkeypatch):
    monkeypatch.setattr("fedglb.environments.base.BLOCK_NUMBERS", 3 * 4 * 5 * 3)
    bandit = fg.to_gymnasium(ENV, 1, horizon=20)
    bandit.reset(seed=1)
    for _ in range(4):
        bandit.step(0)
    twin = copy.deepcopy(bandit)
    theirs = [twin.step(k % 5)[:2] for k in range(10)]
    ours = [bandit.step(k % 5)[:2] for k in range(10)]
    for (a, x), (b, y) in zip(theirs, ours, strict=True):
        assert_array_equal(a, b)
        assert x == y


def test_what_is_refused_on_the_way_out():
    for given, said in (
        ({"client": 4, "horizon": 5}, r"client = 4: .*<= 3"),
        ({}, r"horizon = None"),
        ({"horizon": 5, "seed": -1}, r"seed = -1"),
    ):
        with pytest.raises(fg.InvalidInput, match=said):
            fg.to_gymnasium(ENV, **given)
    bandit = fg.to_gymnasium(ENV, horizon=1)
    with pytest.raises(fg.InvalidInput, match=r"reset\(\) first"):
        bandit.step(0)
    bandit.reset(seed=1)
    with pytest.raises(fg.InvalidInput, match="action = 5"):
        bandit.step(5)
    assert bandit.step(4)[3]
    with pytest.raises(fg.InvalidInput, match=r"reset\(\) first"):
        bandit.step(0)
    arms, means = np.zeros((2, 2, 3, 3)), np.full((2, 2, 3), 0.5)
    active = np.array([[True, False], [True, False]])
    env = fg.Recorded(PROBLEM, arms, means, np.zeros((2, 2)), active=active)
    with pytest.raises(fg.InvalidInput, match="client 1 does not act in 2 steps"):
        fg.to_gymnasium(env, client=1).reset()


def test_without_gymnasium_it_says_what_to_do():
    script = """
import sys
sys.modules["gymnasium"] = None  # an import of it fails
import fedglb as fg
env = fg.Synthetic(fg.Problem(dim=3), clients=2, arms=3)
try:
    fg.to_gymnasium(env, horizon=5)
except fg.InvalidInput as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.count("pip install 'fedglb[gymnasium]'") == 1, done.stderr
