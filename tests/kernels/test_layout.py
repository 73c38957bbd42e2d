"""Numbers are filled by the names of their places, and read by the same names."""

from __future__ import annotations

import pytest

from fedglb.kernels.layout import in_order

C_MU, RIDGE, BALL = range(3)


def test_numbers_come_in_the_order_of_their_places():
    assert in_order({BALL: 3.0, C_MU: 1.0, RIDGE: 2.0}) == (1.0, 2.0, 3.0)


def test_a_place_that_is_left_out_is_an_error():
    with pytest.raises(KeyError):
        in_order({C_MU: 1.0, BALL: 3.0})
