"""Lemma 34 for discrete noise, step by step as docs/theory.md, section 10.1, proves it.

Nothing here is taken from the code but the plan of the noise, and what is refused.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import gammaln

import fedglb as fg

DIMS = [1, 2, 3, 10, 55, 300, 1400]


def t_of(B, delta):
    return math.sqrt(2.0 * math.log(2.0 * B * (B + 1) / delta))


def least_noise(d, t):
    """The right side of (10.0)."""
    return 36.0 * math.sqrt(2.0 * d) * (t + math.sqrt(5.0 * d + 20.0))


def largest_epsilon(d, t, slope, ratio):
    """The last formula of the section."""
    return 2.2e14 * ratio * slope**2 / (d * (t + math.sqrt(5.0 * d + 20.0)) ** 2)


def test_the_room_in_the_mean():
    d = np.arange(1, 1403)
    room = d - 2.0 * np.exp(2.0 * (gammaln((d + 1) / 2) - gammaln(d / 2)))
    np.testing.assert_allclose(  # the recursion of the proof
        room[2:], room[:-2] + (room[:-2] * (2 + 1 / d[:-2]) - 1) / d[:-2], atol=1e-8
    )
    assert (room >= d / (2 * d + 1)).all()
    assert (np.sqrt(2 * (d - room)) <= np.sqrt(2 * d) - 1 / (3 * np.sqrt(2 * d))).all()


@pytest.mark.parametrize("smoothing", [0.5, 0.8, 3.0])
def test_the_discrete_part_is_as_sub_gaussian_as_said(smoothing):
    """At 3 nobody could see a difference; at ½ the factor is needed."""
    variance = smoothing**2
    eta = 3.0 * math.exp(-2.0 * math.pi**2 * variance)
    whole, needed = np.arange(-60, 61), 0.0
    for y in np.linspace(0.0, 1.0, 21):
        chance = np.exp(-((whole - y) ** 2) / (2 * variance))
        for rate in np.linspace(-3.0, 3.0, 25):
            mean = float(chance @ np.exp(rate * (whole - y)) / chance.sum())
            needed = max(needed, mean / math.exp(0.5 * rate**2 * variance))
    assert needed <= (1 + eta) / (1 - eta) * (1 + 1e-12)
    if smoothing == 0.5:
        assert needed > 1.01


@pytest.mark.parametrize("d", DIMS)
@pytest.mark.parametrize(("B", "delta"), [(1, 0.999), (1, 1e-9), (30, 0.01), (2047, 1e-3)])
def test_both_ways_to_fail_fit_into_the_probability_of_normal_noise(d, B, delta):
    t, room = t_of(B, delta), 1.0 / (6.0 * math.sqrt(2.0 * d))
    y = t + math.sqrt(5.0 * d + 20.0)
    # (10.0) makes 6y√(Φ/c) at most the room, in units of σ√Φ
    assert 6.0 * y / least_noise(d, t) == pytest.approx(room, rel=1e-12)
    normal = math.exp(0.5 * t**2 - 0.5 * (t + room) ** 2)
    discrete = math.exp(0.5 * t**2 + d * math.log(9.0) - 0.5 * y**2)
    eta = 3.0 * math.exp(-18.0 * math.pi**2)
    factor = 2.0 * 3.0 * eta * B * d * (d + 1) / 2 * 10**9  # 2a for a billion clients
    assert factor < 1e-40
    assert normal + discrete <= (1.0 - 0.17 / math.sqrt(d)) * (1.0 - factor)


SETTINGS = [(2, 3, 5, 0.1), (10, 200, 30, 0.01), (55, 2000, 64, 0.01), (200, 20, 10, 1e-6)]


def proven(d, clients, B, delta, epsilon):
    privacy = fg.GaussianMechanism(epsilon, 1e-6)
    algorithm = fg.fedglb_private(B, 1, privacy, 2.0, fg.OnePassRadius(), delta=delta)
    return algorithm.setting(fg.Problem(d), clients, None)


@pytest.mark.parametrize(("d", "clients", "B", "delta"), SETTINGS)
def test_up_to_which_epsilon_the_set_is_proven(d, clients, B, delta):
    plan = proven(d, clients, B, delta, 1.0).noise
    t = t_of(B, delta)
    bound = largest_epsilon(d, t, 0.25, clients / plan.honest)
    assert bound > 1e6
    plan = proven(d, clients, B, delta, bound).noise
    assert math.sqrt(plan.share_variance()[1] * clients) >= least_noise(d, t)
    assert plan.mu <= math.sqrt(2.0 * bound)
    with pytest.raises(fg.InvalidInput, match=r"confidence = .*OnePassRadius.*smaller epsilon"):
        proven(d, clients, B, delta, 10.0 * bound)


def test_how_far_discrete_noise_is_from_rounded_noise():
    """Total variation, summed: 0.02/σ² a number, so over a run it is not below any constant."""
    for sigma in (10.0, 30.0, 100.0):
        k = np.arange(-12 * sigma, 12 * sigma + 1)
        edges = np.append(k - 0.5, k[-1] + 0.5) / sigma
        rounded = np.diff([0.5 * math.erfc(-e / math.sqrt(2.0)) for e in edges])
        discrete = np.exp(-(k**2) / (2 * sigma**2))
        apart = 0.5 * np.abs(discrete / discrete.sum() - rounded).sum()
        assert apart == pytest.approx(0.0202 / sigma**2, rel=0.005)
    d, clients, B = 55, 2000, 64
    plan = proven(d, clients, B, 0.01, 8.0).noise
    numbers = clients * B * d * (d + 1) / 2
    assert numbers * 0.02 / float(plan.share_variance()[1]) > 1e-10
