"""Tables of pandas and polars frames: what is read, what is missing, what is refused."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal

import fedglb as fg

VALUES = {"x": [1.5, 2.0, 3.0], "n": [1, 2, 3], "b": [True, False, True], "c": ["u", "v", "u"]}
LABELS = [0, 1, 1]


def equal(one: fg.Table, two: fg.Table) -> None:
    assert list(one.columns) == list(two.columns)
    for name in one.columns:
        assert_array_equal(one.columns[name], two.columns[name])
        assert one.columns[name].dtype == two.columns[name].dtype
    assert_array_equal(one.labels, two.labels)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_a_frame_is_read_as_its_columns(frame):
    wanted = fg.Table(VALUES, LABELS)
    equal(fg.Table(frame(VALUES), LABELS), wanted)
    with_labels = frame({**VALUES, "y": LABELS})
    equal(fg.Table(with_labels, "y"), wanted)
    rest = with_labels.drop(columns="y") if frame is pd.DataFrame else with_labels.drop("y")
    equal(fg.Table(rest, with_labels["y"]), wanted)
    equal(fg.Table({name: with_labels[name] for name in VALUES}, LABELS), wanted)
    assert fg.Table(with_labels, "y").left_out == 0


def test_categories_are_strings_also_those_of_numbers():
    codes, colours = pd.Categorical([10, 20, 10]), pd.Categorical(["u", "v", "u"])
    table = fg.Table(pd.DataFrame({"code": codes, "c": colours}), LABELS)
    assert table.columns["code"].tolist() == ["10", "20", "10"]
    assert table.columns["c"].tolist() == ["u", "v", "u"]
    kinds = {"c": pl.Categorical, "e": pl.Enum(["u", "v"])}
    table = fg.Table(pl.DataFrame({k: ["u", "v", "u"] for k in kinds}, schema=kinds), LABELS)
    assert table.columns["e"].tolist() == table.columns["c"].tolist() == ["u", "v", "u"]


FRAMES = {
    "polars": pl.DataFrame(
        {"x": [1.0, None, 3.0, 4.0], "z": [1.0, 2.0, float("nan"), 4.0],
         "c": ["u", "?", "v", None], "whole": [1, 2, 3, 4], "y": [0, 1, 1, 1]}
    ),
    "pandas": pd.DataFrame(
        {"x": [1.0, None, 3.0, 4.0], "z": pd.array([1, 2, None, 4], dtype="Int64"),
         "c": ["u", "?", "v", None], "whole": [1, 2, 3, 4], "y": [0, 1, 1, 1]}, index=[7, 8, 9, 3]
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", FRAMES)
def test_missing_values_are_refused_by_column_or_left_out_and_counted(kind):
    frame = FRAMES[kind]
    with pytest.raises(fg.InvalidInput) as caught:
        fg.Table(frame, "y")
    text = str(caught.value)
    assert "1 in columns['x'], 1 in columns['z'], 1 in columns['c']" in text
    assert "whole" not in text
    assert "missing='drop' to leave out 3 of 4 rows" in text
    table = fg.Table(frame, "y", missing="drop")
    assert (table.rows, table.left_out) == (1, 3)
    assert repr(table) == "Table('own', 1 rows, 4 columns; 3 rows with missing values left out)"
    assert table.columns["c"].tolist() == ["u"]
    some = fg.Table(frame[["whole", "x"]], frame["y"], missing="drop")
    assert some.columns["whole"].tolist() == [1.0, 3.0, 4.0]
    assert some.labels.tolist() == [0.0, 1.0, 1.0]


def test_lists_and_labels_lack_values_too():
    columns = {"x": [1.0, np.nan, 3.0, 4.0], "c": ["a", "b", None, "d"]}
    table = fg.Table(columns, [0, 1, 1, 1], missing="drop")
    assert table.columns["x"].tolist() == [1.0, 4.0]
    assert table.left_out == 2
    frame = pl.DataFrame({"x": [1.0, 2.0], "y": [1, None]})
    with pytest.raises(fg.InvalidInput, match="1 in labels"):
        fg.Table(frame, "y")
    assert fg.Table(frame, "y", missing="drop").rows == 1


@pytest.mark.parametrize(
    ("columns", "labels", "said"),
    [
        (pl.DataFrame({"d": [datetime.date(2020, 1, 1)]}), [0], r"columns\['d'\].dtype = 'Date'"),
        (pd.DataFrame({"d": pd.to_datetime(["2020-01-01"])}), [0], r"columns\['d'\].dtype = 'date"),
        (pd.DataFrame({"z": [1j]}), [0], r"columns\['z'\].dtype = 'complex128'"),
        (pd.DataFrame({"z": [1.0, "a"]}), [0, 1], r"columns\['z'\]\[1\] = 'a' .* numbers only"),
        (pl.DataFrame({"x": [1.0]}).lazy(), [0], r"LazyFrame.*collect"),
        (pl.DataFrame({"x": [1.0]}), "y", r"labels = 'y' .* the name of a column: x"),
        (pl.DataFrame({"x": [1.0], "y": ["no"]}), "y", r"labels"),
        (pl.DataFrame({"x": [1.0], "y": [2]}), "y", r"labels\[0\] = 2.0 .* 0 or 1"),
        (pl.DataFrame({"x": [float("inf")]}), [1], r"columns\['x'\]\[0\] = inf"),
        (pl.DataFrame({"x": []}, schema={"x": pl.Float64}), [], r"shape"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), [1], r"name of a column = 'a' .* once"),
        (pd.DataFrame([[1, 2]]), [1], r"name of a column = 0"),
        (pd.DataFrame({"x": [1, 2]}), pd.Series([0, 1], index=[1, 0]), r"labels.index"),
    ],
)
def test_what_is_refused(columns, labels, said):
    with pytest.raises(fg.InvalidInput, match=said):
        fg.Table(columns, labels)


def test_a_table_without_whole_rows_and_an_unknown_wish():
    with pytest.raises(fg.InvalidInput, match="each of them lacks one"):
        fg.Table(pl.DataFrame({"x": [None, 1.0], "z": [1.0, None]}), [0, 1], missing="drop")
    with pytest.raises(fg.InvalidInput, match="one of refuse, drop"):
        fg.Table({"x": [1.0]}, [0], missing="dropp")


def test_a_map_takes_frames():
    fitted = fg.FeatureMap.fit(fg.Table(VALUES, LABELS))
    for frame in (pd.DataFrame(VALUES), pl.DataFrame(VALUES)):
        assert_array_equal(fitted.encode(frame), fitted.encode(VALUES))
