"""Tables: of lists, of pandas and polars frames, and of the raw files."""

from __future__ import annotations

import datetime
import hashlib

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal

import fedglb as fg
from fedglb.environments.datasets import DATASETS
from fedglb.environments.datasets.conversion import Conversion
from fedglb.environments.datasets.fetch import locate
from fedglb.environments.datasets.table import read
from tests.environments.datasets.extracts import content


def test_columns_are_numbers_or_strings_and_their_own():
    x = np.array([1, 2, 3])
    labels = np.array([0.0, 1.0, 1.0])
    table = fg.Table({"x": x, "flag": [True, False, True], "c": ["a", "bc", "a"]}, labels)
    assert {name: c.dtype.kind for name, c in table.columns.items()} == {
        "x": "f", "flag": "f", "c": "U",
    }  # fmt: skip
    x[:], labels[:] = 9, 0.0
    assert_array_equal(table.columns["x"], [1.0, 2.0, 3.0])
    assert_array_equal(table.labels, [0.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="read-only"):
        table.columns["x"][0] = 5.0
    assert table.sha256 is None
    assert table.rows == 3


@pytest.mark.parametrize(
    ("columns", "labels", "said"),
    [
        ({"x": [1.0, 2.0]}, [0, 2], r"labels\[1\] = 2.0: .*0 or 1"),
        ({"x": [1.0, 2.0]}, [0.0, np.nan], r"labels\[1\] = nan"),
        ({"x": [1.0, 2.0]}, [0, 1, 1], r"len\(columns\['x'\]\) = 2: .*3 rows"),
        ({"x": [1.0, 2.0], "y": [1.0]}, [0, 1], r"len\(columns\['y'\]\) = 1: .*2 rows"),
        ({"x": [1.0, np.nan]}, [0, 1], r"columns\['x'\]\[1\] = nan"),
        ({"x": [1.0, None]}, [0, 1], r"columns\['x'\]\[1\] = None: .*numbers only"),
        ({"x": [1.0, "a"]}, [0, 1], r"columns\['x'\]\[1\] = 'a': .*numbers only"),
        ({"x": ["a", 1.0]}, [0, 1], r"columns\['x'\]\[1\] = 1.0: .*strings only"),
        ({"x": [1j, 2j]}, [0, 1], r"columns\['x'\]\[0\] = 1j"),
        ({"x": [[1.0], [2.0]]}, [0, 1], r"columns\['x'\].shape = \(2, 1\)"),
        ({"x": []}, [0, 1], r"columns\['x'\].shape = \(0,\)"),
        ({}, [0, 1], r"columns = \{\}: .*a dict"),
        ([[1.0, 2.0]], [0, 1], r"columns = .* a dict"),
        ({3: [1.0, 2.0]}, [0, 1], r"name of a column = 3"),
    ],
)
def test_bad_tables(columns, labels, said):
    with pytest.raises(fg.InvalidInput, match=said):
        fg.Table(columns, labels)


# -- frames: what is read, what is missing, what is refused ------------------------------------

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
        (pd.DataFrame({"z": [1.0, "a"]}), [0, 1], r"columns\['z'\]\[1\] = 'a': .*numbers only"),
        (pl.DataFrame({"x": [1.0]}).lazy(), [0], r"LazyFrame.*collect"),
        (pl.DataFrame({"x": [1.0]}), "y", r"labels = 'y': .*the name of a column: x"),
        (pl.DataFrame({"x": [1.0], "y": ["no"]}), "y", r"labels"),
        (pl.DataFrame({"x": [1.0], "y": [2]}), "y", r"labels\[0\] = 2.0: .*0 or 1"),
        (pl.DataFrame({"x": [float("inf")]}), [1], r"columns\['x'\]\[0\] = inf"),
        (pl.DataFrame({"x": []}, schema={"x": pl.Float64}), [], r"shape"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), [1], r"name of a column = 'a': .*once"),
        (pd.DataFrame([[1, 2]]), [1], r"name of a column = 0"),
        (pd.DataFrame({"x": [1, 2]}), pd.Series([0, 1], index=[1, 0]), r"labels.index"),
    ],
)
def test_bad_frames(columns, labels, said):
    with pytest.raises(fg.InvalidInput, match=said):
        fg.Table(columns, labels)


def test_a_table_without_whole_rows_and_an_unknown_wish():
    with pytest.raises(fg.InvalidInput, match="rows without missing values"):
        fg.Table(pl.DataFrame({"x": [None, 1.0], "z": [1.0, None]}), [0, 1], missing="drop")
    with pytest.raises(fg.InvalidInput, match="one of refuse, drop"):
        fg.Table({"x": [1.0]}, [0], missing="dropp")


# -- raw files ---------------------------------------------------------------------------------


def covertype_row(area: int, soil: int, label: int) -> list[int]:
    numbers = [2596, 51, 3, 258, -6, 510, 221, 232, 148, 6279]
    return [*numbers, *(np.arange(4) == area), *(np.arange(40) == soil), label]


def as_csv(rows) -> bytes:
    return "".join(",".join(str(int(x)) for x in row) + "\n" for row in rows).encode()


def test_covertype_is_decoded():
    rows = [covertype_row(0, 39, 1), covertype_row(3, 0, 2), covertype_row(2, 9, 1)]
    table = read(DATASETS["covertype"], as_csv(rows))
    assert len(table.columns) == 12
    assert table.columns["Vertical_Distance_To_Hydrology"].tolist() == [-6.0] * 3
    areas = ["Rawah", "Cache la Poudre", "Comanche Peak"]
    assert table.columns["Wilderness_Area"].tolist() == areas
    assert table.columns["Soil_Type"].tolist() == ["40", "01", "10"]
    assert table.labels.tolist() == [1.0, 0.0, 1.0]
    assert table.sha256 == DATASETS["covertype"].sha256


@pytest.mark.parametrize("place", [10, 20])
def test_a_row_of_covertype_with_two_soils_or_none_is_refused(place):
    rows = [covertype_row(0, 39, 1), covertype_row(3, 0, 2)]
    for value in (1 - rows[1][place], 2):
        rows[1][place] = value
        with pytest.raises(fg.InvalidInput, match=r"of row 1 of covtype\.data"):
            read(DATASETS["covertype"], as_csv(rows))


@pytest.mark.parametrize(
    ("name", "columns", "first"),
    [
        ("covertype", 12, {"Elevation": 2596.0, "Soil_Type": "29"}),
        ("magic", 10, {"fLength": 28.7967, "fDist": 81.8828}),
        ("mushroom", 22, {"cap-shape": "x", "habitat": "u"}),
    ],
)
def test_the_raw_files(raw_files, name, columns, first):
    table, known = fg.load_table(name), DATASETS[name]
    assert (table.rows, len(table.columns)) == (known.rows, columns)
    raw = locate(name)[1].decode()
    place = known.columns.index("label")
    positive = [line.split(",")[place] == known.positive for line in raw.splitlines()]
    assert_array_equal(table.labels, positive)
    assert {key: table.columns[key][0] for key in first} == first
    assert not [name for name in table.columns if "label" in name or "class" in name]
    encoded = Conversion.fit(table, constant=True).encode(table)
    assert encoded.shape[1] + 1 == known.dim
    for feature in encoded.T:  # nor is one of them the label in disguise
        low, high = feature.min(), feature.max()
        if low < high:
            unit = (feature - low) / (high - low)
            assert not np.array_equal(unit, table.labels)
            assert not np.array_equal(1.0 - unit, table.labels)
    if name == "mushroom":
        assert (table.columns["stalk-root"] == "?").sum() == raw.count("?") > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "rows", "ones", "missing", "sha256"),
    [
        ("covertype", 581_012, 211_840, 0, "0a9371ce"),
        ("magic", 19_020, 12_332, 0, "e9314b7e"),
        ("mushroom", 8_124, 4_208, 2_480, "e65d0820"),
    ],
)
def test_the_full_files_are_those_that_uci_describes(full_files, name, rows, ones, missing, sha256):
    table, (_, raw) = fg.load_table(name), locate(name)
    assert hashlib.sha256(raw).hexdigest() == table.sha256
    assert table.sha256.startswith(sha256)
    assert (table.rows, table.labels.sum(), raw.count(b"?")) == (rows, ones, missing)
    if name == "mushroom":
        assert (table.columns["stalk-root"] == "?").sum() == missing


@pytest.mark.slow
@pytest.mark.parametrize("name", DATASETS)
def test_the_extracts_are_like_the_full_files(full_files, name):
    full, raw = fg.load_table(name), locate(name)[1]
    extract = read(DATASETS[name], content(name))
    assert content(name).splitlines()[0] == raw.splitlines()[0]
    assert list(extract.columns) == list(full.columns)
    for column, values in full.columns.items():
        made = extract.columns[column]
        if values.dtype.kind == "U":
            assert_array_equal(np.unique(made), np.unique(values))
        else:
            assert values.min() <= made.min() < made.max() <= values.max()
