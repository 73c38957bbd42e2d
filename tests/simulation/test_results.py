"""What a run returns: totals, updates, caveats, each client's regret, tables, pandas frames."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fedglb as fg

ENV = fg.Synthetic(fg.Problem(dim=3), clients=4, arms=5)


def recorded() -> fg.Recorded:
    """Four steps of three clients, of which some do not act."""
    rng = np.random.default_rng(1)
    arms = rng.standard_normal((4, 3, 5, 2)) / 5.0
    active = np.array([[1, 1, 1], [0, 0, 0], [1, 0, 1], [0, 1, 0]], dtype=bool)
    means, uniforms = rng.uniform(0.1, 0.9, (4, 3, 5)), rng.random((4, 3))
    return fg.Recorded(fg.Problem(dim=2), arms, means, uniforms, active=active)


@pytest.mark.parametrize("engine", ["compiled", "reference"])
def test_the_regret_of_each_client_is_that_of_its_choices(engine):
    env = recorded()
    run = fg.simulate(fg.n_ons_glm(), env, engine=engine)
    means = next(env.blocks(4, 0)).means
    expected = np.zeros((4, 3))
    for t, i in np.argwhere(run.choices >= 0):
        expected[t, i] = means[t, i].max() - means[t, i, run.choices[t, i]]
    assert_array_equal(run.regrets, expected)
    assert_allclose(run.client_regret.sum(), run.regret, rtol=1e-12)
    assert_allclose(run.regrets.sum(axis=1).cumsum(), run.trace["regret"], rtol=1e-12)


def test_the_table_of_interactions():
    run = fg.simulate(fg.fedglb_auto(choice=fg.Thompson()), recorded())
    table = run.table("interactions")
    assert table["t"].to_list() == [1, 1, 1, 3, 3, 4]
    assert table["client"].to_list() == [0, 1, 2, 0, 2, 1]
    assert table["arm"].to_list() == [run.choices[t - 1, i] for t, i in table["t", "client"].rows()]
    assert_allclose(table["regret"].sum(), run.regret, rtol=1e-12)
    assert table["propensity"].is_between(0, 1).all()
    with pytest.raises(fg.InvalidInput, match="did you mean trace"):
        run.table("traces")


@pytest.mark.some(4)
@pytest.mark.parametrize("name", ["trace", "updates", "ledger", "interactions"])
@pytest.mark.parametrize("algorithm", [fg.fedglb_ucb(0.5), fg.fedglb_ucb_1(3), fg.n_ons_glm()])
def test_pandas_frames_hold_what_polars_frames_hold(name, algorithm):
    run = fg.simulate(algorithm, ENV, 20, seed=1)
    ours, frame = run.table(name), run.to_pandas(name)
    assert list(frame.columns) == ours.columns
    assert len(frame) == ours.height
    for column in ours.columns:
        values = [None if value is None else value for value in ours[column].to_list()]
        given = [None if missing else value for value, missing in
                 zip(frame[column].tolist(), frame[column].isna(), strict=True)]  # fmt: skip
        assert given == values, column
    types = frame.dtypes.astype(str).to_dict()
    assert types.get("t", "int64") == "int64"
    assert types.get("client", "Int64") == "Int64"  # missing where a schedule asked
    assert types.get("theta_star_inside", "boolean") == "boolean"


def test_without_pandas_it_says_what_to_do():
    script = """
import sys
sys.modules["pandas"] = None  # an import of it fails
import polars as pl
import fedglb as fg
env = fg.Synthetic(fg.Problem(dim=3), clients=2, arms=3)
try:
    fg.simulate(fg.n_ons_glm(), env, 5).to_pandas()
except fg.InvalidInput as error:
    print(error)
try:
    fg.SweepResult(pl.DataFrame(), pl.DataFrame(), {}).to_pandas()
except fg.InvalidInput as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.count("pip install pandas") == 2, done.stderr


def test_columns_of_the_tables():
    run = fg.simulate(fg.n_ons_glm(), ENV, 5)
    assert run.table() is run.trace
    assert run.table("interactions").schema == {
        "t": pl.Int64, "client": pl.Int64, "arm": pl.Int64, "regret": pl.Float64,
        "propensity": pl.Float64, "propensity_error": pl.Float64,
    }  # fmt: skip


def test_the_trace_is_cumulative_and_ends_at_the_totals():
    run = fg.simulate(fg.fedglb_ucb(0.5, fg.Newton()), ENV, 40, seed=1)
    columns = ["t", "regret", "reward", "syncs", "rounds", "transfers", "scalars", "bits"]
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
        "theta_star_inside", "ridge", "seconds", "seconds_to_all",
    ]  # fmt: skip
    n = run.updates["n"].to_numpy()
    t, i = run.updates["t"].to_numpy(), run.updates["client"].to_numpy()
    assert_array_equal(n, (t - 1) * 4 + i + 1)  # every sample so far, the trigger's own included
    assert (run.updates["gap"].to_numpy() <= 1.0 / n**2).all()
    assert run.updates["theta_star_inside"].all()
    assert (run.parameters["exploration"], run.summary()["regret"]) == (1.0, run.regret)
    for preset in (fg.one_ucb_glm, fg.n_ucb_glm):
        assert fg.simulate(preset(), ENV, 10, seed=1).updates.is_empty()
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


def test_learning_helps():
    block = next(ENV.blocks(40, 1))
    random = float((block.means.max(axis=2) - block.means.mean(axis=2)).sum())
    run = fg.simulate(fg.fedglb_ucb(0.5, fg.Newton(), exploration=0.05), ENV, 40, seed=1)
    assert run.regret < 0.75 * random
