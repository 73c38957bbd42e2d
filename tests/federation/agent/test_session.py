"""The agent's side of the conversation: its answers, its own messages, and new models."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest

import fedglb as fg
from fedglb.federation.wire.messages import (
    Admitted,
    Heartbeat,
    Hello,
    HelloRequest,
    Rejected,
    Withdrawal,
)
from fedglb.model import SharedModel
from fedglb.protocol.messages import (
    Covariance,
    Derivatives,
    Evaluate,
    ModelSums,
    NewModel,
    SumsRequest,
    SyncRequest,
)
from tests.federation.helpers.lossy_network import Node, agreed, direction

WELCOME = Admitted(0)


@pytest.fixture
def node(tmp_path: Path):
    out = Node("a", tmp_path / "a.db", agreed(1e9), seed=0)
    out.feed(5)
    yield out
    if out.up:
        out.close()


def evaluate(update: int = 1, number: int = 1, theta: float = 0.1) -> Evaluate:
    return Evaluate("a", update, number, 0, np.full(2, theta), True, False)


def model(update: int, covered: int, t: int = 9) -> NewModel:
    return NewModel(
        "a", update, covered, SharedModel(t, 30.0 * np.eye(2), MODEL_NUMBERS, np.zeros(2))
    )


def _numbers() -> np.ndarray:
    """What a real update of this agreement leaves for the radius."""
    agreement = agreed(1e9)
    client = fg.Client("a", agreement.algorithm, agreement.setting)
    coordinator = fg.Coordinator(agreement.algorithm, agreement.setting, ["a"])
    client.observe([1.0, 0.0], 1.0, t=1)
    messages = coordinator.begin(1)
    while messages:
        message = messages.pop()
        messages += (coordinator if message.upward else client).receive(message)
    return coordinator.model.radius_terms


MODEL_NUMBERS = _numbers()


def test_hello_is_said_until_it_is_answered(node):
    session = node.agent_session
    first = session.beat()
    assert isinstance(first, Hello)
    assert first == session.hello()
    assert (first.update, first.software) == (0, "test")
    assert first.agreement == node.agreement.facts()
    session.receive(WELCOME)
    assert session.beat() == Heartbeat(0, 0)
    assert session.receive(HelloRequest()) == [session.hello()]


def test_a_refusal_is_kept_until_a_welcome_and_logged_once(node, caplog):
    session = node.agent_session
    with caplog.at_level(logging.WARNING):
        assert session.receive(Rejected("no room", member=False)) == []
        session.receive(Rejected("no room", member=False))
    assert session.refused == "no room"
    assert not session.admitted
    assert len(caplog.records) == 1
    assert isinstance(session.beat(), Hello)  # there may be room now
    session.receive(Rejected("excluded", member=True))
    assert session.admitted
    assert session.refused == "excluded"
    session.receive(WELCOME)
    assert session.admitted
    assert session.refused is None


@pytest.mark.parametrize("restarts", [False, True])
def test_a_request_that_comes_again_gets_the_same_answer_on_the_same_samples(node, restarts):
    before = node.agent_session.session
    [first] = node.agent_session.receive(SumsRequest("a", 1))
    [one] = node.agent_session.receive(evaluate())
    [two] = node.agent_session.receive(evaluate(number=2, theta=0.2))
    node.feed(3)
    if restarts:
        node.close()
        node.open()
        assert node.agent_session.session != before
    [again] = node.agent_session.receive(SumsRequest("a", 1))
    assert isinstance(first, Covariance)
    assert first.samples == again.samples == 5
    assert first.matrix.tobytes() == again.matrix.tobytes()
    [back] = node.agent_session.receive(evaluate())
    assert isinstance(one, Derivatives)
    assert one.gradient.tobytes() == back.gradient.tobytes() != two.gradient.tobytes()


def test_where_updates_are_one_exchange_the_answer_is_at_the_model_held(tmp_path):
    """Before the model it says what it holds; and after a restart the answer is the same."""
    agreement = agreed(algorithm=fg.fedglb_auto(1e9, effects=0))
    node = Node("a", tmp_path / "a.db", agreement, seed=1)
    node.feed(5)
    client = fg.Client("a", agreement.algorithm, agreement.setting)
    client.absorb(*samples_of(node))
    coordinator = fg.Coordinator(agreement.algorithm, agreement.setting, ["a"])
    node.agent_session.receive(WELCOME)
    assert node.agent_session.receive(SumsRequest("a", 2, 1)) == [Heartbeat(0, 0)]
    assert node.learner.protocol_client.update == 0  # nothing is frozen
    queue = coordinator.begin(1)
    while queue:
        message = queue.pop(0)
        queue += (coordinator if message.upward else client).receive(message)
    node.agent_session.receive(coordinator.model_for("a"))
    [first] = node.agent_session.receive(SumsRequest("a", 2, 1))
    assert isinstance(first, ModelSums)
    theta = coordinator.model.theta
    X, y = samples_of(node)
    residual = 1.0 / (1.0 + np.exp(-X @ theta)) - y
    np.testing.assert_allclose(first.gradient, X.T @ residual, rtol=1e-10, atol=1e-13)
    assert first.samples == 5
    node.feed(3)
    for _ in range(2):
        [again] = node.agent_session.receive(SumsRequest("a", 2, 1))
        assert again.samples == 5
        assert again.gradient.tobytes() == first.gradient.tobytes()
        assert again.hessian.tobytes() == first.hessian.tobytes()
        node.close()
        node.open()
    # the coordinator has lost the model: at θ = 0
    X, y = samples_of(node)
    [lost] = node.agent_session.receive(SumsRequest("a", 3, 0))
    np.testing.assert_allclose(lost.gradient, X.T @ (0.5 - y), rtol=1e-10, atol=1e-13)
    assert lost.samples == 8
    node.close()


def samples_of(node):
    samples = node.learner.protocol_client.samples
    return samples.X.copy(), samples.y.copy()


def test_it_withdraws_from_an_update_that_it_was_not_asked_into(node):
    assert node.agent_session.receive(evaluate(update=4)) == [Withdrawal(4)]
    node.agent_session.receive(SumsRequest("a", 2))
    assert node.agent_session.receive(evaluate(update=1)) == [Withdrawal(1)]


def test_a_newer_update_ends_the_one_before(node):
    node.agent_session.receive(SumsRequest("a", 1))
    node.feed(1)
    [later] = node.agent_session.receive(SumsRequest("a", 3))
    assert later.samples == 6
    [stale] = node.agent_session.receive(SumsRequest("a", 1))
    assert not isinstance(stale, Covariance)


def test_a_model_is_adopted_once_and_older_ones_never(node):
    session = node.agent_session
    session.receive(SumsRequest("a", 3))
    node.feed(2)
    assert session.receive(model(3, covered=5)) == []
    client = node.learner.protocol_client
    assert (client.adopted, client.covered, len(client.samples)) == (3, 5, 7)
    before = {k: v.tobytes() for k, v in client.to_arrays().items()}
    session.receive(model(3, covered=5))
    session.receive(model(2, covered=1, t=5))
    assert before == {k: v.tobytes() for k, v in node.learner.protocol_client.to_arrays().items()}
    assert session.hello().update == 3
    assert session.wait_for(3, timeout=0.0)
    assert not session.wait_for(4, timeout=0.01)


@pytest.mark.parametrize("matrix", [-np.eye(2), np.full((2, 2), np.nan)])
def test_an_invalid_model_is_ignored_and_logged(node, caplog, matrix):
    bad = NewModel("a", 1, 0, SharedModel(1, matrix, MODEL_NUMBERS, np.zeros(2)))
    with caplog.at_level(logging.ERROR):
        assert node.agent_session.receive(bad) == []
    assert node.model == 0
    assert "ignored" in caplog.text


def test_a_request_stands_until_a_model_covers_the_samples(node):
    session = node.agent_session
    session.receive(WELCOME)
    session.ask()
    assert session.request() == SyncRequest("a", 5, 0)
    assert session.beat() == Heartbeat(0, 5)
    [request] = session.receive(model(1, covered=0))  # it was excluded
    assert request == SyncRequest("a", 9, 1)
    session.receive(SumsRequest("a", 2))
    assert session.receive(model(2, covered=5, t=10)) == []
    assert session.beat() == Heartbeat(2, 0)
    assert session.request() is None


def test_an_update_in_progress_does_not_fulfil_a_later_request(node):
    session = node.agent_session
    session.receive(SumsRequest("a", 1))
    node.feed(1)
    session.ask()
    assert session.receive(model(1, covered=5)) == [SyncRequest("a", 9, 1)]
    session.receive(SumsRequest("a", 2))
    assert session.receive(model(2, covered=6, t=10)) == []


def test_an_agent_without_samples_may_ask(tmp_path):
    node = Node("a", tmp_path / "a.db", agreed(1e9), seed=0)
    node.agent_session.ask()
    assert node.agent_session.request() == SyncRequest("a", 1, 0)
    assert node.agent_session.receive(model(1, covered=0)) == []
    node.close()


def test_only_the_first_firing_is_sent_at_once_and_a_restart_remembers_it(tmp_path):
    node = Node("a", tmp_path / "a.db", agreed(0.0), seed=0)
    node.feed(1)
    assert not node.agent_session.note_trigger(1)
    node.feed(2)
    node.close()
    node.open()
    assert node.agent_session.request() == SyncRequest("a", 3, 0)
    node.agent_session.receive(SumsRequest("a", 1))
    node.feed(1)  # during the update: reason for the next
    assert node.agent_session.receive(model(1, covered=3, t=3)) == [SyncRequest("a", 4, 1)]
    node.close()


def test_a_client_that_was_excluded_waits_for_its_next_sample(tmp_path):
    node = Node("a", tmp_path / "a.db", agreed(0.0), seed=0)
    node.feed(2)
    assert node.agent_session.receive(model(1, covered=0, t=2)) == []
    assert node.agent_session.request() is None
    node.feed(1)
    assert node.agent_session.request() == SyncRequest("a", 3, 1)
    node.close()


def test_a_request_from_before_there_was_a_connection_is_sent_on_admission(node):
    session = node.agent_session
    assert session.receive(WELCOME) == []
    session.note_trigger(3)
    assert session.receive(WELCOME) == [SyncRequest("a", 3, 0)]


def test_an_agent_on_the_clock_of_own_samples_counts_its_samples(tmp_path):
    """However far the steps go; and a file that is opened again has the same count."""
    D = 5.0
    algorithm = fg.fedglb_ucb(D, fg.Newton(), clock="own samples")
    node = Node("a", tmp_path / "a.db", agreed(algorithm=algorithm), seed=1)
    asked = []
    for n in range(1, 13):
        decision = node.calls.choose([direction(node.rng)], t=1000 * n)
        step = node.calls.observe(decision.id, 1.0)
        state = node.learner.protocol_client.state
        assert state.updates == n
        assert step == (1000 * n if n * state.log_gain >= D else 0)
        assert node.agent_session.answers.triggered_at() == step
        asked.append(step > 0)
        node.close()
        node.open()
        assert node.agent_session.answers.triggered_at() == step
    assert not asked[0]
    assert asked[-1]
    node.close()
