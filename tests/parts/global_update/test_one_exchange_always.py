"""`OneExchange(inf, "deviation")`: one exchange per update, and a step that decreases the loss."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fedglb as fg
from fedglb.parts.global_update import Objective
from fedglb.parts.global_update.base import Sums
from fedglb.setting import Setting

ALWAYS = fg.OneExchange(math.inf, "deviation")


@pytest.mark.parametrize("link", [fg.Logistic(), fg.Poisson()])
@pytest.mark.parametrize("seed", range(20))
def test_step_from_zero_decreases_the_loss_and_asks_nobody(link: fg.Link, seed: int) -> None:
    rng = np.random.default_rng(seed)
    d, n, ridge = 4, int(rng.integers(1, 12)), 10.0 ** rng.uniform(-4, 0)
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = rng.integers(0, 2, n) * (20.0 if link.name == "poisson" else 1.0)

    def loss(theta: np.ndarray) -> float:
        z = X @ theta
        convex = np.exp(z) if link.name == "poisson" else np.logaddexp(0.0, z)
        return float(np.sum(convex - y * z) + 0.5 * ridge * theta @ theta)

    mean, slope = (1.0, 1.0) if link.name == "poisson" else (0.5, 0.25)
    sums = Sums(X.T @ (mean - y), slope * X.T @ X)
    problem = fg.Problem(d, link, noise=1.0)
    setting = Setting(problem, 2, None, ridge, 0.01)
    hessian = sums.hessian
    assert hessian is not None
    objective = Objective(setting, n, None, hessian + ridge * np.eye(d), at_model=sums)
    with pytest.raises(StopIteration) as ended:
        next(ALWAYS.solve(objective))
    solution = ended.value.value
    full = np.linalg.solve(hessian + ridge * np.eye(d), -sums.gradient)
    shortened = float(np.linalg.norm(solution.theta)) < 0.999 * float(np.linalg.norm(full))
    # nothing is known of the residual where the step was shortened
    assert shortened == math.isinf(solution.residual_bound)
    assert loss(solution.theta) < loss(np.zeros(d))


def test_every_update_is_one_round() -> None:
    env = fg.Synthetic(fg.Problem(5, radius=10.0), 4, 6)
    once, more = (
        fg.simulate(fg.fedglb_auto(0.1, solver=solver), env, 60, 1)
        for solver in (ALWAYS, fg.OneExchange(within="deviation"))
    )
    assert once.rounds == once.syncs > 20
    assert more.rounds > 1.3 * more.syncs
