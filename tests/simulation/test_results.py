"""What a run tells: the regret of each client, tables, pandas frames."""

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


def test_it_is_the_same_however_steps_are_dealt_into_blocks(monkeypatch):
    run = fg.simulate(fg.n_ons_glm(), ENV, 30)
    monkeypatch.setattr("fedglb.environments.base.BLOCK_NUMBERS", 7 * 4 * 5 * 3)
    assert_array_equal(fg.simulate(fg.n_ons_glm(), ENV, 30).client_regret, run.client_regret)


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
import fedglb as fg
env = fg.Synthetic(fg.Problem(dim=3), clients=2, arms=3)
try:
    fg.simulate(fg.n_ons_glm(), env, 5).to_pandas()
except fg.InvalidInput as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "pip install pandas" in done.stdout, done.stderr


def test_columns_of_the_tables():
    run = fg.simulate(fg.n_ons_glm(), ENV, 5)
    assert run.table() is run.trace
    assert run.table("interactions").schema == {
        "t": pl.Int64, "client": pl.Int64, "arm": pl.Int64, "regret": pl.Float64,
        "propensity": pl.Float64, "propensity_error": pl.Float64,
    }  # fmt: skip
