"""Cholesky's answers against NumPy's eigenvalues."""

from __future__ import annotations

import numpy as np
import pytest

from fedglb.kernels.linalg import asymmetry, inverse_quadratic, is_definite


@pytest.mark.parametrize("d", [1, 2, 7])
def test_against_numpy(d):
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


def test_asymmetry_is_the_largest_difference():
    A = np.arange(9.0).reshape(3, 3)
    assert asymmetry(A) == np.abs(A - A.T).max()
    assert asymmetry(A + A.T) == 0.0
