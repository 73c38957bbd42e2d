from __future__ import annotations

import math

import numpy as np
import pytest

import fedglb as fg
from fedglb.privacy.fixed_point import UNIT, size
from fedglb.privacy.sensitivity import residual_bound, sensitivities
from tests.links.families import FAMILIES, Bump, Dip
from tests.privacy.packing import pack, quantised

LINKS = ["logistic", "probit", "poisson", "identity"]
RANGES = {"poisson": (0.0, 4.0), "identity": (-2.0, 2.0)}
D = 3


def samples(family, radius, x, theta, y):
    """Return v and H of samples by the link's formulas, in whole numbers."""
    z = np.clip(np.einsum("nd,nd->n", x, theta), -radius, radius)
    w = family.slope(z)
    v = x * (y - family.mean(z) + w * z)[:, None]
    return quantised(pack(v, w[:, None, None] * x[:, :, None] * x[:, None, :])).astype(float) * UNIT


def in_ball(points, radius):
    norms = np.linalg.norm(points, axis=-1, keepdims=True)
    return points * np.minimum(1.0, radius / np.maximum(norms, 1e-300))


def drawn(rng, count, radius, rewards):
    """Return x, θ and y; a third of the norms and of the rewards are as large as they can be."""
    x, theta = rng.normal(size=(2, count, D))
    for points, most in ((x, 1.0), (theta, radius)):
        points *= most / np.linalg.norm(points, axis=1, keepdims=True)
        points *= np.where(rng.random(count) < 0.33, 1.0, rng.random(count))[:, None]
    y = rng.uniform(*rewards, size=count)
    return x, theta, np.where(rng.random(count) < 0.33, rng.choice(rewards, size=count), y)


def distances(family, radius, first, second):
    """Return norms in v and in H: of one sample, or of the difference of two."""
    numbers = samples(family, radius, *first)
    if second is not None:
        numbers = numbers - samples(family, radius, *second)
    return np.linalg.norm(numbers[:, :D], axis=1), np.linalg.norm(numbers[:, D:], axis=1)


def climbed(rng, family, radius, rewards, pair, part, count=1000, steps=300):
    """Return the norms in v (part 0) or H (part 1) after a random climb from `count` starts."""
    now = [drawn(rng, count, radius, rewards) for _ in range(2 if pair else 1)]
    best = distances(family, radius, now[0], now[1] if pair else None)[part]
    for step in range(steps):
        scale = 0.5 * 0.985**step
        new = [
            (
                in_ball(x + scale * rng.normal(size=x.shape), 1.0),
                in_ball(theta + scale * radius * rng.normal(size=x.shape), radius),
                np.clip(y + scale * rng.normal(size=count) * (rewards[1] - rewards[0]), *rewards),
            )
            for x, theta, y in now
        ]
        found = distances(family, radius, new[0], new[1] if pair else None)[part]
        up = found > best
        best = np.where(up, found, best)
        now = [
            tuple(
                np.where(up[:, None] if a.ndim == 2 else up, b, a)
                for a, b in zip(o, n, strict=True)
            )
            for o, n in zip(now, new, strict=True)
        ]
    return best


@pytest.mark.some(5)
@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
@pytest.mark.parametrize("radius", [1.0, 3.0])
@pytest.mark.parametrize("name", LINKS)
def test_no_sample_exceeds_the_bounds_and_some_nearly_reach_them(name, radius, neighbours):
    family, rewards = FAMILIES[name], RANGES.get(name, (0.0, 1.0))
    rng = np.random.default_rng(LINKS.index(name))
    residual = residual_bound(family.link, radius, rewards)
    bounds = sensitivities(residual, family.link.k_mu(radius), neighbours, 1)
    rounding = math.sqrt(size(D)) * UNIT
    pair = neighbours == "replace"
    many = [drawn(rng, 100_000, radius, rewards) for _ in range(2 if pair else 1)]
    norms = distances(family, radius, many[0], many[1] if pair else None)
    for part, bound in enumerate(bounds):
        best = climbed(rng, family, radius, rewards, pair, part)
        assert max(norms[part].max(), best.max()) <= bound + rounding
        assert best.max() >= 0.97 * bound


def test_equality_is_reached_for_logistic():
    bound = residual_bound(fg.Logistic(), 1.0, (0.0, 1.0))
    assert bound == pytest.approx(0.5344, abs=5e-5)
    x = theta = np.array([[1.0, 0.0, 0.0]])
    v, H = distances(FAMILIES["logistic"], 1.0, (x, theta, np.zeros(1)), None)
    assert v[0] == pytest.approx(bound, abs=UNIT)
    v, H = distances(FAMILIES["logistic"], 1.0, (x, 0.0 * theta, np.zeros(1)), None)
    assert H[0] == pytest.approx(0.25, abs=UNIT)


def test_two_orthogonal_arms_reach_root_two():
    arms = np.eye(D)[:2]
    H = [samples(FAMILIES["logistic"], 1.0, x[None], 0.0 * x[None], np.zeros(1)) for x in arms]
    bound = sensitivities(1.0, 0.25, "replace", 1)[1]
    assert np.linalg.norm((H[0] - H[1])[0, D:]) == pytest.approx(bound, abs=1e-8)


def test_the_difference_of_two_rank_one_matrices():
    rng = np.random.default_rng(5)
    A, B = rng.normal(size=(2, 1000, 4))
    A, B = (in_ball(points, 1.0) for points in (A, B))
    outer = [np.einsum("ni,nj->nij", points, points) for points in (A, B)]
    assert (np.einsum("nij,nji->n", *outer) >= 0.0).all()
    assert np.linalg.norm(outer[0] - outer[1], axis=(1, 2)).max() <= math.sqrt(2.0)


@pytest.mark.parametrize("link", [FAMILIES["hyperbolic"].link, Dip(), Bump()])
@pytest.mark.parametrize("radius", [0.5, 2.0, 10.0])
def test_the_bound_of_a_link_of_ones_own(link, radius):
    rewards = (0.0, 1.0)
    z = np.linspace(-radius, radius, 1_000_003)
    intercept = link.mean(z) - link.variance(z) * z
    truth = max(rewards[1] - intercept.min(), intercept.max() - rewards[0])
    assert truth <= residual_bound(link, radius, rewards) <= truth * 1.01


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


def test_contributions_multiply():
    one, three = (sensitivities(0.5, 0.25, "zero-out", k) for k in (1, 3))
    assert three == pytest.approx([3.0 * x for x in one], rel=1e-15)
