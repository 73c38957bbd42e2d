"""State to arrays and back, exactly, at any moment between messages."""

from __future__ import annotations

import io

import numpy as np
import pytest

import fedglb as fg
from fedglb.privacy import SimulatedNoise
from fedglb.protocol.messages import NewModel
from fedglb.protocol.update import GATHERING, SOLVING
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
    """Restores coordinator and client from plain arrays before every single delivery."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.hook = self.restart
        self.phases = set()

    def restart(self, message):
        arrays = through_a_file(self.coordinator.to_arrays())
        update = self.coordinator.update
        self.phases.add((self.coordinator.phase, update is not None and bool(update.replies)))
        told = [] if update is None or update.solve is None else update.solve.transcript
        if len({sums.hessian is None for sums in told}) == 2:
            self.phases.add("gradient and Hessian rounds in one solve")
        self.coordinator = fg.Coordinator.from_arrays(self.algorithm, self.setting, arrays)
        assert equal_arrays(through_a_file(self.coordinator.to_arrays()), arrays)
        i = message.client
        saved = through_a_file(self.clients[i].to_arrays())
        self.clients[i] = fg.Client.from_arrays(
            i, self.algorithm, self.setting, saved, SEED, self.noise
        )
        assert equal_arrays(through_a_file(self.clients[i].to_arrays()), saved)


ALGORITHMS = one_pass() | communicating()


@pytest.mark.some(6)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_restarting_before_every_message_changes_nothing(name):
    """The coordinator's file has all of it, an update in progress included."""
    noise = SimulatedNoise(1) if name in one_pass() else None
    steady, restarting = (
        kind(ALGORITHMS[name], fg.Problem(D), N, T, noise=noise)
        for kind in (Federation, Restarting)
    )
    steady.run()
    restarting.run()
    assert restarting.choices == steady.choices
    assert steady.coordinator.syncs > 1
    a, b = steady.coordinator.to_arrays(), restarting.coordinator.to_arrays()
    assert equal_arrays(a, b)
    for one, other in zip(steady.clients, restarting.clients, strict=True):
        assert equal_arrays(one.to_arrays(), other.to_arrays())
    if name == "lbfgs, then newton":
        assert "gradient and Hessian rounds in one solve" in restarting.phases
    if name != "dislinucb" and noise is None:
        assert {(GATHERING, False), (SOLVING, False), (SOLVING, True)} <= restarting.phases


@pytest.mark.parametrize("preset", [fg.n_ucb_glm, fg.n_ons_glm, fg.one_ucb_glm])
def test_clients_that_never_communicate_too(preset):
    algorithm, problem = preset(), fg.Problem(D, fg.Probit())
    steady = Federation(algorithm, problem, 1, T)
    halfway = Federation(algorithm, problem, 1, T)
    steady.run()
    for t in range(1, T + 1):
        halfway.step(t)
        saved = through_a_file(halfway.clients[0].to_arrays())
        restored = fg.Client.from_arrays(0, algorithm, halfway.setting, saved)
        halfway.clients[0] = restored
    assert halfway.choices == steady.choices
    assert equal_arrays(halfway.clients[0].to_arrays(), steady.clients[0].to_arrays())


def test_names_as_identities():
    algorithm = fg.fedglb_ucb(1.0, fg.Newton())
    setting = algorithm.setting(fg.Problem(2), 2, None)
    names = ["shop-17", "shop-3"]
    clients = {name: fg.Client(name, algorithm, setting) for name in names}
    coordinator = fg.Coordinator(algorithm, setting, names)
    queue = []
    for t in range(1, 30):
        for name in names:
            queue += clients[name].observe([0.6, 0.8], float(t % 2), t)
            while queue:
                message = queue.pop(0)
                saved = through_a_file(coordinator.to_arrays())
                coordinator = fg.Coordinator.from_arrays(algorithm, setting, saved)
                if message.upward:
                    queue += coordinator.receive(message)
                else:
                    queue += clients[message.client].receive(message)
    assert coordinator.syncs > 0
    assert coordinator.last_update.client in names


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
