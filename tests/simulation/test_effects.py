"""Effects of recurring arms: both engines against an independent re-derivation."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fedglb as fg
from fedglb.kernels import effects
from fedglb.kernels.linalg import REFRESH_EVERY
from fedglb.parts.local_update import Anchored, Calibrated
from fedglb.simulation.compiled import CompiledEngine, block_arrays
from fedglb.simulation.reference import ReferenceEngine
from tests import plain_effects

D, N, K, T, SEED, LONGEST = 3, 3, 6, 40, 5, 4
PROBLEMS = {
    "logistic": fg.Problem(D),
    "poisson": fg.Problem(D, fg.Poisson(), noise=1.0),
    "identity": fg.Problem(D, fg.Identity(), noise=0.4),
    "blocks": fg.Problem(D, blocks=(1, 2)),
}
RULES = {
    "Bayes": fg.Bayes(),
    "Thompson": fg.Thompson(draws=0),
    "OptimisticThompson": fg.OptimisticThompson(),
}


@dataclass
class Given(fg.Environment):
    """Arms and rewards from arrays, with ids, delays and clients that do not always act."""

    problem: fg.Problem
    offered: np.ndarray  # (T, N, K, d)
    means: np.ndarray
    rewards: np.ndarray
    ids: np.ndarray | None = None
    delays: np.ndarray | None = None
    active: np.ndarray | None = None

    def __post_init__(self):
        _, self.clients, self.arms, _ = self.offered.shape

    @property
    def longest_delay(self):
        return LONGEST

    def parameter(self, seed):
        return None

    def blocks(self, horizon, seed):
        yield fg.Block(
            1, self.offered, self.means, None, self.rewards, self.active, self.delays, self.ids
        )


def unit(arms):
    return arms / np.maximum(np.linalg.norm(arms, axis=-1, keepdims=True), 1.0)


def given(problem, arms, effects, rng, **more):
    """An environment in which each arm's reward has the mean μ(xᵀθ + u)."""
    theta = rng.standard_normal(problem.dim)
    means = np.asarray(problem.link.mean(arms @ theta + effects))
    u = np.broadcast_to(rng.random((*means.shape[:2], 1)), means.shape)
    rewards = np.asarray(problem.link.sample(means, u, problem.R))
    return Given(problem, arms, means, rewards, **more)


def fixed(problem, rng):
    """The same arms in every step, without ids."""
    arms = np.broadcast_to(unit(rng.standard_normal((K, D))), (T, N, K, D))
    return given(problem, arms, rng.standard_normal(K), rng)


def contexts(problem, rng):
    """Ids, and features that are others in every step."""
    ids = rng.integers(10, size=(T, N, K))
    arms = unit(rng.standard_normal((T, N, K, D)))
    return given(problem, arms, rng.standard_normal(10)[ids], rng, ids=ids)


def later(problem, rng):
    """Arms that come later, for one client earlier than for others, among arms that never recur."""
    pool, count = unit(rng.standard_normal((12, D))), 3 + np.arange(T)[:, None, None] // 5
    count = np.minimum(count + (np.arange(N) == 1)[:, None], 12)
    which = rng.integers(1000, size=(T, N, K)) % count
    arms, effects = pool[which], rng.standard_normal(12)[which]
    arms[::4, :, -1], effects[::4, :, -1] = unit(rng.standard_normal((T // 4, N, D))), 0.0
    return given(problem, arms, effects, rng)


def delayed(problem, rng):
    """Ids, rewards that come late, and clients that do not always act."""
    ids = np.broadcast_to(np.arange(K) * 7919 + 2**33, (T, N, K))
    arms = np.broadcast_to(unit(rng.standard_normal((K, D))), (T, N, K, D))
    delays, active = rng.integers(LONGEST + 1, size=(T, N)), rng.random((T, N)) < 0.8
    effects = rng.standard_normal(K)
    return given(problem, arms, effects, rng, ids=ids, delays=delays, active=active)


def flat(problem, rng):
    """One arm always pays, the others never do."""
    arms = np.broadcast_to(np.eye(D)[[0, 1, 2]], (T, N, 3, D))
    means = np.broadcast_to([0.0, 1.0, 0.0], (T, N, 3))
    return Given(problem, arms, means, means.copy())


CASES = {each.__name__: each for each in (fixed, contexts, later, delayed, flat)}


def played(algorithm, env, horizon=T):
    """The run, in which both engines agree to the bit, and all its models."""
    reference, models = ReferenceEngine(algorithm, env, horizon, SEED), []
    finish = reference.coordinator.finish_update

    def finished():
        model, recipients = finish()
        models.append(model)
        return model, recipients

    reference.coordinator.finish_update = finished
    reference.run()
    compiled = CompiledEngine(algorithm, env, horizon, SEED)
    for block in env.checked_blocks(horizon, SEED):
        compiled.play(block_arrays(block))
    one, two = reference.result(), compiled.result()
    assert_array_equal(one.choices, two.choices)
    for name in ("trace", "updates", "ledger"):
        assert getattr(one, name).equals(getattr(two, name)), name
    for each, other in zip(holds(reference), holds(compiled), strict=True):
        assert each.tobytes() == other.tobytes()
    return one, models


def holds(engine):
    """All numbers of the last model, and of every client's state, as far as it is in use."""
    model, local = engine.coordinator.model, engine.algorithm.local_update
    yield from (model.theta, model.matrix, np.array(model.ridge), model.effects)
    for state in (engine.client(i).state for i in range(engine.env.clients)):
        yield from (state.vectors, state.matrices, state.counters[: local.counters_in_use(state)])


def keys_of(env):
    if env.ids is not None:
        return env.ids % 2**32
    columns = np.ascontiguousarray(env.offered.reshape(-1, D).T)
    keys = np.empty(columns.shape[1])
    effects.keys_of(columns, keys)
    return keys.astype(int).reshape(env.offered.shape[:3])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_same_as_a_plain_program(name, case, rule):
    problem, rng = PROBLEMS[name], np.random.default_rng([3, len(case)])
    env = CASES[case](problem, rng)
    expected = plain_effects.fedglb_auto(
        problem.link.name, problem.dispersion, env.offered, env.rewards, keys_of(env),
        env.ids is not None, env.delays, env.active, SEED, rule, blocks=problem.blocks,
    )  # fmt: skip
    run, models = played(fg.fedglb_auto(choice=RULES[rule]), env)
    assert_array_equal(run.choices, expected.choices)
    assert list(zip(run.updates["t"], run.updates["client"], strict=True)) == expected.updates
    assert len(models) > 3
    assert len(models[-1].effects) >= 2 + 3 + D
    for found, model in zip(models, expected.models, strict=True):
        assert_allclose(found.theta, model.theta, rtol=0, atol=1e-8)
        ridges = [found.ridge] if problem.blocks is None else found.ridges
        assert_allclose(ridges, model.ridges, rtol=1e-8)
        assert_allclose(found.effects[0], model.second, rtol=1e-8)
        rows = found.effects[2:].reshape(-1, 3 + D)
        by_bucket = {key % 2**16: u for key, u in model.effects.items()}
        assert len(by_bucket) == len(model.effects)
        assert rows[:, 0].tolist() == sorted(by_bucket)
        assert_allclose(rows[:, 2], [by_bucket[key] for key in rows[:, 0]], rtol=0, atol=1e-8)


@pytest.mark.parametrize("rule", RULES)
def test_arms_that_never_pay_become_known(rule):
    """At the flat end slopes vanish: weights that are slopes leave those arms uncertain forever."""
    steps, d = 1000, 5
    arms = np.broadcast_to(np.eye(d), (steps, N, d, d))
    means = np.broadcast_to([0.0, 0.3, 0.0, 0.0, 0.0], (steps, N, d))
    rewards = 1.0 * (np.random.default_rng(1).random((steps, N, 1)) < means)
    env, algorithm = Given(fg.Problem(d), arms, means, rewards), fg.fedglb_auto(choice=RULES[rule])
    with_effects, secants, slopes = (
        fg.simulate(replace(algorithm, local_update=each), env, steps, SEED).regret
        for each in (Calibrated(), Calibrated(effects=0), Anchored())
    )
    assert 5 * with_effects < slopes
    assert 5 * secants < slopes


@pytest.mark.parametrize("rule", RULES)
def test_more_arms_than_rows(rule):
    env = contexts(PROBLEMS["logistic"], np.random.default_rng(1))
    algorithm = replace(fg.fedglb_auto(choice=RULES[rule]), local_update=Calibrated(effects=4))
    _, models = played(algorithm, env)
    for model in models:
        assert np.isfinite(model.theta).all()
        assert np.isfinite(model.effects).all()
    assert len(models[-1].effects) == 2 + 4 * (3 + D)


@pytest.mark.parametrize("rule", ["Bayes", "OptimisticThompson"])
def test_arms_that_share_rows_become_known(rule):
    """Ten arms, four rows: an arm that only learns where it shares stays uncertain forever."""
    steps, regret = 600, {4: 0.0, 1024: 0.0}
    for seed in range(1, 4):
        rng = np.random.default_rng(seed)
        arms = np.broadcast_to(unit(rng.standard_normal((10, D))), (steps, N, 10, D))
        env = given(PROBLEMS["logistic"], arms, rng.standard_normal(10), rng)
        for rows in regret:
            local = Calibrated(effects=rows)
            algorithm = replace(fg.fedglb_auto(choice=RULES[rule]), local_update=local)
            regret[rows] += fg.simulate(algorithm, env, steps, seed).regret
    assert regret[4] < 2 * regret[1024]


@pytest.mark.parametrize("rule", ["Thompson", "OptimisticThompson"])
def test_many_own_samples_since_a_model(rule):
    """A client's inverse is computed anew from time to time, and tails become heavy."""
    problem, rng, threshold = PROBLEMS["logistic"], np.random.default_rng(2), 3000.0
    steps, pool, effects = 1300, unit(rng.standard_normal((K, D))), rng.standard_normal(K)
    env = given(problem, np.broadcast_to(pool, (steps, 1, K, D)), effects, rng)
    expected = plain_effects.fedglb_auto(
        "logistic", 1.0, env.offered, env.rewards, keys_of(env), False, seed=SEED,
        rule=rule, threshold=threshold,
    )  # fmt: skip
    run, models = played(fg.fedglb_auto(threshold, choice=RULES[rule]), env, steps)
    assert_array_equal(run.choices, expected.choices)
    assert expected.updates == [(model.t, 0) for model in models]
    assert steps - models[-1].t > REFRESH_EVERY
