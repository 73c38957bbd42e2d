"""A study: its sweeps, panels × values of an axis; and its folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from fedglb.errors import InvalidInput
from fedglb.protocol.messages import BITS
from fedglb.studies.results.store import SweepResult, load
from fedglb.studies.results.tables import BASELINES
from fedglb.studies.spec.plan import Measure

STUDY, SWEEPS, RACES, FIXED = "study.json", "sweeps", "races", "fixed-models"


@dataclass(frozen=True)
class Cell:
    """One sweep of a study."""

    panel: str  # the panel's title; "" in a study without panels
    value: float | None  # of the varied key of `[environment]`; None without such a key
    result: SweepResult = field(repr=False)


def no_baselines() -> pl.DataFrame:
    """Return the table of baselines without rows."""
    return pl.DataFrame(schema=BASELINES)


@dataclass(frozen=True)
class Study:
    """A report's data: sweeps, panels × values of an axis; at least one sweep."""

    name: str
    title: str
    profile: str  # "quick", "full", …; may be empty
    measure: Measure  # the unit of communication
    cells: tuple[Cell, ...]  # panel by panel, with increasing values
    axis: str = ""  # a key of `[environment]`, or a parameter of algorithms; "" for none
    against: str = ""  # the reference algorithm of ratios; "" for none
    baselines: pl.DataFrame = field(default_factory=no_baselines, repr=False)
    choice: dict[str, Any] | None = field(default=None, repr=False)  # the result of `search.choose`
    full: dict[str, Any] = field(default_factory=dict, repr=False)  # a quick study's full size
    own: bool = False  # a sweep without a study's file: the page shows the varied parameters

    @property
    def result(self) -> SweepResult:
        """The first sweep: the only one of a study without an axis."""
        return self.cells[0].result


class CellFile(msgspec.Struct, frozen=True):
    """A cell in `study.json`: its sweeps are on the same data, and are shown as one."""

    panel: str
    value: float | None
    sweeps: list[str]


class StudyFile(msgspec.Struct, frozen=True):
    """`study.json`: its sweeps, their folders, and the choice of parameters."""

    name: str
    title: str
    profile: str
    measure: Measure
    axis: str
    against: str
    cells: list[CellFile]
    fixed: str | None
    choice: dict[str, Any] | None
    full: dict[str, Any]

    def to_json(self) -> bytes:
        """Return the file's content."""
        return json.dumps(msgspec.to_builtins(self), indent=1, ensure_ascii=False).encode()

    def study(self, cells: Sequence[Cell], baselines: pl.DataFrame | None) -> Study:
        """Return the study, given the contents of the files that this one names."""
        return Study(
            self.name, self.title, self.profile, self.measure, tuple(cells), self.axis,
            self.against, no_baselines() if baselines is None else baselines, self.choice,
            self.full,
        )  # fmt: skip


def load_study(folder: str | Path) -> Study:
    """Read a folder of `reproduce`, or of a plain sweep."""
    place = Path(folder)
    try:
        about = msgspec.json.decode((place / STUDY).read_bytes(), type=StudyFile)
    except (FileNotFoundError, NotADirectoryError):
        if (place / SWEEPS).is_dir():
            allowed = "a finished study: this one was interrupted; run `fedglb reproduce` to resume"
            raise InvalidInput("folder", str(folder), allowed) from None
        return study_of_sweep(place)
    except msgspec.DecodeError:
        raise _damaged(folder, STUDY) from None
    cells = [
        Cell(cell.panel, cell.value, joined([load(place / sweep) for sweep in cell.sweeps]))
        for cell in about.cells
    ]
    fixed = None if about.fixed is None else read_fixed(place / about.fixed)
    if about.fixed is not None and fixed is None:
        raise _damaged(folder, about.fixed)
    return about.study(cells, fixed)


def study_of_sweep(folder: str | Path) -> Study:
    """Return the study of a finished sweep: its runs and data; no baselines, no choice.

    As in the paper, communication is counted in transfers, or in scalars if DisLinUCB is among the
    algorithms, because its messages have another size; in bits if some numbers have not 64.
    """
    result = load(folder)
    name = str(result.manifest["name"])
    measure: Measure = "scalars" if "dislinucb" in result.runs["algorithm"] else "transfers"
    if (result.runs["bits"] != BITS * result.runs["scalars"]).any():
        measure = "bits"
    return Study(name, f"The sweep “{name}”", "", measure, (Cell("", None, result),), own=True)


def read_fixed(path: Path) -> pl.DataFrame | None:
    """Return the fixed models' results, or None if missing or damaged."""
    try:
        found = pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError):
        return None
    return found if dict(found.schema) == BASELINES and found.height else None


def joined(results: Sequence[SweepResult]) -> SweepResult:
    """Return the runs of several sweeps on the same data as one; the first one's manifest."""
    if len(results) == 1:
        return results[0]
    runs, traces = (
        pl.concat(each) for each in zip(*((r.runs, r.traces) for r in results), strict=True)
    )
    return SweepResult(runs, traces, results[0].manifest)


def _damaged(folder: str | Path, name: str) -> InvalidInput:
    allowed = f"an undamaged study: {name} is damaged; `fedglb reproduce` writes it again"
    return InvalidInput("folder", str(folder), allowed)
