"""The scalar functions behind the certificates, against their definitions in exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from numpy.testing import assert_allclose

from fedglb.parts.self_concordance import (
    heat_factor,
    lower_curvature,
    newton_gap,
    omega,
    safe_step,
    taylor_excess,
    upper_curvature,
)


def omega_series(kappa):
    """Σ κ^j/((j+1)(j+2)), summed exactly until its geometric tail is below 1e-18."""
    total, power, j = Fraction(0), Fraction(1), 0
    ratio = Fraction(kappa).limit_denominator(10**6)
    while power / ((j + 1) * (j + 2)) / (1 - ratio) > Fraction(1, 10**18):
        total += power / ((j + 1) * (j + 2))
        power *= ratio
        j += 1
    return float(ratio), float(total)


@pytest.mark.parametrize("kappa", [0.0, 1e-6, 1e-3, 0.009999, 0.01, 0.010001, 0.03, 0.2, 0.5, 0.8])
def test_omega_is_its_series(kappa):
    argument, expected = omega_series(kappa)
    # the closed form loses 1/κ = 100 ulps just above its threshold
    assert_allclose(omega(argument), expected, rtol=1e-13)


def test_omega_at_its_ends():
    assert omega(0.0) == 0.5
    assert_allclose(omega(1.0 - 1e-12), 1.0, rtol=1e-10)
    for bad in (1.0, 1.5, math.inf, math.nan):
        assert omega(bad) == math.inf


def test_newton_gap():
    decrement, s, smallest = 0.3, 1.5, 4.0
    kappa = 1.5 * 0.3 / 2.0
    expected = 0.09 * (kappa + (1.0 - kappa) * math.log(1.0 - kappa)) / kappa**2
    assert_allclose(newton_gap(decrement, s, smallest), expected, rtol=1e-13)
    assert newton_gap(0.3, 0.0, 4.0) == 0.5 * 0.3 * 0.3
    assert newton_gap(3.0, 1.0, 4.0) == math.inf
    assert newton_gap(0.0, 1.0, 4.0) == 0.0


@pytest.mark.parametrize("u", [0.0, 1e-9, 1e-4, 9.999e-4, 1e-3, 1.001e-3, 0.1, 1.0, 5.0])
def test_taylor_excess(u):
    exact = sum(Fraction(u) ** k / math.factorial(k + 1) for k in range(1, 60))
    # expm1(u) − u loses 1/u = 1000 ulps just above the threshold
    assert_allclose(taylor_excess(u), float(exact), rtol=1e-12)


def test_safe_step():
    for r in (0.0, 0.5, 1.79):
        assert safe_step(r) == 1.0
        assert r == 0.0 or (math.expm1(r) - r) / r**2 <= 1.0  # what makes a full step safe
    for r in (1.8, 3.0, 50.0):
        assert_allclose(safe_step(r), math.log1p(r) / r, rtol=1e-15)
        assert 0.0 < safe_step(r) < 1.0
        # Φ(θ + tp) − Φ ≤ ‖p‖²_H(−t + (e^{tr} − 1 − tr)/r²), which this t makes negative
        t = safe_step(r)
        assert -t + (math.expm1(t * r) - t * r) / r**2 < 0.0


@pytest.mark.parametrize("r", [0.0, 1e-300, 1e-9, 1e-3, 0.1, 0.4999, 0.5, 0.5001, 1.0, 3.0, 10.0])
def test_curvatures_are_their_series(r):
    terms = [2 * Fraction(r) ** k / math.factorial(k + 2) for k in range(80)]
    assert_allclose(upper_curvature(r), float(sum(terms)), rtol=2e-15)
    lower = sum(term * (-1) ** k for k, term in enumerate(terms))
    assert_allclose(lower_curvature(r), float(lower), rtol=2e-15)


@pytest.mark.parametrize("v", [0.0, 5e-324, 1e-9, 1e-3, 0.5, 3.0, 20.0])
def test_heat_factor_is_its_series(v):
    terms = (Fraction(v / 2.0) ** k / math.factorial(k + 1) for k in range(80))
    assert_allclose(heat_factor(v), float(sum(terms)), rtol=1e-15)


def test_far_out_nothing_overflows_to_nan():
    assert lower_curvature(math.inf) == 0.0
    assert_allclose(lower_curvature(1e200), 2e-200, rtol=1e-15)
    assert 1e300 < upper_curvature(709.0) < math.inf
    assert 1e300 < heat_factor(1418.0) < math.inf
    for large in (1e4, 1e200, math.inf):
        assert upper_curvature(large) == math.inf
        assert heat_factor(large) == math.inf
