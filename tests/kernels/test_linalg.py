"""The small dense linear algebra against NumPy, and the running inverse and log-determinant."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fedglb.kernels.linalg import (
    REFRESH_EVERY,
    add_outer,
    add_sample,
    cholesky,
    cholesky_by_rows,
    dot,
    inverse_quadratic,
    invert,
    is_definite,
    log_det,
    matvec,
    norm,
    quadratic,
    solve,
    solve_lower,
    solve_lower_transposed,
)

DIMENSIONS = [1, 2, 3, 8, 25, 60]
EPS = 2.0**-52


def positive_definite(rng, d, condition=100.0):
    Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
    values = np.geomspace(1.0, condition, d)
    A = (Q * values) @ Q.T
    return 0.5 * (A + A.T)


@pytest.mark.parametrize("d", DIMENSIONS)
def test_products(d):
    rng = np.random.default_rng(d)
    A, x, y = rng.standard_normal((d, d)), rng.standard_normal(d), rng.standard_normal(d)
    out = np.full(d, np.nan)
    matvec(A, x, out)
    # sums of d terms of order 1, in another order than BLAS
    atol = 4.0 * d * EPS * 3.0
    assert_allclose(out, A @ x, atol=atol)
    assert_allclose(dot(x, y), x @ y, atol=atol)
    assert_allclose(norm(x), np.linalg.norm(x), rtol=d * EPS)
    assert_allclose(quadratic(A, x), x @ A @ x, atol=d * atol)
    total, expected = np.zeros((2, d, d))
    for weight in (1.0, 0.3, -0.7, 1e-9):
        x = rng.standard_normal(d)
        add_outer(total, x, weight)
        expected += weight * np.outer(x, x)
        assert_array_equal(total, total.T)  # exactly
    assert_allclose(total, expected, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("condition", [1.0, 1e4, 1e9])
@pytest.mark.parametrize("d", DIMENSIONS)
def test_factorisations(d, condition):
    rng = np.random.default_rng(d)
    A, b = positive_definite(rng, d, condition), rng.standard_normal(d)
    L = np.zeros((d, d))
    assert cholesky(A, L)
    assert_array_equal(L, np.tril(L))
    # backward stable: L Lᵀ = A to rounding, whatever the condition
    assert_allclose(L @ L.T, A, rtol=0.0, atol=4.0 * d * EPS * condition)
    half, out = np.empty(d), np.empty(d)
    solve_lower(L, b, half)
    solve_lower_transposed(L, half, out)
    # errors of solutions grow with the condition
    loose = 40.0 * d * EPS * condition
    expected = np.linalg.solve(A, b)
    assert_allclose(out, expected, rtol=0.0, atol=loose * np.linalg.norm(expected))
    in_place = b.copy()
    solve_lower(L, in_place, in_place)
    assert_array_equal(in_place, half)
    solve_lower_transposed(L, in_place, in_place)
    assert_array_equal(in_place, out)
    assert_array_equal(solve(A, b), out)
    inverse = np.full((d, d), np.nan)
    assert invert(A, inverse)
    assert_array_equal(inverse, inverse.T)
    assert_allclose(inverse, np.linalg.inv(A), rtol=0.0, atol=loose * np.abs(inverse).max())
    assert_allclose(log_det(A), np.linalg.slogdet(A)[1], rtol=1e-14, atol=d * EPS * condition)


@pytest.mark.parametrize("factorise", [cholesky, cholesky_by_rows])
@pytest.mark.parametrize("d", [4, 40])
def test_only_the_lower_triangle_is_read(d, factorise):
    A = positive_definite(np.random.default_rng(2), d)
    expected, L = np.linalg.cholesky(A), np.zeros((d, d))
    A[np.triu_indices(d, 1)] = np.nan
    assert factorise(A, L)
    assert_allclose(L, expected, rtol=1e-13, atol=1e-14)


def test_short_and_long_rows_give_the_same_bits():
    for d in range(1, 25):
        A = positive_definite(np.random.default_rng(d), d)
        short, long = np.zeros((d, d)), np.zeros((d, d))
        assert cholesky(A, short)
        assert cholesky_by_rows(A, long)
        assert_array_equal(short, long)
        A[d // 2, d // 2] = -1.0  # the columns before a bad pivot are there, and no others
        short[:], long[:] = 0.0, 0.0
        assert not cholesky(A, short)
        assert not cholesky_by_rows(A, long)
        assert_array_equal(short[:, : d // 2], long[:, : d // 2])
        assert_array_equal(long[:, d // 2 :], 0.0)


@pytest.mark.parametrize(
    "A",
    [
        np.array([[1.0, 2.0], [2.0, 1.0]]),
        np.zeros((2, 2)),
        np.array([[1.0, 1.0], [1.0, 1.0]]),
        np.array([[np.nan, 0.0], [0.0, 1.0]]),
        np.array([[-1.0]]),
    ],
    ids=["indefinite", "zero", "singular", "nan", "negative"],
)
def test_what_is_not_positive_definite_is_said_to_be_so(A):
    d = len(A)
    assert not cholesky(A, np.zeros((d, d)))
    assert not invert(A, np.zeros((d, d)))
    assert np.isnan(solve(A, np.ones(d))).all()
    assert math.isnan(log_det(A))


# ------------------------------------------------------------------------- rank-one updates


def stream(seed, n, d, *, clustered):
    """Unit-ball samples; clustered ones hug three directions, as a bandit's do."""
    rng = np.random.default_rng(seed)
    if not clustered:
        X = rng.standard_normal((n, d))
    else:
        centres = rng.standard_normal((3, d))
        centres /= np.linalg.norm(centres, axis=1, keepdims=True)
        X = centres[rng.integers(3, size=n)] + 1e-3 * rng.standard_normal((n, d))
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)


def run(X, prior, weights=None):
    """The running A, A⁻¹ and log(det A/det prior)."""
    n, d = X.shape
    A, inverse, total = prior * np.eye(d), np.eye(d) / prior, 0.0
    for k in range(n):
        weight = 1.0 if weights is None else weights[k]
        total += add_sample(A, inverse, X[k], weight, k, np.empty(d))
    return A, inverse, total


CASES = {
    "plain": (10, 1.0, False),
    "clustered": (10, 1.0, True),
    "small prior": (10, 1e-8, False),
    "small prior, clustered": (10, 1e-8, True),
    "many features": (30, 1e-4, True),
    "two features": (2, 1e-6, True),
    "one feature": (1, 1e-2, False),
}


@pytest.mark.parametrize("case", CASES)
def test_ten_thousand_updates(case):
    d, prior, clustered = CASES[case]
    X = stream(7, 10_000, d, clustered=clustered)
    A, inverse, total = run(X, prior)
    # A itself is the plain sum
    assert_allclose(A, prior * np.eye(d) + X.T @ X, rtol=1e-12, atol=1e-12)
    assert_array_equal(A, A.T)
    assert_array_equal(inverse, inverse.T)
    exact = np.linalg.slogdet(A)[1] - d * math.log(prior)
    assert_allclose(total, exact, rtol=1e-8)
    # 784 updates since the last refresh, each good to rounding times the condition number
    bound = 1e-13 * np.linalg.cond(A) * np.abs(np.linalg.inv(A)).max()
    assert np.abs(inverse - np.linalg.inv(A)).max() <= bound


@pytest.mark.parametrize("weight", [0.0, 1e-300, 0.3, 1.0, 1e6])
@pytest.mark.parametrize("count", [0, REFRESH_EVERY - 1])
def test_one_sample(weight, count):
    rng = np.random.default_rng(10)
    A = positive_definite(rng, 5)
    inverse, x, direction = np.linalg.inv(A), rng.standard_normal(5), np.empty(5)
    inverse = 0.5 * (inverse + inverse.T)
    before = np.linalg.slogdet(A)[1]
    gain = add_sample(A, inverse, x, weight, count, direction)
    assert_allclose(direction, np.linalg.solve(A, x), rtol=1e-9)
    assert_array_equal(inverse, inverse.T)
    if weight <= 1.0:  # a huge weight cancels most digits
        assert_allclose(inverse, np.linalg.inv(A), rtol=1e-11, atol=1e-14)
        assert_allclose(gain, np.linalg.slogdet(A)[1] - before, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("spoilt_at", [0, 100, REFRESH_EVERY - 2, REFRESH_EVERY - 1])
def test_a_spoilt_inverse_is_healed_at_the_next_refresh(spoilt_at):
    d = 6
    X = stream(3, REFRESH_EVERY + 5, d, clustered=False)
    A, inverse = np.eye(d), np.eye(d)
    errors = []
    for k in range(len(X)):
        if k == spoilt_at:
            inverse *= 1.01
        add_sample(A, inverse, X[k], 1.0, k, np.empty(d))
        errors.append(np.abs(inverse @ A - np.eye(d)).max())
    refreshed = REFRESH_EVERY - 1  # the index whose update is number REFRESH_EVERY
    assert all(e < 1e-13 for e in errors[:spoilt_at])
    assert all(e > 1e-6 for e in errors[spoilt_at:refreshed])
    assert all(e < 1e-13 for e in errors[refreshed:])


@pytest.mark.parametrize("d", [1, 2, 7])
def test_quadratics_and_definiteness_against_numpy(d):
    rng = np.random.default_rng(d)
    X = rng.standard_normal((20, d))
    A, x = X.T @ X, rng.standard_normal(d)
    expected = x @ np.linalg.solve(A + 0.5 * np.eye(d), x)
    assert inverse_quadratic(A, x, 0.5) == pytest.approx(expected, rel=1e-12)
    least = np.linalg.eigvalsh(A)[0]
    assert inverse_quadratic(A, x, -1.01 * least) == np.inf
    B = rng.standard_normal((d, d))
    B = B + B.T
    least = np.linalg.eigvalsh(2.0 * A - 3.0 * B)[0]
    assert is_definite(2.0, A, -3.0, B, -least + 1e-6)
    assert not is_definite(2.0, A, -3.0, B, -least - 1e-6)
    assert not is_definite(1.0, A, 1.0, np.full((d, d), np.nan), 1.0)
