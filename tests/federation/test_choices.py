"""Agents do what the simulation does, for every way to choose and to update; without a network.

They are restarted on the way, and their files have what they decided.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import polars as pl
import pytest

import fedglb as fg
from fedglb.federation.agent.choices import without_rounding
from fedglb.federation.agent.decisions import DecisionRules
from fedglb.federation.agreement import Agreement
from fedglb.protocol.learner import stream_of
from fedglb.simulation.reference import ReferenceEngine
from tests.federation.helpers.in_process import same
from tests.federation.helpers.lossy_network import harness
from tests.federation.helpers.recorded import recording
from tests.protocol.driver import equal_arrays

N, K, D, T = 3, 5, 3, 40
NAMES = [f"client-{i}" for i in range(N)]  # sorted as their numbers are
THOMPSON = fg.Thompson(draws=4)
ALGORITHMS = {
    "mix": fg.fedglb_mix(0.5),
    "auto": fg.fedglb_auto(0.5),
    "mix, newton, evidence": fg.fedglb_mix(0.5, solver=fg.Newton(), ridge=fg.Evidence()),
    "thompson": fg.fedglb_auto(0.5, choice=THOMPSON),
    "thompson, propensity unknown": fg.fedglb_auto(0.5, choice=fg.Thompson(draws=0)),
    "explore": fg.fedglb_auto(0.5, choice=fg.EpsilonGreedy(0.2, THOMPSON)),
    "fedglb_ucb, thompson": dataclasses.replace(fg.fedglb_ucb(0.5, fg.Newton()), choice=THOMPSON),
}


class Named(fg.Recorded):
    """Recorded arms with ids, whole numbers of shape (T, N, K)."""

    ids: np.ndarray

    def blocks(self, horizon, seed):
        for block in super().blocks(horizon, seed):
            first = block.first - 1
            yield dataclasses.replace(block, ids=self.ids[first : first + len(block.arms)])


def items(seed):
    """Arms (T, N, K, d) from a dozen items, some of which have the same features, and their ids."""
    rng = np.random.default_rng(seed)
    table = rng.standard_normal((12, D))
    table[6:] = table[:6]
    table /= 1.2 * np.linalg.norm(table, axis=1, keepdims=True)
    ids = np.array([[rng.choice(12, K, replace=False) for _ in range(N)] for _ in range(T)])
    effects = rng.choice([-1.0, 0.0, 1.0], 12)
    means = 1.0 / (1.0 + np.exp(-(table @ rng.standard_normal(D) + effects)[ids]))
    rewards = (rng.random((T, N, 1)) < means).astype(float)
    return ids + 2**33, table[ids], means, rewards


def play(running, arms, rewards, ids=None):
    """All steps, one client after the other: the decisions."""
    out = []
    for t in range(T):
        for i, name in enumerate(NAMES):
            if t % 17 == 10:
                running.restart(name)
            calls, session = running.nodes[name].calls, running.nodes[name].agent_session
            decision = calls.choose(arms[t, i], None if ids is None else ids[t, i], t=t + 1)
            out.append(decision)
            step = calls.observe(decision.id, float(rewards[t, i, decision.arm]))
            if step and session.note_trigger(step):
                running.request(name)
                running.arrive()
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
        def call(columns, t, names, **_):
            self.chosen.append(decide(columns, t, stream=stream, names=names, logged=True))
            return self.chosen[-1]

        return call


@pytest.mark.some(7)
@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("explore", [0.0, 0.3])
def test_agents_do_what_the_simulation_does(tmp_path, name, explore):
    algorithm = ALGORITHMS[name]
    if explore and name in ("explore", "mix, newton, evidence"):
        explore = 0.0  # it explores already, or another one shows it
    problem = fg.Problem(D, radius=2.0)
    arms, means, rewards = recording((T, N, K, D), seed=3, length=1.5)
    check(tmp_path, algorithm, explore, fg.Recorded(problem, arms, means, rewards=rewards))


@pytest.mark.parametrize("effects", [1024, 4])
def test_so_they_do_with_items_that_recur(tmp_path, effects):
    """Items are known by their ids; with few effects, items share them."""
    ids, arms, means, rewards = items(seed=5)
    env = Named(fg.Problem(D, radius=2.0), arms, means, rewards=rewards)
    env.ids = ids
    model = check(tmp_path, fg.fedglb_auto(0.5, effects=effects), 0.0, env)
    count = (model.effects.size - 2) // (D + 3)
    assert 2 <= count <= effects
    assert (count > 4) == (effects > 4)


def check(tmp_path, algorithm, explore, env):
    """Play with agents, and in the simulation: decisions, models, ledgers and states are equal."""
    problem, arms, rewards = env.problem, env._all.arms, env._all.rewards
    with harness(tmp_path, NAMES, Agreement(problem, algorithm, N), explore=explore) as running:
        running.arrive()
        decisions = play(running, arms, rewards, getattr(env, "ids", None))
        engine = Simulation(
            DecisionRules(explore).applied_to(algorithm),
            env,
            [node.learner.seed for node in running.all()],
        )
        engine.run()
        assert engine.coordinator.syncs > 5
        wanted = [
            (c.arm, c.score, without_rounding(c.width, c.score), c.propensity, c.propensity_error)
            for c in engine.chosen
        ]  # agents have no bank
        got = [(d.arm, d.score, d.width, d.propensity, d.propensity_error) for d in decisions]
        np.testing.assert_array_equal(got, wanted)
        assert len({d.arm for d in decisions}) == K
        for i, name in enumerate(NAMES):
            frame = pl.concat(running.nodes[name].calls.export_batches(1000))
            for column in ("score", "width", "propensity", "propensity_error"):
                made = [getattr(d, column) for d in decisions[i::N]]
                np.testing.assert_array_equal(frame[column], made)
        ours, theirs = running.session.coordinator, engine.coordinator
        assert same(ours.model, theirs.model)
        assert ours.ledger == theirs.ledger
        assert (ours.syncs, ours.rounds) == (theirs.syncs, theirs.rounds)
        for node, client in zip(running.all(), engine.clients, strict=True):
            assert equal_arrays(node.learner.protocol_client.to_arrays(), client.to_arrays())
        return ours.model
