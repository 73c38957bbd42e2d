"""The bank in whole runs: Σg ≤ C·Σw + G after every step, and what that does to a bad index."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import fedglb as fg
from fedglb.kernels.layout import HIGH, LOW
from fedglb.simulation.compiled import CompiledEngine, block_arrays

N, K, T, SEED = 3, 6, 150, 4
ENV = fg.Synthetic(fg.Problem(dim=3), clients=N, arms=K)


@dataclass(frozen=True)
class Worst(fg.Choice):
    """Play the arm of the least prediction."""

    def score(self, arms, model, t):
        return -model.mean


def algorithms(rule):
    narrow = fg.fedglb_ucb(0.5, fg.Newton(), confidence=fg.Fixed(0.1), choice=rule)
    alone = fg.one_ucb_glm(confidence=fg.Fixed(0.1), choice=rule)
    return [narrow, fg.fedglb_mix(0.5, rule), alone]


def intervals(client, arms):
    """The ends of the arms' intervals in the client's sets."""
    work, choosing, state = np.empty((5, K)), client.choosing, client.state
    client.algorithm.confidence.bounds(
        np.ascontiguousarray(arms.T), state.vectors, state.matrices, state.counters,
        choosing.terms, choosing.constants, client.alpha, 1, work,
    )  # fmt: skip
    return work[LOW], work[HIGH]


@pytest.mark.parametrize("which", range(3), ids=["ellipsoids", "mixtures", "one learner"])
@pytest.mark.parametrize(("factor", "credit"), [(1.0, 0.0), (1.0, 0.5), (1.5, 0.2)])
@pytest.mark.parametrize("index", [fg.Greedy(), Worst(), fg.Thompson(2.0, 0)], ids=str)
def test_what_is_played_is_within_the_bound_at_every_step(which, factor, credit, index):
    algorithm = algorithms(fg.Bank(index, factor, credit))[which]
    arms = next(ENV.blocks(T, SEED)).arms
    learners = 1 if algorithm.centralised else N
    g, w, banks, last = np.zeros(learners), np.zeros(learners), np.zeros(learners), {}

    def watch(t, i, client):
        k = i % learners
        assert client.bank == banks[k] <= credit + 1e-12
        (low, high), offered = intervals(client, arms[t - 1, i]), arms[t - 1, i]
        chosen = client.decide(np.ascontiguousarray(offered.T), t, stream=i)
        g[k] += high.max() - low[chosen.arm]
        w[k] += (high - low)[chosen.arm]
        banks[k] += chosen.charge
        assert g[k] <= factor * w[k] + credit + 1e-9
        last[k] = client

    run = fg.simulate(algorithm, ENV, T, SEED, engine="reference", observer=watch)
    np.testing.assert_allclose(banks, g - factor * w, atol=1e-9)
    compiled = CompiledEngine(algorithm, ENV, T, SEED)
    for block in ENV.checked_blocks(T, SEED):
        compiled.play(block_arrays(block))
    assert (compiled.result().choices == run.choices).all()
    assert compiled.learners.banks.tolist() == [last[k].bank for k in range(learners)]
    again = fg.Client.from_arrays(0, algorithm, last[0].agreed, last[0].to_arrays())
    assert again.bank == compiled.client(0).bank == last[0].bank


@pytest.mark.parametrize("which", range(2), ids=["ellipsoids", "mixtures"])
def test_a_bad_index_is_stopped(which):
    bad, stopped = (
        fg.simulate(algorithms(rule)[which], ENV, 600, SEED).regret
        for rule in (Worst(), fg.Bank(Worst(), 1.0, 1.0))
    )
    assert stopped < bad / 10


def test_a_client_counts_what_it_is_asked_for_as_played():
    algorithm = algorithms(fg.Bank(Worst(), 1.0, 3.0))[0]
    client = fg.Client(0, algorithm, algorithm.setting(ENV.problem, 1, None))
    for t in range(1, 30):
        client.observe([1.0, 0.0, 0.0], 1.0, t)
    arms = [[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]]
    charge = client.decide(np.array(arms).T.copy(), 40).charge
    assert client.bank == 0.0 < charge < 3.0
    paid = int(3.0 / charge)
    assert [client.choose(arms, t=40) for _ in range(9)] == [1] * paid + [0] * (9 - paid)
    np.testing.assert_allclose(client.bank, paid * charge)
