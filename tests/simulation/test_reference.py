"""What a run returns."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_array_equal

import fedglb as fg

ENV = fg.Synthetic(fg.Problem(3), clients=4, arms=6)


def test_the_trace_is_cumulative_and_ends_at_the_totals():
    run = fg.simulate(fg.fedglb_ucb(0.5, fg.Newton()), ENV, 40, seed=1)
    columns = ["t", "regret", "reward", "syncs", "rounds", "transfers", "scalars"]
    assert run.trace.columns == columns
    assert run.trace["t"].to_list() == list(range(1, 41))
    for name in columns:
        assert (np.diff(run.trace[name].to_numpy()) >= 0).all()
    last = run.trace.row(-1, named=True)
    for name in columns[1:]:
        assert last[name] == getattr(run, name)
    assert run.updates.height == run.syncs
    assert run.updates["rounds"].sum() == run.rounds


def test_updates_say_what_happened():
    run = fg.simulate(fg.fedglb_ucb(0.5, fg.Newton()), ENV, 40, seed=1)
    assert run.updates.columns == [
        "t", "client", "n", "rounds", "gradient_norm", "gap", "projected", "alpha",
        "theta_star_inside", "ridge",
    ]  # fmt: skip
    n = run.updates["n"].to_numpy()
    t, i = run.updates["t"].to_numpy(), run.updates["client"].to_numpy()
    assert_array_equal(n, (t - 1) * 4 + i + 1)  # every sample so far, the trigger's own included
    assert (run.updates["gap"].to_numpy() <= 1.0 / n**2).all()
    assert run.updates["theta_star_inside"].all()
    scheduled = fg.simulate(fg.fedglb_ucb_1(4), ENV, 40, seed=1)
    assert scheduled.updates["client"].null_count() == 4
    assert scheduled.updates["t"].to_list() == [10, 20, 30, 40]


def test_the_same_seed_gives_the_same_run():
    one, two, other = (fg.simulate(fg.fedglb_ucb(0.5), ENV, 20, seed=s) for s in (1, 1, 2))
    assert_array_equal(one.choices, two.choices)
    assert one.trace.equals(two.trace)
    assert (one.choices != other.choices).any()


def test_the_result_says_what_is_not_proven():
    def caveats(algorithm, problem):
        return " ".join(fg.simulate(algorithm, fg.Synthetic(problem, 2, 3), 2).caveats)

    assert caveats(fg.n_ons_glm(), fg.Problem(2)) == ""
    assert "Poisson" in caveats(fg.n_ons_glm(), fg.Problem(2, fg.Poisson(), noise=1.0))
    assert "probit" in caveats(fg.n_ons_glm(), fg.Problem(2, fg.Probit()))
    assert "curvature" in caveats(fg.n_ons_glm(), fg.Problem(2, curvature=0.25))
    assert "constant" in caveats(fg.n_ons_glm(confidence=fg.Fixed(0.3)), fg.Problem(2))
    assert "exploration" in caveats(fg.n_ons_glm(exploration=0.5), fg.Problem(2))
    assert "linear" in caveats(fg.dislinucb(1.0), fg.Problem(2))
    assert caveats(fg.dislinucb(1.0), fg.Problem(2, fg.Identity())) == ""
    assert "2δ" in caveats(fg.fedglb_ucb_3(1), fg.Problem(2, fg.Identity()))


@pytest.mark.parametrize(
    ("problem", "why"),
    [
        (fg.Problem(2, fg.Poisson(), noise=1.0), "not sub-Gaussian: no coverage is claimed"),
        (fg.Problem(2, fg.Identity(), curvature=1.5), "curvature 1.5 exceeds"),
    ],
)
def test_variant_3_claims_no_sets_where_nothing_is_proven(problem, why):
    """Its caveat for unbounded rewards says with what probability sets hold: here they need not."""
    (caveat,) = fg.simulate(fg.fedglb_ucb_3(1), fg.Synthetic(problem, 2, 3), 2).caveats
    assert why in caveat


def test_exploration_is_in_every_result():
    run = fg.simulate(fg.n_ons_glm(exploration=0.3), ENV, 3)
    assert run.parameters["exploration"] == 0.3
    assert run.summary()["regret"] == run.regret


def test_learning_helps():
    block = next(ENV.blocks(40, 1))
    random = float((block.means.max(axis=2) - block.means.mean(axis=2)).sum())
    run = fg.simulate(fg.fedglb_ucb(0.5, fg.Newton(), exploration=0.05), ENV, 40, seed=1)
    assert run.regret < 0.75 * random


def test_progress_is_told_of_every_step():
    seen = []
    fg.simulate(fg.n_ons_glm(), ENV, 7, engine="reference", progress=seen.append)
    assert seen == list(range(1, 8))
    seen.clear()
    fg.simulate(fg.n_ons_glm(), ENV, 7, progress=seen.append)
    assert seen == [7]  # one block


SCRIPT = """
import fedglb as fg
for link in (fg.Logistic(), fg.Probit(), fg.Poisson(), fg.Identity()):
    env = fg.Synthetic(fg.Problem(3, link, noise=0.5), clients=3, arms=4)
    for algorithm in (
        fg.fedglb_ucb(0.5, fg.Newton()), fg.fedglb_ucb_1(2, fg.LBFGS()), fg.fedglb_ucb_3(2),
        fg.n_ucb_glm(), fg.dislinucb(0.5),
    ):
        for engine in ("compiled", "reference"):
            run = fg.simulate(algorithm, env, 10, seed=1, engine=engine)
            print(run.choices.tolist(), run.syncs, run.scalars)
"""


def test_the_kernels_do_the_same_without_compilation():
    def output(**environment):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], env={**os.environ, **environment},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout

    compiled = output()
    assert len(compiled.splitlines()) == 40
    assert output(NUMBA_DISABLE_JIT="1") == compiled


@pytest.mark.parametrize("preset", [fg.one_ucb_glm, fg.n_ucb_glm])
def test_baselines_without_messages(preset):
    run = fg.simulate(preset(), ENV, 10, seed=1)
    assert run.updates.is_empty()
    assert isinstance(run.ledger, pl.DataFrame)
