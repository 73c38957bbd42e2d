"""Releases of the one-pass update: each slot once, absent clients, lost updates, any order."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import fedglb as fg
from fedglb.model import SharedModel
from fedglb.privacy import SimulatedNoise
from fedglb.protocol.messages import BatchSums, Message, NewModel, SumsRequest
from tests import plain, plain_one_pass
from tests.protocol.driver import equal_arrays, same_model

D, N, B = 2, 3, 6
M = D + D * (D + 1) // 2
PROBLEM = fg.Problem(D)
PRIVATE = fg.fedglb_private(B, 1, fg.GaussianMechanism(2.0, 1e-3), growth=2.0)
PLAIN = fg.fedglb_private(B, 1, growth=2.0)


class Silence:
    """A source of noise that adds nothing."""

    def draw(self, client, update, plan):
        return np.zeros(M, dtype=np.int64)


class World:
    """Clients and a coordinator; each update says who answers and whether it is lost."""

    def __init__(self, algorithm: fg.Algorithm, noise=None, problem: fg.Problem = PROBLEM):
        self.algorithm = algorithm
        self.setting = algorithm.setting(problem, N, None)
        self.clients = [fg.Client(i, algorithm, self.setting, noise=noise) for i in range(N)]
        self.coordinator = fg.Coordinator(algorithm, self.setting, range(N))
        self.rng = np.random.default_rng(1)
        self.t = 0

    def observe(self, i: int) -> None:
        self.t += 1
        x = self.rng.standard_normal(D)
        x /= np.linalg.norm(x)
        self.clients[i].observe(x, float(self.rng.integers(0, 2)), self.t)

    def update(self, present=range(N), *, lost: bool = False, order=None) -> list[Message]:
        """Those present answer, in `order`; a lost update has no model. Returns the models."""
        requests = {m.client: m for m in self.coordinator.begin(self.t)}
        answers = {i: self.clients[i].receive(requests[i])[0] for i in present}
        if lost:
            self.coordinator.abandon()
            return []
        models = []
        for i in order or present:
            models += self.coordinator.receive(answers[i])
        models += self.coordinator.exclude(*(i for i in range(N) if i not in present))
        for message in models:
            assert isinstance(message, NewModel)
            assert message.covered == 0  # nobody is told how many samples there are
            assert self.coordinator.last_update.samples == 0
            self.clients[message.client].receive(message)
        return models


PATTERNS = {
    "all": [((0, 1, 2), False)] * B,
    "one is absent now and then": [
        ((0, 1, 2), False), ((0, 1), False), ((0, 1, 2), False), ((1, 2), False), ((0, 2), False),
        ((0, 1, 2), False),
    ],
    "one is absent from the first": [((0, 1), False)] * 3 + [((0, 1, 2), False)] * 3,
    "updates are lost": [
        ((0, 1, 2), False), ((0, 1, 2), True), ((0, 1, 2), True), ((0, 1, 2), False),
        ((0, 1), True), ((1, 2), False),
    ],
    "updates are lost, nobody is absent": [((0, 1, 2), b in (2, 3, 5)) for b in range(1, B + 1)],
    "the first is lost": [((0, 1, 2), True)] + [((0, 1, 2), False)] * 5,
    "alone at the end": [((0, 1, 2), False)] * 4 + [((2,), False)] * 2,
}  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_each_batch_counts(pattern):
    """What is missing lowers weights, of v and of H alike, and never below 0 or above 1."""
    world = World(PRIVATE, Silence())
    E, decoder = (getattr(world.setting.noise.factors, name) for name in ("encoder", "decoder"))
    arrived: list[tuple[int, tuple[int, ...]]] = []  # the updates that were not lost, and by whom
    for b, (present, lost) in enumerate(PATTERNS[pattern], start=1):
        for i in range(N):
            for _ in range(b):
                world.observe(i)
        world.update(present, lost=lost)
        if lost:
            continue
        arrived.append((b, present))
        coordinator, expected = world.coordinator, np.zeros(M)
        for i, client in enumerate(world.clients):
            for j, batch in client.batches.closed.items():
                assert j <= b
                missing = [k for k in range(j, b + 1) if (k, i) not in
                           {(k, c) for k, who in arrived for c in who}]  # fmt: skip
                weight = 1.0 - sum(decoder[b - 1, k - 1] * E[k - 1, j - 1] for k in missing)
                assert -1e-12 <= weight <= 1.0 + 1e-12
                assert missing or weight == 1.0
                expected += weight * batch
        releases = {k: each.numbers.astype(float) for k, each in coordinator.releases.items()}
        found = world.setting.noise.decoded(releases, b)
        # one rounding of each client's release, times the decoder
        assert np.abs(found - expected).max() <= N * decoder[b - 1].sum()
        assert [coordinator.releases[k].clients for k, _ in arrived] == [
            len(who) for _, who in arrived
        ]
    taken = [client.batches.taken for client in world.clients]
    last = [max((b for b, (who, _) in enumerate(PATTERNS[pattern], 1) if i in who), default=0)
            for i in range(N)]  # fmt: skip
    assert taken == [b * (b + 1) // 2 for b in last]  # new samples wait for the next batch


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_fit_knows_whose_noise_is_in_the_sums(pattern):
    """Against the plain fit: clients come and go, and each release has the noise of its own."""
    world, counts = World(PRIVATE, SimulatedNoise(3)), []
    plan = world.setting.noise
    noise = plain_one_pass.Noise(
        plan.factors.encoder, plan.factors.decoder, plan.vector_share, plan.matrix_share,
        plan.rewards, lambda client, update: np.zeros(M),
    )  # fmt: skip
    p = plain.Problem("logistic", 1.0, PROBLEM.R, PROBLEM.c_mu, 1.0, 0.01)
    for b, (present, lost) in enumerate(PATTERNS[pattern], start=1):
        for i in range(N):
            for _ in range(20 * b):
                world.observe(i)
        world.update(present, lost=lost)
        counts.append(0 if lost else len(present))
        if lost:
            continue
        releases = {k: e.numbers.astype(float) for k, e in world.coordinator.releases.items()}
        v, H = plain_one_pass.unpacked(plan.decoded(releases, b).tolist(), D)
        theta, A = plain_one_pass.fit(p, 1.0, v, H, noise, counts)
        model = world.coordinator.model
        assert plain_one_pass.distance(model.theta, theta) < 1e-9
        assert plain_one_pass.distance(model.matrix, A) < 1e-9


#: Without noise, who is absent right after a lost update never sends again what was lost.
@pytest.mark.parametrize("pattern", [name for name in PATTERNS if name != "updates are lost"])
def test_without_noise_a_sample_is_in_one_sum_of_a_model(pattern):
    """With the identity link and arms of norm 1, the trace of H is the number of samples."""
    world = World(PLAIN, problem=fg.Problem(D, fg.Identity()))
    for present, lost in [*PATTERNS[pattern], (range(N), False)]:
        for i in range(N):
            world.observe(i)
            world.observe(i)
        world.update(present, lost=lost)
    total = sum(each.numbers for each in world.coordinator.releases.values())
    samples = sum(len(client.samples) for client in world.clients)
    assert samples == 2 * N * (B + 1)
    assert (total[D] + total[M - 1]) * 2.0**-30 == pytest.approx(samples, abs=samples * 2.0**-30)


@pytest.mark.parametrize("algorithm", [PLAIN, PRIVATE], ids=["no noise", "noise"])
def test_the_order_of_answers_and_of_clients_is_irrelevant(algorithm):
    """To the bit: whole numbers add up to the same whatever comes first."""
    coordinators = []
    for order in itertools.permutations(range(N)):
        world = World(algorithm, SimulatedNoise(5))
        world.coordinator = fg.Coordinator(algorithm, world.setting, order)
        for _ in range(3):
            for i in [*range(N)] * 7:
                world.observe(i)
            world.update(order=order)
        coordinators.append(world.coordinator)
    assert all(same_model(coordinators[0], other) for other in coordinators[1:])


def test_the_order_of_samples_within_a_batch_is_irrelevant():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, D))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = rng.integers(0, 2, 200).astype(float)
    sent = []
    for order in (np.arange(200), np.arange(200)[::-1], rng.permutation(200)):
        client = fg.Client(0, PLAIN, PLAIN.setting(PROBLEM, N, None))
        for t, k in enumerate(order, start=1):
            client.observe(X[k], y[k], t)
        sent.append(client.receive(SumsRequest(0, 1, 0))[0].numbers)
    assert_array_equal(sent[0], sent[1])
    assert_array_equal(sent[0], sent[2])


def restarted(client: fg.Client) -> fg.Client:
    arrays = {name: value.copy() for name, value in client.to_arrays().items()}
    again = fg.Client.from_arrays(client.id, client.algorithm, client.setting, arrays)
    assert equal_arrays(again.to_arrays(), arrays)
    return again


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("algorithm", [PLAIN, PRIVATE], ids=["no noise", "noise"])
def test_a_repeated_request_gets_the_same_bytes(algorithm, restart):
    """The noise comes from the system: to be asked again is no way to average it out."""
    world = World(algorithm)
    for b in (1, 2, 3):
        for i in range(N):
            world.observe(i)
        client, request = world.clients[0], SumsRequest(0, b, b - 1)
        first = client.receive(request)[0]
        world.observe(0)  # it waits for the next update
        for _ in range(3):
            if restart:
                client = world.clients[0] = restarted(client)
            (again,) = client.receive(request)
            assert again.numbers.tobytes() == first.numbers.tobytes()
            assert again.numbers is not first.numbers
        assert world.update() != []
        assert client.receive(request) == []  # it is over


class Asked:
    """A client of whom anything is asked; what it has answered, by slot."""

    def __init__(self, algorithm: fg.Algorithm, seed: int):
        self.client = fg.Client(0, algorithm, algorithm.setting(PROBLEM, N, None))
        self.answers: dict[int, bytes] = {}
        self.order: list[int] = []
        self.rng = np.random.default_rng(seed)

    def ask(self, update: int, model: int) -> None:
        for message in self.client.receive(SumsRequest(0, update, model)):
            assert isinstance(message, BatchSums)
            assert message.update == update
            bits = message.numbers.tobytes()
            assert self.answers.setdefault(update, bits) == bits, "two releases for one slot"
            if not self.order or self.order[-1] != update:
                self.order.append(update)


@pytest.mark.parametrize("seed", range(20))
def test_whatever_a_coordinator_asks_for_there_are_b_releases_in_order(seed):
    """Renumbering, going back, asking again, models of any update, restarts."""
    asked = Asked(PRIVATE, seed)
    rng = asked.rng
    asked.ask(1, 0)
    for t in range(1, 120):
        asked.client.observe(np.array([0.6, 0.8]), float(rng.integers(0, 2)), t)
        kind = rng.integers(0, 10)
        if kind < 7:
            top = B + 4 if t > 60 else B - 2
            asked.ask(int(rng.integers(0, top)), int(rng.choice([0, asked.client.adopted])))
        elif kind == 7:
            theta = rng.uniform(-0.5, 0.5, D)
            model = SharedModel(t, np.eye(D), np.zeros(0), theta)
            update = int(rng.integers(0, B))
            asked.client.receive(NewModel(0, update, int(rng.integers(0, t)), model))
        elif kind == 8:
            asked.client = restarted(asked.client)
    assert asked.answers
    assert asked.order == sorted(set(asked.order))
    assert set(asked.answers) <= set(range(1, B + 1))


def test_the_budget():
    """B releases, and not one more: neither does a coordinator ask, nor does a client answer."""
    world = World(PRIVATE)
    for _ in range(B):
        world.observe(0)
        assert world.update()
    assert world.coordinator.budget_spent
    assert world.coordinator.begin(100) == []
    assert world.coordinator.syncs == B
    for client in (world.clients[0], restarted(world.clients[0])):
        for update in (B + 1, B + 2, 10**6):
            assert client.receive(SumsRequest(0, update, B)) == []
            assert client.receive(SumsRequest(0, update, 0)) == []
    # a coordinator that has lost its state begins to count from 1 again
    fresh = fg.Coordinator(PRIVATE, world.setting, range(N))
    (request, *_) = fresh.begin(101)
    assert request.update == 1
    assert world.clients[1].receive(request) == []
    # without privacy there is no budget
    world = World(PLAIN)
    for _ in range(B + 2):
        world.observe(0)
        assert world.update()


def test_a_lost_update_uses_up_its_slot():
    world = World(PRIVATE)
    for _ in range(B - 1):
        world.observe(0)
        world.update(lost=True)
    assert world.update()
    assert world.coordinator.begin(100) == []
    assert (world.coordinator.syncs, world.coordinator.started) == (1, B)


def test_a_late_client_has_its_samples_in_the_first_batch_it_is_asked_for():
    world = World(PRIVATE, Silence())
    world.clients[2].absorb([[1.0, 0.0]] * 5, [1.0] * 5)
    for _ in range(3):
        world.observe(0)
        world.update((0, 1))
    world.update()
    batches = world.clients[2].batches
    assert (list(batches.closed), batches.taken) == ([4], 5)


@pytest.mark.parametrize("numbers", [
    np.zeros(M - 1, dtype=np.int64), np.zeros(M + 1, dtype=np.int64), np.zeros(M),
    np.zeros((M, 1), dtype=np.int64), np.full(M, 2**62, dtype=np.int64),
    np.full(M, -(2**63), dtype=np.int64), np.zeros(M, dtype=np.int32),
])  # fmt: skip
def test_a_bad_answer_is_refused_and_changes_nothing(numbers):
    world = World(PRIVATE)
    world.observe(0)
    requests = world.coordinator.begin(1)
    before = world.coordinator.to_arrays()
    with pytest.raises(fg.InvalidInput, match="numbers"):
        world.coordinator.receive(BatchSums(0, 1, numbers))
    assert equal_arrays(world.coordinator.to_arrays(), before)
    for request in requests:
        models = world.coordinator.receive(world.clients[request.client].receive(request)[0])
    assert len(models) == N
