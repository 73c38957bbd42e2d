from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import fedglb as fg
from fedglb.privacy.factorisation import square_root_weights
from fedglb.privacy.fixed_point import (
    BITS,
    MOST_BATCHES,
    UNIT,
    WEIGHT_BITS,
    size,
    unpack,
    weighted,
)
from tests.privacy.packing import pack, quantised


def symmetric(rng, d):
    A = rng.normal(size=(d, d))
    return A + A.T


@pytest.mark.parametrize("d", [1, 2, 5, 10])
def test_the_norm_of_a_packed_matrix_is_frobenius(d):
    rng = np.random.default_rng(d)
    v, H = rng.normal(size=d), symmetric(rng, d)
    numbers = pack(v, H)
    assert numbers.shape == (size(d),) == (d + d * (d + 1) // 2,)
    np.testing.assert_array_equal(numbers[:d], v)
    assert np.linalg.norm(numbers[d:]) == pytest.approx(np.linalg.norm(H), rel=1e-14)


@pytest.mark.parametrize("d", [1, 3, 8])
def test_unpacking_undoes_packing_up_to_half_a_unit(d):
    rng = np.random.default_rng(d)
    v, H = rng.normal(size=(4, d)), np.array([symmetric(rng, d) for _ in range(4)])
    numbers = quantised(pack(v, H))
    assert numbers.dtype == np.int64
    back_v, back_H = unpack(numbers, d)
    np.testing.assert_array_equal(back_H, np.swapaxes(back_H, -1, -2))
    assert np.abs(back_v - v).max() <= 0.5 * UNIT
    assert np.abs(back_H - H).max() <= 0.5 * UNIT + 1e-15
    exact_v, exact_H = unpack(pack(v, H) * 2.0**BITS, d)
    np.testing.assert_allclose(exact_v, v, rtol=1e-15)
    np.testing.assert_allclose(exact_H, H, rtol=1e-15)


def test_weighted_sums_are_exact_but_for_one_rounding():
    rng = np.random.default_rng(1)
    for n in (1, 2, 30, 200):
        weights = np.rint(square_root_weights(n)[::-1] * 2.0**WEIGHT_BITS) / 2.0**WEIGHT_BITS
        batches = rng.integers(-(2**58), 2**58, size=(n, 3, 7))
        found = weighted(weights, batches)
        for where in np.ndindex(3, 7):
            exact = sum(
                Fraction(w) * int(k) for w, k in zip(weights, batches[:, *where], strict=True)
            )
            assert int(found[where]) == math.floor(exact + Fraction(1, 2))


def test_weighted_sums_of_the_most_batches_do_not_overflow():
    batches = np.full((MOST_BATCHES, 2), 2**51)
    batches[:, 1] *= -1
    expected = MOST_BATCHES * 2**51
    assert weighted(np.ones(MOST_BATCHES), batches).tolist() == [expected, -expected]


def test_without_noise_the_weights_leave_a_batch_as_it_is():
    batches = np.array([[5, -(2**62)], [2**62 + 1, 7]])
    assert weighted(np.array([0.0, 1.0]), batches).tolist() == batches[1].tolist()


@pytest.mark.parametrize("weights", [[1.0, 1 / 3], [1.0, 2.0], [1.0] * (MOST_BATCHES + 1)])
def test_weights_that_would_not_be_exact_are_refused(weights):
    with pytest.raises(fg.InvalidInput, match="weights"):
        weighted(np.array(weights), np.zeros((len(weights), 1), dtype=np.int64))
