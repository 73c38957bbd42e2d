"""ECOLog: each step is the minimiser that it should be, the set holds θ*, and regret levels off."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import fedglb as fg
from fedglb.algorithms.ecolog import EcoLog
from fedglb.federation.agreement import Agreement
from fedglb.parts.trigger import Event
from tests.parts.confidence.coverage import DELTA, coverage, small_problem


def test_a_step_is_the_minimiser_over_the_ball():
    problem, rng = fg.Problem(dim=3, radius=0.7), np.random.default_rng(1)
    algorithm = fg.n_ecolog(ridge=0.1)
    client = fg.Client(0, algorithm, algorithm.setting(problem, 1, None))
    on_sphere = 0
    for t in range(1, 31):
        x = rng.standard_normal(3)
        x /= np.linalg.norm(x)
        y, theta, W = (
            float(rng.random() < 0.9),
            client.state.theta.copy(),
            client.state.matrix.copy(),
        )

        def loss(v, x=x, y=y, theta=theta, W=W):
            z, step = x @ v, v - theta
            return step @ W @ step / (2.0 + 2.0 * 0.7) + np.logaddexp(0.0, z) - y * z

        client.observe(x, y, t)
        new = client.state.theta
        ball = {"type": "ineq", "fun": lambda v: 0.49 - v @ v}
        best = minimize(loss, theta, method="SLSQP", constraints=ball, options={"ftol": 1e-14})
        assert np.linalg.norm(new) <= 0.7 * (1 + 1e-12)
        assert loss(new) <= best.fun + 1e-9
        on_sphere += np.linalg.norm(new) > 0.7 * (1 - 1e-9)
        slope = np.exp(-abs(x @ new)) / (1.0 + np.exp(-abs(x @ new))) ** 2
        np.testing.assert_allclose(client.state.matrix, W + slope * np.outer(x, x), atol=1e-12)
    assert 0 < on_sphere < 30


@pytest.mark.parametrize("preset", [fg.one_ecolog, fg.n_ecolog])
def test_coverage(preset):
    seen = coverage(preset(delta=DELTA), small_problem("logistic"), 40, range(20))
    assert seen.lost == 0.0
    assert 0.0 < seen.median < 1.0
    narrow = coverage(preset(0.2, delta=DELTA), small_problem("logistic"), 40, range(20), first=9)
    assert narrow.lost > 3 * DELTA


@pytest.mark.parametrize(
    ("together", "alone", "exploration"),
    [(fg.one_ecolog, fg.n_ecolog, 0.1), (fg.one_ofuglb, fg.n_ofuglb, 0.2)],
)
def test_they_learn(together, alone, exploration):
    """Regret grows slower than time; all samples together are better than each client's own."""
    env = fg.Synthetic(fg.Problem(dim=3, radius=3.0), clients=4, arms=10)
    for seed in range(3):
        one, each, still = fg.compare(
            [together(exploration), alone(exploration), together(confidence=fg.Fixed(1e6))],
            env, 400, seed,
        )  # fmt: skip
        for run in (one, each):
            half = run.trace["regret"][199]
            assert run.regret - half < 0.75 * half
        assert one.regret < each.regret < 0.5 * still.regret


def test_what_is_not_allowed():
    with pytest.raises(fg.InvalidInput, match="confidence"):
        fg.n_ecolog(confidence=fg.Iterate())
    with pytest.raises(fg.InvalidInput, match="solver"):
        fg.Algorithm("x", EcoLog(), fg.Newton(), Event(1.0), fg.Fixed(1.0))
    with pytest.raises(fg.InvalidInput, match="centralised"):
        Agreement(fg.Problem(dim=3), fg.one_ecolog(), 3)
    assert Agreement(fg.Problem(dim=3), fg.n_ecolog(), 3).facts()


def test_caveats():
    assert "warm-up" in fg.n_ecolog().caveats(fg.Problem(dim=2))[0]
    assert "no coverage" in fg.n_ecolog().caveats(fg.Problem(dim=2, link=fg.Probit()))[0]
