"""kill -9 of the service, the coordinator and nats-server under HTTP load.

All are real processes. Four more choose and report rewards through `AgentClient`, which repeats
what got no answer. Whatever dies is started again, and nothing else is done. In the end the files
have every decision and every reward that was acknowledged, each once; no reward was refused (a
process that is refused ends with an error); and the model is that of the same samples undisturbed.
Meanwhile agents are frozen and unfrozen, by calls and by the operator: what was acknowledged holds.
"""

from __future__ import annotations

import random
import threading
import time

import pytest

import fedglb as fg
from fedglb.federation.frozen import Frozen, write_frozen
from fedglb.federation.preload import preload
from tests.federation.helpers.nats_federation import PATIENCE, eventually
from tests.service.federated import AGREED, COORDINATOR, SERVER, Federated, Killer
from tests.service.load import load


class Freezer:
    """Freezes and unfreezes agents in a thread of its own, and in between the whole federation."""

    def __init__(self, place: Federated, seed: int) -> None:
        self.place, self.count = place, 0
        self._rng, self._stop = random.Random(seed), threading.Event()
        self._own: dict[str, int] = {}  # what agents acknowledged
        self._wrong: list[object] = []
        self._thread = threading.Thread(target=self._run, args=(random.Random(seed + 1),))
        self._thread.start()

    def _run(self, rng: random.Random) -> None:
        try:
            while not self._stop.is_set():
                name = rng.choice(self.place.names)
                with fg.AgentClient(self.place.urls[name], patience=PATIENCE) as client:
                    self._one(name, client, rng.random() < 0.7)
        except BaseException as error:
            self._wrong.append(error)

    def _one(self, name: str, client: fg.AgentClient, freeze: bool) -> None:
        found = client.status
        if found.frozen is None or found.frozen.by == "agent":  # else the operator's word is told
            held = 0 if found.frozen is None else found.frozen.update
            assert held == self._own.get(name, 0), (name, found, self._own)
        if not found.model:
            time.sleep(0.01)
        elif freeze:
            self._own[name] = client.freeze().update
            self.count += 1
        else:
            client.unfreeze()
            self._own[name] = 0
            self.count += 1

    def operate(self) -> None:
        """Do as the operator: go back to one of the models that are kept, or to none."""
        assert not self._wrong, self._wrong
        status, folder = self.place.status(), self.place.running.folder / COORDINATOR
        if status is not None and status.kept:
            update = self._rng.choice([0, *status.kept])
            write_frozen(folder, Frozen(update, time.time()) if update else None)

    def stop(self) -> None:
        """Wait until all follow the operator, and until all do as they were told by calls."""
        eventually(lambda: self._wrong or self.count, "an agent was frozen")
        self._stop.set()
        self._thread.join()
        assert not self._wrong, self._wrong
        folder, kept = self.place.running.folder / COORDINATOR, 0

        def held() -> dict[str, int]:
            found = {}
            for name, url in self.place.urls.items():
                with fg.AgentClient(url, patience=PATIENCE) as client:
                    frozen = client.status.frozen
                found[name] = 0 if frozen is None else frozen.update
            return found

        def known() -> bool:
            nonlocal kept
            status = self.place.status()
            kept = 0 if status is None or not status.kept else status.kept[-1]
            return kept > 0

        eventually(known, "the coordinator keeps a model")
        write_frozen(folder, Frozen(kept, time.time()))
        eventually(lambda: set(held().values()) == {kept}, "all follow the operator", held)
        write_frozen(folder, None)
        wanted = {name: self._own.get(name, 0) for name in self.place.names}
        eventually(lambda: held() == wanted, f"all are as told: {wanted}", held)


@pytest.mark.parametrize(
    ("names", "kills"),
    [(("a", "b"), 1), pytest.param(("a", "b", "c"), 40, marks=pytest.mark.slow)],
    ids=["each once", "many"],
)
def test_kills(tmp_path, names, kills):
    preload(AGREED.build())  # before any process waits for it
    rng = random.Random(kills)
    victims = [COORDINATOR] * kills + [SERVER] * kills
    victims += [names[k % len(names)] for k in range(kills)]
    rng.shuffle(victims)
    with Federated(tmp_path, names) as place:
        with load(place.urls, 4, tmp_path, pause=0.01) as running:
            killer, freezer = Killer(place, running, seed=kills), Freezer(place, seed=kills)
            for victim in victims:
                killer.strike(victim)
                freezer.operate()
            freezer.stop()
            running.stop()
            place.settle(running)
        place.stop()
        for name in names:
            place.check_log(name, running)
        place.check_models()
    assert place.deaths[COORDINATOR] == place.deaths[SERVER] == kills
    assert sum(place.deaths[name] for name in names) == kills
    assert freezer.count >= kills
    print(place.deaths, running.calls, place.count("updated"), freezer.count)
