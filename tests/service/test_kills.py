"""kill -9 of the service, the coordinator and nats-server under HTTP load.

All are real processes. Four more choose and report rewards through `AgentClient`, which repeats
what got no answer. Whatever dies is started again, and nothing else is done. In the end the files
have every decision and every reward that was acknowledged, each once; no reward was refused (a
process that is refused ends with an error); and the model is that of the same samples undisturbed.
"""

from __future__ import annotations

import random

import pytest

from fedglb.federation.preload import preload
from tests.service.federated import AGREED, COORDINATOR, SERVER, Federated, Killer
from tests.service.load import load


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
            killer = Killer(place, running, seed=kills)
            for victim in victims:
                killer.strike(victim)
            running.stop()
            place.settle(running)
        place.stop()
        for name in names:
            place.check_log(name, running)
        place.check_models()
    assert place.deaths[COORDINATOR] == place.deaths[SERVER] == kills
    assert sum(place.deaths[name] for name in names) == kills
    print(place.deaths, running.calls, place.count("updated"))
