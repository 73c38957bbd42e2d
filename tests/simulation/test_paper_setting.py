"""The paper's synthetic setting: d = 10, K = 25, N = 200, S = λ = 1."""

from __future__ import annotations

import pytest

import fedglb as fg

ENV = fg.Synthetic(fg.Problem(10), clients=200, arms=25)
# global updates and Newton rounds of an independent prototype without the ball, α = 0.3, T = 2000
EXPECTED = {0.1: (67, 136), 1.0: (22, 51), 10.0: (8, 21), 100.0: (3, 9), 1000.0: (2, 6)}


def play(threshold: float, solver: fg.AGD | fg.Newton, horizon: int) -> fg.Run:
    algorithm = fg.fedglb_ucb(threshold, solver, confidence=fg.Fixed(0.3))
    return fg.simulate(algorithm, ENV, horizon, seed=1)


@pytest.mark.parametrize("confidence", [None, fg.Fixed(0.3)], ids=["lemma", "fixed"])
def test_newton_needs_few_rounds(confidence):
    algorithm = fg.fedglb_ucb(0.1, fg.Newton(), confidence=confidence)
    run = fg.simulate(algorithm, ENV, 100, seed=1)
    assert run.syncs > 10
    assert run.updates["rounds"].max() <= 6
    assert run.updates["projected"].any()


@pytest.mark.slow
@pytest.mark.parametrize("threshold", EXPECTED)
def test_sync_counts_and_newton_rounds(threshold):
    run = play(threshold, fg.Newton(), 2000)
    syncs, rounds = EXPECTED[threshold]
    # the arms are other ones, so a few updates more or less; with S = 1 the ball is often active
    assert abs(run.syncs - syncs) <= max(1, 0.1 * syncs)
    assert abs(run.rounds - rounds) <= max(3, 0.2 * rounds)
    assert run.updates["rounds"].max() <= 6
    assert run.transfers == 2 * 200 * (run.rounds + run.syncs)


@pytest.mark.slow
def test_agd_rounds_with_the_a_norm_certificate():
    run = play(10.0, fg.AGD(), 2000)
    assert abs(run.syncs - 8) <= 1
    assert abs(run.rounds - 305) <= 100  # the prototype did not project
    assert (run.updates["gap"] <= 1.0 / run.updates["n"] ** 2).all()
