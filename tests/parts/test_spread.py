"""Thresholds of the spread and of learning alone, by the number of clients."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fedglb.parts.spread import Pooled, penalty, respread


@pytest.mark.parametrize(
    ("clients", "enters"), [(1, 1.5), (7, 1.5 + np.log(7) / np.log(50)), (50, 2.5), (400, 2.5)]
)
def test_a_spread_counts_from_so_many_standard_errors_on(clients, enters):
    def next_spread(last: float, errors: float) -> float:
        f = 8.0 / clients  # the standard error is 1/2
        sent = np.tile([f * (0.5 * errors - last), f, 0.0], (clients, 1))
        before = np.array([last, 0.0, 1.0])
        return Pooled().next(before, np.zeros((2, 2)), sent, [], shortened=False)[0][0]

    assert next_spread(0.0, enters + 0.01) == pytest.approx(0.5 * (enters + 0.01))
    assert next_spread(0.0, enters - 0.01) == 0.0
    assert next_spread(0.3, enters - 1.49) == pytest.approx(0.5 * (enters - 1.49))
    assert next_spread(0.3, enters - 1.51) == 0.0


def test_clients_that_learn_alone_are_left_out_while_they_are_few():
    sent = np.tile([8.0, 8.0, 0.0], (10, 1))
    sent[:2] = 800.0, 8.0, 1.0
    assert Pooled().next(np.zeros(3), np.zeros((1, 1)), sent, [], shortened=False)[0][0] == 1.0
    sent[2] = 800.0, 8.0, 1.0
    assert Pooled().next(np.zeros(3), np.zeros((1, 1)), sent, [], shortened=False)[0][0] > 20.0


def test_learning_alone_has_to_gain_its_prior_odds():
    assert [np.exp(penalty(n)) for n in (1, 12, 24, 150)] == pytest.approx([7, 7, 15, 99])


def test_sums_of_a_client_with_another_spread():
    """By the definition: W = (I + HT)⁻¹H and w = (I + HT)⁻¹b, then with ¾ of H, of b, and T′."""
    rng, d = np.random.default_rng(1), 4
    roots = rng.standard_normal((3, d, d))
    H, before, after = (root @ root.T for root in roots)
    b, unit = rng.standard_normal(d), np.eye(d)
    W, w = np.linalg.solve(unit + H @ before, H), np.linalg.solve(unit + H @ before, b)
    A = respread(W, before, after, 0.75)
    again = unit + 0.75 * H @ after
    assert_allclose(A @ W, np.linalg.solve(again, 0.75 * H), rtol=1e-10)
    assert_allclose(A @ w, np.linalg.solve(again, 0.75 * b), rtol=1e-10)
