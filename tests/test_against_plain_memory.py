"""Memories against `tests.plain_memory`: choices, times of updates, and what goes down."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fedglb as fg
from fedglb.simulation.reference import ReferenceEngine
from tests import plain_memory

ENGINES = ("reference", "compiled")


def moving(seed, T=120, N=4, K=6, d=3):
    """A recorded environment whose θ turns and then flips; its arms and rewards."""
    rng, problem = np.random.default_rng(seed), fg.Problem(d, radius=2.0)
    arms = rng.standard_normal((T, N, K, d))
    arms *= rng.uniform(0.5, 1.0, (T, N, K, 1)) / np.linalg.norm(arms, axis=-1, keepdims=True)
    angle = 0.01 * np.arange(T) + np.pi * (np.arange(T) >= T // 2)
    theta = 2.0 * np.stack([np.cos(angle), np.sin(angle), *np.zeros((d - 2, T))], axis=1)
    means = problem.link.mean(np.einsum("tnkj,tj->tnk", arms, theta))
    rewards = np.asarray(problem.link.sample(means, rng.random(means.shape), problem.R))
    return fg.Recorded(problem, arms, means, rewards=rewards), arms, rewards


def algorithm(memory):
    solver = fg.OneExchange(math.inf, "deviation")
    return fg.fedglb_auto(choice=fg.Sigma(2.0), solver=solver, memory=memory)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("half_life", [3.0, 20.0, 500.0])
def test_half_life(engine, half_life):
    for seed in range(3):
        env, arms, rewards = moving(seed)
        run = fg.simulate(algorithm(fg.HalfLife(half_life)), env, len(arms), engine=engine)
        choices, steps, _ = plain_memory.fedglb_auto(arms, rewards, half_life=half_life)
        assert_array_equal(run.choices, choices)
        assert run.updates["t"].to_list() == steps


@pytest.mark.parametrize("engine", ENGINES)
def test_adaptive(engine):
    half_lives, restarts = [60.0, 20.0, 5.0], 0
    for seed in range(4):
        env, arms, rewards = moving(seed)
        run = fg.simulate(algorithm(fg.Adaptive(tuple(half_lives))), env, len(arms), engine=engine)
        choices, steps, memories = plain_memory.fedglb_auto(arms, rewards, half_lives=half_lives)
        assert_array_equal(run.choices, choices)
        assert run.updates["t"].to_list() == steps
        assert len(set(steps)) < len(steps)  # updates that follow at once
        restarts += max(len(each) for each in memories) > 1
    assert restarts > 0


def test_the_memory_in_a_model():
    env, arms, rewards = moving(1)
    engine = ReferenceEngine(algorithm(fg.Adaptive((60.0, 20.0, 5.0))), env, len(arms), 0)
    engine.run()
    _, _, memories = plain_memory.fedglb_auto(arms, rewards, half_lives=[60.0, 20.0, 5.0])
    model = engine.coordinator.model
    assert model is not None
    assert model.memory is not None
    expected = [number for piece in memories[-1] for number in piece][1:]
    assert_allclose(model.memory, expected, rtol=1e-14)
    assert model.now == model.t
