"""The folder of a study, and how it is read back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from fedglb.errors import InvalidInput
from fedglb.studies import SweepResult, load
from fedglb.studies.report import Study, study_of_sweep
from fedglb.studies.run.fixed_models import SCHEMA

STUDY, SWEEPS, RACES, FIXED = "study.json", "sweeps", "races", "fixed-models"


class StudyFile(msgspec.Struct, frozen=True):
    """`study.json`: what was run, where it is, and how its parameters were chosen."""

    name: str
    title: str
    profile: str
    measure: str
    sweeps: list[str]
    fixed: str
    choice: dict[str, Any] | None
    full: dict[str, Any] = {}

    def to_json(self) -> bytes:
        """Return the file's content."""
        return json.dumps(msgspec.to_builtins(self), indent=1, ensure_ascii=False).encode()


def read_fixed(path: Path) -> pl.DataFrame | None:
    """Return the fixed models' results, or None where they are missing or damaged."""
    try:
        found = pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError):
        return None
    return found if dict(found.schema) == SCHEMA and found.height else None


def load_study(folder: str | Path) -> Study:
    """Read a folder of `reproduce`, or of a plain sweep."""
    place = Path(folder)
    try:
        about = msgspec.json.decode((place / STUDY).read_bytes(), type=StudyFile)
    except (FileNotFoundError, NotADirectoryError):
        if (place / SWEEPS).is_dir():
            allowed = "a finished study: this one was stopped, and `fedglb reproduce` resumes it"
            raise InvalidInput("folder", str(folder), allowed) from None
        return study_of_sweep(place)
    except msgspec.DecodeError:
        raise _damaged(folder, STUDY) from None
    result = joined([load(place / sweep) for sweep in about.sweeps])
    fixed = read_fixed(place / about.fixed)
    if fixed is None:
        raise _damaged(folder, about.fixed)
    return Study(
        about.name, about.title, about.profile, about.measure, result, fixed, about.choice,
        result.manifest["data"], about.full,
    )  # fmt: skip


def joined(results: Sequence[SweepResult]) -> SweepResult:
    """Return the runs of several sweeps on the same data as one; the first one's manifest."""
    runs, traces = (
        pl.concat(each) for each in zip(*((r.runs, r.traces) for r in results), strict=True)
    )
    return SweepResult(runs, traces, results[0].manifest)


def _damaged(folder: str | Path, name: str) -> InvalidInput:
    allowed = f"a whole one: its {name} is damaged; `fedglb reproduce` writes it again"
    return InvalidInput("folder", str(folder), allowed)
