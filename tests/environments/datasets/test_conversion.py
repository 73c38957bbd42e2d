"""The studies' conversion: what it computes, and that it is the same everywhere."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fedglb as fg
from fedglb.environments.datasets.conversion import Conversion, OneHot


def table(n=60, seed=0):
    rng = np.random.default_rng(seed)
    columns = {
        "x": rng.normal(3.0, 2.0, n),
        "same": np.full(n, 0.1),
        "c": rng.choice(["red", "blue", "é", "?"], n),
        "y": rng.integers(0, 1000, n),
    }
    return fg.Table(columns, rng.integers(0, 2, n))


def fitted(scale="largest", constant=True):
    data = table()
    unscaled = Conversion.fit(data, constant)
    return unscaled.scaled(unscaled.encode(data), scale)


def test_encoding_is_standardised_and_one_hot():
    data = table()
    encoded = Conversion.fit(data, constant=True).encode(data)
    assert encoded.shape == (60, 7)
    x, y = data.columns["x"], data.columns["y"]
    assert_allclose(encoded[:, 0], (x - x.mean()) / x.std(), rtol=1e-13)
    assert_allclose(encoded[:, 6], (y - y.mean()) / y.std(), rtol=1e-13)
    assert_array_equal(encoded[:, 1], 0.0)
    assert_array_equal(encoded[:, 2:6], data.columns["c"][:, None] == ["?", "blue", "red", "é"])


def test_a_constant_column_has_no_spread_whatever_rounding_makes_of_its_mean():
    values = [1 / 3] * 97
    assert math.fsum(values) / 97 != 1 / 3
    data = fg.Table({"x": values}, [0, 1] + [1] * 95)
    assert_array_equal(Conversion.fit(data, constant=True).encode(data), np.zeros((97, 1)))


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("scale", ["largest", "each"])
def test_no_arm_is_longer_than_1(scale, constant):
    data, final = table(), fitted(scale, constant)
    encoded = final.encode(data)
    arms = final.place(encoded)
    assert arms.shape == (60, 7 + constant)
    extended = np.hstack([encoded, np.ones((60, 1))]) if constant else encoded
    norms = np.linalg.norm(extended, axis=1)
    divisor = norms.max() if scale == "largest" else norms[:, None]
    assert_allclose(arms, extended / divisor, rtol=1e-13, atol=1e-15)
    assert_allclose(np.linalg.norm(arms, axis=1).max(), 1.0, rtol=1e-13)
    far = np.linalg.norm(final.place(encoded * 1e200), axis=1)
    assert_allclose(far, 1.0, rtol=1e-12)  # beyond the largest: back to the sphere


def test_an_arm_of_zeros_stays_one():
    data = fg.Table({"x": [2.0, 2.0]}, [0, 1])
    for scale in ("largest", "each"):
        unscaled = Conversion.fit(data, constant=False)
        encoded = unscaled.encode(data)
        assert_array_equal(unscaled.scaled(encoded, scale).place(encoded), [[0.0], [0.0]])


def test_the_digest_is_that_of_the_facts():
    one = fitted()
    facts = json.loads(json.dumps(one.plain()))
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    assert one.digest == hashlib.sha256(text.encode()).hexdigest()
    assert (facts["columns"][2], facts["scale"]) == (
        {"name": "c", "levels": ["?", "blue", "red", "é"]},
        "largest",
    )


def test_whatever_changes_the_arms_changes_the_digest():
    base = fitted()
    x, same, c, y = base.columns
    changed = [
        base,
        fitted("each"),
        Conversion.fit(table(), constant=True),
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
    ones, halves = (Conversion.fit(fg.Table({"x": [v, v]}, [0, 1]), True) for v in (1.0, 0.5))
    assert ones.digest == halves.digest
    tiny = fg.Table({"x": [-5e-324, 0.0, 0.0, 1.0, -1.0]}, [0] * 5)  # a mean of −0
    (column,) = Conversion.fit(tiny, True).columns
    assert math.copysign(1.0, column.mean) == 1.0


def test_a_column_with_too_large_a_spread():
    data = fg.Table({"x": [1e300, -1e300]}, [0, 1])
    with pytest.raises(fg.InvalidInput, match=r"sd of 'x' = inf: expected a finite number"):
        Conversion.fit(data, constant=True)
