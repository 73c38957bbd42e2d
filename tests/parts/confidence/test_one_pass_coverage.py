"""The sets of `OnePassRadius` hold θ* in all but a fraction δ of the runs; shrunk ones do not.

With δ = 0.5 and two features the radii are small, so that a wrong constant shows.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import fedglb as fg
from fedglb.parts.confidence import OnePassRadius
from fedglb.parts.confidence.one_pass import RADIUS, SET_CENTRE
from tests.parts.confidence.test_mixture_coverage import T, at_most, lost_at_updates

CLIENTS, ARMS, UPDATES, RUNS, DELTA = 40, 4, 8, 40, 0.5


@dataclass(frozen=True)
class Shrunk(OnePassRadius):
    """The radius times a factor, but for the ball: no confidence set."""

    stored_name = "shrunk in a test"

    factor: float = 1.0

    def radius_terms(self, setting, objective, solution):
        terms = list(super().radius_terms(setting, objective, solution))
        ball = terms[RADIUS] == 1.0 and terms[SET_CENTRE] == 0.0
        terms[RADIUS] *= 1.0 if ball else self.factor
        return tuple(terms)


CASES = {
    "logistic": (fg.Problem(2), None),
    "logistic, private": (fg.Problem(2), fg.GaussianMechanism(4.0, 1e-3)),
    "logistic, wide, private": (fg.Problem(2, radius=3.0), fg.GaussianMechanism(16.0, 1e-3)),
    "logistic, silo": (fg.Problem(2), fg.GaussianMechanism(20.0, 1e-3, noise="silo")),
    "Poisson": (fg.Problem(2, fg.Poisson(), noise=1.0), None),
    "identity, private": (
        fg.Problem(2, fg.Identity(), noise=0.6), fg.GaussianMechanism(4.0, 1e-3, reward_limit=4.0),
    ),
}  # fmt: skip


@pytest.mark.some(1)
@pytest.mark.parametrize("case", CASES)
def test_models_hold_the_truth(case):
    problem, privacy = CASES[case]
    env = fg.Synthetic(problem, CLIENTS, ARMS)
    algorithms = [
        fg.fedglb_private(UPDATES, privacy=privacy, delta=DELTA, confidence=confidence)
        for confidence in (OnePassRadius(), Shrunk(0.2))
    ]
    assert fg.simulate(algorithms[0], env, T, seed=0).syncs == UPDATES
    lost = lost_at_updates(algorithms, env, range(RUNS))
    assert at_most(lost[0], RUNS, DELTA)
    assert not at_most(lost[1], RUNS, DELTA)
