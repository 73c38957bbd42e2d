"""How far clients with models of their own differ: what a status says of it, and an alarm."""

from __future__ import annotations

import numpy as np
import pytest

import fedglb as fg
from fedglb.federation.agent.explain import learned_model, own_distance
from fedglb.federation.coordinator.alarms import current_alarms
from fedglb.federation.coordinator.events import History
from fedglb.federation.coordinator.status import stored_status
from fedglb.model import SharedModel
from fedglb.protocol.personal_sums import distance
from tests.federation.coordinator.test_status import FakeBundle, seen
from tests.federation.helpers.lossy_network import agreed, harness, updated
from tests.federation.test_personal import learn, meet, sound

PERSONAL = fg.fedglb_personal(1e9, effects=0)
NAMES = "abdefghi"


def alarms(running) -> list[str]:
    found = current_alarms(running.session, History(), {}, 0.0, started=0.0, lost=None)
    return [alarm.client for alarm in found if alarm.kind == "far"]


@pytest.fixture
def differing(tmp_path):
    """Eight clients that are alike, and c, which is not."""
    with harness(tmp_path, [*NAMES, "c"], agreed(1e9, 12, algorithm=PERSONAL)) as running:
        running.until(running.everybody_here)
        yield running


def play(running, updates: int, samples: int = 40) -> None:
    for _ in range(updates):
        learn(running, samples)
        updated(running)


def test_who_is_far_from_all_others(differing):
    play(differing, 3)
    assert alarms(differing) == []
    play(differing, 3)
    found = {m.name: m for m in seen(differing).members}
    assert found["c"].far
    assert [name for name, m in found.items() if m.far] == ["c"]
    assert alarms(differing) == ["c"]
    assert seen(differing).spread.far == 1
    differing.crash()  # the counts begin anew
    differing.until(differing.everybody_here)
    assert alarms(differing) == []
    found = {m.name: m for m in seen(differing).members}
    assert found["c"].apart.endswith("far")
    play(differing, 2)
    assert alarms(differing) == ["c"]
    sound(differing)


def test_distances_are_times_the_average(tmp_path):
    """Tastes are drawn around a common one; two are drawn three times as far."""
    rng, tastes = np.random.default_rng(4), {}
    for name in NAMES:
        tastes[name] = np.array([2.0, 1.0]) + rng.normal(size=2) * (3.0 if name in "ab" else 0.5)
    with harness(tmp_path, NAMES, agreed(1e9, 8, algorithm=PERSONAL)) as running:
        running.until(running.everybody_here)
        for _ in range(8):
            for node in running.all():
                for _ in range(40):
                    x = node.rng.standard_normal(2)
                    meet(node, x / np.linalg.norm(x), tastes[node.name])
            updated(running)
        status = seen(running)
        assert status.spread.theta > 0.3
        found = {m.name: m.distance for m in status.members}
        centre = np.mean(list(tastes.values()), axis=0)
        true = {name: float(np.linalg.norm(taste - centre)) for name, taste in tastes.items()}
        assert sorted(found, key=found.get)[-1] == max(true, key=true.get)
        assert np.corrcoef([found[n] for n in true], list(true.values()))[0, 1] > 0.8
        assert np.mean(np.square(list(found.values()))) == pytest.approx(1.0, abs=0.4)
        nearer = 0
        for node in running.all():  # each knows only its own, at the newest model
            assert own_distance(node.learner.protocol_client) >= 0.0
            model = learned_model(node.learner)
            shared = [w.weight for w in model.shared]
            assert shared == running.coordinator.model.theta.tolist()
            own = np.array([w.weight for w in model.weights])
            nearer += np.linalg.norm(own - tastes[node.name]) < np.linalg.norm(
                np.array(shared) - tastes[node.name]
            )
        assert nearer >= 6
        running.stop()  # from the file
        running.file.close()
        path = tmp_path / "coordinator.db"
        stored = stored_status(FakeBundle(running.agreement), path, {})
        assert {m.name: m.distance for m in stored.members} == found
        assert stored.spread == status.spread
        running.begin()


def test_others_have_no_spread(running):
    updated(running)
    status = seen(running)
    assert status.spread is None
    assert {(m.distance, m.far, m.apart) for m in status.members} == {(None, False, "")}
    assert own_distance(running.nodes["a"].learner.protocol_client) is None
    assert learned_model(running.nodes["a"].learner).shared is None


def test_a_distance_is_that_of_the_posterior():
    """Of δ ~ N(0, τ²I) with s and f at τ², and v of two arms: E‖δ‖² = dτ² + τ⁴s."""
    tau, s = 0.5, 6.0
    model = SharedModel(1, np.eye(2), np.empty(0), np.zeros(2), spread=np.array([tau, 0.0, 1.0]))
    sent = np.array([s, 1.0, 0.0])
    assert distance(model, sent) == pytest.approx(np.sqrt((2 * tau + tau**2 * s) / (2 * tau)))
    assert distance(model, np.array([-100.0, 1.0, 0.0])) == 0.0
    assert distance(model, np.zeros(3)) is None
    alike = SharedModel(1, np.eye(2), np.empty(0), np.zeros(2), spread=np.zeros(3))
    assert distance(alike, sent) is None
