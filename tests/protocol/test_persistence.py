"""State to arrays and back, exactly, at any moment between messages.

A client made of its samples and its last model is the one that met them, to the bit.
"""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
import pytest

import fedglb as fg
from fedglb.parts.local_update import Ons
from fedglb.parts.trigger import Event
from fedglb.privacy import SimulatedNoise
from fedglb.protocol.messages import ModelSums, NewModel
from fedglb.protocol.persistence import stack, to_arrays, unstack
from fedglb.protocol.update import GATHERING, SOLVING
from fedglb.samples import Samples
from tests.protocol.driver import (
    SEED,
    Federation,
    communicating,
    equal_arrays,
    one_pass,
    same_model,
)

D, N, T = 3, 3, 12


def through_a_file(arrays):
    """What a later restart would read: plain arrays, no pickles."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    buffer.seek(0)
    with np.load(buffer, allow_pickle=False) as loaded:
        return {name: loaded[name] for name in loaded.files}


class Restarting(Federation):
    """Restores coordinator and client from plain arrays before every single delivery.

    Models are adopted in two steps, and after every step clients are rebuilt from their samples.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.hook = self.restart
        self.phases = set()
        self.base = dict.fromkeys(range(len(self.clients)))

    def restart(self, message):
        arrays = through_a_file(self.coordinator.to_arrays())
        update = self.coordinator.update
        self.phases.add((self.coordinator.phase, update is not None and bool(update.replies)))
        told = [] if update is None or update.solve is None else update.solve.transcript
        if len({sums.hessian is None for sums in told}) == 2:
            self.phases.add("gradient and Hessian rounds in one solve")
        self.coordinator = fg.Coordinator.from_arrays(self.algorithm, self.setting, arrays)
        assert equal_arrays(through_a_file(self.coordinator.to_arrays()), arrays)
        self.restart_client(message.client)

    def restart_client(self, i):
        saved = through_a_file(self.clients[i].to_arrays())
        self.clients[i] = fg.Client.from_arrays(
            i, self.algorithm, self.setting, saved, SEED, self.noise
        )
        assert equal_arrays(through_a_file(self.clients[i].to_arrays()), saved)

    def pass_on(self, message):
        if not isinstance(message, NewModel):
            return super().pass_on(message)
        client = self.clients[message.client]
        before = client.to_arrays()
        adoption = client.prepare(message)
        assert equal_arrays(client.to_arrays(), before), "preparing changes nothing"
        client.install(adoption)
        assert client.prepare(message) is None
        self.base[message.client] = adoption.base
        return []

    def step(self, t):
        super().step(t)
        for i, client in enumerate(self.clients):
            self.restart_client(i)
            if client.batches is not None:  # an agent keeps these apart
                continue
            twin = fg.Client.from_samples(
                i, self.algorithm, self.setting,
                Samples.over(
                    client.samples.X.copy(), client.samples.y.copy(), len(client.samples),
                    client.samples.at.copy(),
                ),
                base=self.base[i], seed=SEED,
                **{k: getattr(client, k) for k in ("covered", "frozen", "update", "adopted")},
                last_t=client.last_t,
            )  # fmt: skip
            assert equal_arrays(twin.to_arrays(), client.to_arrays())
            self.clients[i] = twin


ALONE = {"n-ons-glm": fg.n_ons_glm(), "n-ucb-glm": fg.n_ucb_glm(), "one-ucb-glm": fg.one_ucb_glm()}
FEW = {
    "few effects": fg.fedglb_auto(1.0, effects=3),
    "personal, directions": fg.fedglb_personal(1.0, effects=0, spikes=True),
}
FORGETTING = {
    "half-life": fg.fedglb_auto(1.0, memory=fg.HalfLife(4.0)),
    "half-life, rounds": fg.fedglb_ucb(1.0, fg.LBFGS(), memory=fg.HalfLife(4.0)),
    "adaptive": fg.fedglb_auto(0.05, effects=0, memory=fg.Adaptive((8.0, 2.0))),
    "adaptive, some effects": fg.fedglb_auto(0.05, memory=fg.Adaptive((8.0, 2.0))),
    "personal, adaptive": fg.fedglb_personal(0.2, memory=fg.Adaptive((8.0, 2.0))),
    "adaptive, rounds": fg.fedglb_mix(
        0.2, solver=fg.OneExchange(1e-6), memory=fg.Adaptive((8.0, 2.0))
    ),
}
ALGORITHMS = one_pass() | communicating() | ALONE | FEW | FORGETTING
SLOW = (
    "lbfgs, then newton", "personal, adaptive", "personal effects", "adaptive, some effects",
)  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in ALGORITHMS],
)
def test_restarting_before_every_message_changes_nothing(name):
    """The coordinator's file has all of it, an update in progress included."""
    noise = SimulatedNoise(1) if name in one_pass() else None
    problem, clients = fg.Problem(D, fg.Probit() if name in ALONE else fg.Logistic()), N
    if name == "one-ucb-glm":
        clients = 1
    steps = T
    if "personal" in name:
        clients, steps = 2 * N, 4 * T
    steady, restarting = (
        kind(ALGORITHMS[name], problem, clients, steps, noise=noise)
        for kind in (Federation, Restarting)
    )
    steady.differ = restarting.differ = "personal" in name
    steady.run()
    restarting.run()
    assert restarting.choices == steady.choices
    assert (steady.coordinator.syncs > 1) == (name not in ALONE)
    assert equal_arrays(steady.coordinator.to_arrays(), restarting.coordinator.to_arrays())
    for one, other in zip(steady.clients, restarting.clients, strict=True):
        assert equal_arrays(one.to_arrays(), other.to_arrays())
    if "personal" in name:
        assert steady.coordinator.model.spread[:2].any()
    if name == "lbfgs, then newton":
        assert "gradient and Hessian rounds in one solve" in restarting.phases
    if name in ("adaptive, some effects", "personal, adaptive"):
        assert steady.coordinator.filters.log_v.std() > 0.0
        assert steady.coordinator.model.effects.size > 2
        assert "covered.effects" in steady.coordinator.to_arrays()  # by which new ones are judged
    elif "effects" in name:
        assert steady.coordinator.model.effects.size > 2
        assert (GATHERING, False) in restarting.phases
        # no room for more arms is stored, nor a client's sums of arms beyond an update
        assert steady.clients[0].to_arrays()["state.counters"].size < 100 * (D + 4)
        assert "covered.effects" not in steady.coordinator.to_arrays()
    elif name in communicating() and name != "dislinucb":
        assert {(GATHERING, False), (SOLVING, False), (SOLVING, True)} <= restarting.phases


def test_outstanding_requests_are_asked_again_after_a_restart():
    algorithm, problem = communicating()["newton"], fg.Problem(D)
    steady, lossy = Federation(algorithm, problem, N, T), Federation(algorithm, problem, N, T)
    for fed in (steady, lossy):
        for t in range(1, 9):
            for i in range(N):
                fed.interact(i, t)
    steady.deliver(steady.coordinator.begin(9))
    queue, lost = lossy.coordinator.begin(9), 0
    rng = np.random.default_rng(0)
    while queue or lossy.coordinator.phase:
        if not queue:  # everything under way is gone, and the coordinator starts anew
            saved = through_a_file(lossy.coordinator.to_arrays())
            lossy.coordinator = fg.Coordinator.from_arrays(algorithm, lossy.setting, saved)
            queue = lossy.coordinator.outstanding()
            continue
        message = queue.pop(0)
        if rng.random() < 0.3 and not isinstance(message, NewModel):
            lost += 1
            continue
        queue += lossy.pass_on(message)
    assert lost > 3
    assert same_model(steady.coordinator, lossy.coordinator)
    assert lossy.coordinator.ledger == steady.coordinator.ledger  # each message once


@dataclass(frozen=True)
class Plain(Ons):
    """A user's local update, in plain Python."""

    def observe(self, setting, state, samples, index):
        state.theta[:] += samples.y[index] * samples.X[index]


def test_a_users_own_observe_is_what_replays():
    algorithm = fg.Algorithm(
        "plain", Plain(), fg.Newton(), Event(np.inf), fg.Fixed(0.1), exploration=1.0
    )
    setting = algorithm.setting(fg.Problem(D), 1, None)
    client = fg.Client(0, algorithm, setting)
    for t in range(1, 6):
        client.observe([0.0, 0.5, 0.0], 1.0, t)
    assert client.state.theta.tolist() == [0.0, 2.5, 0.0]
    twin = fg.Client.from_samples(0, algorithm, setting, client.samples, last_t=5)
    assert equal_arrays(twin.to_arrays(), client.to_arrays())


def test_samples_grow_from_nothing_and_from_a_full_table():
    for n in (0, 1, 17):
        samples = Samples.over(np.ones((n, D)), np.ones(n), n)
        for k in range(40):
            samples.append(np.full(D, 0.1 * k), float(k))
        assert len(samples) == n + 40
        assert samples.y[n:].tolist() == [float(k) for k in range(40)]
        assert samples.X[n + 3].tolist() == [0.1 * 3] * D


def test_arrays_of_different_lengths_come_back():
    lengths = {"a": 12, "b": 0, "c": None, "d": 6, "e": 18}
    arrays = {name: None if n is None else np.arange(float(n)) for name, n in lengths.items()}
    parts = {
        name: ModelSums(name, 1, 5, np.ones(D), np.eye(D), each) for name, each in arrays.items()
    }
    for kept in (parts, {k: parts[k] for k in "ab"}, {k: parts[k] for k in "ca"}, {}):
        back = unstack(ModelSums, through_a_file(stack(kept)))
        assert list(back) == list(kept)
        for name, part in kept.items():
            assert equal_arrays(to_arrays(back[name]), to_arrays(part))
