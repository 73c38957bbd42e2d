"""Small files in the format of the data sets' raw files, made by the tests.

The first row is the real file's own (CC BY 4.0; `Dataset.citation` says whose it is), the others
are drawn: a row is of one of some kinds, each with its typical features and its rate of label 1.
All levels of the real file's categorical columns occur, so that an arm has as many features.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import replace
from typing import Any

import numpy as np

from fedglb.environments.datasets import DATASETS, Dataset

ROWS, KINDS = 400, 24

# Smallest and largest value of each numeric column in the real file, in the file's order.
RANGES = {
    "covertype": [
        (1859, 3858), (0, 360), (0, 66), (0, 1397), (-173, 601), (0, 7117), (0, 254), (0, 254),
        (0, 254), (0, 7173),
    ],
    "magic": [
        (4.2835, 334.177), (0.0, 256.382), (1.9413, 5.3233), (0.0131, 0.893), (0.0003, 0.6752),
        (-457.9161, 575.2407), (-331.78, 238.321), (-205.8947, 179.851), (0.0, 90.0),
        (1.2826, 495.561),
    ],
    "mushroom": [],
}  # fmt: skip
# Levels of each column of Mushroom but the label; "?" is a missing value.
LETTERS = [
    "bcfksx", "fgsy", "bcegnpruwy", "ft", "acflmnpsy", "af", "cw", "bn", "beghknopruwy", "et",
    "?bcer", "fksy", "fksy", "bcegnopwy", "bcegnopwy", "p", "nowy", "not", "eflnp", "bhknoruwy",
    "acnsvy", "dglmpuw",
]  # fmt: skip
DECIMALS = {"covertype": 0, "magic": 4}
OTHER_CLASSES = {"covertype": "234567", "magic": "h", "mushroom": "p"}
FIRST = {
    "covertype": f"2596,51,3,258,0,510,221,232,148,6279,1,0,0,0,{28 * '0,'}1,{11 * '0,'}5",
    "magic": "28.7967,16.0021,2.6449,0.3918,0.1982,27.7004,22.011,-8.2027,40.092,81.8828,g",
    "mushroom": "p,x,s,n,t,p,f,c,n,k,e,e,s,s,w,w,p,w,o,p,k,s,u",
}


@functools.cache
def content(name: str) -> bytes:
    """Return the extract of a data set, the same in every process."""
    known = DATASETS[name]
    rng = np.random.default_rng(11)
    kinds = rng.integers(KINDS, size=ROWS)
    ones = rng.random(ROWS) < kinds / (KINDS - 1)
    others = rng.choice(list(OTHER_CLASSES[name]), ROWS)
    columns: dict[str, Any] = {"label": np.where(ones, known.positive, others)}
    features = [column for column in known.columns if column != "label"]
    for column, (low, high) in zip(features, RANGES[name], strict=False):
        place = rng.random(KINDS)[kinds] + 0.1 * rng.standard_normal(ROWS)
        values = (low + (high - low) * np.clip(place, 0.0, 1.0)).round(DECIMALS[name])
        columns[column] = [f"{x:.8g}" for x in values + 0.0]  # no file has a "-0"
    for group in known.groups:
        chosen = _levels(len(group.levels), kinds, rng)
        columns |= {c: (chosen == i).astype(int) for i, c in enumerate(group.columns)}
    if not known.numeric:
        for column, letters in zip(features, LETTERS, strict=True):
            columns[column] = np.array(list(letters))[_levels(len(letters), kinds, rng)]
    drawn = zip(*(columns[column] for column in known.columns), strict=True)
    lines = [FIRST[name], *(",".join(map(str, row)) for row in drawn)]
    return "".join(line + "\n" for line in lines[:ROWS]).encode()


def _levels(count: int, kinds: Any, rng: np.random.Generator) -> Any:
    """Return a level for each row: mostly that of its kind; the first rows have one each."""
    typical = rng.integers(count, size=KINDS)[kinds]
    levels = np.where(rng.random(ROWS) < 0.9, typical, rng.integers(count, size=ROWS))
    levels[:count] = np.arange(count)
    return levels


def entries() -> dict[str, Dataset]:
    """Return the registry's entries with the extracts in place of the full files."""
    return {
        name: replace(known, sha256=hashlib.sha256(content(name)).hexdigest(), rows=ROWS)
        for name, known in DATASETS.items()
    }
