"""Clients with models of their own: both engines agree, and clients gain by joining."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import fedglb as fg
from fedglb.simulation.reference import ReferenceEngine
from tests.simulation.test_effects import PROBLEMS, Given
from tests.simulation.test_engines_agree import agree, play

PERSONAL = {"scalar": fg.fedglb_personal(), "directions": fg.fedglb_personal(spikes=True)}


def differing(problem, clients=6, arms=6, steps=80, seed=2, recur=False, strange=0):
    """Clients with θ_i far from each other; the last ones far from all; arms that recur or not."""
    rng = np.random.default_rng(seed)
    d = problem.dim
    theta = np.tile(rng.standard_normal(d), (clients, 1))
    if not strange:
        theta += 1.5 * rng.standard_normal((clients, d))
    for i in range(clients - strange, clients):
        theta[i] = -3.0 * theta[0]
    shape = (steps, clients, arms)
    offered = rng.standard_normal((*(shape[2:] if recur else shape), d))
    offered /= np.linalg.norm(offered, axis=-1, keepdims=True)
    offered = np.broadcast_to(offered, (*shape, d)).copy()
    z = np.einsum("tikj,ij->tik", offered, theta)
    if recur:
        z += rng.standard_normal((clients, arms))
    means = problem.link.mean(np.clip(z, -3.0, 1.5))
    uniforms = rng.random((*shape[:2], 1))
    noise = 1.0 if math.isnan(problem.R) else problem.R
    rewards = problem.link.sample(means, np.broadcast_to(uniforms, shape), noise)
    return Given(
        problem, offered, means, rewards,
        delays=rng.integers(0, 3, shape[:2]), active=rng.random(shape[:2]) < 0.9,
    )  # fmt: skip


@pytest.mark.some(6)
@pytest.mark.parametrize("recur", [False, True])
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("name", PERSONAL)
def test_engines_agree_where_clients_differ(name, problem, recur):
    env = differing(PROBLEMS[problem], recur=recur)
    reference, compiled = play(PERSONAL[name], env, horizon=len(env.offered))
    agree(reference, compiled)
    model = reference.coordinator.model
    assert model.spread[0] > 0.0 or model.spread[1] > 0.0 or np.trace(model.directions) > 0.0


def test_a_client_that_is_unlike_all_others_learns_alone():
    env = differing(PROBLEMS["logistic"], 12, steps=200, strange=1)
    reference, compiled = play(PERSONAL["scalar"], env, horizon=200)
    agree(reference, compiled)
    guards = [reference.client(i).state.guard for i in range(12)]
    assert guards[-1] != 0
    assert not any(guards[:-1])


def test_a_client_that_begins_to_learn_alone_is_no_reason_to_forget():
    """From then on it sends other sums of all its samples."""
    env = fg.Outliers(fg.Synthetic(fg.Problem(3), clients=20, arms=10), 2)
    engine, alone = ReferenceEngine(fg.fedglb_personal(memory=fg.Adaptive()), env, 400, 4), set()
    finish = engine.coordinator.finish_update

    def finished():
        found = finish()
        assert not engine.coordinator.filters.switched
        alone.update(c for c, part in engine.coordinator.covered.items() if any(part.alone))
        return found

    engine.coordinator.finish_update = finished
    engine.run()
    assert alone >= {0, 1}


@pytest.mark.parametrize("of", ["model", "an arm"])
def test_sums_that_no_honest_client_sends_do_not_stop_updates(of):
    """Its spread cannot be taken away: I − WT is singular, or 1/h is τ²."""
    algorithm = fg.fedglb_personal(memory=fg.Adaptive())
    engine = ReferenceEngine(algorithm, differing(PROBLEMS["logistic"], 12, steps=200), 200, 4)
    engine.run()
    coordinator, d = engine.coordinator, 3
    one = np.ones(d + 1)
    spread = np.array([0.5, 0.5, 1.0])
    effects = None if of == "model" else np.array([7.0, 2.0, 0.0, *one[:d]])
    sums = replace(coordinator.covered[0], hessian=2.0 * np.eye(d), effects=effects)
    coordinator.base = replace(coordinator.base, spread=spread)
    coordinator.covered[0] = replace(sums, spread=np.zeros(6))
    before = coordinator.filters
    engine.send_down(coordinator.begin(201))
    engine.deliver()
    assert not np.isinf(before.now)
    assert np.isinf(coordinator.filters.now)  # they begin anew
    engine.send_down(coordinator.begin(202))
    engine.deliver()
    assert np.isfinite(coordinator.filters.P).all()
    assert not np.isinf(coordinator.filters.now)


def test_where_clients_are_alike_the_model_is_the_shared_one():
    """With linear samples the anchor does not matter: T = 0 takes away and adds the same."""
    problem = fg.Problem(3, fg.Identity(), noise=1.0)
    reference, _ = play(fg.fedglb_personal(), fg.Synthetic(problem, clients=4, arms=5), horizon=40)
    for _ in range(2):  # what is sent depends on the spread before
        reference.send_down(reference.coordinator.begin(41))
        reference.deliver()
        model = reference.coordinator.model
        assert model.spread.tolist() == [0.0, 0.0, 1.0]
    for i in range(4):
        state = reference.client(i).state
        assert not state.guard
        assert_allclose(state.theta, model.theta, rtol=1e-8, atol=1e-10)
        assert_allclose(state.matrix, model.matrix, rtol=1e-8, atol=1e-8)


@pytest.mark.some(1)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_personal_is_better_than_shared_and_alone_where_clients_differ_somewhat(seed):
    env = fg.Heterogeneous(fg.Synthetic(fg.Problem(10), clients=30, arms=15), spread=1.0)
    shared, alone, personal = (
        fg.simulate(each, env, 600, seed).regret
        for each in (fg.fedglb_auto(), fg.fedglb_auto(threshold=math.inf), fg.fedglb_personal())
    )
    assert personal < min(shared, alone)


def test_two_groups_are_found_as_a_direction():
    env = fg.Grouped(fg.Synthetic(fg.Problem(6), clients=30, arms=15), 2)
    _, compiled = play(PERSONAL["directions"], env, horizon=200)
    F, theta = compiled.coordinator.model.directions, env.parameters(3)[0]
    values, vectors = np.linalg.eigh(F)
    assert np.sum(values > 1e-3 * values[-1]) == 1
    apart = theta[0] - theta[1]
    assert abs(vectors[:, -1] @ apart) > 0.9 * np.linalg.norm(apart)


def test_numbers_per_update():
    env = fg.Synthetic(fg.Problem(10), clients=20, arms=10)
    runs = [fg.simulate(each, env, 100) for each in (fg.fedglb_auto(), fg.fedglb_personal())]
    shared, personal = (run.scalars / run.syncs for run in runs)
    assert shared < personal <= 1.1 * shared


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: fg.fedglb_personal(spikes="yes"), r"^spikes = 'yes': expected a bool"),
        (
            lambda: fg.fedglb_personal().setting(fg.Problem(3, fg.Probit()), 3, None),
            r"^link = 'probit': expected one whose self-concordance has a bound",
        ),
    ],
)
def test_what_it_cannot_do_is_refused(wrong, message):
    with pytest.raises(fg.InvalidInput, match=message):
        wrong()
