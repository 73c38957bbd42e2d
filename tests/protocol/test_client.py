"""The client's own calls: choose, observe, absorb."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import fedglb as fg
from fedglb.model import SharedModel
from fedglb.protocol.learner import stream_of
from fedglb.protocol.messages import NewModel, SyncRequest
from tests.protocol.driver import equal_arrays

D = 3


def client(algorithm: fg.Algorithm, link: fg.Link | None = None) -> fg.Client:
    problem = fg.Problem(D, link or fg.Logistic())
    return fg.Client(0, algorithm, algorithm.setting(problem, 2, 50))


def samples(n: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, (rng.random(n) < 0.5).astype(float)


ALL = {
    "ons": fg.n_ons_glm(),
    "frozen": fg.fedglb_ucb_1(5),
    "mle": fg.n_ucb_glm(),
    "ridge": fg.dislinucb(np.inf),
    "lazy": fg.fedglb_ucb_3(5),
}


@pytest.mark.parametrize("name", ALL)
def test_absorbing_equals_observing(name):
    X, y = samples(20)
    warm, cold = client(ALL[name]), client(ALL[name])
    warm.absorb(X, y)
    for x, reward in zip(X, y, strict=True):
        cold.observe(x, reward, t=1)
    cold.last_t = 0
    assert equal_arrays(warm.to_arrays(), cold.to_arrays())


def test_absorbed_samples_are_in_the_first_update():
    algorithm = fg.fedglb_ucb(0.0, fg.Newton())
    warm = client(algorithm)
    X, y = samples(20)
    warm.absorb(X, y)
    coordinator = fg.Coordinator(algorithm, warm.setting, [0])
    queue = warm.observe(X[0], 1.0, t=1)
    while queue:
        message = queue.pop(0)
        queue += (coordinator if message.upward else warm).receive(message)
    assert coordinator.last_update.samples == 21


def test_absorbing_is_for_before_the_first_step():
    c = client(fg.n_ons_glm())
    c.observe([1.0, 0.0, 0.0], 1.0, t=1)
    with pytest.raises(fg.InvalidInput, match="before the first step"):
        c.absorb(*samples(2))


@pytest.mark.parametrize("name", ALL)
def test_choosing_changes_nothing(name):
    c = client(ALL[name])
    c.absorb(*samples(10))
    before = c.to_arrays()
    arms = samples(7, seed=1)[0]
    arm = c.choose(arms)
    assert equal_arrays(before, c.to_arrays())
    assert c.scores(arms)[arm] >= c.scores(arms).max() - 1e-12 * max(1.0, c.scores(arms).max())


def test_each_client_has_a_stream_of_random_numbers():
    assert stream_of(3) == 3
    assert stream_of("shop-1") == stream_of("shop-1") != stream_of("shop-2")


def test_a_trigger_speaks_with_its_step():
    c = client(fg.fedglb_ucb(0.0))
    assert c.observe([1.0, 0.0, 0.0], 1.0, t=4) == [SyncRequest(0, 4, 0)]
    assert c.observe_unchecked(np.array([0.0, 1.0, 0.0]), 1.0, t=5) is True
    assert client(fg.n_ons_glm()).observe_unchecked(np.array([0.0, 1.0, 0.0]), 1.0, t=5) is False


def test_bad_samples_change_nothing():
    c = client(fg.n_ons_glm())
    c.absorb(*samples(5))
    before = c.to_arrays()
    X, y = samples(4, seed=2)
    y[3] = 7.0
    for call in (
        lambda: c.absorb(X, y),
        lambda: c.observe([np.nan, 0.0, 0.0], 1.0, 1),
        lambda: c.observe([1.0, 1.0, 0.0], 1.0, 1),
        lambda: c.observe([1.0, 0.0, 0.0], 2.0, 1),
        lambda: c.observe([1.0, 0.0], 1.0, 1),
        lambda: c.observe([1.0, 0.0, 0.0], 1.0, 0),
    ):
        with pytest.raises(fg.InvalidInput):
            call()
        assert equal_arrays(before, c.to_arrays())
    assert_array_equal(c.samples.X, samples(5)[0])


def test_samples_that_come_while_a_model_is_prepared_or_before_it_is_installed(monkeypatch):
    """Each is learned once, as if it had come after the model."""
    algorithm = fg.fedglb_ucb(np.inf, fg.Newton())
    X, y = samples(11)
    model = SharedModel(3, 4.0 * np.eye(D), np.array([1.0]), np.full(D, 0.1), None, None)
    message, local = NewModel(0, 1, 0, model), type(algorithm.local_update)
    one, other = client(algorithm), client(algorithm)
    for learner in (one, other):
        learner.absorb(X[:9], y[:9])
    replay, late = local.replay, [(X[9], y[9])]

    def interrupted(self, setting, state, held, first):
        for x, reward in late:  # what another thread would do now
            one.observe_unchecked(x, reward, t=4)
        late.clear()
        replay(self, setting, state, held, first)

    monkeypatch.setattr(local, "replay", interrupted)
    adoption = one.prepare(message)
    monkeypatch.undo()
    one.observe_unchecked(X[10], y[10], t=5)  # learned by the old state, and by the new one
    one.install(adoption)
    other.receive(message)
    for k in (9, 10):
        other.observe_unchecked(X[k], y[k], t=k - 5)
    assert equal_arrays(one.to_arrays(), other.to_arrays())


def test_a_sample_has_the_name_of_its_offer():
    """By its features an arm recurs from its third offer on; `observe` counts nothing."""
    each, x = client(fg.fedglb_auto()), [0.6, 0.0, 0.8]
    for t in range(1, 5):
        each.choose([x, [0.0, 0.1 * t, 0.0]])
        each.observe(x, 1.0, t)
    names = each.samples.X[:, D]
    assert names.tolist() == [-1.0, -1.0, names[3], names[3]]
    assert names[3] >= 0.0
    each.observe(x, 1.0, 5, id="tea")
    each.observe(x, 1.0, 6, id=2**32 + 3)
    assert each.samples.X[4, D] == stream_of("tea") != names[3]
    assert each.samples.X[5, D] == 3.0


def test_an_arm_with_a_row_recurs_at_once():
    algorithm, x = fg.fedglb_auto(), [0.6, 0.0, 0.8]
    old = client(algorithm)
    for t in range(1, 5):
        old.choose([x])
        old.observe(x, 1.0, t)
    coordinator = fg.Coordinator(algorithm, old.agreed, [0])
    queue = coordinator.begin(4)
    while queue:
        message = queue.pop(0)
        queue += (coordinator if message.upward else old).receive(message)
    new = client(algorithm)
    new.receive(NewModel(0, 1, 0, coordinator.model))
    chosen = new.decide(np.array([x]).T, 5, names=new.names(np.array([x]).T))
    assert chosen.row.tolist() == [*x, old.samples.X[3, D]]


@pytest.mark.parametrize("ids", [["a"], [1, True], [1, 2.0], [1, None]])
def test_bad_ids_are_refused(ids):
    with pytest.raises(fg.InvalidInput, match="ids"):
        client(fg.fedglb_auto()).choose(np.eye(D)[:2], ids=ids)


def test_absorbed_arms_are_named_in_order():
    X = np.tile(np.eye(D)[:2], (4, 1))
    absorbing, y = client(fg.fedglb_auto()), np.ones(8)
    absorbing.absorb(X, y)
    assert (absorbing.samples.X[:, D] >= 0.0).tolist() == [False] * 4 + [True] * 4
    named = client(fg.fedglb_auto())
    named.absorb(X, y, ids=["a", 5] * 4)
    assert named.samples.X[:, D].tolist() == [stream_of("a"), 5.0] * 4
    with pytest.raises(fg.InvalidInput, match="ids"):
        named.absorb(X, y, ids=["a"])
