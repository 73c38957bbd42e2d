"""Agents do what the simulation does, for every way to choose and to update; without a network.

They are restarted on the way, and their files have what they decided.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import polars as pl
import pytest

import fedglb as fg
from fedglb.federation.agent.decisions import DecisionRules
from fedglb.federation.agreement import Agreement
from fedglb.protocol.learner import stream_of
from fedglb.simulation.reference import ReferenceEngine
from tests.federation.helpers.in_memory import InMemory
from tests.federation.helpers.in_process import same
from tests.protocol.driver import equal_arrays

N, K, D, T = 3, 5, 3, 40
NAMES = [f"client-{i}" for i in range(N)]  # sorted as their numbers are
THOMPSON = fg.Thompson(draws=4)
ALGORITHMS = {
    "mix": fg.fedglb_mix(0.5),
    "auto": fg.fedglb_auto(0.5),
    "mix, newton, evidence": fg.fedglb_mix(0.5, solver=fg.Newton(), ridge=fg.Evidence()),
    "certified": fg.fedglb_mix(0.5, choice=fg.Certified(fg.Bayes(), 2.0)),
    "thompson": fg.fedglb_auto(0.5, choice=THOMPSON),
    "thompson, propensity unknown": fg.fedglb_auto(0.5, choice=fg.Thompson(draws=0)),
    "explore": fg.fedglb_auto(0.5, choice=fg.EpsilonGreedy(0.2, THOMPSON)),
    "fedglb_ucb, thompson": dataclasses.replace(fg.fedglb_ucb(0.5, fg.Newton()), choice=THOMPSON),
}


def play(running, arms, rewards):
    """All steps, one client after the other: the decisions."""
    out = []
    for t in range(T):
        for i, name in enumerate(NAMES):
            if t % 17 == 10:
                running.restart(name)
            calls, session = running.calls[name], running.agents[name]
            decision = calls.choose(arms[t, i], t=t + 1)
            out.append(decision)
            step = calls.observe(decision.id, float(rewards[t, i, decision.arm]))
            if step and session.note_trigger(step):
                running.deliver(name, session.request())
    return out


class Simulation(ReferenceEngine):
    """The reference engine, whose clients draw as these agents do."""

    def __init__(self, algorithm, env, seeds):
        super().__init__(algorithm, env, T, 0)
        self.chosen = []
        for i, client in enumerate(self.clients):
            client.seed = seeds[i]
            client.choosing = dataclasses.replace(client.choosing, seed=seeds[i])
            client.decide = self.noted(client.decide, stream_of(NAMES[i]))

    def noted(self, decide, stream):
        def call(columns, t, **_):
            self.chosen.append(decide(columns, t, stream=stream))
            return self.chosen[-1]

        return call


def recording(seed):
    rng = np.random.default_rng(seed)
    arms = rng.standard_normal((T, N, K, D))
    arms /= np.linalg.norm(arms, axis=-1, keepdims=True)
    theta = rng.standard_normal(D)
    means = 1.0 / (1.0 + np.exp(-arms @ (1.5 * theta / np.linalg.norm(theta))))
    return arms, means, (rng.random((T, N, 1)) < means).astype(float)


@pytest.mark.some(7)
@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("explore", [0.0, 0.3])
def test_agents_do_what_the_simulation_does(tmp_path, name, explore):
    algorithm = ALGORITHMS[name]
    if explore and name in ("explore", "certified", "mix, newton, evidence"):
        explore = 0.0  # it explores already, or another one shows it
    problem = fg.Problem(D, radius=2.0)
    arms, means, rewards = recording(3)
    running = InMemory(tmp_path, Agreement(problem, algorithm, N), NAMES, explore)
    try:
        decisions = play(running, arms, rewards)
        engine = Simulation(
            DecisionRules(explore).applied_to(algorithm),
            fg.Recorded(problem, arms, means, rewards=rewards),
            [learner.seed for learner in running.learners.values()],
        )
        engine.run()
        assert engine.coordinator.syncs > 5
        wanted = [dataclasses.astuple(c) for c in engine.chosen]
        got = [(d.arm, d.score, d.width, d.propensity, d.propensity_error) for d in decisions]
        np.testing.assert_array_equal(got, wanted)
        assert len({d.arm for d in decisions}) == K
        for i, name in enumerate(NAMES):
            frame = pl.concat(running.calls[name].export_batches(1000))
            for column in ("score", "width", "propensity", "propensity_error"):
                made = [getattr(d, column) for d in decisions[i::N]]
                np.testing.assert_array_equal(frame[column], made)
        ours, theirs = running.session.coordinator, engine.coordinator
        assert same(ours.model, theirs.model)
        assert ours.ledger == theirs.ledger
        assert (ours.syncs, ours.rounds) == (theirs.syncs, theirs.rounds)
        for learner, client in zip(running.learners.values(), engine.clients, strict=True):
            assert equal_arrays(learner.protocol_client.to_arrays(), client.to_arrays())
    finally:
        running.close()
