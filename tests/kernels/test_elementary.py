"""exp, log and the circle's coordinates against 50 digits, and the same bits in loops."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from fedglb.kernels.compile import kernel
from fedglb.kernels.elementary import exp, log, on_circle, small_number

ULPS = 2.0
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494")


def ulps(value, exact):
    """The distance of a float from an exact value, in units of the last place of the latter."""
    nearest = abs(float(exact))
    return float(abs(Decimal(value) - exact) / Decimal(math.ulp(nearest)))


def cosine(x):
    """cos x in decimal digits, |x| ≤ 7, by its series."""
    total = term = Decimal(1)
    for k in range(1, 40):
        term *= -x * x / ((2 * k - 1) * (2 * k))
        total += term
    return total


@pytest.fixture(autouse=True)
def fifty_digits():
    with localcontext() as context:
        context.prec = 60
        yield


def between(low, high, n, seed):
    rng = np.random.default_rng(seed)
    return np.concatenate([np.linspace(low, high, n // 2), rng.uniform(low, high, n // 2)])


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (-1e-300, 1e-300), (-1e-9, 1e-9), (-0.4, 0.4), (-40.0, 40.0), (-708.0, 709.78),
        (-745.2, -708.0),  # below the normal numbers the last place is 2⁻¹⁰⁷⁴
    ],
)  # fmt: skip
def test_exp_is_within_two_ulp(low, high):
    worst = max(ulps(exp(x), Decimal(x).exp()) for x in between(low, high, 2000, 1))
    assert worst <= ULPS


def test_exp_at_the_ends():
    assert exp(0.0) == exp(-0.0) == 1.0
    assert exp(math.inf) == exp(1e308) == exp(709.8) == math.inf
    assert exp(-math.inf) == exp(-1e308) == exp(-746.0) == 0.0
    assert math.isnan(exp(math.nan))


def test_exp_is_never_lower_where_x_is_higher():
    x = np.sort(between(-5.0, 5.0, 4000, 3))
    assert (np.diff([exp(v) for v in x]) >= 0.0).all()


@pytest.mark.parametrize(
    ("low", "high"),
    [(2.0**-53, 1e-10), (1e-10, 0.5), (0.5, 1.0 - 1e-9), (1.0 + 1e-9, 2.0), (2.0, 1e300)],
)
def test_log_is_within_two_ulp(low, high):
    values = np.exp(between(math.log(low), math.log(high), 2000, 4))
    worst = max(ulps(log(x), Decimal(x).ln()) for x in values if x != 1.0)
    assert worst <= ULPS


def test_log_next_to_one():
    assert log(1.0) == 0.0
    for x in (1.0 - 2.0**-53, 1.0 + 2.0**-52, 0.7071067811865475, 0.7071067811865476):
        assert ulps(log(x), Decimal(x).ln()) <= ULPS


def test_the_circle_is_within_two_ulp():
    values = np.concatenate(
        [between(0.0, 1.0, 2000, 5), [2.0**-53, 1e-9, 0.125, 0.375, 1 - 2**-53]]
    )
    worst = 0.0
    for v in values:
        x, y = on_circle(v)
        turn = 2 * PI * Decimal(v)
        for got, exact in ((x, cosine(turn)), (y, cosine(turn - PI / 2))):
            if abs(exact) > Decimal("1e-40"):  # at a quarter the exact value is 0
                worst = max(worst, ulps(got, exact))
    assert worst <= ULPS


def test_quarters_are_exact():
    quarters = [on_circle(0.25 * k) for k in range(5)]
    assert quarters == [(1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0), (1.0, 0.0)]


def test_small_whole_numbers():
    for n in (0, 1, 2**32 - 1, 2**52 - 1):
        assert small_number(np.uint64(n)) == float(n)


@kernel
def in_a_loop(x, v, exps, logs, xs, ys):
    for k in range(x.shape[0]):
        exps[k] = exp(x[k])
    for k in range(x.shape[0]):
        logs[k] = log(v[k])
    for k in range(x.shape[0]):
        xs[k], ys[k] = on_circle(v[k])


def test_a_loop_has_the_bits_of_single_calls():
    x, v = np.linspace(-800.0, 800.0, 1003), np.linspace(1e-12, 1.0, 1003)
    exps, logs, xs, ys = np.empty((4, 1003))
    in_a_loop(x, v, exps, logs, xs, ys)
    assert_array_equal(exps, [exp(a) for a in x])
    assert_array_equal(logs, [log(a) for a in v])
    assert_array_equal(list(zip(xs, ys, strict=True)), [on_circle(a) for a in v])
