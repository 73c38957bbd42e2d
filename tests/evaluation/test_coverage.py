"""Against simulated truth: no bias, and intervals that hold as often as they say.

All seeds are fixed: a test fails only if the code changes. θ* is uniform on a sphere and so are
the arms: the value of a policy that depends on θ* alone is the same for every seed.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import fedglb as fg

ENV = fg.Synthetic(fg.Problem(dim=3, radius=2.0), clients=5, arms=4)
POLICIES = {
    "uniform": lambda theta: fg.UniformPolicy(),
    "the best": lambda theta: fg.ModelPolicy(theta),
    "not the best": lambda theta: fg.ModelPolicy(-theta, epsilon=0.3, temperature=1.0),
}
METHODS = [("ips", "normal"), ("snips", "normal"), ("dr", "normal"), ("dm", "normal")]
METHODS += [("ips", "proven")]


def value(policy: str) -> float:
    """What a policy earns, over 100,000 offers: to about 0.0005."""
    theta = ENV.parameter(999)
    block = next(ENV.blocks(20_000, 999))
    arms, means = block.arms.reshape(-1, 4, 3), block.means.reshape(-1, 4)
    return float((POLICIES[policy](theta).probabilities(arms) * means).sum(axis=1).mean())


def estimates(choice, horizon: int, seeds: range) -> dict[tuple[str, str, str], list[fg.Estimate]]:
    found: dict[tuple[str, str, str], list[fg.Estimate]] = {}
    for seed in seeds:
        run = fg.simulate(fg.fedglb_auto(choice=choice), ENV, horizon, seed=seed)
        log = fg.Logged.from_run(run, ENV)
        for name, make in POLICIES.items():
            policy = make(ENV.parameter(seed))
            for method, interval in METHODS:
                key = (name, method, interval)
                estimate = fg.evaluate(log, policy, method, interval=interval)
                found.setdefault(key, []).append(estimate)
    return found


def check(found: dict[tuple[str, str, str], list[fg.Estimate]]) -> None:
    """No bias beyond 3 standard errors; coverage within 3 binomial ones of 95 %, or more."""
    truth = {name: value(name) for name in POLICIES}
    assert truth["uniform"] == pytest.approx(0.5, abs=0.002)  # by symmetry
    for (name, method, interval), all_of_it in found.items():
        n = len(all_of_it)
        off = np.array([each.value - truth[name] for each in all_of_it])
        inside = [each.interval[0] <= truth[name] <= each.interval[1] for each in all_of_it]
        label = (name, method, interval, off.mean(), np.mean(inside))
        assert abs(off.mean()) <= 3.0 * off.std(ddof=1) / math.sqrt(n) + 0.001, label
        assert np.mean(inside) >= 0.95 - 3.0 * math.sqrt(0.95 * 0.05 / n), label
        stated = math.sqrt(np.mean([each.standard_error**2 for each in all_of_it]))
        assert 0.75 < stated / off.std(ddof=1) < 1.25, label


@pytest.mark.slow
@pytest.mark.parametrize(
    "choice",
    [fg.EpsilonGreedy(0.3, fg.Bayes()), fg.EpsilonGreedy(0.2, fg.Thompson(draws=5))],
    ids=str,
)
def test_estimates_from_many_adaptive_logs_are_right(choice):
    check(estimates(choice, 400, range(1_000)))


def test_propensities_of_thompson_sampling_alone_are_not_enough_and_it_says_so():
    """Arms that it never plays have no weight: what is proven holds, the rest has caveats."""
    found = estimates(fg.Thompson(draws=20), 100, range(10))
    truth = value("uniform")
    for each in found["uniform", "ips", "normal"]:
        assert each.value < truth - 0.05
        assert any("expected" in note or "could not play" in note for note in each.caveats)
    for each in found["uniform", "ips", "proven"]:
        assert each.interval[0] <= truth <= each.interval[1]
