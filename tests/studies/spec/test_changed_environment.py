"""`[environment]` with keys that change it."""

from __future__ import annotations

import pytest

import fedglb as fg
from tests.studies.tiny import tables


def read(**environment):
    return fg.read_experiment(tables(environment={"clients": 3, "arms": 4, **environment}))


def test_each_key_is_an_environment_around_another():
    plain = read().env
    assert read(heterogeneity=0.3).env == fg.Heterogeneous(plain, 0.3)
    assert read(drift=0.01).env == fg.Drifting(plain, 0.01)
    assert read(delay=5).env == fg.Delayed(plain, 5)
    assert read(participation=0.2).env == fg.Partial(plain, 0.2)
    together = read(delay=5, participation=0.2, drift=0.01, heterogeneity=0.3).env
    inner = fg.Drifting(fg.Heterogeneous(plain, 0.3), 0.01)
    assert together == fg.Delayed(fg.Partial(inner, 0.2), 5)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"heterogeneity": -1.0}, r"environment\.heterogeneity = -1\.0"),
        ({"drift": -1.0}, r"environment\.drift = -1\.0"),
        ({"delay": -1}, r"environment\.delay = -1"),
        ({"delay": 1.5}, r"environment\.delay = 1\.5"),
        ({"participation": 0.0}, r"environment\.participation = 0\.0"),
        ({"participation": [0.1, 0.2]}, r"environment\.participation.*fedglb reproduce"),
    ],
)
def test_mistakes_are_refused_at_their_key(given, words):
    with pytest.raises(fg.InvalidInput, match=words):
        read(**given)


def test_data_has_delays_and_participation_only(raw_files):
    data = {"dataset": "magic", "clients": 3}
    made = fg.read_experiment(tables(environment={**data, "delay": 3}, problem={"radius": 10.0}))
    assert isinstance(made.env, fg.Delayed)
    with pytest.raises(fg.InvalidInput, match="heterogeneity"):
        fg.read_experiment(tables(environment={**data, "heterogeneity": 0.3}, problem={}))
