"""Environments of this package for Gymnasium, and Gymnasium's bandits here."""

from __future__ import annotations

import copy
import subprocess
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from numpy.testing import assert_allclose, assert_array_equal

import fedglb as fg

PROBLEM = fg.Problem(dim=3)
ENV = fg.Synthetic(PROBLEM, clients=4, arms=5)


def with_gaps() -> fg.Recorded:
    """Six steps of two clients, of which client 1 acts in steps 2, 3 and 6 only."""
    rng = np.random.default_rng(1)
    active = np.array([[1, 0], [1, 1], [0, 1], [1, 0], [0, 0], [1, 1]], dtype=bool)
    arms, means = rng.standard_normal((6, 2, 4, 3)) / 5, rng.uniform(0.1, 0.9, (6, 2, 4))
    return fg.Recorded(PROBLEM, arms, means, rewards=(means > 0.5) * 1.0, active=active)


# -- the way out ---------------------------------------------------------------------------------


@pytest.mark.parametrize("client", [0, 3, None])
def test_gymnasium_checks_it(client):
    check_env(fg.to_gymnasium(ENV, client, horizon=10), skip_render_check=True)


def test_gymnasium_checks_a_recorded_one():
    check_env(fg.to_gymnasium(with_gaps(), None), skip_render_check=True)


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
        ({"client": 4, "horizon": 5}, r"client = 4 .* <= 3"),
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
    with pytest.raises(fg.InvalidInput, match="client 1 does not in 2 steps"):
        fg.to_gymnasium(env, client=1).reset()


# -- the way in ----------------------------------------------------------------------------------


class Shop(gymnasium.Env[Any, Any]):
    """A context and three actions; `one_step`: an episode per choice."""

    observation_space = spaces.Box(0.0, 1.0, (2,), np.float64)
    action_space: Any = spaces.Discrete(3)
    weights = np.array([[0.9, 0.1], [0.4, 0.5], [0.1, 0.8]])

    def __init__(self, one_step: bool = False, tells: bool = True) -> None:
        self.one_step, self.tells = one_step, tells

    def _context(self) -> tuple[Any, dict[str, Any]]:
        self.x = self.np_random.dirichlet([1.0, 1.0])
        return self.x, {"means": self.weights @ self.x} if self.tells else {}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._context()

    def arm(self, action) -> int:
        return int(action)

    def step(self, action):
        mean = self.weights[self.arm(action)] @ self.x
        reward = float(self.np_random.random() < mean)
        context, info = self._context()
        return context, reward, self.one_step, False, info


class FromOne(Shop):
    """Actions are counted from 1."""

    action_space = spaces.Discrete(3, start=1)

    def arm(self, action) -> int:
        assert action in (1, 2, 3)
        return int(action) - 1


class Maze(Shop):
    """The next observation depends on the action: no bandit."""

    def step(self, action):
        context, *rest = super().step(action)
        return np.roll(context, int(action)), *rest


class Quitter(Shop):
    """One action ends the episode, the others do not."""

    def step(self, action):
        context, reward, _, _, info = super().step(action)
        return context, reward, action == 1, False, info


class Uncopied(Shop):
    """It holds something that cannot be copied."""

    def __deepcopy__(self, memo):
        raise TypeError("cannot copy a socket")


class Continuous(Shop):
    action_space = spaces.Box(-1.0, 1.0, (1,))


def features(x):
    return np.kron(np.eye(3), x)


WIDE = fg.Problem(dim=6)


@pytest.mark.parametrize("make", [Shop, FromOne, lambda: Shop(one_step=True)])
def test_a_context_and_actions(make):
    env = fg.from_gymnasium(make, WIDE, clients=2, features=features)
    assert (env.arms, env.clients, env.horizon) == (3, 2, None)
    assert env.parameter(0) is None
    block = next(env.checked_blocks(50, seed=3))
    x = block.arms[:, :, 0, :2]
    assert_array_equal(block.arms[:, :, 2, 4:], x)
    assert_allclose(block.means, x @ Shop.weights.T, rtol=1e-14)
    assert set(np.unique(block.rewards)) == {0.0, 1.0}
    # one uniform for all arms of a step: the better the arm, the more often it is rewarded
    order = np.argsort(block.means, axis=2)
    assert (np.diff(np.take_along_axis(block.rewards, order, axis=2), axis=2) >= 0).all()
    again = next(env.checked_blocks(50, seed=3))
    assert_array_equal(again.rewards, block.rewards)
    assert (next(env.checked_blocks(50, seed=4)).arms != block.arms).any()
    runs = [fg.simulate(fg.fedglb_auto(), env, 120, 1, e) for e in ("compiled", "reference")]
    assert_array_equal(runs[0].choices, runs[1].choices)
    assert runs[0].trace.equals(runs[1].trace)


def test_the_reward_of_an_arm_is_that_of_its_action():
    """What the block says of a choice is what a bandit does that is driven by these choices."""
    env = fg.from_gymnasium(Shop, WIDE, clients=1, features=features)
    run = fg.simulate(fg.n_ons_glm(), env, 40, seed=5)
    bandit = Shop()
    bandit.reset(seed=5)
    assert sum(bandit.step(arm)[1] for arm in run.choices[:, 0]) == run.reward


@pytest.mark.parametrize("client", [0, None])
def test_there_and_back(client, monkeypatch):
    monkeypatch.setattr("fedglb.environments.base.BLOCK_NUMBERS", 90)
    own = fg.Synthetic(PROBLEM, clients=1, arms=5)
    env = fg.from_gymnasium(lambda: fg.to_gymnasium(own, client, 40), PROBLEM, clients=1)
    one, two = (fg.simulate(fg.fedglb_auto(), each, 40, seed=2) for each in (own, env))
    assert_array_equal(one.choices, two.choices)
    assert one.trace.equals(two.trace)
    assert_array_equal(one.client_regret, two.client_regret)


def test_an_id_of_gymnasium():
    gymnasium.register("fedglb-tests/Shop-v0", Shop)
    env = fg.from_gymnasium("fedglb-tests/Shop-v0", WIDE, clients=1, features=features)
    assert fg.simulate(fg.n_ons_glm(), env, 5).choices.shape == (5, 1)
    assert env.facts()["bandit"] == "fedglb-tests/Shop-v0"


def test_means_of_ones_own():
    env = fg.from_gymnasium(
        lambda: Shop(tells=False), WIDE, 1, features, lambda x, info: Shop.weights @ x
    )
    told = fg.from_gymnasium(Shop, WIDE, 1, features)
    runs = [fg.simulate(fg.n_ons_glm(), each, 20) for each in (env, told)]
    assert runs[0].regret == runs[1].regret > 0.0


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Shop(tells=False), r"info = \[\] .* info\[\"means\"\], or as means=function"),
        (Maze, "make = 'Maze' .* does not depend on the action"),
        (Quitter, "make = 'Quitter' .* after action 1 than after 0"),
        (Uncopied, "make = 'Uncopied' .*deepcopy.* cannot copy a socket"),
        (Continuous, "action_space = .* a Discrete one"),
        (dict, "make = {} .* gymnasium.Env"),
        (Shop(), "make = .* a function that returns"),
    ],
)
def test_what_is_refused_on_the_way_in(make, said):
    with pytest.raises(fg.InvalidInput, match=said):
        fg.simulate(fg.n_ons_glm(), fg.from_gymnasium(make, WIDE, 1, features), 5)


def test_arms_that_do_not_fit():
    env = fg.from_gymnasium(Shop, PROBLEM, 1, features)
    with pytest.raises(fg.InvalidInput, match=r"features\(observation\).shape = \(3, 6\)"):
        fg.simulate(fg.n_ons_glm(), env, 5)
    env = fg.from_gymnasium(Shop, WIDE, 1, lambda x: 9.0 * features(x))
    with pytest.raises(fg.InvalidInput, match="norm of arms"):
        fg.simulate(fg.n_ons_glm(), env, 5)
    with pytest.raises(fg.InvalidInput, match=r"observation.shape = \(2,\)"):
        fg.simulate(fg.n_ons_glm(), fg.from_gymnasium(Shop, WIDE, 1), 5)


def test_without_gymnasium_it_says_what_to_do():
    script = """
import sys
sys.modules["gymnasium"] = None  # an import of it fails
import fedglb as fg
env = fg.Synthetic(fg.Problem(dim=3), clients=2, arms=3)
for call in (fg.to_gymnasium, fg.from_gymnasium):
    try:
        call(env, horizon=5) if call is fg.to_gymnasium else call("a", env.problem, 1)
    except fg.InvalidInput as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.count("pip install 'fedglb[gymnasium]'") == 2, done.stderr
