"""The two tables of a result, in the order of the experiment: configuration, seed, step."""

from __future__ import annotations

import polars as pl

from fedglb.algorithms.catalog import all_parameters
from fedglb.sweeps.results.parts import TOTALS, TRACE
from fedglb.sweeps.spec.experiment import Experiment

_KINDS = {float: pl.Float64, int: pl.Int64, str: pl.String}


def runs_table(experiment: Experiment, parts: pl.DataFrame) -> pl.DataFrame:
    """Return one row per run; without times, so that an interrupted sweep gives the same table."""
    env, problem = experiment.env, experiment.env.problem
    configurations = pl.DataFrame(
        [
            {"configuration": i, "label": c.label, "algorithm": c.preset, **c.parameters}
            for i, c in enumerate(experiment.configurations)
        ],
        schema={
            "configuration": pl.Int32, "label": pl.String, "algorithm": pl.String,
            **{name: _KINDS[kind] for name, kind in all_parameters().items()},
        },
    )  # fmt: skip
    constants = {
        "link": problem.link.name, "dim": problem.dim, "radius": problem.S, "noise": problem.R,
        "curvature": problem.c_mu, "clients": env.clients, "arms": env.arms,
        "horizon": experiment.horizon,
    }  # fmt: skip
    merged = _ordered(experiment, parts).join(
        configurations, on="configuration", how="left", maintain_order="left"
    )
    return merged.select(
        *configurations.columns[1:],
        *(pl.lit(value).alias(name) for name, value in constants.items()),
        "seed", *TOTALS, "interactions", "caveats",
    )  # fmt: skip


def traces_table(experiment: Experiment, parts: pl.DataFrame) -> pl.DataFrame:
    """Return one row per recorded step."""
    labels = [c.label for c in experiment.configurations]
    lists = [f"trace_{name}" for name in TRACE]
    label = pl.col("configuration").replace_strict(
        list(range(len(labels))), labels, return_dtype=pl.String
    )
    frame = _ordered(experiment, parts).select(label.alias("label"), "seed", *lists)
    return frame.explode(lists).rename({f"trace_{name}": name for name in TRACE})


def _ordered(experiment: Experiment, parts: pl.DataFrame) -> pl.DataFrame:
    rank = pl.col("seed").replace_strict(
        list(experiment.seeds), list(range(len(experiment.seeds))), return_dtype=pl.Int64
    )
    return parts.sort("configuration", rank)
