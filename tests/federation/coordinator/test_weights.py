"""No client outweighs the others by the samples that it claims; what changes suddenly is said."""

from __future__ import annotations

import dataclasses

import pytest

import fedglb as fg
from fedglb.federation.coordinator.policy import WeightRule
from fedglb.federation.wire.messages import Rejected
from fedglb.protocol.messages import Covariance, SumsRequest
from tests.federation.helpers.in_process import same
from tests.federation.helpers.lossy_network import POLICY, agreed, ask, texts, updated

NAMES = ["a", "b", "c", "d"]
RULE = WeightRule(times=3, floor=10)
STRICT = dataclasses.replace(POLICY, weights=RULE)
ALGORITHMS = {"ucb": fg.fedglb_ucb(1e9, fg.Newton()), "one exchange": fg.fedglb_mix(1e9)}


def finished(running, number=1):
    running.until(lambda: running.coordinator.finished >= number and running.idle)


@pytest.fixture(params=ALGORITHMS)
def scene(request, join):
    """Return a function that makes federations of clients with four samples each."""
    agreement = agreed(algorithm=ALGORITHMS[request.param])
    return lambda **more: join(agreement=agreement, **{"names": NAMES, "policy": STRICT, **more})


@pytest.mark.parametrize("last", ["a", "d"])
def test_who_has_too_many_samples_is_left_out_told_and_the_model_is_that_of_the_others(scene, last):
    """Whether it is the last to answer or not."""
    running = scene()
    running.nodes["a"].feed(9)  # 13 > 3 · 4
    slow = [last]

    def lost(way, name, message):
        first = way == "up" and name in slow and not isinstance(message, Rejected)
        if first and getattr(message, "samples", None) is not None:
            slow.clear()
            return True
        return False

    running.lost = lost
    ask(running, "b")
    finished(running)
    assert sorted(running.coordinator.covered) == ["b", "c", "d"]
    [text] = texts(running, "excluded")
    assert text.startswith("excluded a: its 13 samples are more than 12, 3 times the median")
    assert "--max-samples" in text
    [told] = running.heard("down", Rejected, "a")
    assert told.member
    assert not texts(running, "invalid")
    running.run(1.0)
    assert running.nodes["a"].model == 1  # it has the model, and its samples on top of it
    assert running.nodes["a"].learner.protocol_client.covered == 0
    others = scene(names=["b", "c", "d"])  # with the same samples
    others.coordinator.asked["a"] = None  # its radius pays for leaving one out, too
    ask(others, "b")
    finished(others)
    assert same(running.coordinator.model, others.coordinator.model)


def test_the_proven_sets_pay_for_it_until_all_are_in_the_model_again(join, monkeypatch):
    """How many were left out reaches the radius, also over crashes and for one that has gone."""
    counts, terms = [], fg.Mixture.radius_terms

    def counted(self, setting, objective, solution):
        counts.append(objective.left_out)
        return terms(self, setting, objective, solution)

    monkeypatch.setattr(fg.Mixture, "radius_terms", counted)
    agreement = agreed(algorithm=ALGORITHMS["one exchange"])
    running = join(names=NAMES, policy=STRICT, agreement=agreement)
    ask(running, "b")
    finished(running, 1)
    running.nodes["a"].feed(9)  # too many
    running.crash()
    ask(running, "b")
    finished(running, 2)
    for name in "bcd":
        running.nodes[name].feed(9)  # as many as client a
    ask(running, "b")
    finished(running, 3)
    running.nodes["a"].close()
    running.crash()
    running.run(20.0)
    ask(running, "b")
    finished(running, 4)
    assert counts == [0, 1, 0, 1]
    ask(running, "b")
    finished(running, running.coordinator.finished + 1)
    running.come_back("a")  # it has missed two models, which its own set counts
    running.run(5.0)
    assert running.coordinator.syncs == 5
    epochs = {n.learner.protocol_client.state.epoch for n in running.nodes.values()}
    assert epochs == {6}


def test_when_the_last_one_missing_is_excluded_the_weights_are_looked_at_too(scene):
    running = scene(policy=dataclasses.replace(STRICT, time_limit=2.0))
    running.nodes["a"].feed(30)
    running.lost = lambda way, name, m: way == "up" and name == "c" and hasattr(m, "samples")
    ask(running, "b")
    finished(running)
    assert sorted(running.coordinator.covered) == ["b", "d"]


def test_it_cannot_ask_for_an_update_after_another(scene):
    running = scene()
    running.nodes["a"].feed(30)
    ask(running, "a")
    finished(running)
    for _ in range(5):
        running.nodes["a"].feed(1)
        ask(running, "a")
        running.run(2.0)
    assert running.coordinator.started == 1


def test_most_samples_overrides_the_multiple(scene):
    running = scene(policy=dataclasses.replace(STRICT, max_samples=1000))
    running.nodes["a"].feed(60)
    ask(running, "b")
    finished(running)
    assert running.coordinator.last_update.samples == 64 + 12


def test_a_new_or_small_federation_leaves_nobody_out(scene):
    running = scene(policy=POLICY)  # the defaults
    running.nodes["a"].feed(400)
    ask(running, "b")
    finished(running)
    assert len(running.coordinator.covered) == 4
    two = scene(names=["a", "b"])
    two.nodes["a"].feed(100)
    ask(two, "b")
    finished(two)
    assert len(two.coordinator.covered) == 2


@pytest.mark.parametrize("crash", [False, True])
def test_newcomers_make_nobody_too_heavy(join, crash):
    """Three clients have 40 samples; four come with one each, and the median is one."""
    running = join(policy=STRICT, agreement=agreed(1e9, max_clients=10))
    running.feed(36)
    ask(running)
    finished(running)
    for name in ("w", "x", "y", "z"):
        running.add(name).feed(1)
    if crash:
        running.crash()
    running.until(running.everybody_here)
    ask(running, "b")
    finished(running, 2)
    assert len(running.coordinator.covered) == 7
    ask(running, "c")
    finished(running, 3)
    assert len(running.coordinator.covered) == 7
    assert running.file.typical_samples() == 40


def test_a_jump_and_a_fall_are_events(running):
    ask(running)
    finished(running)
    node = running.nodes["b"]
    node.calls.forget(node.ids[:2])
    ask(running)
    finished(running, 2)
    assert texts(running, "samples") == [
        "b has 2 samples, before 4: some were forgotten, or an old backup was restored"
    ]
    node.feed(1500)
    running.run(15.0)
    ask(running)
    finished(running, 3)
    assert texts(running, "samples")[1] == "b has 1502 samples, before 2 at its last update: a jump"
    running.nodes["a"].feed(200)
    ask(running)
    finished(running, 4)
    assert len(texts(running, "samples")) == 2


def test_a_restored_backup_is_said(running):
    updated(running)
    node = running.nodes["c"]
    node.close()
    backup = running.backup("c")
    node.open()
    running.say(node, node.agent_session.hello())
    updated(running)
    running.run(2.0)
    assert not texts(running, "restored")
    node.close()
    running.restore("c", backup)
    node.open()
    running.say(node, node.agent_session.hello())
    running.run(2.0)
    [text] = texts(running, "restored")
    assert text.startswith("c has the model of update 1, before 2: an old backup")
    ask(running)
    running.until(lambda: running.shared(3))  # it goes on with what it has
    assert len(texts(running, "restored")) == 1


def test_an_answer_that_nobody_waits_for_is_no_event(running):
    ask(running)
    finished(running)
    answer = running.heard("up", Covariance, "b")[0]
    running.say(running.nodes["b"], dataclasses.replace(answer, samples=0))
    running.run(1.0)
    assert not texts(running, "samples")
    assert len(running.heard("down", SumsRequest)) == 3
