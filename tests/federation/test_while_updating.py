"""Decisions taken during a global update change nothing in its result, and none is lost."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

from fedglb.federation.agent.application_calls import ApplicationCalls
from fedglb.federation.agent.decisions import DecisionRules
from fedglb.federation.agent.durable_client import DurableClient
from fedglb.federation.agent.session import AgentSession
from fedglb.federation.agent.store import AgentStore
from fedglb.federation.coordinator.policy import Policy
from fedglb.federation.coordinator.session import CoordinatorSession
from fedglb.federation.coordinator.store import CoordinatorStore
from fedglb.federation.wire.codec import decode_down, encode
from tests.federation.helpers.in_process import client_of, same
from tests.federation.helpers.nats_federation import table
from tests.protocol.driver import equal_arrays

DIM, SAMPLES = 3, {"a": 7, "b": 4, "d": 9}
SOLVER = {"name": "newton", "tolerance": 1e-14}
KINDS = {
    "newton": {"solver": SOLVER},
    "agd": {"solver": {"name": "agd", "tolerance": 1e-6}},
    "lbfgs": {"solver": {"name": "lbfgs", "tolerance": 1e-12}},
    "linear": {"name": "dislinucb"},
    "mix": {"name": "fedglb-mix"},
    "auto": {"name": "fedglb-auto"},
}


class Together:
    """Agents and a coordinator without a network: every message is delivered, in order."""

    def __init__(self, folder, agreement):
        folder.mkdir()
        self.agreement, self.dim = agreement, agreement.problem.dim
        self._kept = CoordinatorStore(folder / "state.db", agreement)
        self.session = CoordinatorSession(agreement, self._kept, Policy(), lambda event: None)
        self.learners, self.calls, self.parts = {}, {}, {}
        for name, samples in SAMPLES.items():
            file = AgentStore(folder / f"{name}.db", "process")
            file.agree(agreement.facts())
            learner = DurableClient(name, agreement, file, DecisionRules())
            calls = self.calls[name] = ApplicationCalls(learner)
            whole = client_of(agreement, name, samples).samples
            for t, (x, y) in enumerate(zip(whole.X, whole.y, strict=True), 1):
                calls.observe(calls.choose([x], t=t).id, float(y))
            self.learners[name] = learner
            self.parts[name] = AgentSession(learner, file.instance, "test")
        for part in self.parts.values():
            self.deliver(part, part.hello())

    def update(self, between=lambda: None):
        part = self.parts["d"]
        part.ask()
        self.deliver(part, part.request(), between)

    def deliver(self, part, message, between=lambda: None):
        """Carry a message, and all that follows from it; `between` is called after each."""
        queue = deque([(part, message)])
        while queue:
            part, message = queue.popleft()
            payload = encode(message, part.session)
            for name, answer in self.session.receive(part.client.name, payload, 0.0):
                other = self.parts[name]
                _, down = decode_down(answer, name, self.dim)
                queue.extend((other, up) for up in other.receive(down))
                between()

    def close(self):
        for learner in self.learners.values():
            learner.close()
        self._kept.close()


@pytest.fixture
def together(tmp_path):
    made = []

    def make(agreement):
        made.append(Together(tmp_path / str(len(made)), agreement))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize("kind", KINDS)
def test_the_model_and_the_states_after_it(together, kind):
    agreement = table(6, DIM, **{"threshold": 1e9, **KINDS[kind]}).build()
    quiet, busy = together(agreement), together(agreement)
    rng, t, later = np.random.default_rng(3), 100, {name: [] for name in SAMPLES}

    def decide():
        """Whoever has answered takes two decisions, and learns from the older one first or last."""
        nonlocal t
        for name, learner in busy.learners.items():
            if learner.protocol_client.update < busy.session.coordinator.started:
                continue  # what it learned now would belong to the update
            t += 1
            arms = rng.standard_normal((2, 4, DIM))
            arms /= np.linalg.norm(arms, axis=-1, keepdims=True)
            decisions = [busy.calls[name].choose(a, t=t) for a in arms]
            pairs = list(zip(decisions, arms, strict=True))
            for decision, offered in pairs if t % 2 else pairs[::-1]:
                reward = float(rng.integers(2))
                busy.calls[name].observe(decision.id, reward)
                later[name].append((offered[decision.arm], reward, t))

    rounds = []
    for _ in range(2):  # the second update begins from the first one's model
        quiet.update()
        busy.update(between=decide)
        rounds.append(busy.session.coordinator.last_update.rounds)
        model = busy.session.coordinator.model
        assert same(model, quiet.session.coordinator.model)
        for name, learner in quiet.learners.items():
            assert len(later[name]) > 2
            for x, y, step in later[name]:  # in their order, after the model
                quiet.calls[name].observe(quiet.calls[name].choose([x], t=step).id, y)
            ours, theirs = (
                busy.learners[name].protocol_client.to_arrays(),
                learner.protocol_client.to_arrays(),
            )
            assert equal_arrays(ours, theirs)
            later[name].clear()
    if kind not in ("linear", "mix", "auto"):
        assert min(rounds) >= 2
