from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from dp_accounting import ZCDpEvent, get_epsilon_gaussian, get_sigma_gaussian
from dp_accounting.pld.privacy_loss_mechanism import DiscreteGaussianPrivacyLoss
from dp_accounting.rdp import RdpAccountant
from mpmath import exp, mp, mpf, ncdf
from scipy.integrate import quad

import fedglb as fg
from fedglb.privacy.accounting import gdp_delta, gdp_epsilon, gdp_mu, zcdp_epsilon

WIDE = itertools.product([1e-6, 1e-3, 0.1, 1.0, 10.0, 100.0], [1e-15, 1e-12, 1e-6, 0.01, 0.5])


def exact_delta(epsilon, mu):
    """δ(ε) of the Gaussian mechanism with 60 digits."""
    with mp.workdps(60):
        e, m = mpf(epsilon), mpf(mu)
        return ncdf(m / 2 - e / m) - exp(e) * ncdf(-m / 2 - e / m)


def test_mu_is_that_of_dp_accounting():
    for epsilon in (0.1, 0.5, 1.0, 2.0, 8.0):
        sigma = get_sigma_gaussian(epsilon, 1e-6, tol=1e-15)
        assert gdp_mu(epsilon, 1e-6) == pytest.approx(1.0 / sigma, rel=2e-12)
        theirs = get_epsilon_gaussian(sigma, 1e-6, tol=1e-15)
        assert gdp_epsilon(1.0 / sigma, 1e-6) == pytest.approx(theirs, rel=1e-11)


def test_delta_has_thirteen_digits_and_mu_is_on_the_safe_side():
    for epsilon, delta in WIDE:
        mu = gdp_mu(epsilon, delta)
        exact = exact_delta(epsilon, mu)
        assert abs(gdp_delta(epsilon, mu) / exact - 1) < 1e-13, (epsilon, delta)
        assert exact <= delta < exact_delta(epsilon, mu * (1.0 + 2e-12)), (epsilon, delta)


def test_epsilon_is_on_the_safe_side_and_no_more():
    for mu, delta in itertools.product([1e-3, 0.2, 1.0, 9.0], [1e-12, 1e-6]):
        epsilon = gdp_epsilon(mu, delta)
        less = exact_delta(epsilon * (1.0 - 2e-12), mu)
        assert exact_delta(epsilon, mu) <= delta < less, (mu, delta)
    assert gdp_epsilon(0.0, 1e-6) == 0.0
    assert gdp_epsilon(1e-6, 1e-6) == 0.0
    assert zcdp_epsilon(0.0, 1e-6) == 0.0


@pytest.mark.parametrize(("interactions", "epsilon"), [(2, 2.12), (3, 3.32), (5, 5.93), (10, 13.5)])
def test_several_interactions_of_a_user(interactions, epsilon):
    assert gdp_epsilon(interactions * gdp_mu(1.0, 1e-6), 1e-6) == pytest.approx(epsilon, rel=0.004)


@pytest.mark.parametrize("mu", [0.0275, 0.2367, 1.5, 6.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.01])
def test_zcdp_is_that_of_dp_accounting(mu, delta):
    """The accountant has a list of orders; the best order of all is a little better than these."""
    best = 1.0 + math.sqrt(2.0 * math.log(1.0 / delta)) / mu
    orders = 1.0 + (best - 1.0) * np.geomspace(0.1, 10.0, 2001)
    accountant = RdpAccountant(orders=orders.tolist())
    accountant.compose(ZCDpEvent(rho=0.5 * mu * mu))
    theirs = accountant.get_epsilon(delta)
    ours = zcdp_epsilon(mu, delta)
    assert theirs * (1.0 - 1e-5) <= ours <= theirs * (1.0 + 1e-12)
    assert ours > gdp_epsilon(mu, delta)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (gdp_mu, (0.0, 1e-6)), (gdp_mu, (math.inf, 1e-6)), (gdp_mu, (1.0, 0.0)),
        (gdp_mu, (1.0, 1.0)), (gdp_epsilon, (-1.0, 1e-6)), (gdp_epsilon, (1.0, 1.0)),
        (zcdp_epsilon, (math.nan, 0.1)), (gdp_delta, (-1.0, 1.0)), (gdp_delta, (1.0, 0.0)),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(function, arguments):
    with pytest.raises(fg.InvalidInput):
        function(*arguments)


# -- the four steps from the continuous to the discrete Gaussian, where η is large enough to see --


def theta_sum(shift, variance):
    k = np.arange(-60, 61)
    return np.exp(-((k - shift) ** 2) / (2.0 * variance)).sum(axis=-1)


def discrete(variance, points):
    return np.exp(-(points**2) / (2.0 * variance)) / theta_sum(0.0, variance)


def eta(variance):
    return 3.0 * math.exp(-2.0 * math.pi**2 * variance)


def within(ratio, variance):
    """Return whether all ratios lie between (1 − η)/(1 + η) and its inverse."""
    limit = (1.0 + eta(variance)) / (1.0 - eta(variance))
    return (ratio <= limit * (1 + 1e-14)).all() and (ratio >= 1.0 / limit * (1 - 1e-14)).all()


@pytest.mark.parametrize("variance", [0.25, 0.5, 1.0])
def test_step_1_shifted_sums(variance):
    sums = np.array([theta_sum(c, variance) for c in np.linspace(0.0, 1.0, 41)])
    ratio = sums / math.sqrt(2.0 * math.pi * variance)
    assert np.abs(ratio - 1.0).max() <= eta(variance) + 1e-14
    assert np.abs(ratio - 1.0).max() >= 0.6 * eta(variance) - 1e-14  # it is of this order, too


@pytest.mark.parametrize("variances", [(0.5, 0.5), (0.6, 1.0), (1.0, 1.0)])
def test_step_2_shares(variances):
    points = np.arange(-40, 41)
    both = np.convolve(*(discrete(v, points) for v in variances))[40:-40][34:-34]
    one = discrete(sum(variances), points[34:-34])
    tau = variances[0] * variances[1] / sum(variances)
    assert within(both / one, tau)


@pytest.mark.parametrize(("variance", "smoothing"), [(2.0, 0.3), (2.0, 0.5), (4.0, 1.0)])
def test_step_3_discrete_from_continuous(variance, smoothing):
    rest = variance - smoothing

    def integrand(y, k):
        density = math.exp(-y * y / (2.0 * rest)) / math.sqrt(2.0 * math.pi * rest)
        return density * math.exp(-((k - y) ** 2) / (2.0 * smoothing)) / theta_sum(y, smoothing)

    points = np.arange(0, 7)
    made = [
        quad(integrand, -15, 20, args=(int(k),), epsabs=0, epsrel=1e-12, limit=400)[0]
        for k in points
    ]
    assert within(np.array(made) / discrete(variance, points), smoothing)


def discrete_delta(epsilon, shift, variance):
    """δ(ε) of the discrete Gaussian in one dimension: the sum over where P exceeds e^ε Q."""
    points = np.arange(-40 * math.isqrt(variance), 40 * math.isqrt(variance) + 1)
    p = np.exp(-(points**2) / (2.0 * variance))
    q = np.exp(-((points + shift) ** 2) / (2.0 * variance))
    return math.fsum(np.maximum(p - math.exp(epsilon) * q, 0.0)) / math.fsum(p)


@pytest.mark.parametrize("variance", [100, 10_000])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0])
def test_step_4_smoothed_discrete_noise_is_no_less_private(epsilon, variance):
    """In one dimension, summed exactly; s = 4 as in a plan."""
    for mu in (0.1, 0.3, 1.0):
        shift = round(mu * math.sqrt(variance))
        continuous = gdp_delta(epsilon, shift / math.sqrt(variance))
        assert discrete_delta(epsilon, shift, variance + 16) <= continuous + 1e-15


def test_the_sum_is_that_of_dp_accounting():
    theirs = DiscreteGaussianPrivacyLoss(10.0, sensitivity=3).get_delta_for_epsilon(0.5)
    assert discrete_delta(0.5, 3, 100) == pytest.approx(theirs, rel=1e-9)


def test_without_smoothing_discrete_noise_can_be_less_private():
    """So what a plan adds is not for nothing: here it is needed."""
    found = [
        discrete_delta(epsilon, shift, 100) > gdp_delta(epsilon, shift / 10.0)
        for epsilon in np.linspace(0.1, 2.0, 39)
        for shift in (1, 3, 10)
    ]
    assert any(found)
