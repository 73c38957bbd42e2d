"""The log of an agent's file that nobody has open."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from fedglb.federation.agent.log_reader import LogEnd
from fedglb.federation.agent.store import AgentStore


def whole_log(path: Path, dim: int) -> pl.DataFrame:
    """Return it as `Agent.export` does, without the agent's bundle."""
    store = AgentStore(path, "process")
    try:
        return pl.concat(store.log(LogEnd(store.last_number(), 2**62), dim).batches(10_000))
    finally:
        store.close()
