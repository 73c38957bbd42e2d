"""An update that leaves a client out covers exactly the samples of those that answered."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fedglb as fg
from fedglb.model import SharedModel
from fedglb.parts.confidence.mixture import (
    CURVATURE,
    RADIUS,
    RESIDUAL,
    SET_INVERSE,
    WEIGHT_COST,
    WIDENING,
    own_radius,
)
from fedglb.protocol.messages import Covariance, Derivatives, ModelSums, NewModel, SyncRequest
from fedglb.protocol.update import IDLE
from tests.protocol.driver import Federation, communicating, equal_arrays, same_model

D, N, T = 3, 4, 20
LEFT_OUT = 2
REFITTING = [name for name in communicating() if name != "variant 3"]


def prepared(algorithm: fg.Algorithm) -> Federation:
    """A federation that has met, and gone on, so that old and new samples are there."""
    fed = Federation(algorithm, fg.Problem(D), N, T)
    for t in range(1, 13):
        fed.step(t)
    assert fed.coordinator.syncs > 0
    for _ in range(6):  # new samples that no update has seen: requests go nowhere
        for i in range(N):
            fed.interact(i, 12)
    fed.sent.clear()
    return fed


def update(fed: Federation, t: int, silent: int, after: int) -> None:
    """An update in which `silent` answers `after` times and is then left out."""
    answers = 0
    queue = fed.coordinator.begin(t, 0)
    while queue or fed.coordinator.phase != IDLE:
        if not queue:
            queue += fed.coordinator.exclude(silent)
            continue
        message = queue.pop(0)
        fed.sent.append(message)
        if message.upward:
            queue += fed.coordinator.receive(message)
        elif message.client == silent and not isinstance(message, NewModel):
            if answers < after:
                queue += fed.clients[silent].receive(message)
            answers += 1
        else:
            queue += fed.clients[message.client].receive(message)


def expected(fed: Federation, t: int) -> fg.Coordinator:
    """The coordinator after the same update in a federation that only had the other clients.

    It knows of the client that is left out: the radius pays for leaving somebody out.
    """
    others = [i for i in range(N) if i != LEFT_OUT]
    twin = fg.Coordinator(fed.algorithm, fed.setting, others)
    twin.model, twin.asked = fed.coordinator.model, dict(fed.coordinator.asked)
    twin.started = twin.finished = fed.coordinator.finished
    queue = twin.begin(t, 0)
    while queue:
        message = queue.pop(0)
        if message.upward:
            queue += twin.receive(message)
        elif not isinstance(message, NewModel):
            arrays = fed.clients[message.client].to_arrays()
            copy = fg.Client.from_arrays(message.client, fed.algorithm, fed.setting, arrays)
            copy.freeze(message.update)
            queue += copy.receive(message)
    return twin


def gram(fed: Federation, X: np.ndarray, theta: np.ndarray | None) -> np.ndarray:
    """Σ x xᵀ, or Σ μ′(xᵀθ) x xᵀ where that is what clients follow."""
    if fed.algorithm.local_update.metric == "covariance":
        return X.T @ X
    return (X.T * fed.setting.problem.link.variance(X @ theta)) @ X


def grown(fed: Federation, model: SharedModel, X: np.ndarray) -> tuple[np.ndarray, float]:
    """A client's matrix after samples on top of a model, and how much its log det has grown.

    Where clients have models of their own, they do not differ yet.
    """
    if model.effects is None:
        matrix = model.matrix + gram(fed, X, model.theta)
        return matrix, np.linalg.slogdet(matrix)[1] - np.linalg.slogdet(model.matrix)[1]
    # the whole matrix: of θ and of one effect per key
    (ridge, buckets), rows = model.effects[:2], model.effects[2:].reshape(-1, D + 3)
    keys = sorted({*rows[:, 0], *(name % buckets for name in X[:, D] if name >= 0.0)})
    u, before = np.zeros(len(keys)), np.diag([0.0] * D + [ridge] * len(keys))
    before[:D, :D] = model.matrix
    for key, precision, effect, *b in rows:
        k = keys.index(key)
        u[k], before[D + k, D + k] = effect, precision
        before[:D, D + k] = before[D + k, :D] = b
        before[:D, :D] += np.outer(b, b) / precision
    after, link = before.copy(), fed.setting.problem.link
    for x, name in zip(X[:, :D], X[:, D], strict=True):
        whole, z = np.append(x, np.zeros(len(keys))), x @ model.theta
        if name >= 0.0:
            k = keys.index(name % buckets)
            whole[D + k], z = 1.0, z + u[k]
        weight = max(link.variance(z), (link.mean(z) - link.mean(0.0)) / z if z else 0.0)
        after += weight * np.outer(whole, whole)
    cross = after[:D, D:]
    matrix = after[:D, :D] - cross @ np.linalg.solve(after[D:, D:], cross.T)
    return matrix, np.linalg.slogdet(matrix)[1] - np.linalg.slogdet(model.matrix)[1]


# DisLinUCB's update is over once the covariances are there, one exchange mostly with one answer.
ASKED = {"dislinucb": 1, "mix": 2, "auto": 1, "auto, thompson": 1, "effects": 1}
ASKED |= {name: 1 for name in REFITTING if name.startswith("personal")}
SILENCES = [(name, k) for name in REFITTING for k in range(ASKED.get(name, 3))]


@pytest.mark.some(10)
@pytest.mark.parametrize(("name", "after"), SILENCES)
def test_the_model_is_that_of_the_others(name, after):
    fed = prepared(communicating()[name])
    twin = expected(fed, t=13)
    before = fed.coordinator.model
    update(fed, 13, LEFT_OUT, after)
    assert fed.coordinator.last_update.rounds >= after
    model = fed.coordinator.model
    assert same_model(fed.coordinator, twin)
    n = sum(len(c.samples) for c in fed.clients if c.id != LEFT_OUT)
    assert fed.coordinator.last_update.samples == twin.last_update.samples == n
    # λ and sums are of those that answered: Hessians at the model before, where that was enough
    at = before.theta if fed.coordinator.last_update.rounds == 1 else None
    with_effects = model.effects is not None
    if fed.algorithm.local_update.metric == "covariance" or (at is not None and not with_effects):
        M = sum(gram(fed, c.samples.X, at) for c in fed.clients if c.id != LEFT_OUT)
        prior = fed.algorithm.local_update.prior(fed.setting.in_force(model))
        assert_allclose(model.matrix, prior * np.eye(D) + M, rtol=1e-12)


@pytest.mark.parametrize("name", REFITTING)
def test_the_left_out_client_has_all_its_samples_on_top(name):
    fed = prepared(communicating()[name])
    epoch = fed.clients[LEFT_OUT].state.epoch
    update(fed, 13, LEFT_OUT, after=min(1, ASKED.get(name, 3) - 1))
    left, model = fed.clients[LEFT_OUT], fed.coordinator.model
    assert left.state.epoch == epoch + 1
    if fed.algorithm.local_update.tracks_gain:
        matrix, gain = grown(fed, model, left.samples.X)
        assert_allclose(left.state.matrix, matrix, rtol=1e-12)
        assert_allclose(left.state.log_gain, gain, rtol=1e-9)
    included = fed.clients[0]
    exact = 1e-12 if fed.algorithm.local_update.personal else 0.0  # it takes its own part out
    assert_allclose(included.state.matrix, model.matrix, rtol=exact)
    # and the next update has everybody's samples again
    fed.deliver(fed.coordinator.begin(14, 0))
    assert fed.coordinator.last_update.samples == sum(len(c.samples) for c in fed.clients)
    assert_allclose(left.state.matrix, fed.coordinator.model.matrix, rtol=exact)


def test_variant_3_leaves_the_batch_for_the_next_update():
    fed = prepared(communicating()["variant 3"])
    before = fed.coordinator.model
    update(fed, 13, LEFT_OUT, after=1)
    left, model = fed.clients[LEFT_OUT], fed.coordinator.model
    batch = sum(  # the schedule's last update was at the end of step 12
        c.samples.X[12:].T @ c.samples.X[12:] for c in fed.clients if c.id != LEFT_OUT
    )
    assert_allclose(model.matrix - before.matrix, batch, atol=1e-12)
    assert left.covered == 12
    M = sum(c.samples.X.T @ c.samples.X for c in fed.clients)
    fed.deliver(fed.coordinator.begin(14, 0))
    assert_allclose(fed.coordinator.model.matrix, np.eye(D) + M, rtol=1e-12)


@pytest.mark.parametrize("name", REFITTING)
def test_samples_that_come_during_an_update_change_nothing_in_it(name):
    calm, busy = prepared(communicating()[name]), prepared(communicating()[name])
    calm.deliver(calm.coordinator.begin(13, 0))
    extra = []

    def interrupt(message):
        if isinstance(message, Derivatives | Covariance | ModelSums) and message.client == 1:
            busy.clients[1].observe([0.6, 0.0, -0.8], 1.0, t=13, id=2)
            extra.append(busy.clients[1].samples.X[-1])

    busy.hook = interrupt
    busy.deliver(busy.coordinator.begin(13, 0))
    assert extra
    assert same_model(busy.coordinator, calm.coordinator)
    state = busy.clients[1].state
    if busy.algorithm.local_update.tracks_gain:
        matrix, _ = grown(busy, calm.coordinator.model, np.array(extra))
        assert_allclose(state.matrix, matrix, rtol=1e-12)


def test_answers_in_any_order_give_the_same_bits():
    def shuffled(seed):
        fed = prepared(communicating()["newton"])
        rng = np.random.default_rng(seed)
        queue = fed.coordinator.begin(13, 0)
        while queue:
            queue += fed.pass_on(queue.pop(int(rng.integers(len(queue)))))
        return fed.coordinator

    first, *others = (shuffled(seed) for seed in range(5))
    assert all(same_model(first, other) for other in others)


@pytest.mark.parametrize(
    "bad",
    [
        lambda u: Covariance(9, u, 3, np.eye(D)),
        lambda u: SyncRequest(1, 0, 0),
        lambda u: SyncRequest(1, 2**60, 0),
        lambda u: NewModel(1, u, 1, None),
    ],
)
def test_a_bad_message_is_refused_and_changes_nothing(bad):
    fed = prepared(communicating()["newton"])
    fed.coordinator.begin(13, 0)
    before = fed.coordinator.to_arrays()
    with pytest.raises(fg.InvalidInput):
        fed.coordinator.receive(bad(fed.coordinator.started))
    assert equal_arrays(fed.coordinator.to_arrays(), before)


def test_requests_are_answered_alike_when_they_come_twice():
    fed = prepared(communicating()["newton"])
    requests = fed.coordinator.begin(13, 0)
    first = fed.clients[1].receive(requests[1])[0]
    fed.clients[1].observe([0.6, 0.0, 0.8], 1.0, t=13)  # comes after the samples were fixed
    again = fed.clients[1].receive(requests[1])[0]
    assert again.samples == first.samples
    assert_array_equal(again.matrix, first.matrix)


def test_a_model_that_comes_twice_is_adopted_once():
    fed = prepared(communicating()["newton"])
    models = []
    fed.hook = lambda m: models.append(m) if isinstance(m, NewModel) and m.client == 1 else None
    fed.deliver(fed.coordinator.begin(13, 0))
    before = fed.clients[1].to_arrays()
    assert fed.clients[1].receive(models[0]) == []
    assert equal_arrays(fed.clients[1].to_arrays(), before)


def test_variant_3_survives_a_lost_model():
    """The samples of a batch are those that the coordinator's model does not have."""

    def updated_twice(lose):
        fed = prepared(communicating()["variant 3"])
        queue = fed.coordinator.begin(13, 0)
        while queue:
            message = queue.pop(0)
            if not (lose and isinstance(message, NewModel) and message.client == 1):
                queue += fed.pass_on(message)
        for i, x in enumerate(np.eye(3)):  # the same samples, whatever the clients would choose
            fed.clients[i].observe(x, 1.0, t=14)
        fed.deliver(fed.coordinator.begin(14, 0))
        return fed

    lossy, steady = updated_twice(lose=True), updated_twice(lose=False)
    assert same_model(lossy.coordinator, steady.coordinator)
    assert_array_equal(lossy.clients[1].state.matrix, lossy.coordinator.model.matrix)
    M = sum(c.samples.X.T @ c.samples.X for c in lossy.clients)
    assert_allclose(lossy.coordinator.model.matrix, np.eye(D) + M, rtol=1e-12)


@pytest.mark.parametrize(
    "change",
    [
        {"matrix": np.eye(D + 1)},
        {"matrix": np.full((D, D), np.nan)},
        {"matrix": -np.eye(D)},
        {"theta": None},
        {"theta": np.zeros(D + 1)},
        {"b": np.zeros(D)},
        {"radius_terms": np.array([np.nan])},
    ],
)
def test_a_bad_model_is_refused_and_changes_nothing(change):
    fed = prepared(communicating()["newton"])
    model = dataclasses.replace(fed.coordinator.model, **change)
    before = fed.clients[1].to_arrays()
    with pytest.raises(fg.InvalidInput):
        fed.clients[1].receive(NewModel(1, 99, 3, model))
    assert equal_arrays(fed.clients[1].to_arrays(), before)


def test_a_request_from_before_the_newest_model_is_void():
    fed = prepared(communicating()["newton"])
    late = SyncRequest(2, 12, fed.clients[2].adopted)
    fed.deliver(fed.coordinator.begin(13, 0))
    assert fed.coordinator.receive(late) == []
    assert fed.coordinator.phase == IDLE


@pytest.mark.parametrize("ids", [[0, 0], [0, "a"], range(N + 1)])
def test_identities_are_checked(ids):
    algorithm = communicating()["newton"]
    with pytest.raises(fg.InvalidInput, match="clients"):
        fg.Coordinator(algorithm, algorithm.setting(fg.Problem(D), N, None), ids)


def test_nobody_asks_for_an_update_where_there_are_none():
    algorithm = fg.n_ons_glm()
    coordinator = fg.Coordinator(algorithm, algorithm.setting(fg.Problem(D), N, None), range(N))
    with pytest.raises(fg.InvalidInput):
        coordinator.receive(SyncRequest(0, 1, 0))
    assert coordinator.phase == IDLE


# -- what sets pay for it --------------------------------------------------------------------------


def cost(k: int) -> float:
    """2 log(1/π_E) of Proposition 25: π_E = 1/(122 k(k + 1) binom(N, k))."""
    return 2.0 * math.log(122 * k * (k + 1) * math.comb(N, k))


def squared_radii(absent: tuple[int, ...], known: bool) -> tuple[float, float]:
    """ρ² of Theorem M and (Xω)² of client 0 after an update without some clients.

    With the identity link both are B, but for factors that leaving out does not change: there is
    no curvature to lose and no residual. `known`: whether the coordinator ever asked these clients.
    """
    fed = Federation(communicating()["mix"], fg.Problem(D, fg.Identity(), noise=0.5), N, T)
    for t in range(1, 13):
        fed.step(t)
    for i in absent:
        fed.coordinator.leave(i)
    if not known:
        fed.coordinator.asked.clear()
    fed.deliver(fed.coordinator.begin(13, 0))
    client = fed.clients[0]
    state, terms = client.state, client.choosing.terms
    assert state.updates == 0
    assert (terms[CURVATURE], terms[RESIDUAL]) == (1.0, 0.0)
    own = own_radius(state.vectors, state.counters, terms, client.choosing.constants)
    return terms[RADIUS] ** 2, (own / terms[WIDENING]) ** 2 / fed.setting.problem.dispersion


@pytest.mark.parametrize("absent", [(2,), (1, 3), (1, 2, 3)])
def test_both_sets_are_larger_by_exactly_the_term(absent):
    paid, free = squared_radii(absent, known=True), squared_radii(absent, known=False)
    for with_term, without in zip(paid, free, strict=True):
        assert_allclose(with_term - without, cost(len(absent)), rtol=1e-9)


def test_nobody_pays_when_all_are_back():
    def back(known):
        fed = prepared(communicating()["mix"])
        fed.coordinator.leave(LEFT_OUT)
        fed.deliver(fed.coordinator.begin(13, 0))
        fed.coordinator.join(LEFT_OUT)
        if not known:
            fed.coordinator.asked.clear()
        fed.deliver(fed.coordinator.begin(14, 0))
        return fed.coordinator

    assert same_model(back(known=True), back(known=False))


def test_sets_of_very_many_clients_are_those_of_the_ball():
    """There (δ/2)π_E is 0 in floating-point numbers, and the set says no more than ‖θ*‖ ≤ S."""
    algorithm, problem = communicating()["mix"], fg.Problem(D)
    coordinator = fg.Coordinator(algorithm, algorithm.setting(problem, 4000, None), [0])
    client = fg.Client(0, algorithm, coordinator.setting)
    client.observe([0.6, 0.0, 0.8], 1.0, 1)
    coordinator.asked = dict.fromkeys(range(2000))
    for request in coordinator.begin(1):
        for model in [m for answer in client.receive(request) for m in coordinator.receive(answer)]:
            client.receive(model)
    assert client.adopted == 1
    theta, W = client.state.theta, np.linalg.inv(client.choosing.terms[SET_INVERSE:].reshape(D, D))
    for truth in np.vstack([np.eye(D), -np.eye(D)]):
        assert (truth - theta) @ W @ (truth - theta) <= client.alpha**2
    assert client.choosing.terms[WEIGHT_COST] > 5000.0


# -- models that a client missed ----------------------------------------------------------------


@pytest.mark.parametrize("name", REFITTING)
def test_the_epoch_counts_models_that_a_client_missed(name):
    """Theorem L's union is over all models: which ones a client misses may depend on data.

    Updates without a model do not count: the epoch is the same whether a coordinator crashed.
    """
    fed = prepared(communicating()[name])
    fed.coordinator.leave(1)
    for t in (13, 14, 15):
        fed.coordinator.begin(t, 0)
        fed.coordinator.abandon()
        fed.deliver(fed.coordinator.begin(t, 0))
    assert fed.clients[1].adopted < fed.coordinator.finished - 3
    fed.coordinator.join(1)
    fed.deliver([fed.coordinator.model_for(1)])
    assert fed.clients[1].state.epoch == fed.clients[0].state.epoch == fed.coordinator.syncs + 1


def test_the_epoch_rises_also_where_the_coordinator_has_lost_its_file():
    fed = prepared(communicating()["newton"])
    before = fed.clients[1].state.epoch
    message = NewModel(1, 99, 0, fed.coordinator.model, models=1)
    fed.clients[1].receive(message)
    assert fed.clients[1].state.epoch == before + 1
