"""The bounds on what one sample adds; `test_sensitivity_of_releases` tries them on clients."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fedglb as fg
from fedglb.privacy.sensitivity import residual_bound, sensitivities
from tests.links.families import FAMILIES, Bump, Dip
from tests.privacy.worst_case import contribution

RANGES = {"poisson": (0.0, 4.0), "identity": (-2.0, 2.0)}


@pytest.mark.parametrize("radius", [0.5, 1.0, 2.0, 3.0, 10.0])
@pytest.mark.parametrize("link", [*(family.link for family in FAMILIES.values()), Dip(), Bump()])
def test_the_residual_bound_is_the_largest_residual(link, radius):
    """For a link of a user's own it is searched, with a margin."""
    low, high = RANGES.get(link.name, (0.0, 1.0))
    z = np.linspace(-radius, radius, 1_000_003)
    intercept = link.mean(z) - link.variance(z) * z
    truth = max(high - intercept.min(), intercept.max() - low)
    bound, packages_own = residual_bound(link, radius, (low, high)), link.name in fg.links.LINKS
    if packages_own:
        assert truth * (1.0 - 1e-12) <= bound <= truth * (1.0 + 1e-9)
    else:
        assert truth <= bound <= truth * 1.01


@pytest.mark.parametrize("radius", [1.0, 3.0])
@pytest.mark.parametrize("name", ["logistic", "probit", "poisson", "identity"])
def test_some_samples_reach_the_bounds(name, radius):
    """v of one sample and of two opposite ones; H of one and of two that are orthogonal."""
    link, rewards = FAMILIES[name].link, RANGES.get(name, (0.0, 1.0))
    problem = fg.Problem(2, link, radius, noise=1.0)
    along = np.linspace(-radius, radius, 20_001)[:, None]
    theta = along * [1.0, 0.0]
    x, opposite, orthogonal = (np.tile(a, (len(along), 1)) for a in ([1, 0], [-1, 0], [0, 1]))
    bounds = {
        kind: sensitivities(residual_bound(link, radius, rewards), problem.k_mu, kind, 1)
        for kind in ("zero-out", "replace")
    }
    largest = {kind: [0.0, 0.0] for kind in bounds}
    for y in rewards:
        v, H = contribution(problem, theta, x, np.full(len(along), y))
        sizes = np.linalg.norm(v, axis=1).max(), np.linalg.norm(H, axis=(1, 2)).max()
        largest["zero-out"] = np.maximum(largest["zero-out"], sizes)
        other, _ = contribution(problem, -theta, opposite, np.full(len(along), y))
        best = np.abs(v[:, 0]).argmax()
        _, aside = contribution(problem, theta[:, ::-1], orthogonal, np.full(len(along), y))
        sizes = (
            np.linalg.norm(v[best] - other[best]),
            np.linalg.norm(H - aside, axis=(1, 2)).max(),
        )
        largest["replace"] = np.maximum(largest["replace"], sizes)
    for kind, bound in bounds.items():
        assert (largest[kind] <= bound).all()
        assert (largest[kind] >= 0.999999 * np.array(bound)).all()


def test_a_subclass_with_another_mean_is_searched():
    class Steeper(fg.Logistic):
        name = "steeper"

        @staticmethod
        def scalar_mean(z):
            return 1.0 / (1.0 + math.exp(-3.0 * z))

        @staticmethod
        def scalar_variance(z):
            return 3.0 * math.exp(-3.0 * z) / (1.0 + math.exp(-3.0 * z)) ** 2

    h = lambda z: 1.0 / (1.0 + math.exp(-z)) - z * math.exp(-z) / (1.0 + math.exp(-z)) ** 2  # noqa: E731
    assert residual_bound(Steeper(), 1.0, (0.0, 1.0)) == pytest.approx(h(3.0), rel=1e-3)
