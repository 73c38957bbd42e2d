"""`Adaptive` with effects of arms and clients that differ, against `tests.plain_memory_effects`.

Runs are played with the reference engine. Each update's messages and models go to the plain
program too, which has to come to the same memory, from filters that are the same.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose

import fedglb as fg
from fedglb.protocol.messages import ModelSums
from fedglb.simulation.reference import ReferenceEngine
from tests.plain_memory_effects import Judge, Prior, Sums

HALF_LIVES = (64.0, 16.0)
NOISE = {"logistic": None, "poisson": 1.0, "identity": 0.4}
LINKS = {"logistic": fg.Logistic, "poisson": fg.Poisson, "identity": fg.Identity}


class Update(NamedTuple):
    """What the coordinator had and made."""

    model: Any  # before it; None before the first
    sums: list[ModelSums]
    after: Any  # the model
    filters: Any


def played(algorithm, env, horizon: int, seed: int, absent: bool) -> list[Update]:
    """All updates of a run. `absent`: some clients' sums are lost, and they are left out."""
    engine = ReferenceEngine(algorithm, env, horizon, seed)
    coordinator, updates, sums = engine.coordinator, list[Update](), list[ModelSums]()
    receive, finish = coordinator.receive, coordinator.finish_update

    def received(message):
        if isinstance(message, ModelSums):
            if absent and message.update > 3 and (message.update // 3 + message.client) % 7 == 0:
                return coordinator.exclude(message.client)
            sums.append(message)
        return receive(message)

    def finished():
        before = coordinator.model
        after, getting = finish()
        updates.append(Update(before, sums.copy(), after, coordinator.filters))
        sums.clear()
        return after, getting

    coordinator.receive, coordinator.finish_update = received, finished
    engine.run()
    return updates


def flipping(
    seed: int, apart: float, *, recur: bool, link: str = "logistic", blocks=None, N=4, K=6, T=120
) -> fg.Recorded:
    """θ and effects that change their signs midway, of clients that are so far apart."""
    d, rng = 3, np.random.default_rng(seed)
    problem = fg.Problem(d, LINKS[link](), noise=NOISE[link], blocks=blocks)
    arms = rng.standard_normal((K, d) if recur else (T, N, K, d))
    arms = np.broadcast_to(arms / np.linalg.norm(arms, axis=-1, keepdims=True), (T, N, K, d)).copy()
    theta = 2.0 * rng.standard_normal(d) + apart * rng.standard_normal((N, d))
    z = np.einsum("tikj,ij->tik", arms, theta)
    if recur:
        z += 0.7 * rng.standard_normal(K) + 0.5 * apart * rng.standard_normal((N, K))
    z[T // 2 :] *= -1.0
    means = np.asarray(problem.link.mean(z))
    chance = np.broadcast_to(rng.random((T, N, 1)), means.shape)
    rewards = np.asarray(problem.link.sample(means, chance, problem.R))
    return fg.Recorded(problem, arms, means, rewards=rewards)


def jumping() -> fg.Jump:
    base = fg.Synthetic(fg.Problem(2), clients=5, arms=6)
    return fg.Jump(fg.Heterogeneous(base, spread=2.0), 60)


def grouped() -> fg.Jump:
    return fg.Jump(fg.Grouped(fg.Synthetic(fg.Problem(3), clients=6, arms=6), 2), 60)


def prior(model: Any, problem: fg.Problem) -> Prior:
    """What the filters need of a model."""
    d = problem.dim
    if model is None:
        return Prior(np.zeros(d), np.full(d, 1 / 64), 100 / 64, np.zeros((d, d)), 0.0)
    T, effects = np.zeros((d, d)), 0.0
    if model.spread is not None:
        T, effects = model.spread[0] * np.eye(d), model.spread[1]
    if model.directions is not None:
        T = T + model.directions
    one = model.ridges is None
    ridges = np.full(d, model.ridge) if one else np.repeat(model.ridges, problem.blocks)
    return Prior(model.theta, ridges, model.effects[0], T, effects)


def natural(update: Update, places: dict[float, int], d: int) -> dict[int, Sums]:
    """The sums as arrows: from gradients at the model that was in force."""
    at, out = np.zeros(d + len(places)), {}
    if update.model is not None:
        at[:d] = update.model.theta
        for key, _, u, *_ in update.model.effects[2:].reshape(-1, d + 3):
            at[places[key]] = u
    for each in update.sums:
        M, g = np.zeros((len(at), len(at))), np.zeros(len(at))
        M[:d, :d], g[:d] = each.hessian, each.gradient
        for key, h, slope, *b in each.effects.reshape(-1, d + 3):
            a = places[key]
            M[a, a], M[a, :d], M[:d, a], g[a] = h, b, b, slope
        alone = (False, False) if each.spread is None else tuple(each.spread[[2, 5]] > 0)
        out[each.client] = Sums(each.samples, M, M @ at - g, alone)
    return out


def events(judge: Judge, sums: dict[int, Sums], model: Prior) -> set[str]:
    """What an update shows to the judge."""
    last = sums if judge.last is None else judge.last[1]
    flags = [(last[i].alone, each.alone) for i, each in sums.items() if i in last]
    forgets = judge.all[judge.taken].rate > 0
    found = {
        "alone": any(one[0] and two[0] for one, two in flags) and forgets,
        "begins or ends alone": any(one[0] != two[0] for one, two in flags) and not judge.changed,
        "effects alone": any(one[1] != two[1] for one, two in flags),
        "spread": model.T.any(),
        "effects' spread": model.effects > 0,
        "comes back": sums.keys() - last.keys(),
        "comes back at a change": judge.changed and sums.keys() - last.keys(),
        "other sums at a change": judge.changed and any(one != two for one, two in flags),
    }
    return {name for name, happened in found.items() if happened}


def agree(algorithm, env, *happens: str, seed: int = 1, horizon: int = 120, absent=False) -> None:
    """After each update both programs have the same filters and memory."""
    updates, d, seen = played(algorithm, env, horizon, seed, absent), env.problem.dim, set()
    tables = [each.effects.reshape(-1, d + 3) for one in updates for each in one.sums]
    keys = sorted({key for table in tables for key in table[:, 0]})
    places = {key: d + k for k, key in enumerate(keys)}
    judge = Judge(list(HALF_LIVES), d, env.problem.dispersion)
    for update in updates:
        sums, model, row = natural(update, places, d), prior(update.model, env.problem), judge.row
        seen |= events(judge, sums, model)
        judge.see(update.after.now, sums, model)
        seen |= {"changes"} if judge.row != row else set()
        seen |= {"restart"} if any(len(f.pieces) > 1 for f in judge.all) else set()
        assert_allclose(update.after.memory, judge.row, rtol=1e-12)
        P, w = np.array([f.P for f in judge.all]), np.array([f.w for f in judge.all])
        assert_allclose(update.filters.P, P, rtol=0, atol=1e-7 * np.abs(P).max())
        assert_allclose(update.filters.w, w, rtol=0, atol=1e-7 * np.abs(w).max())
        shares = np.array([f.share for f in judge.all])
        assert_allclose(np.exp(update.filters.log_v), shares, rtol=0, atol=1e-7)
    assert seen >= {"changes", *happens}


AUTO = fg.fedglb_auto(memory=fg.Adaptive(HALF_LIVES))
PERSONAL = fg.fedglb_personal(memory=fg.Adaptive(HALF_LIVES))
SPIKES = fg.fedglb_personal(spikes=True, memory=fg.Adaptive(HALF_LIVES))


def same(seed: int, apart: float = 0.0, link: str = "logistic", **more) -> fg.Recorded:
    return flipping(seed, apart, recur=True, link=link, **more)


@pytest.mark.parametrize("seed", range(3))
def test_recurring_arms(seed):
    agree(AUTO, same(seed), "restart")


@pytest.mark.parametrize(("seed", "more"), [(2, {"blocks": (1, 2)}), (0, {"link": "identity"})])
def test_recurring_arms_of_other_problems(seed, more):
    agree(AUTO, same(seed, **more), "restart")


@pytest.mark.parametrize(("seed", "happens"), [(1, "alone"), (3, "spread")])
def test_clients_that_differ_and_a_jump(seed, happens):
    agree(PERSONAL, jumping(), "restart", "begins or ends alone", happens, seed=seed)


@pytest.mark.parametrize(("seed", "happens"), [(0, "restart"), (2, "spread")])
def test_clients_that_differ_with_new_arms(seed, happens):
    agree(PERSONAL, flipping(seed, 1.0, recur=False), happens)


@pytest.mark.parametrize(
    ("seed", "happens"), [(2, "restart"), (3, "effects alone"), (6, "begins or ends alone")]
)
def test_clients_that_differ_with_recurring_arms(seed, happens):
    agree(PERSONAL, same(seed, 1.0), "effects' spread", happens)


@pytest.mark.parametrize("seed", [0, 2])
def test_clients_that_differ_with_recurring_arms_and_linear_rewards(seed):
    env = same(seed, 0.5, "identity")
    agree(PERSONAL, env, "spread", "effects' spread", "begins or ends alone", "restart")


@pytest.mark.parametrize(("seed", "happens"), [(4, "spread"), (10, "alone")])
def test_groups_of_clients(seed, happens):
    agree(SPIKES, grouped(), happens, seed=seed)


def test_clients_that_are_left_out_of_updates():
    agree(AUTO, same(2), "restart", "comes back", absent=True)
    agree(PERSONAL, same(4, 1.0), "restart", "comes back", absent=True)


@pytest.mark.parametrize("case", ["left out", "begins alone"])
def test_no_new_samples_of_such_a_client_after_a_change_of_memory(case):
    if case == "left out":
        agree(AUTO, same(3), "comes back at a change", absent=True)
    else:
        agree(PERSONAL, same(4, 0.5, "identity"), "other sums at a change")
