"""CSV files that the user has, in a folder or in the zip archive as it was downloaded."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fedglb.errors import InvalidInput
from fedglb.io.atomic import checksum

if TYPE_CHECKING:
    import polars as pl


def read_csv(
    source: str | Path, name: str, columns: Mapping[str, type], origin: str
) -> tuple[pl.DataFrame, str]:
    """Return columns of a CSV file, each of a type (int, float or str), and the file's SHA-256.

    A missing text is "". `origin` says in errors where the data is from.
    """
    import polars as pl

    kinds = {int: pl.Int64, float: pl.Float64, str: pl.String}
    content = _content(source, name, origin)
    wanted = {column: kinds[kind] for column, kind in columns.items()}
    try:
        frame = pl.read_csv(content, columns=list(wanted), schema_overrides=wanted)
    except pl.exceptions.PolarsError as error:
        said = str(error).splitlines()[0]
        shown = ", ".join(columns) if len(columns) < 9 else f"{', '.join(list(columns)[:8])} …"
        allowed = f"a CSV file with the columns {shown}, as in {origin} ({said})"
        raise InvalidInput("folder", f"{source}: {name}", allowed) from error
    frame = frame.with_columns(pl.col(pl.String).fill_null(""))
    lacking = [column for column in wanted if frame[column].null_count()]
    if lacking or frame.is_empty():
        allowed = f"numbers in all rows of {lacking[0]}" if lacking else "rows"
        raise InvalidInput("folder", f"{source}: {name}", allowed)
    return frame.select(list(wanted)), checksum(content)


def _content(source: str | Path, name: str, origin: str) -> bytes:
    allowed = f"a folder, or a zip archive, with {name}: {origin}"
    if not isinstance(source, str | Path):
        raise InvalidInput("folder", source, allowed)
    path = Path(source)
    try:
        if path.is_dir():
            return (path / name).read_bytes()
        with zipfile.ZipFile(path) as archive:
            found = [each for each in archive.namelist() if f"/{each}".endswith(f"/{name}")]
            if found:
                return archive.read(min(found, key=len))
    except (OSError, zipfile.BadZipFile) as error:
        raise InvalidInput("folder", str(source), f"{allowed} ({error})") from error
    raise InvalidInput("folder", str(source), allowed)
