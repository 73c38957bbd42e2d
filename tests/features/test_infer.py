"""A schema proposed from records: what becomes of each kind of field, and what is refused."""

from __future__ import annotations

import datetime
import random

import numpy as np
import pandas as pd
import polars as pl
import pytest

import fedglb as fg
from fedglb.features.infer import propose


def proposed(values):
    """Return the field for these values, and its note; or None, and why it is left out."""
    found = propose([{"arm": {"f": value}} for value in values])
    if "f" in found.fields["arm"]:
        return found.fields["arm"]["f"], found.notes["arm.f"]
    return None, found.left_out["arm.f"]


# -- numbers -----------------------------------------------------------------------------------


def test_numbers_with_few_values_have_a_knot_at_each():
    field, note = proposed([1, 5, 3, 3, 2, 4, 1])
    assert field == fg.Number([1, 2, 3, 4, 5])
    assert note == "5 values, each a knot"
    assert proposed([0.1, 0.25, 1e9])[0] == fg.Number([0.1, 0.25, 1e9])


def test_numbers_with_many_values_have_knots_at_quantiles():
    field, note = proposed(np.linspace(0.0, 1.0, 1001).tolist())
    assert field == fg.Number([0.05, 0.25, 0.5, 0.75, 0.95])
    assert note == "1,001 values from 0 to 1"


def test_whole_numbers_may_be_codes():
    assert "if they are codes, write them as text" in proposed(range(20))[1]
    assert "codes" not in proposed([k + 0.5 for k in range(20)])[1]


def test_a_long_tail_moves_no_knot_far_out():
    rng = np.random.default_rng(0)
    x = np.exp(rng.normal(3.0, 1.0, 5000))
    low, high = np.quantile(x, [0.04, 0.96])
    field, _ = proposed([*x.tolist(), 1e12])
    assert low <= field.knots[0] < field.knots[-1] <= high
    assert len(field.knots) == 5


def test_values_that_are_mostly_zero_still_vary():
    rng = np.random.default_rng(0)
    values = [0.0] * 9700 + rng.uniform(10.0, 20.0, 300).tolist()
    field, _ = proposed(values)
    assert field.knots[0] == 0.0
    assert 10.0 <= field.knots[1] < 11.0
    assert 19.0 < field.knots[-1] <= 20.0


def test_knots_far_from_zero_stay_apart():
    first = 1_700_000_000
    field, _ = proposed([first + 7 * k for k in range(1000)])
    expected = [first + 7 * q for q in (49, 249, 499, 749, 949)]
    assert len(field.knots) == 5
    assert np.abs(np.array(field.knots) - expected).max() <= 0.05 * 7 * 200


def test_knots_have_few_digits():
    rng = np.random.default_rng(0)
    field, _ = proposed(rng.uniform(0.0, 100.0, 2000).tolist())
    assert all(len(f"{knot:g}") <= 4 for knot in field.knots)


def test_a_number_that_is_always_the_same():
    assert proposed([7, 7, 7]) == (None, "it is always 7")
    assert proposed([7, None, 7]) == (
        fg.Number([0, 7]), "always 7 where it is not missing; missing in 1 of 3",
    )  # fmt: skip
    for value in (7, 0, -7):
        field, _ = proposed([value, None])
        schema = fg.Features(arm={"f": field})
        present, absent = schema.encode([{"f": value}, {}])
        assert set(np.flatnonzero(present)) & set(np.flatnonzero(absent)) == {0}


def test_whole_numbers_beyond_floats():
    field, _ = proposed([10**400, -(10**400), *range(20)])
    assert field.knots[0] >= 0.0
    assert field.knots[-1] <= 19.0


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_number_in_a_record_is_finite(value):
    with pytest.raises(fg.InvalidInput, match=r"arm\.f = .*: expected finite numbers, or null"):
        proposed([1.0, value])


# -- texts -------------------------------------------------------------------------------------


def test_few_texts_are_levels():
    field, note = proposed(["b", "a", "b", None])
    assert field == fg.Category(["a", "b"])
    assert note == '2 texts: "b" 2, "a" 1; missing in 1 of 4'


def test_levels_where_they_cost_no_more_than_buckets():
    few, many = ([f"t{k % n}" for k in range(1000)] for n in (64, 120))
    assert len(proposed(few)[0].levels) == 64
    assert proposed(many)[0] == fg.Category(buckets=64)


def test_rare_levels_are_others():
    rng = random.Random(0)
    values = [f"often {rng.randrange(10)}" for _ in range(950)] + [f"once {k}" for k in range(80)]
    field, _ = proposed(values)
    assert {f"often {k}" for k in range(10)} < set(field.levels)
    assert len(field.levels) == 64


@pytest.mark.parametrize("times", [1, 2, 20])
def test_ids_are_left_out(times):
    field, why = proposed([f"user-{k}" for k in range(2000)] * times)
    assert field is None
    assert why == f"2,000 different texts in {2000 * times:,}, none of them frequent"


def test_few_rows_of_ids_are_left_out_too():
    assert proposed([f"user-{k}" for k in range(40)])[0] is None
    assert proposed([f"user-{k}" for k in range(30)])[0] is not None  # levels are no risk


def test_texts_that_recur_are_hashed():
    rng = np.random.default_rng(0)
    cities = np.minimum(rng.zipf(1.3, 20_000), 5000)
    assert proposed([f"city {k}" for k in cities])[0] == fg.Category(buckets=64)


def test_truth_values_are_texts():
    field, note = proposed([True, False, True])
    assert field == fg.Category(["false", "true"])
    assert note == '2 texts: "true" 2, "false" 1'
    assert proposed([True, "true", "maybe", np.True_])[1] == '2 texts: "true" 3, "maybe" 1'


def test_a_text_that_is_always_the_same():
    assert proposed(["x", "x"]) == (None, 'it is always "x"')
    assert proposed(["x", None, "x"])[0] == fg.Category(["x"])
    assert proposed([None, None]) == (None, "it has no value")


def test_a_field_that_most_records_lack():
    arms = [
        {"other": k % 3, **({"f": "ab"[k // 100 % 2]} if k % 100 == 0 else {})} for k in range(1000)
    ]
    found = propose([{"arms": arms}])
    assert found.fields["arm"]["f"] == fg.Category(["a", "b"])
    assert found.notes["arm.f"].endswith("; missing in 990 of 1,000")


def test_texts_that_are_names_of_places():
    field, _ = proposed(["(other)", "(missing)", "a * b", "a"])
    assert field == fg.Category(["a"])
    assert proposed(["(other)", "(missing)"])[0] is None


def test_the_order_of_records_changes_nothing():
    values = [f"t{k % 45}" for k in range(300)] + [f"t{k % 20}" for k in range(3000)]
    first = proposed(values)
    random.Random(1).shuffle(values)
    assert proposed(values) == first


# -- lists -------------------------------------------------------------------------------------


def test_lists_of_texts_are_sets():
    field, note = proposed([["b", "a", "b"], [], ["a"], ("c",)])
    assert field == fg.Tags(["a", "b", "c"])
    assert isinstance(field, fg.Tags)
    assert note == '3 texts: "a" 2, "b" 1, "c" 1'  # a text counts once per list
    many, _ = proposed([[f"t{k % 90}", f"t{k % 7}"] for k in range(900)])
    assert isinstance(many, fg.Tags)
    assert many.buckets == 64


def test_lists_without_a_use():
    assert proposed([[], []]) == (None, "its lists are empty")
    assert proposed([["a"], ["a"]]) == (None, 'it is always "a"')
    assert proposed([["a"], []])[0] == fg.Tags(["a"])
    assert proposed([[f"t{k}", f"u{k}"] for k in range(100)])[0] is None


# -- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (["a", 1], r"arm\.f = \[1, 'a'\]: expected values of one kind"),
        ([1.0, True], r"arm\.f = \[1.0, True\]: expected values of one kind"),
        ([["a"], "a"], r"arm\.f = \[\['a'\], 'a'\]: expected values of one kind"),
        ([{"a": 1}], r"arm\.f = \{'a': 1\}: expected text, numbers or lists of text: flatten it"),
        ([["a"], ["a", None]], r"arm\.f = \['a', None\]: expected text"),
        ([[1.0, 2.0]], r"arm\.f = \[1.0, 2.0\]: expected text"),
        ([datetime.date(2024, 1, 2)], r"arm\.f = datetime.date\(2024, 1, 2\): expected text"),
    ],
    ids=str,
)
def test_values_that_fit_no_field(values, said):
    with pytest.raises(fg.InvalidInput, match=said):
        proposed(values)


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([], "records = 'no field of an arm'"),
        ([{"arm": {}}], "records = 'no field of an arm'"),
        ([{"context": {"x": 1}, "arms": []}], "records = 'context.x: it is always 1'"),
        ([{"context": {}}], r"records\[0\] = .*expected a record with"),
        ([{"arm": {}}, 3], r"records\[1\] = 3"),
        ([{"arm": {}}, {"arm": [1.0, 2.0]}], r"records\[1\]\.arm = \[1.0, 2.0\]: .*fields by name"),
        ([{"arms": {"a": 1}}], r"records\[0\]\.arms = .*a list of records"),
        ([{"arm": {}, "context": 3}], r"records\[0\]\.context = 3"),
        ([{"arm": {}, "context": []}], r"records\[0\]\.context = \[\]"),
        ({"context": {}, "arm": {}}, "records = "),
        ("abc", "records = 'abc'"),
        (3, "records = 3"),
        ({"a": [1, 2], "b": [1]}, r"lengths of columns = \{'a': 2, 'b': 1\}"),
        (pl.LazyFrame({"a": [1, 2]}), r"records = 'a LazyFrame': .*collect\(\)"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), r"names of columns = \['a', 'a'\]"),
        (pd.DataFrame({"a": pd.to_datetime(["2024-01-02"])}), r"arm\.a = .*expected text, numbers"),
        (pl.DataFrame({"a": [datetime.date(2024, 1, 2)]}), r"arm\.a = .*expected text, numbers"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_records_that_are_none(records, said):
    with pytest.raises(fg.InvalidInput, match=said):
        fg.Features.infer(records)


def test_a_cross_with_a_field_that_is_left_out_says_why():
    log = [{"context": {"shop": "x"}, "arm": {"kind": "ab"[k % 2]}} for k in range(9)]
    with pytest.raises(fg.InvalidInput, match=r"crosses\[0\] = 'context.shop'.*it is always \"x\""):
        fg.Features.infer(log, crosses=[("context.shop", "arm.kind")])
    with pytest.raises(fg.InvalidInput, match=r"crosses\[0\] = 'arm.knd'.*did you mean arm.kind"):
        fg.Features.infer(log, crosses=[("arm.knd", "arm.kind")])
    with pytest.raises(fg.InvalidInput, match=r"crosses = 3: expected a list of pairs"):
        fg.Features.infer(log, crosses=3)


# -- records, frames and columns -----------------------------------------------------------------


def test_all_arms_of_a_decision_count_and_so_does_each_context_once():
    log = [
        {"context": {"age": k}, "arms": [{"p": 1}, {"p": 2}, {"p": k}], "arm": 1, "reward": 0.5}
        for k in range(4)
    ]
    found = propose(log)
    assert found.fields["context"] == {"age": fg.Number([0, 1, 2, 3])}
    assert found.fields["arm"] == {"p": fg.Number([0, 1, 2, 3])}
    assert found.left_out == {}


EXPECTED = fg.Features(
    context={"age": fg.Number([20, 30, 40])},
    arm={
        "kind": fg.Category(["a", "b"]),
        "new": fg.Category(["false", "true"]),
        "stars": fg.Number([1, 2]),
        "price": fg.Number([0.5, 1.5]),
        "tags": fg.Tags(["x", "y"]),
    },
)
COLUMNS = {
    "context.age": [20, None, 30, 40],
    "arm.kind": ["a", "b", None, "a"],
    "arm.new": [True, False, True, None],
    "arm.stars": [1, 2, None, 1],
    "arm.price": [0.5, 1.5, None, 0.5],
    "arm.tags": [["x"], None, ["y", "x"], []],
    "reward": [0.0, 1.0, 0.0, 1.0],
}
PANDAS = pd.DataFrame(COLUMNS).astype(
    {"context.age": "Int64", "arm.kind": "category", "arm.new": "boolean", "arm.stars": "Int8"}
)
KINDS = {"arm.kind": pl.Categorical, "context.age": pl.UInt8, "arm.price": pl.Float32}


@pytest.mark.parametrize(
    "frame",
    [
        COLUMNS,
        pd.DataFrame(COLUMNS),  # NaN in columns of objects and floats
        PANDAS,
        PANDAS.set_index(pd.Index([5, 5, 2, 9])),
        pd.DataFrame(COLUMNS).astype({"arm.kind": "string", "arm.price": "Float32"}),
        pl.DataFrame(COLUMNS),
        pl.DataFrame(COLUMNS).cast(KINDS),
        pl.DataFrame({**COLUMNS, "arm.price": [0.5, 1.5, float("nan"), 0.5]}),
        {**COLUMNS, "arm.price": np.array([0.5, 1.5, np.nan, 0.5], dtype=np.float32)},
        {**COLUMNS, "arm.new": [np.True_, np.False_, np.True_, None]},
        {**COLUMNS, "arm.kind": pd.Series(["a", "b", None, "a"])},
        {**COLUMNS, "arm.stars": pl.Series([1, 2, None, 1])},
    ],
    ids=range(12),
)  # fmt: skip
def test_frames_and_columns_are_like_records(frame):
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]
    log = [
        {
            "context": {"age": row["context.age"]},
            "arm": {n[4:]: v for n, v in row.items() if n.startswith("arm.")},
            "reward": row["reward"],
        }
        for row in rows
    ]
    assert fg.Features.infer(log) == EXPECTED
    assert fg.Features.infer(frame) == EXPECTED
    assert propose(frame).notes == propose(log).notes
    assert all("missing in 1 of 4" in note for note in propose(frame).notes.values())


def test_categories_of_numbers_are_texts():
    frame = pd.DataFrame({"code": pd.Categorical([10, 20, 10])})
    assert fg.Features.infer(frame).arm == {"code": fg.Category(["10", "20"])}


def test_without_columns_of_the_arm_all_others_are():
    frame = pl.DataFrame({"context.age": [1, 2], "armour": ["a", "b"], "x.y": [1.5, 2.5]})
    found = fg.Features.infer(frame)
    assert (list(found.context), list(found.arm)) == (["age"], ["armour", "x.y"])


@pytest.mark.parametrize("key", ["arm", "arms"])
def test_frames_of_nested_records(key):
    arms = [{"p": "ab"[k % 2]} for k in range(6)]
    given = arms if key == "arm" else [[arm] for arm in arms]
    columns = {
        "context": [None, *({"age": k % 3} for k in range(5))],
        key: given,
        "reward": [1] * 6,
    }
    found = [fg.Features.infer(frame(columns)) for frame in (dict, pl.DataFrame, pd.DataFrame)]
    if key == "arms":  # as pandas reads them from Parquet
        arrays = [np.array(each, dtype=object) for each in given]
        found.append(fg.Features.infer(pd.DataFrame({**columns, key: arrays})))
    for each in found:
        assert each.arm == {"p": fg.Category(["a", "b"])}
        assert each.context == {"age": fg.Number([0, 1, 2])}


def test_what_is_proposed_encodes_the_records():
    rng = np.random.default_rng(0)
    arms = [
        {
            "kind": str(rng.choice(["a", "b", "c"])),
            "price": float(rng.lognormal(3.0, 2.0)),
            "tags": [f"t{k}" for k in rng.integers(0, 60, rng.integers(0, 5))],
            "new": bool(rng.integers(2)) if rng.random() < 0.5 else None,
        }
        for _ in range(500)
    ]
    contexts = [{"age": int(rng.integers(18, 90))} for _ in arms]
    log = [{"context": c, "arm": a} for c, a in zip(contexts, arms, strict=True)]
    features = fg.Features.infer(log, crosses=[("context.age", "arm.kind")])
    X = features.encode_rows(arms, contexts)
    assert X.shape == (500, features.dim)
    assert np.linalg.norm(X, axis=1).max() <= 1.0 + 1e-12
    idle = [name for name, x in zip(features.names, X.T, strict=True) if not x.any()]
    assert all("(other)" in name or "(missing)" in name or "arm.tags#" in name for name in idle)
