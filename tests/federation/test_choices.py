"""Agents do what the simulation does, for every way to choose and to update; without a network."""

from __future__ import annotations

import dataclasses
from collections import deque

import numpy as np
import pytest

import fedglb as fg
from fedglb.federation.agent.application_calls import ApplicationCalls
from fedglb.federation.agent.decisions import DecisionRules
from fedglb.federation.agent.durable_client import DurableClient
from fedglb.federation.agent.session import AgentSession
from fedglb.federation.agent.store import AgentStore
from fedglb.federation.agreement import Agreement
from fedglb.federation.coordinator.policy import CoordinatorPolicy
from fedglb.federation.coordinator.session import CoordinatorSession
from fedglb.federation.coordinator.store import CoordinatorStore
from fedglb.federation.wire.codec import decode_down, encode
from fedglb.protocol.learner import stream_of
from fedglb.simulation.reference import ReferenceEngine
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
    "explore": fg.fedglb_auto(0.5, choice=fg.EpsilonGreedy(0.2, THOMPSON)),
    "fedglb_ucb, thompson": dataclasses.replace(fg.fedglb_ucb(0.5, fg.Newton()), choice=THOMPSON),
}


class InProcess:
    """Agents with their files, and a coordinator with its own; every message is bytes."""

    def __init__(self, folder, agreement, explore=0.0):
        self.agreement = agreement
        self._kept = CoordinatorStore(folder / "state.db", agreement)
        self.session = CoordinatorSession(
            agreement, self._kept, CoordinatorPolicy(), lambda event: None
        )
        self.parts, self.calls, self.seeds = [], [], []
        for name in NAMES:
            file = AgentStore(folder / f"{name}.db", "process")
            file.agree(agreement.facts())
            learner = DurableClient(name, agreement, file, DecisionRules(explore))
            self.seeds.append(int.from_bytes(file.seed[:8], "little"))
            self.calls.append(ApplicationCalls(learner))
            self.parts.append(AgentSession(learner, file.instance, "test"))
        for part in self.parts:
            self.deliver(part, part.hello())

    def deliver(self, part, message):
        queue = deque([(part, message)])
        while queue:
            part, message = queue.popleft()
            payload = encode(message, part.session)
            for name, answer in self.session.receive(part.client.name, payload, 0.0):
                other = self.parts[NAMES.index(name)]
                _, down = decode_down(answer, name, D)
                queue.extend((other, up) for up in other.receive(down))

    def play(self, arms, rewards):
        """All steps, one client after the other: the decisions."""
        out = []
        for t in range(T):
            for i, (part, calls) in enumerate(zip(self.parts, self.calls, strict=True)):
                decision = calls.choose(arms[t, i], t=t + 1)
                out.append(decision)
                step = calls.observe(decision.id, float(rewards[t, i, decision.arm]))
                if step and part.note_trigger(step):
                    self.deliver(part, part.request())
        return out

    def close(self):
        for part in self.parts:
            part.client.close()
        self._kept.close()


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
    running = InProcess(tmp_path, Agreement(problem, algorithm, N), explore)
    try:
        decisions = running.play(arms, rewards)
        engine = Simulation(
            DecisionRules(explore).applied_to(algorithm),
            fg.Recorded(problem, arms, means, rewards=rewards),
            running.seeds,
        )
        engine.run()
        assert engine.coordinator.syncs > 5
        wanted = [dataclasses.astuple(c) for c in engine.chosen]
        got = [(d.arm, d.score, d.width, d.propensity, d.propensity_error) for d in decisions]
        np.testing.assert_array_equal(got, wanted)
        assert len({d.arm for d in decisions}) == K
        ours, theirs = running.session.coordinator, engine.coordinator
        assert same(ours.model, theirs.model)
        assert ours.ledger == theirs.ledger
        assert (ours.syncs, ours.rounds) == (theirs.syncs, theirs.rounds)
        for part, client in zip(running.parts, engine.clients, strict=True):
            assert equal_arrays(part.client.protocol_client.to_arrays(), client.to_arrays())
    finally:
        running.close()
