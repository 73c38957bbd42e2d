"""Results as frames: the part of a task, and the two tables of a sweep."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from fedglb.algorithms.catalog import all_parameters
from fedglb.simulation import Run
from fedglb.typing import IntArray

#: The maximum number of stored points of a trace.
TRACE_POINTS = 500
TOTALS = {
    "regret": pl.Float64, "reward": pl.Float64, "syncs": pl.Int64, "rounds": pl.Int64,
    "transfers": pl.Int64, "scalars": pl.Int64, "bits": pl.Int64,
}  # fmt: skip
TRACE = {"t": pl.Int32, **TOTALS}
#: One row per finished run, its trace in lists.
_PART: dict[str, pl.DataType | type[pl.DataType]] = {
    "configuration": pl.Int32, "seed": pl.Int64, **TOTALS, "interactions": pl.Int64,
    "caveats": pl.List(pl.String), "randomised": pl.Boolean, "seconds": pl.Float64,
    "client_regret": pl.List(pl.Float64), "update_seconds": pl.Float64,
    **{f"trace_{name}": pl.List(kind) for name, kind in TRACE.items()},
}  # fmt: skip
#: The same in the folder: a run is kept under what it depends on, not under its place.
_KEPT = {"key": pl.String, **{k: v for k, v in _PART.items() if k != "configuration"}}
#: The columns of baselines without learning: see `run/fixed_models.py`.
BASELINES = {"name": pl.String, "seed": pl.Int64, "regret": pl.Float64, "reward": pl.Float64}
_KINDS: dict[type, type[pl.DataType]] = {float: pl.Float64, int: pl.Int64, str: pl.String}


def recorded_steps(horizon: int) -> IntArray:
    """Return the stored steps of a trace: at most 500, evenly spaced, both ends included."""
    points = min(horizon, TRACE_POINTS)
    return np.unique(np.rint(np.linspace(1, horizon, points)).astype(np.int64))


def part(indices: Sequence[int], seed: int, runs: Sequence[Run], seconds: float) -> pl.DataFrame:
    """Return the frame of some finished runs; `indices` are those of their configurations."""
    rows = []
    for index, run in zip(indices, runs, strict=True):
        kept = run.trace[recorded_steps(run.trace.height) - 1]
        rows.append(
            {
                "configuration": index, "seed": seed, "caveats": list(run.caveats),
                "randomised": run.parameters["randomised"],
                "interactions": int((run.choices >= 0).sum()), "seconds": seconds / len(runs),
                "client_regret": run.client_regret, "update_seconds": run.update_seconds,
                **{name: getattr(run, name) for name in TOTALS},
                **{f"trace_{name}": kept[name].to_list() for name in TRACE},
            }
        )  # fmt: skip
    return pl.DataFrame(rows, schema=_PART)


def nothing_kept() -> pl.DataFrame:
    """Return the runs of an empty folder."""
    return pl.DataFrame(schema=_KEPT)


def under_keys(part: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Return a part as it is kept; `keys` are those of the experiment's configurations."""
    key = pl.col("configuration").replace_strict(
        list(range(len(keys))), list(keys), return_dtype=pl.String
    )
    return part.with_columns(key.alias("key")).select(*_KEPT)


def asked_for(manifest: Mapping[str, Any], kept: pl.DataFrame) -> pl.DataFrame:
    """Return those of the kept runs that an experiment has, as a part."""
    keys = {"key": manifest["keys"], "configuration": list(range(len(manifest["keys"])))}
    configurations = pl.DataFrame(keys, schema={"key": pl.String, "configuration": pl.Int32})
    seeds = pl.DataFrame({"seed": manifest["seeds"]}, schema={"seed": pl.Int64})
    return kept.join(seeds, on="seed").join(configurations, on="key").select(*_PART)


def to_bytes(frame: pl.DataFrame) -> bytes:
    """Return the frame as a Parquet file."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd")
    return buffer.getvalue()


def from_bytes(content: bytes) -> pl.DataFrame:
    """Return the frame of a Parquet file."""
    return pl.read_parquet(io.BytesIO(content))


def runs_table(manifest: Mapping[str, Any], parts: pl.DataFrame) -> pl.DataFrame:
    """Return one row per run; without times, so that an interrupted sweep gives the same table."""
    every: list[dict[str, Any]] = manifest["configurations"]
    kinds = {name: _KINDS[kind] for name, kind in all_parameters().items()}
    for name in dict.fromkeys(key for each in every for key in each):
        if name not in ("label", "algorithm", *kinds):  # of a user-defined function
            kinds[name] = _KINDS[_kind([each[name] for each in every if name in each])]
    rows: list[dict[str, Any]] = [
        {"configuration": i, **{k: _as(kinds.get(k), v) for k, v in each.items()}}
        for i, each in enumerate(every)
    ]
    configurations = pl.DataFrame(
        rows,
        schema={
            "configuration": pl.Int32, "label": pl.String, "algorithm": pl.String, **kinds,
        },
    )  # fmt: skip
    constants = manifest["problem"] | {k: manifest[k] for k in ("clients", "arms", "horizon")}
    merged = _ordered(manifest, parts).join(
        configurations, on="configuration", how="left", maintain_order="left"
    )
    return merged.select(
        *configurations.columns[1:],
        *(pl.lit(value).alias(name) for name, value in constants.items()),
        "seed", *TOTALS, "interactions", "caveats", "randomised", "client_regret", "update_seconds",
    )  # fmt: skip


def distinct(runs: pl.DataFrame) -> pl.DataFrame:
    """Return the runs that differ: where no seed changes a run, only the first seed's."""
    first = pl.col("seed") == pl.col("seed").first().over("label")
    return runs.filter(pl.col("randomised") | first)


def repeated(runs: pl.DataFrame) -> str:
    """Return in words which settings have the same run at every seed; "" if none has."""
    counts = runs.filter(~pl.col("randomised")).group_by("label", maintain_order=True)
    labels = counts.agg(pl.col("seed").n_unique()).filter(pl.col("seed") > 1)["label"].to_list()
    if not labels:
        return ""
    rest = f" and {len(labels) - 3} more" if labels[3:] else ""
    all_of_them = len(labels) == runs["label"].n_unique()
    who = "" if all_of_them else f" of {', '.join(labels[:3])}{rest}"
    return (
        "No replicates: arms and rewards are recorded and the algorithm draws nothing, so every "
        f"seed gives the same run{who}. It counts once, without an interval."
    )


def _kind(values: Sequence[object]) -> type:
    """Return the type of a column of these values: int, float or text."""
    not_finite = ("inf", "-inf", "nan")  # text in the manifest: JSON has no such numbers
    given = {float if v in not_finite else type(v) for v in values if v is not None}
    return int if given == {int} else float if given and given <= {int, float} else str


def _as(kind: type[pl.DataType] | None, value: Any) -> Any:
    """Return a value for a column of this kind."""
    if value is None or kind is None or kind is pl.Int64:
        return value
    return float(value) if kind is pl.Float64 else str(value)


def traces_table(manifest: Mapping[str, Any], parts: pl.DataFrame) -> pl.DataFrame:
    """Return one row per recorded step."""
    labels = [each["label"] for each in manifest["configurations"]]
    lists = [f"trace_{name}" for name in TRACE]
    label = pl.col("configuration").replace_strict(
        list(range(len(labels))), labels, return_dtype=pl.String
    )
    frame = _ordered(manifest, parts).select(label.alias("label"), "seed", *lists)
    return frame.explode(lists).rename({f"trace_{name}": name for name in TRACE})


def _ordered(manifest: Mapping[str, Any], parts: pl.DataFrame) -> pl.DataFrame:
    """Return parts in the order of the experiment: configuration, seed."""
    seeds = manifest["seeds"]
    rank = pl.col("seed").replace_strict(seeds, list(range(len(seeds))), return_dtype=pl.Int64)
    return parts.sort("configuration", rank)
