"""`Evidence`: λ from what an update has, and in whole runs."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fedglb as fg

PROBLEM = fg.Problem(3)


def test_by_hand():
    """γ = 1/2 + 3/4 with λ = 1; λ′ = (γ + 1)/(‖θ‖² + 1/λ₀)."""
    rule = fg.Evidence(start=0.5)
    ridge = rule.next(np.diag([0.0, 1.0, 3.0]), np.array([0.0, 3.0, 4.0]), 1.0, PROBLEM)
    assert ridge == pytest.approx(2.25 / (25.0 + 2.0), rel=1e-14)


def test_eigenvalues_below_zero_by_rounding_count_as_zero():
    H = np.diag([-1e-17, 1.0, 2.0])
    clean = np.diag([0.0, 1.0, 2.0])
    theta = np.ones(3)
    assert fg.Evidence().next(H, theta, 1e-9, PROBLEM) == fg.Evidence().next(
        clean, theta, 1e-9, PROBLEM
    )


@pytest.mark.parametrize("start", [0.0, -1.0, math.nan, math.inf, "1"])
def test_a_start_that_is_no_positive_number_is_refused(start):
    with pytest.raises(fg.InvalidInput, match="start"):
        fg.Evidence(start)


@pytest.mark.parametrize("preset", [fg.fedglb_mix, fg.fedglb_auto])
def test_in_a_run_the_model_says_which_ridge_is_in_force(preset):
    env = fg.Synthetic(fg.Problem(3, radius=2.0), clients=3, arms=5)
    seen = []

    def watch(t, i, client):
        base = client.state.base
        in_force = client.setting.in_force(base).ridge
        assert in_force == (0.125 if base is None else base.ridge)
        if not seen or seen[-1] != in_force:
            seen.append(in_force)

    algorithm = preset(0.3, ridge=fg.Evidence(0.125))
    run = fg.simulate(algorithm, env, 40, seed=1, engine="reference", observer=watch)
    assert seen[0] == 0.125
    assert len(seen) > 3
    assert run.syncs >= len(seen) - 1
    assert all(0.0 < ridge <= 4.0 * 0.125 * (1.0 + 1e-12) for ridge in seen)
