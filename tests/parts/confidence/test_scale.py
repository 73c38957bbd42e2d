"""β_global at the scale of the paper's experiments."""

from __future__ import annotations

from math import log, sqrt

import numpy as np
from numpy.testing import assert_allclose

import fedglb as fg
from fedglb.parts.confidence import FedGLBRadius
from fedglb.parts.global_update import Objective, Solution
from fedglb.setting import Setting

DIM, CLIENTS, HORIZON = 10, 200, 2000
SAMPLES = CLIENTS * HORIZON


def beta_global(noise: float, delta: float) -> float:
    """β_global for n samples spread evenly, M = (n/d)I."""
    setting = Setting(fg.Problem(DIM, fg.Logistic(), 1.0, noise), CLIENTS, HORIZON, 1.0, delta)
    prior = 1.0 / setting.problem.c_mu
    M = SAMPLES / DIM * np.eye(DIM)
    objective = Objective(setting, SAMPLES, M, prior * np.eye(DIM) + M, np.zeros(DIM))
    theta = np.eye(DIM)[0]  # ‖θ‖ = S
    (r,) = FedGLBRadius().radius_terms(setting, objective, Solution(theta, np.zeros(DIM)))
    return r**2


def test_beta_global_at_the_scale_of_the_paper_by_hand():
    """R = 1/2 and δ = 0.01: r_g(δ)² is 759, r_g(δ/2)² (what FedGLB uses) 769."""
    c = float(fg.Logistic().variance(1.0))
    log_ratio = DIM * log(1.0 + SAMPLES / DIM * c)
    squares = [
        (0.5 / c * sqrt(log_ratio + 2.0 * log(1.0 / d)) + sqrt(1.0 / c)) ** 2 for d in (0.01, 0.005)
    ]
    assert_allclose(squares, [758.9, 768.8], rtol=1e-3)
    assert_allclose(beta_global(0.5, 0.01), squares[1], rtol=1e-9)
    assert_allclose(beta_global(1.0, 0.01), 2830.0, rtol=2e-3)
