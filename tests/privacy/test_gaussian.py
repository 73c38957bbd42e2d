from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
from mpmath import exp, findroot, log, mp, mpf, ncdf

import fedglb as fg
from fedglb.privacy.accounting import SMOOTHING, gdp_mu
from fedglb.privacy.factorisation import factors
from fedglb.privacy.fixed_point import BITS, UNIT, size
from tests.privacy.packing import pack, quantised

PROBLEM = fg.Problem(dim=10)


def planned(problem=PROBLEM, clients=200, updates=30, **given):
    return fg.GaussianMechanism(**{"epsilon": 1.0, "delta": 1e-6, **given}).plan(
        problem, clients, updates
    )


def test_noise_by_hand():
    plan, s = planned(), 0.3
    mu, growth = gdp_mu(1.0, 1e-6), factors(30).growth(30)
    z = np.linspace(-1.0, 1.0, 100_001)
    mean = 1.0 / (1.0 + np.exp(-z))
    slope = mean * (1.0 - mean)
    residuals = np.maximum(1.0 - mean + slope * z, mean - slope * z)
    residual = float(residuals.max())
    together = np.sqrt((1 - s) * (residuals / residual) ** 2 + s * (slope / 0.25) ** 2).max()
    vector = residual * growth * together / (mu * math.sqrt(1.0 - s))
    matrix = 0.25 * growth * together / (mu * math.sqrt(s))
    assert vector <= plan.vector_noise <= vector * (1.0 + 1e-4)  # the margin of a grid
    assert matrix <= plan.matrix_noise <= matrix * (1.0 + 1e-4)
    assert plan.honest == 180
    assert plan.vector_share == pytest.approx(plan.vector_noise / math.sqrt(180))
    assert plan.matrix_share == pytest.approx(plan.matrix_noise / math.sqrt(180))
    assert (plan.mu, plan.updates, plan.dim, plan.clients) == (mu, 30, 10, 200)
    assert plan.rewards == (0.0, 1.0)
    assert (plan.residual_limit, plan.slope_limit) == (pytest.approx(residual), 0.25)


def test_noise_is_never_less_than_the_formula_says():
    for updates in (1, 30, 300):
        plan = planned(updates=updates)
        m, growth, s = size(10), factors(updates).growth(updates), plan.hessian_share
        vector, matrix = (
            plan.vector_noise * math.sqrt(1 - s), plan.matrix_noise * math.sqrt(s),
        )  # fmt: skip
        unit = math.sqrt(m) * UNIT * math.hypot(1 / plan.vector_noise, 1 / plan.matrix_noise)
        exact = growth * plan.joint * plan.vector_bound / vector
        assert exact == pytest.approx(growth * plan.joint * plan.matrix_bound / matrix, rel=1e-12)
        assert exact + (growth + math.sqrt(updates)) * unit == pytest.approx(plan.mu, rel=1e-12)
        assert plan.spent(updates) == pytest.approx(plan.mu, rel=1e-12)


def test_silo_noise_is_all_of_it_at_every_client():
    sums, silo = planned(), planned(noise="silo")
    assert silo.honest == 1
    assert silo.vector_share == silo.vector_noise == sums.vector_noise
    assert silo.matrix_share == silo.matrix_noise == sums.matrix_noise


def test_what_is_encoded_is_decoded():
    plan, rng = planned(), np.random.default_rng(1)
    batches = {b: rng.integers(-(2**50), 2**50, size=size(10)) for b in range(1, 31)}
    releases = {}
    for b in range(1, 31):
        so_far = {j: batches[j] for j in range(1, b + 1)}
        releases[b] = plan.encoded(so_far, b).astype(float)
        found = plan.decoded(releases, b)
        # each release is rounded by half a unit at most, and doubles have 53 bits
        exact, slack = np.sum(list(so_far.values()), axis=0), 0.5 * factors(30).decoder[b - 1].sum()
        assert np.abs(found - exact).max() <= slack + 2.0**-50 * 30 * 2**50


def test_replace_and_contributions():
    plan, replaced, thrice = planned(), planned(neighbours="replace"), planned(contributions=3)
    # opposite arms: v differs by twice its bound, and H not at all
    expected = 2.0 * replaced.residual_limit / plan.mu
    assert expected <= replaced.vector_noise <= expected * 1.002
    assert replaced.matrix_noise <= math.sqrt(2.0) * plan.matrix_noise
    assert thrice.vector_noise == pytest.approx(3.0 * plan.vector_noise, rel=1e-12)
    assert thrice.matrix_noise == pytest.approx(3.0 * plan.matrix_noise, rel=1e-12)


@pytest.mark.parametrize(
    ("honest", "clients", "least", "found"),
    [
        # in a simulation everybody is in every sum
        (0.9, 20, None, (18, 20)), (0.55, 20, None, (11, 20)), (0.9, 10, None, (9, 10)),
        (0.9, 9, None, (8, 9)), (1.0, 7, None, (6, 7)), (0.9, 2, None, (1, 2)),
        (0.9, 1, None, (1, 1)), (0.01, 5, None, (1, 5)),
        # in a federation a sum has the agreed minimum, and those trusted
        (0.9, 20, 5, (17, 18)), (0.9, 20, 18, (17, 18)), (0.9, 20, 19, (18, 19)),
        (0.8, 20, 18, (16, 18)), (0.9, 5, 5, (4, 5)), (0.9, 3, 3, (2, 3)), (0.1, 9, 3, (1, 3)),
    ],
)  # fmt: skip
def test_how_many_are_honest_and_in_a_sum(honest, clients, least, found):
    gaussian = fg.GaussianMechanism(1.0, 1e-6, honest=honest)
    plan = gaussian.plan(PROBLEM, clients, 30, least)
    assert (plan.honest, plan.members) == found
    assert plan.members > plan.honest or clients == 1
    silo = dataclasses.replace(gaussian, noise="silo").plan(PROBLEM, clients, 30, least)
    assert (silo.honest, silo.members) == (1, 1)


def exact_epsilon(mu, delta):
    """ε of the Gaussian mechanism: the root of its δ(ε), which is written out here."""
    with mp.workdps(40):
        e, m = mpf(1), mpf(mu)

        def off(e):
            return log((ncdf(m / 2 - e / m) - exp(e) * ncdf(-m / 2 - e / m)) / delta)

        return float(findroot(off, (e, 1.2 * e)))


@pytest.mark.parametrize(("shares", "epsilon"), [(3, 1.245), (5, 1.128), (9, 1.066)])
def test_a_client_that_knows_one_share_of_too_few(shares, epsilon):
    """What ε = 1 becomes if h shares make the noise, and one of just these h is known."""
    plan = planned(clients=shares + 1, honest=1.0)
    assert (plan.honest, plan.members) == (shares, shares + 1)
    assert exact_epsilon(plan.mu, mpf(10) ** -6) == pytest.approx(1.0, abs=1e-10)
    mu = gdp_mu(1.0, 1e-6) * math.sqrt(shares / (shares - 1))
    assert plan.against(2) == pytest.approx(mu, rel=1e-12)
    assert exact_epsilon(mu, mpf(10) ** -6) == pytest.approx(epsilon, abs=5e-4)


@pytest.mark.parametrize("least", [None, 3])
@pytest.mark.parametrize("clients", [2, 3, 5, 9, 10, 11, 30])
def test_the_noise_towards_every_other_client_is_as_promised(clients, least):
    """From the shares that are drawn: all of the smallest sum but one add up to σ² and more."""
    gaussian = fg.GaussianMechanism(1.0, 1e-6)
    plan = gaussian.plan(PROBLEM, clients, 30, None if least is None else min(least, clients))
    sigmas = (plan.vector_noise, plan.matrix_noise)
    for variance, sigma in zip(plan.share_variance(), sigmas, strict=True):
        others = (plan.members - 1) * variance
        assert others >= Fraction(sigma) ** 2 * 4**BITS + SMOOTHING
    assert plan.against(plan.members - plan.honest) == plan.mu
    assert plan.against(0) <= plan.against(1) <= plan.mu
    if plan.honest > 1:
        assert plan.against(plan.members - plan.honest + 1) > plan.mu
    assert plan.against(clients - 1) == plan.mu * math.sqrt(plan.honest)  # one's own share is left
    with pytest.raises(fg.InvalidInput, match=f"colluding = {clients}"):
        plan.against(clients)


@pytest.mark.parametrize("noise", ["sums", "silo"])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 50.0])
def test_variances_of_shares_are_rounded_up(noise, epsilon):
    plan = planned(noise=noise, epsilon=epsilon)
    for variance, sigma in zip(
        plan.share_variance(), (plan.vector_noise, plan.matrix_noise), strict=True
    ):
        exact = Fraction(sigma) ** 2 * 4**BITS / plan.honest
        assert variance >= exact + SMOOTHING
        assert variance <= exact * Fraction(1 + 1e-11) + SMOOTHING + 1
    scales = plan.scales()
    assert scales.shape == (65,)
    assert set(scales[:10]) == {math.sqrt(plan.share_variance()[0])}
    assert set(scales[10:]) == {math.sqrt(plan.share_variance()[1])}


@pytest.mark.parametrize("slots", [range(1, 31), [2, 3, 9, 30], [30]])
def test_two_neighbouring_streams_are_as_near_as_promised(slots):
    """All releases of a client, with and without one sample, first in any of its batches."""
    plan, rng = planned(fg.Problem(dim=3)), np.random.default_rng(3)
    x = np.array([1.0, 0.0, 0.0])
    mean = 1.0 / (1.0 + math.exp(-1.0))
    worst = 0.0
    for pull, slope in ((mean - mean * (1.0 - mean), mean * (1.0 - mean)), (0.5, 0.25)):
        sample = quantised(pack(x * pull, np.outer(x, x) * slope))
        for first in slots:
            batches, changed, apart = {}, {}, 0.0
            for b in slots:
                batches[b] = rng.integers(-(2**58), 2**58, size=size(3))
                changed[b] = batches[b] + (sample if b == first else 0)
                shift = (plan.encoded(changed, b) - plan.encoded(batches, b)) * UNIT
                apart += (shift[:3] ** 2).sum() / plan.vector_noise**2
                apart += (shift[3:] ** 2).sum() / plan.matrix_noise**2
            worst = max(worst, math.sqrt(apart))
    assert worst <= plan.mu
    assert worst <= plan.spent(max(slots))
    if len(slots) == 30:  # what is promised is what it is
        assert worst >= plan.mu * (1.0 - 1e-4)


def test_rewards_without_a_bound_need_a_limit():
    for problem in (fg.Problem(2, fg.Identity()), fg.Problem(2, fg.Poisson(), noise=1.0)):
        with pytest.raises(fg.InvalidInput, match="reward_limit = None") as caught:
            planned(problem)
        assert "have no bound" in str(caught.value)
    assert planned(fg.Problem(2, fg.Identity()), reward_limit=3.0).rewards == (-3.0, 3.0)
    poisson = planned(fg.Problem(2, fg.Poisson(), noise=1.0), reward_limit=5.0)
    assert poisson.rewards == (0.0, 5.0)
    assert poisson.residual_limit == pytest.approx(5.0)  # y − e + e at z = 1
    assert planned(reward_limit=7.0).rewards == (0.0, 1.0)
    assert planned(fg.Problem(2, fg.Identity()), reward_limit=3.0).residual_limit == 3.0


def test_noise_that_does_not_fit_is_refused():
    with pytest.raises(fg.InvalidInput, match=r"epsilon = 0\.01.*64 bits"):
        planned(fg.Problem(2, fg.Identity()), epsilon=0.01, reward_limit=1e6)


@pytest.mark.parametrize(("clients", "updates"), [(0, 1), (1, 0), (1, 4000)])
def test_a_plan_for_nobody_is_refused(clients, updates):
    with pytest.raises(fg.InvalidInput):
        planned(clients=clients, updates=updates)


@pytest.mark.parametrize("members", [0, 6, 2.5])
def test_sums_over_more_than_there_are_are_refused(members):
    with pytest.raises(fg.InvalidInput, match="members = "):
        fg.GaussianMechanism(1.0, 1e-6).plan(PROBLEM, 5, 30, members)
