"""Decisions taken during a global update change nothing in its result, and none is lost."""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np
import pytest

from tests.federation.helpers.in_process import same
from tests.federation.helpers.lossy_network import ask, harness
from tests.federation.helpers.nats_federation import table
from tests.federation.helpers.recorded import ITEMS, stream
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
    """Return a function that makes federations whose agents have samples."""
    with ExitStack() as stack:

        def make(folder, agreement):
            running = stack.enter_context(harness(tmp_path / folder, list(SAMPLES), agreement))
            running.arrive()
            for name, samples in SAMPLES.items():
                calls = running.nodes[name].calls
                for k, (x, y) in enumerate(zip(*stream(name, DIM, samples), strict=True)):
                    calls.observe(calls.choose([x], [k % ITEMS], t=k + 1).id, float(y))
            return running

        yield make


def update(running, between=lambda: None):
    ask(running, "d")
    running.arrive(between)


@pytest.mark.parametrize("kind", KINDS)
def test_the_model_and_the_states_after_it(together, kind):
    agreement = table(6, DIM, **{"threshold": 1e9, **KINDS[kind]}).build()
    quiet, busy = together("quiet", agreement), together("busy", agreement)
    rng, t, later = np.random.default_rng(3), 100, {name: [] for name in SAMPLES}

    def decide():
        """Whoever has answered takes two decisions, and learns from the older one first or last."""
        nonlocal t
        for name, node in busy.nodes.items():
            if node.learner.protocol_client.update < busy.session.coordinator.started:
                continue  # what it learned now would belong to the update
            t += 1
            arms = rng.standard_normal((2, 4, DIM))
            arms /= np.linalg.norm(arms, axis=-1, keepdims=True)
            decisions = [node.calls.choose(a, [2, 3, 4, 5], t=t) for a in arms]
            pairs = list(zip(decisions, arms, strict=True))
            for decision, offered in pairs if t % 2 else pairs[::-1]:
                reward = float(rng.integers(2))
                node.calls.observe(decision.id, reward)
                later[name].append((offered[decision.arm], reward, t, decision.arm_id))

    rounds = []
    for _ in range(2):  # the second update begins from the first one's model
        update(quiet)
        update(busy, between=decide)
        rounds.append(busy.session.coordinator.last_update.rounds)
        model = busy.session.coordinator.model
        assert same(model, quiet.session.coordinator.model)
        for name, node in quiet.nodes.items():
            assert len(later[name]) > 2
            for x, y, step, item in later[name]:  # in their order, after the model
                node.calls.observe(node.calls.choose([x], [item], t=step).id, y)
            ours, theirs = (
                each.learner.protocol_client.to_arrays() for each in (busy.nodes[name], node)
            )
            assert equal_arrays(ours, theirs)
            later[name].clear()
    if kind not in ("linear", "mix", "auto"):
        assert min(rounds) >= 2
