"""The two tables of a result, in the order of the experiment: configuration, seed, step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from fedglb.algorithms.catalog import all_parameters
from fedglb.studies.results.parts import TOTALS, TRACE
from fedglb.studies.spec.experiment import Experiment

#: The columns of what plays without learning: see `run/fixed_models.py`.
BASELINES = {"name": pl.String, "seed": pl.Int64, "regret": pl.Float64, "reward": pl.Float64}
_KINDS: dict[type, type[pl.DataType]] = {float: pl.Float64, int: pl.Int64, str: pl.String}


@dataclass(frozen=True)
class Outline:
    """What tables say of an experiment: text and numbers, without its objects.

    Attributes
    ----------
    configurations
        For each its label, the name of its algorithm, and its parameters.
    constants
        What is the same for all runs: the problem, N, K and T.
    seeds
        The seeds, in the order of the results.
    """

    configurations: tuple[dict[str, Any], ...]
    constants: dict[str, Any]
    seeds: tuple[int, ...]

    @classmethod
    def of(cls, experiment: Experiment) -> Outline:
        """Return the outline of an experiment."""
        env, problem = experiment.env, experiment.env.problem
        return cls(
            tuple(
                {"label": c.label, "algorithm": c.preset, **c.parameters}
                for c in experiment.configurations
            ),
            {
                "link": problem.link.name, "dim": problem.dim, "radius": problem.S,
                "noise": problem.R, "curvature": problem.c_mu, "clients": env.clients,
                "arms": env.arms, "horizon": experiment.horizon,
            },
            experiment.seeds,
        )  # fmt: skip


def runs_table(outline: Outline, parts: pl.DataFrame) -> pl.DataFrame:
    """Return one row per run; without times, so that an interrupted sweep gives the same table."""
    kinds = {name: _KINDS[kind] for name, kind in all_parameters().items()}
    for name in dict.fromkeys(key for each in outline.configurations for key in each):
        if name not in ("label", "algorithm", *kinds):  # of a function of somebody's own
            kinds[name] = _KINDS[_kind([c[name] for c in outline.configurations if name in c])]
    rows: list[dict[str, Any]] = [
        {"configuration": i, **{k: _as(kinds.get(k), v) for k, v in each.items()}}
        for i, each in enumerate(outline.configurations)
    ]
    configurations = pl.DataFrame(
        rows,
        schema={
            "configuration": pl.Int32, "label": pl.String, "algorithm": pl.String, **kinds,
        },
    )  # fmt: skip
    merged = _ordered(outline, parts).join(
        configurations, on="configuration", how="left", maintain_order="left"
    )
    return merged.select(
        *configurations.columns[1:],
        *(pl.lit(value).alias(name) for name, value in outline.constants.items()),
        "seed", *TOTALS, "interactions", "caveats",
    )  # fmt: skip


def _kind(values: Sequence[object]) -> type:
    """Return what a column of these values holds: whole numbers, numbers, or else text."""
    given = {type(value) for value in values if value is not None}
    return int if given == {int} else float if given and given <= {int, float} else str


def _as(kind: type[pl.DataType] | None, value: Any) -> Any:
    """Return a value for a column of this kind; JSON has infinity as text."""
    if value is None or kind is None or kind is pl.Int64:
        return value
    return float(value) if kind is pl.Float64 else str(value)


def traces_table(outline: Outline, parts: pl.DataFrame) -> pl.DataFrame:
    """Return one row per recorded step."""
    labels = [each["label"] for each in outline.configurations]
    lists = [f"trace_{name}" for name in TRACE]
    label = pl.col("configuration").replace_strict(
        list(range(len(labels))), labels, return_dtype=pl.String
    )
    frame = _ordered(outline, parts).select(label.alias("label"), "seed", *lists)
    return frame.explode(lists).rename({f"trace_{name}": name for name in TRACE})


def _ordered(outline: Outline, parts: pl.DataFrame) -> pl.DataFrame:
    rank = pl.col("seed").replace_strict(
        list(outline.seeds), list(range(len(outline.seeds))), return_dtype=pl.Int64
    )
    return parts.sort("configuration", rank)
