"""A client made of its samples and its last model is the one that met them, to the bit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import fedglb as fg
from fedglb.parts.local_update import Ons
from fedglb.parts.trigger import Event
from fedglb.protocol.messages import NewModel
from fedglb.samples import Samples
from tests.protocol.driver import SEED, Federation, communicating, equal_arrays

D, N, T = 3, 3, 14
ALGORITHMS = {**communicating(T), "n-ons-glm": fg.n_ons_glm(), "n-ucb-glm": fg.n_ucb_glm()}


class Rebuilding(Federation):
    """Adopts in two steps with samples in between, and rebuilds clients from their samples."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.base = dict.fromkeys(range(len(self.clients)))
        self.rebuilt = 0

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
            twin = fg.Client.from_samples(
                i, self.algorithm, self.setting,
                Samples.over(client.samples.X.copy(), client.samples.y.copy(), len(client.samples)),
                base=self.base[i], seed=SEED,
                **{k: getattr(client, k) for k in ("covered", "frozen", "update", "adopted")},
                last_t=client.last_t,
            )  # fmt: skip
            assert equal_arrays(twin.to_arrays(), client.to_arrays())
            self.clients[i] = twin
            self.rebuilt += 1


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_client_is_its_samples_and_its_last_model(name):
    algorithm = ALGORITHMS[name]
    steady, rebuilding = (kind(algorithm, fg.Problem(D), N, T) for kind in (Federation, Rebuilding))
    steady.run()
    rebuilding.run()
    assert rebuilding.choices == steady.choices
    assert rebuilding.rebuilt == N * T
    for a, b in zip(steady.clients, rebuilding.clients, strict=True):
        assert equal_arrays(a.to_arrays(), b.to_arrays())


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
