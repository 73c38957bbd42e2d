from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import fedglb as fg
from fedglb.privacy import PreparedNoise, SimulatedNoise, SystemNoise, discrete_gaussian

PLAN = fg.GaussianMechanism(1.0, 1e-6).plan(fg.Problem(dim=4), clients=10, updates=20)
CLOSE = 1e-9  # p-values of tests with fixed seeds


def drawn(source, count):
    return np.array([source.draw(k % 10, k // 10, PLAN) for k in range(count)])


@pytest.mark.parametrize("source", [SimulatedNoise(3), SystemNoise(), PreparedNoise()])
def test_noise_has_the_planned_law(source):
    numbers = drawn(source, 1500)
    assert numbers.dtype == np.int64
    assert numbers.shape == (1500, 14)
    scaled = numbers / PLAN.scales()
    for part in (scaled[:, :4], scaled[:, 4:]):
        assert stats.kstest(part.ravel(), "norm").pvalue > CLOSE
    rows = np.corrcoef(scaled.T)
    assert np.abs(rows - np.eye(14)).max() < 6.5 / math.sqrt(1500)


def test_simulated_noise_is_a_function_of_seed_client_and_update():
    noise = SimulatedNoise(1)
    first = noise.draw("shop-1", 2, PLAN)
    np.testing.assert_array_equal(first, SimulatedNoise(1).draw("shop-1", 2, PLAN))
    others = [
        noise.draw("shop-2", 2, PLAN), noise.draw("shop-1", 3, PLAN), noise.draw(2, 2, PLAN),
        SimulatedNoise(2).draw("shop-1", 2, PLAN), noise.draw(2, 1, PLAN), noise.draw(1, 2, PLAN),
    ]  # fmt: skip
    every = [first, *others]
    assert len({tuple(each.tolist()) for each in every}) == len(every)


def test_noise_of_the_system_is_new_every_time(monkeypatch):
    source = SystemNoise()
    assert not (source.draw(1, 1, PLAN) == source.draw(1, 1, PLAN)).any()
    given = []
    monkeypatch.setattr(
        discrete_gaussian,
        "sample",
        lambda *arguments: given.append(arguments) or [0] * arguments[1],
    )
    source.draw(1, 1, PLAN)
    vector, matrix = PLAN.share_variance()
    assert given == [(vector, 4), (matrix, 10)]  # and no source of bytes but the default


def test_prepared_noise_is_drawn_before_it_is_asked_for_and_used_once(monkeypatch):
    real, calls = discrete_gaussian.sample, []
    monkeypatch.setattr(discrete_gaussian, "sample", lambda *g: calls.append(g) or real(*g))
    source = PreparedNoise()
    for _ in range(2):
        source.prepare(PLAN)
        assert len(calls) == 2  # v and H
    first = source.draw(1, 1, PLAN)
    assert len(calls) == 2
    assert not (source.draw(1, 1, PLAN) == first).any()
    assert len(calls) == 4
    source.prepare(PLAN)
    other = replace(PLAN, vector_share=2.0 * PLAN.vector_share)
    source.draw(1, 1, other)
    assert calls[-2] == (other.share_variance()[0], 4)


def test_prepared_noise_is_used_once_by_all_threads_together():
    source = PreparedNoise()

    def work(k: int) -> tuple[int, ...]:
        source.prepare(PLAN)
        return tuple(source.draw(k, 1, PLAN).tolist())

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(work, range(400)))) == 400
