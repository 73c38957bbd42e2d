"""The feature map: what it computes, what it refuses, and that it is the same everywhere."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fedglb as fg
from fedglb.environments.datasets.feature_map import OneHot, Standardised


def table(n=60, seed=0, labels=None):
    rng = np.random.default_rng(seed)
    columns = {
        "x": rng.normal(3.0, 2.0, n),
        "same": np.full(n, 0.1),
        "c": rng.choice(["red", "blue", "é", "?"], n),
        "y": rng.integers(0, 1000, n),
    }
    return fg.Table(columns, rng.integers(0, 2, n) if labels is None else labels)


def test_encoding_is_standardised_and_one_hot():
    data = table()
    fitted = fg.FeatureMap.fit(data)
    encoded = fitted.encode(data.columns)
    assert fitted.names == ("x", "same", "c=?", "c=blue", "c=red", "c=é", "y", "constant")
    assert fitted.dim == 8
    assert encoded.shape == (60, 7)
    x, y = data.columns["x"], data.columns["y"]
    assert_allclose(encoded[:, 0], (x - x.mean()) / x.std(), rtol=1e-13)
    assert_allclose(encoded[:, 6], (y - y.mean()) / y.std(), rtol=1e-13)
    assert_array_equal(encoded[:, 1], 0.0)
    assert_array_equal(encoded[:, 2:6], data.columns["c"][:, None] == ["?", "blue", "red", "é"])


def test_a_constant_column_has_no_spread_whatever_rounding_makes_of_its_mean():
    values = [1 / 3] * 97
    assert math.fsum(values) / 97 != 1 / 3
    fitted = fg.FeatureMap.fit(fg.Table({"x": values}, [0, 1] + [1] * 95))
    assert_array_equal(fitted.encode({"x": [1 / 3, 0.5]}), [[0.0], [0.0]])


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("scale", ["largest", "each"])
def test_no_arm_is_longer_than_1(scale, constant):
    data = table()
    fitted = fg.FeatureMap.fit(data, constant)
    encoded = fitted.encode(data.columns)
    final = fitted.scaled(encoded, scale)
    arms = final(data.columns)
    assert arms.shape == (60, final.dim) == (60, 7 + constant)
    extended = np.hstack([encoded, np.ones((60, 1))]) if constant else encoded
    norms = np.linalg.norm(extended, axis=1)
    divisor = norms.max() if scale == "largest" else norms[:, None]
    assert_allclose(arms, extended / divisor, rtol=1e-13, atol=1e-15)
    longest = np.linalg.norm(arms, axis=1).max()
    assert_allclose(longest, 1.0, rtol=1e-13)
    far = {"x": [1e6, 3.0], "same": [5.0, 0.1], "c": ["é", "?"], "y": [1e200, 500.0]}
    norms = np.linalg.norm(final(far), axis=1)
    assert_allclose(norms[0], 1.0, rtol=1e-12)  # beyond the largest: back to the sphere
    if scale == "largest":
        assert norms[1] < 0.9
        assert_allclose(final(far)[1], final.place(final.encode(far)[1:])[0])


def test_an_arm_of_zeros_stays_one():
    data = fg.Table({"x": [2.0, 2.0]}, [0, 1])
    for scale in ("largest", "each"):
        final = fg.FeatureMap.fit(data, constant=False).scaled([[0.0]], scale)
        assert_array_equal(final(data.columns), [[0.0], [0.0]])


def fitted(scale="largest"):
    data = table()
    unscaled = fg.FeatureMap.fit(data)
    return unscaled.scaled(unscaled.encode(data.columns), scale)


@pytest.mark.parametrize("scale", ["largest", "each"])
def test_json_and_back_is_exact(scale):
    one = fitted(scale)
    other = fg.FeatureMap.from_json(one.to_json())
    assert other == one
    assert other.digest == one.digest
    assert_array_equal(other(table(seed=1).columns), one(table(seed=1).columns))
    unscaled = fg.FeatureMap.fit(table())
    assert fg.FeatureMap.from_json(unscaled.to_json()) == unscaled
    assert fg.FeatureMap.from_json(json.dumps(json.loads(one.to_json()), indent=3)) == one


def test_whatever_changes_the_arms_changes_the_digest():
    base = fitted()
    x, same, c, y = base.columns
    changed = [
        base,
        fitted("each"),
        fg.FeatureMap.fit(table()),
        replace(base, constant=False),
        replace(base, largest=math.nextafter(base.largest, 9.0)),
        replace(base, columns=(same, x, c, y)),
        replace(base, columns=(replace(x, mean=math.nextafter(x.mean, 9.0)), same, c, y)),
        replace(base, columns=(replace(x, sd=math.nextafter(x.sd, 9.0)), same, c, y)),
        replace(base, columns=(replace(x, name="z"), same, c, y)),
        replace(base, columns=(x, same, OneHot("c", (*c.levels, "ö")), y)),
    ]
    assert len({m.digest for m in changed}) == len(changed)


def test_what_changes_no_arm_changes_no_digest():
    assert Standardised("a", 3.0, 0.0) == Standardised("a", 4.0, 0.0)
    one, other = (fg.FeatureMap((Standardised("a", z, 1.0),)) for z in (0.0, -0.0))
    assert one.digest == other.digest
    whole, decimal = (fg.FeatureMap((Standardised("a", 2, s),)) for s in (1, 1.0))
    assert whole.digest == decimal.digest


GOOD = {"x": [1.0, 2.0], "same": [0.1, 0.1], "c": ["red", "?"], "y": [5, 6]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"c": ["red", "green"]}, r"columns\['c'\]\[1\] = 'green': .*\?, blue, red, é"),
        ({"c": ["zz", "red"]}, r"columns\['c'\]\[0\] = 'zz'"),
        ({"c": [1.0, 2.0]}, r"columns\['c'\]\[0\] = 1.0: .*blue"),
        ({"x": ["1", "2"]}, r"columns\['x'\]\[0\] = '1': .*a number"),
        ({"x": [1.0, np.nan]}, r"columns\['x'\]\[1\] = nan"),
        ({"x": [1.0, np.inf]}, r"columns\['x'\]\[1\] = inf"),
        ({"x": [1.0]}, r"len\(columns\['same'\]\) = 2"),
        ({"label": [0, 1]}, r"extra \['label'\].* exactly x, same, c, y"),
    ],
)
def test_columns_that_do_not_fit(change, said):
    assert fitted()(GOOD).shape == (2, 8)
    with pytest.raises(fg.InvalidInput, match=said):
        fitted()({**GOOD, **change})


def test_a_missing_column():
    with pytest.raises(fg.InvalidInput, match=r"missing \['y'\], extra \[\]"):
        fitted()({k: v for k, v in GOOD.items() if k != "y"})


def test_a_number_too_far_out():
    near = fg.FeatureMap((Standardised("x", 0.0, 1e-300),), scale="each")
    with pytest.raises(fg.InvalidInput, match=r"columns\['x'\]\[1\] = 1e\+300"):
        near({"x": [1e-300, 1e300]})


def test_no_scale_no_arms():
    with pytest.raises(fg.InvalidInput, match=r"scale = None: .*scaled"):
        fg.FeatureMap.fit(table()).place(np.zeros((2, 7)))
    with pytest.raises(fg.InvalidInput, match=r"encoded.shape = \(2, 8\)"):
        fitted().place(np.zeros((2, 8)))
    with pytest.raises(fg.InvalidInput, match=r"scale = 'Each': .*did you mean each"):
        fg.FeatureMap.fit(table()).scaled(np.zeros((2, 7)), "Each")


@pytest.mark.parametrize(
    "change",
    [
        {"largest": 0.0}, {"largest": None}, {"largest": float("1e999")}, {"scale": "each"},
        {"scale": "all"}, {"constant": 1}, {"columns": []}, {"columns": [{"name": "x"}]},
        {"columns": [{"name": "x", "mean": 0.0, "sd": -1.0}]},
        {"columns": [{"name": "x", "mean": "0", "sd": 1.0}]},
        {"columns": [{"name": "x", "levels": ["b", "a"]}]},
        {"columns": [{"name": "x", "levels": ["a", "a\0"]}]},
        {"columns": [{"name": "x", "levels": []}]},
        {"columns": [{"name": "x", "levels": "ab"}]},
        {"columns": [{"name": "x", "levels": ["a", 1]}]},
        {"columns": [{"name": 1, "levels": ["a"]}]},
        {"columns": [{"name": "x", "levels": ["a"], "mean": 1.0}]},
        {"columns": [{"name": "x", "levels": ["a"]}] * 2},
        {"more": 1}, {"columns": 3},
    ],
)  # fmt: skip
def test_json_that_is_no_map(change):
    good = json.loads(fitted().to_json())
    with pytest.raises(fg.InvalidInput):
        fg.FeatureMap.from_json(json.dumps({**good, **change}))


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null", None])
def test_text_that_is_no_map(text):
    with pytest.raises(fg.InvalidInput, match="JSON of FeatureMap"):
        fg.FeatureMap.from_json(text)
