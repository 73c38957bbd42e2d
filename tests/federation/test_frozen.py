"""The operator freezes a federation: all agents choose with one model, and learn and update on."""

from __future__ import annotations

import numpy as np
import pytest

import fedglb as fg
from fedglb.federation.wire.messages import Freeze
from tests.federation.helpers.lossy_network import (
    Harness,
    agreed,
    ask,
    harness,
    joined,
    texts,
    updated,
)
from tests.federation.test_private import private, to_the_end

LOSSY = {"loss": 0.25, "twice": 0.25, "delay": 1.0}
ALGORITHMS = {"ucb": fg.fedglb_ucb(1e9, fg.Newton()), "auto": fg.fedglb_auto(1e9)}
ALGORITHMS["personal"] = fg.fedglb_personal(1e9)


def frozen_at(running: Harness) -> dict[str, int]:
    """The model that each agent chooses with, if not the newest."""
    found = {name: node.learner.frozen for name, node in running.nodes.items()}
    return {name: 0 if frozen is None else frozen.update for name, frozen in found.items()}


def all_at(running: Harness, update: int) -> bool:
    return set(frozen_at(running).values()) == {update}


def more(running: Harness, updates: int = 1) -> None:
    for _ in range(updates):
        running.feed(1)
        updated(running)


@pytest.mark.parametrize("network", [{}, LOSSY], ids=["good", "lossy"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_everybody_follows_and_learns_on(tmp_path, algorithm, network):
    running = joined(tmp_path, agreement=agreed(algorithm=ALGORITHMS[algorithm]), **network)
    try:
        more(running, 2)
        theta = running.coordinator.model.theta
        more(running)
        running.freeze(2)
        running.until(lambda: all_at(running, 2))
        more(running)
        late = running.add("d")
        running.until(lambda: late.model == 4 and all_at(running, 2))
        if not network:  # it never chooses with another one
            first = [
                message.name for _, way, to, message in running.said if (way, to) == ("down", "d")
            ]
            assert first[:3] == ["Admitted", "Freeze", "NewModel"]
        for node in running.all():
            chosen = node.calls.choose([np.array([0.6, 0.0]), np.array([0.0, 0.6])])
            assert (chosen.model, node.model) == (2, 4)
            assert np.array_equal(node.learner.chooser.shared_theta, theta)
            node.calls.observe(chosen.id, 1.0)
        running.crash()  # the file of the operator is still there
        running.nodes["a"].close()
        running.come_back("a")
        running.until(lambda: running.everybody_here() and all_at(running, 2))
        updated(running, "d")
        running.freeze(None)
        running.until(lambda: all_at(running, 0))
        chosen = late.calls.choose([np.array([0.6, 0.0])])
        assert chosen.model == late.model
        assert texts(running, "frozen") == [
            "all clients choose with the model of update 2, and go on learning",
            "all clients choose with the newest model again",
        ]
    finally:
        running.close()


def test_who_was_away_is_told_when_it_comes_back(tmp_path):
    running = joined(tmp_path)
    try:
        more(running, 2)
        running.nodes["a"].close()
        running.freeze(1)
        running.until(lambda: frozen_at(running) | {"a": 1} == {"a": 1, "b": 1, "c": 1})
        running.come_back("a")
        running.until(lambda: all_at(running, 1))
        running.nodes["a"].close()
        running.freeze(None)
        running.come_back("a")
        assert frozen_at(running)["a"] == 1  # it has not heard of it
        running.until(lambda: all_at(running, 0))
    finally:
        running.close()


def test_ten_models_are_kept_and_the_frozen_one(tmp_path):
    running = joined(tmp_path)
    try:
        more(running, 3)
        running.freeze(2)
        more(running, 10)
        assert running.session.kept_models() == [2, *range(4, 14)]
        running.freeze(5)
        running.until(lambda: all_at(running, 5))
        more(running)
        assert running.session.kept_models() == list(range(5, 15))
        running.freeze(None)
        more(running)
        assert running.session.kept_models() == list(range(6, 16))
    finally:
        running.close()


def test_a_model_that_the_coordinator_has_lost(tmp_path):
    """Who has it keeps to it, and nobody is told otherwise."""
    with harness(tmp_path, agreement=agreed(1e9)) as running:
        running.until(running.everybody_here)
        more(running, 2)
        running.freeze(1)
        running.until(lambda: all_at(running, 1))
        running.file.close()
        running.restore("coordinator")
        running.begin(after=2)
        running.freeze(1)
        before = len(running.heard("down", Freeze))
        running.add("d")
        running.until(running.everybody_here)
        running.run(5.0)
        assert len(running.heard("down", Freeze)) == before
        assert frozen_at(running) == {"a": 1, "b": 1, "c": 1, "d": 0}
        assert "whose model is not in the coordinator's file" in texts(running, "frozen")[-1]
        more(running)
        running.freeze(3)
        running.until(lambda: all_at(running, 3))


def test_a_heartbeat_in_step_costs_no_message(tmp_path):
    running = joined(tmp_path)
    try:
        more(running, 2)
        running.freeze(1)
        running.until(lambda: all_at(running, 1))
        count = len(running.heard("down", Freeze))
        assert count == 3
        running.run(10.0)
        assert len(running.heard("down", Freeze)) == count
        ask(running)
    finally:
        running.close()


def test_a_private_federation(tmp_path):
    """Models are public: going back to one spends nothing."""
    with harness(tmp_path, agreement=private()) as running:
        running.until(running.everybody_here)
        running.feed()
        to_the_end(running, 2)
        running.freeze(1)
        running.until(lambda: all_at(running, 1))
        running.until(lambda: running.shared(4))
        assert all_at(running, 1)
        assert running.nodes["a"].calls.choose([np.array([0.6, 0.0])]).model == 1
        before = running.nodes["a"].agent_session.answers.privacy()
        running.nodes["a"].agent_session.receive(Freeze(0))
        assert running.nodes["a"].agent_session.answers.privacy() == before
