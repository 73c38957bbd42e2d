"""Arms are transposed, and those that are too long or not finite are noticed."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from fedglb.kernels.scoring import into_columns

ARMS = np.array([[1.0, 0.0], [0.0, -1.0], [0.6, 0.8]])


def test_arms_become_columns():
    columns = np.empty((2, 3))
    assert into_columns(ARMS, columns, 1.0 + 1e-9)
    assert_array_equal(columns, ARMS.T)


@pytest.mark.parametrize("bad", [1.1, -1.1, np.nan, np.inf, -np.inf, 1e200])
@pytest.mark.parametrize("place", [(0, 0), (1, 1), (2, 0)])
def test_one_arm_that_does_not_fit_is_noticed_and_all_are_written(bad, place):
    arms, columns = ARMS.copy(), np.empty((2, 3))
    arms[place] = bad
    assert not into_columns(arms, columns, 1.0 + 1e-9)
    assert_array_equal(columns, arms.T)
