"""A run as one file: a ZIP archive that any tool can look into.

* `run.json`: the version of the format, totals, parameters, caveats, software versions.
* `trace.parquet`, `updates.parquet`, `ledger.parquet`: the tables.
* `choices.npy`, `regrets.npy`, `drawn.npy` and, where there is a model, `theta.npy`: the arrays.
"""

from __future__ import annotations

import dataclasses
import io
import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl

from fedglb.errors import InvalidInput
from fedglb.io.atomic import atomic_write
from fedglb.privacy import PrivacyStatement
from fedglb.provenance import software
from fedglb.simulation.results import TOTALS, Run

#: The version of these files. A file of another version is refused: run the simulation again.
FORMAT = 2
FACTS = "run.json"
TABLES = ("trace", "updates", "ledger")
ARRAYS = ("choices", "regrets", "drawn", "theta")
#: Errors from reading a damaged file.
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, KeyError, TypeError, ValueError, EOFError, NotImplementedError,
    OSError, RuntimeError, pl.exceptions.PolarsError, msgspec.MsgspecError,
)  # fmt: skip


def write_run(run: Run, path: Path) -> None:
    """Write a run to a file atomically."""
    arrays = {name: getattr(run, name) for name in ARRAYS if getattr(run, name) is not None}
    facts = {
        "format": FORMAT,
        "arrays": list(arrays),
        "totals": {name: getattr(run, name) for name in TOTALS},
        "parameters": run.parameters,
        "caveats": run.caveats,
        **({} if run.privacy is None else {"privacy": dataclasses.asdict(run.privacy)}),
        "software": software(),
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr(FACTS, json.dumps(facts, indent=1, default=_plain, ensure_ascii=False))
        for name in TABLES:
            content = io.BytesIO()
            getattr(run, name).write_parquet(content)
            archive.writestr(f"{name}.parquet", content.getvalue())
        for name, array in arrays.items():
            content = io.BytesIO()
            np.save(content, array, allow_pickle=False)
            archive.writestr(f"{name}.npy", content.getvalue())
    try:
        atomic_write(path, buffer.getvalue())
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        raise InvalidInput("path", str(path), "a file in an existing folder") from None


def _plain(value: object) -> Any:
    """Return a NumPy number as Python's, and anything else as text."""
    return value.item() if isinstance(value, np.generic) else repr(value)


def load_run(path: str | Path) -> Run:
    """Read a run that `Run.save` wrote.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    Run
        All of the run, to the bit; values of `parameters` as JSON has them.

    Raises
    ------
    InvalidInput
        If the file does not exist, is not a run, is damaged, or has another version of the
        format.

    Examples
    --------
    >>> import fedglb as fg
    >>> env = fg.Synthetic(fg.Problem(dim=3), clients=5, arms=4)
    >>> run = fg.simulate(fg.fedglb_auto(), env, horizon=20)
    >>> path = getfixture("tmp_path") / "auto.run"
    >>> run.save(path)
    >>> again = fg.load_run(path)
    >>> again.trace.equals(run.trace), again.parameters == run.parameters
    (True, True)
    """
    place = Path(path)
    if not place.is_file():
        raise InvalidInput("path", str(path), "a file of run.save(path): it does not exist")
    if not zipfile.is_zipfile(place):
        allowed = "a file of run.save(path): this is another kind of file, or truncated"
        raise InvalidInput("path", str(path), allowed)
    try:
        with zipfile.ZipFile(place) as archive:
            facts = json.loads(archive.read(FACTS))
            found = facts["format"]
            if found == FORMAT:
                return _run(archive, facts)
    except _DAMAGE as error:
        allowed = f"an undamaged file of run.save(path): {type(error).__name__}: {error}"
        raise InvalidInput("path", str(path), allowed) from None
    allowed = f"a file of format {FORMAT}, not {found!r}"
    raise InvalidInput(
        "path", str(path), f"{allowed}; run the simulation again, or use its release"
    )


def _run(archive: zipfile.ZipFile, facts: dict[str, Any]) -> Run:
    tables: dict[str, Any] = {
        name: pl.read_parquet(io.BytesIO(archive.read(f"{name}.parquet"))) for name in TABLES
    }
    arrays: dict[str, Any] = {
        name: np.load(io.BytesIO(archive.read(f"{name}.npy")), allow_pickle=False)
        for name in facts["arrays"]
    }
    return Run(
        **{name: facts["totals"][name] for name in TOTALS},
        **tables,
        **{"theta": None, **arrays},
        parameters=facts["parameters"],
        caveats=tuple(facts["caveats"]),
        privacy=msgspec.convert(facts.get("privacy"), PrivacyStatement | None),
    )
