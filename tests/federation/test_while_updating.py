"""Decisions taken during a global update change nothing in its result, and none is lost."""

from __future__ import annotations

import numpy as np
import pytest

from tests.federation.helpers.in_memory import InMemory
from tests.federation.helpers.in_process import client_of, same
from tests.federation.helpers.nats_federation import table
from tests.protocol.driver import equal_arrays

DIM, SAMPLES = 3, {"a": 7, "b": 4, "d": 9}
KINDS = {
    "newton": {"solver": {"name": "newton", "tolerance": 1e-14}},
    "agd": {"solver": {"name": "agd", "tolerance": 1e-6}},
    "lbfgs": {"solver": {"name": "lbfgs", "tolerance": 1e-12}},
    "linear": {"name": "dislinucb"},
    "mix": {"name": "fedglb-mix"},
    "auto": {"name": "fedglb-auto"},
}


@pytest.fixture
def together(tmp_path):
    made = []

    def make(agreement):
        running = InMemory(tmp_path / str(len(made)), agreement, SAMPLES)
        made.append(running)
        for name, samples in SAMPLES.items():
            whole, calls = client_of(agreement, name, samples).samples, running.calls[name]
            for t, (x, y) in enumerate(zip(whole.X, whole.y, strict=True), 1):
                calls.observe(calls.choose([x], t=t).id, float(y))
        return running

    yield make
    for each in made:
        each.close()


def update(running, between=lambda: None):
    running.agents["d"].ask()
    running.deliver("d", running.agents["d"].request(), between)


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
        update(quiet)
        update(busy, between=decide)
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
