"""Audit: what a coordinator sees tells two datasets apart as well as promised, and no better.

Two worlds differ in one worst-case sample. In each, real clients answer real requests with noise
of many seeds. An adversary who knows everything but the noise (both datasets, the model, the noise
of the dishonest clients) decides for a world by the likelihood ratio: for Gaussian noise that is
the inner product of the difference of means with what was released, over the variances, against
the threshold half-way. What else the coordinator sees, the models, it computes from the releases:
they add nothing to the ratio.

The noise is μ-Gaussian-private exactly if no test has error rates α, β with
Φ⁻¹(1 − α) − Φ⁻¹(β) > μ (Dong, Roth and Su 2022, Corollary 1). The threshold is fixed beforehand, so
Clopper and Pearson's bounds on the two rates hold whatever the law of the noise is, and give a
lower confidence bound on μ.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import beta

import fedglb as fg
from fedglb.model import SharedModel
from fedglb.privacy import NoisePlan, SimulatedNoise
from fedglb.protocol.messages import NewModel, SumsRequest
from tests.privacy.worst_case import Change, worst

SEEDS = 10_000  # half of them in each world
CONFIDENCE = 0.99
PROBLEM = fg.Problem(2)
CLIENTS, UPDATES = 3, 3
VICTIM, HONEST = 0, 1  # the third client is the coordinator's
OTHERS = [(np.array([0.6, -0.8]), 1.0), (np.array([0.0, 1.0]), 0.0)]


@dataclass
class Source:
    """The simulator's noise, of a seed that changes, times a factor; 0 switches it off."""

    factor: float = 1.0
    seed: int = 0

    def draw(self, client: int | str, update: int, plan: NoisePlan) -> np.ndarray:
        numbers = SimulatedNoise(self.seed).draw(client, update, plan)
        return numbers if self.factor == 1.0 else np.rint(self.factor * numbers).astype(np.int64)


def algorithm(place: str, neighbours: str, honest: float) -> fg.Algorithm:
    privacy = fg.GaussianMechanism(8.0, 1e-2, place, neighbours, honest=honest)
    return fg.fedglb_private(UPDATES, 1, privacy, growth=2.0)


def ready(which: fg.Algorithm, i: int, change: Change, samples, source: Source) -> fg.Client:
    """A client that holds the worst model, after the first update, and has new samples."""
    client = fg.Client(i, which, which.setting(PROBLEM, CLIENTS, None), noise=source)
    for x, y in OTHERS:
        client.observe(x, y, 1)
    assert len(client.receive(SumsRequest(i, 1, 0))) == 1
    model = SharedModel(1, np.eye(2), np.zeros(0), change.theta)
    client.receive(NewModel(i, 1, 0, model))
    for x, y in [*OTHERS, *samples]:
        client.observe(x, y, 2)
    return client


def releases(client: fg.Client) -> np.ndarray:
    """What the client answers in updates 2 and 3; the client is as it was."""
    again = copy.copy(client)
    again.batches = copy.copy(client.batches)
    again.batches.closed = dict(client.batches.closed)
    # the third update begins at the same model: the second was lost
    answers = [again.receive(SumsRequest(client.id, b, 1))[0].numbers for b in (2, 3)]
    return np.array(answers, dtype=float)


def view(worlds: list[fg.Client], source: Source, seed: int) -> np.ndarray:
    """What the adversary has of a world: the sum over clients without the dishonest one's."""
    source.seed = seed
    return sum(releases(client) for client in worlds)


def lower_bound(wrong: int, missed: int, trials: int) -> float:
    """A lower confidence bound on μ from the errors in the two worlds, `trials` each."""
    level = 1.0 - (1.0 - CONFIDENCE) / 2
    rates = [beta.ppf(level, errors + 1, trials - errors) for errors in (wrong, missed)]
    return float(-ndtri(rates[0]) - ndtri(rates[1]))


def audited(
    place: str, neighbours: str, factor: float = 1.0, seeds: int = SEEDS, honest: float = 0.6
) -> tuple[float, float]:
    """The lower bound on μ, and the promised μ; of three clients 0.6 are 2."""
    which = algorithm(place, neighbours, honest)
    plan = which.setting(PROBLEM, CLIENTS, None).noise
    change = worst(PROBLEM, plan, neighbours == "replace")
    source = Source(factor)
    here = [(change.x, change.y)]
    there = [] if change.other is None else [change.other]
    bystanders = [] if place == "silo" else [ready(which, HONEST, change, [], source)]
    worlds = [[ready(which, VICTIM, change, s, source), *bystanders] for s in (here, there)]

    silent = Source(0.0)
    known = [releases(ready(which, VICTIM, change, s, silent)) for s in (here, there)]
    if bystanders:
        rest = releases(ready(which, HONEST, change, [], silent))
        known = [each + rest for each in known]
    variances = plan.scales() ** 2
    direction = (known[0] - known[1]) / variances
    threshold = float(np.sum(direction * (known[0] + known[1]) / 2))

    trials = seeds // 2
    wrong = sum(  # the sample is there, and the adversary says that it is not
        float(np.sum(direction * view(worlds[0], source, seed))) < threshold
        for seed in range(trials)
    )
    missed = sum(
        float(np.sum(direction * view(worlds[1], source, seed))) >= threshold
        for seed in range(trials, 2 * trials)
    )
    return lower_bound(wrong, missed, trials), plan.mu


@pytest.mark.some(1)
@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
@pytest.mark.parametrize("place", ["silo", "sums"])
def test_the_view_tells_as_much_as_promised(place, neighbours):
    found, promised = audited(place, neighbours)
    assert 0.9 * promised <= found <= promised


def test_a_client_that_subtracts_its_own_share_learns_no_more():
    """All three are trusted to add noise; the third still sees the model."""
    found, promised = audited("sums", "zero-out", honest=1.0, seeds=4_000)
    assert 0.85 * promised <= found <= promised


def test_the_audit_finds_missing_noise():
    found, promised = audited("silo", "zero-out", factor=0.8, seeds=4_000)
    assert found > promised


def test_the_audit_finds_wasted_noise():
    found, promised = audited("silo", "zero-out", factor=1.25, seeds=4_000)
    assert found < 0.9 * promised
