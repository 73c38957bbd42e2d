"""Tables: a user's own, and what is read from the raw files."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import fedglb as fg
from fedglb.environments.datasets import DATASETS
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
        ({"x": [1.0, 2.0]}, [0, 2], r"labels\[1\] = 2.0 .* 0 or 1"),
        ({"x": [1.0, 2.0]}, [0.0, np.nan], r"labels\[1\] = nan"),
        ({"x": [1.0, 2.0]}, [0, 1, 1], r"len\(columns\['x'\]\) = 2 .* 3 rows"),
        ({"x": [1.0, 2.0], "y": [1.0]}, [0, 1], r"len\(columns\['y'\]\) = 1 .* 2 rows"),
        ({"x": [1.0, np.nan]}, [0, 1], r"columns\['x'\]\[1\] = nan"),
        ({"x": [1.0, None]}, [0, 1], r"columns\['x'\]\[1\] = None .* numbers only"),
        ({"x": [1.0, "a"]}, [0, 1], r"columns\['x'\]\[1\] = 'a' .* numbers only"),
        ({"x": ["a", 1.0]}, [0, 1], r"columns\['x'\]\[1\] = 1.0 .* strings only"),
        ({"x": [1j, 2j]}, [0, 1], r"columns\['x'\]\[0\] = 1j"),
        ({"x": [[1.0], [2.0]]}, [0, 1], r"columns\['x'\].shape = \(2, 1\)"),
        ({"x": []}, [0, 1], r"columns\['x'\].shape = \(0,\)"),
        ({}, [0, 1], r"columns = \{\} .* a dict"),
        ([[1.0, 2.0]], [0, 1], r"columns = .* a dict"),
        ({3: [1.0, 2.0]}, [0, 1], r"name of a column = 3"),
    ],
)
def test_bad_tables(columns, labels, said):
    with pytest.raises(fg.InvalidInput, match=said):
        fg.Table(columns, labels)


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


def test_magic_and_mushroom():
    table = read(DATASETS["magic"], b"1,2,3,4,5,6,7,8,9,10.5,h\n1,2,3,4,5,6,7,8,9,-1,g\n")
    assert table.columns["fDist"].tolist() == [10.5, -1.0]
    assert table.labels.tolist() == [0.0, 1.0]
    letters = "xsntpfcnkeesswwpwopksu"
    rows = f"p,{','.join(letters)}\ne,{','.join(letters).replace('e', '?')}\n"
    table = read(DATASETS["mushroom"], rows.encode())
    assert table.labels.tolist() == [0.0, 1.0]
    assert table.columns["stalk-root"].tolist() == ["e", "?"]
    assert table.columns["habitat"].tolist() == ["u", "u"]


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
    feature_map = fg.FeatureMap.fit(table)
    assert feature_map.dim == known.dim == len(feature_map.names)
    assert not [n for n in (*table.columns, *feature_map.names) if "label" in n or "class" in n]
    encoded = feature_map.encode(table.columns)
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
