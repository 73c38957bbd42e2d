"""Thresholds of the spread and of learning alone, by the number of clients."""

from __future__ import annotations

import numpy as np
import pytest

from fedglb.parts.spread import Pooled, penalty


@pytest.mark.parametrize(
    ("clients", "enters"), [(1, 1.0), (7, 1.0 + np.log(7) / np.log(50)), (50, 2.0), (400, 2.0)]
)
def test_a_spread_counts_from_so_many_standard_errors_on(clients, enters):
    def next_spread(last: float, errors: float) -> float:
        f = 8.0 / clients  # the standard error is 1/2
        sent = np.tile([f * (0.5 * errors - last), f, 0.0], (clients, 1))
        before = np.array([last, 0.0, 1.0])
        return Pooled().next(before, np.zeros((2, 2)), sent, [], shortened=False)[0][0]

    assert next_spread(0.0, enters + 0.01) == pytest.approx(0.5 * (enters + 0.01))
    assert next_spread(0.0, enters - 0.01) == 0.0
    assert next_spread(0.3, enters - 0.99) == pytest.approx(0.5 * (enters - 0.99))
    assert next_spread(0.3, enters - 1.01) == 0.0


def test_clients_that_learn_alone_are_left_out_while_they_are_few():
    sent = np.tile([8.0, 8.0, 0.0], (10, 1))
    sent[:2] = 800.0, 8.0, 1.0
    assert Pooled().next(np.zeros(3), np.zeros((1, 1)), sent, [], shortened=False)[0][0] == 1.0
    sent[2] = 800.0, 8.0, 1.0
    assert Pooled().next(np.zeros(3), np.zeros((1, 1)), sent, [], shortened=False)[0][0] > 20.0


def test_learning_alone_has_to_gain_its_prior_odds():
    assert [np.exp(penalty(n)) for n in (1, 12, 24, 150)] == pytest.approx([7, 7, 15, 99])
