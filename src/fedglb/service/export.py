"""The log as a stream: rows as JSON, one per line, or one Parquet file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from fedglb.federation import Agent

if TYPE_CHECKING:
    import polars as pl

_ROWS = 10_000
_BYTES = 2**18


def batches(agent: Agent) -> Iterator[pl.DataFrame]:
    """Return the log in pieces, at least one, which may be empty."""
    return agent.export_batches(rows=_ROWS)


def ndjson(agent: Agent) -> Iterator[bytes]:
    """Return the log as lines of JSON, in pieces; numbers that are none are null."""
    for batch in batches(agent):
        yield batch.write_ndjson().encode()


def parquet(agent: Agent) -> Iterator[bytes]:
    """Return the log as a Parquet file, in pieces; it is put together on disk, not in memory."""
    from polars.io.plugins import register_io_source

    every = batches(agent)
    first = next(every)

    def read(*_: object) -> Iterator[pl.DataFrame]:
        yield first
        yield from every

    with tempfile.TemporaryDirectory(prefix="fedglb-export-") as folder:
        path = Path(folder) / "log.parquet"
        register_io_source(read, schema=first.schema).sink_parquet(path)
        with path.open("rb") as file:
            while piece := file.read(_BYTES):
                yield piece
