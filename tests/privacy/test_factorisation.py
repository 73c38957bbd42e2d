from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.linalg import toeplitz

import fedglb as fg
from fedglb.privacy.factorisation import norm, square_root_weights


@pytest.mark.parametrize("updates", [1, 2, 10, 64, 300])
def test_the_square_of_the_matrix_is_prefix_sums(updates):
    f = square_root_weights(updates)
    F = np.tril(toeplitz(f))
    np.testing.assert_allclose(F @ F, np.tril(np.ones((updates, updates))), atol=1e-13)
    assert norm(f) == pytest.approx(np.linalg.norm(F, axis=0).max(), rel=1e-14)  # a first sample


def test_weights_are_central_binomial_coefficients():
    expected = [math.comb(2 * k, k) / 4**k for k in range(200)]
    np.testing.assert_allclose(square_root_weights(200), expected, rtol=1e-13)


@pytest.mark.parametrize(("updates", "squared"), [(10, 1.79), (30, 2.15), (64, 2.39), (1000, 3.27)])
def test_the_price_of_a_long_stream(updates, squared):
    assert norm(square_root_weights(updates)) ** 2 == pytest.approx(squared, abs=0.006)


@pytest.mark.parametrize("updates", [0, -1, 2.5])
def test_no_updates_are_refused(updates):
    with pytest.raises(fg.InvalidInput, match="updates"):
        square_root_weights(updates)
