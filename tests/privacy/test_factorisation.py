from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.linalg import toeplitz

import fedglb as fg
from fedglb.privacy.factorisation import LARGEST, STEP, factors, norm, square_root_weights


@pytest.mark.parametrize("updates", [1, 2, 10, 64, 300])
def test_the_square_of_the_matrix_is_prefix_sums(updates):
    f = square_root_weights(updates)
    F = np.tril(toeplitz(f))
    np.testing.assert_allclose(F @ F, np.tril(np.ones((updates, updates))), atol=1e-13)
    assert norm(f) == pytest.approx(np.linalg.norm(F, axis=0).max(), rel=1e-14)  # a first sample


def test_weights_are_central_binomial_coefficients():
    expected = [math.comb(2 * k, k) / 4**k for k in range(200)]
    np.testing.assert_allclose(square_root_weights(200), expected, rtol=1e-13)


@pytest.mark.parametrize("updates", [0, -1, 2.5])
def test_no_updates_are_refused(updates):
    with pytest.raises(fg.InvalidInput, match="updates"):
        square_root_weights(updates)


@pytest.mark.some(2)
@pytest.mark.parametrize("updates", [1, 2, 3, 10, 30, 100, LARGEST, LARGEST + 1])
def test_the_factors_give_prefix_sums(updates):
    made = factors(updates)
    A = np.tril(np.ones((updates, updates)))
    np.testing.assert_allclose(made.decoder @ made.encoder, A, atol=1e-12)
    for factor in (made.encoder, made.decoder):
        assert (factor == np.tril(factor)).all()
        assert factor.min() >= 0.0
    assert (np.rint(made.encoder / STEP) * STEP == made.encoder).all()
    assert made.growth(updates) == pytest.approx(1.0, abs=1e-4)
    assert made.growth(0) == 0.0
    if 10 <= updates <= 100:  # no sample counts more than the first
        np.testing.assert_allclose(np.linalg.norm(made.encoder, axis=0), 1.0, atol=1e-5)


@pytest.mark.some(2)
@pytest.mark.parametrize("updates", [10, 30, 100])
def test_less_noise_than_by_the_square_root_where_it_matters(updates):
    f, made = square_root_weights(updates), factors(updates)
    before = norm(f) * np.sqrt(np.cumsum(f * f))
    now = made.growth(updates) * np.linalg.norm(made.decoder, axis=1)
    early = updates * 4 // 10
    assert (now[:early] ** 2).mean() < 0.9 * (before[:early] ** 2).mean()
    assert (now < 1.3 * before).all()


def test_the_factors_are_optimal():
    """Another factorisation with the same norm of columns has more noise, as weighted."""
    B, made = 12, factors(12)
    c = np.exp(-7.2 * np.maximum(np.arange(1, B + 1) / B - 0.4, 0.0))
    A = np.tril(np.ones((B, B)))

    def price(encoder):
        decoder = np.linalg.solve(encoder.T, A.T).T
        return (c * (decoder**2).sum(axis=1)).sum() * (encoder**2).sum(axis=0).max()

    best, rng = price(made.encoder), np.random.default_rng(0)
    for scale in (0.3, 0.1, 0.03):
        for _ in range(200):
            other = made.encoder + scale * np.tril(rng.standard_normal((B, B)))
            if np.abs(other.diagonal()).min() > 0.05:
                assert price(other) >= best * (1.0 - 1e-6)
