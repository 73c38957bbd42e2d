"""What a report is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from fedglb.errors import InvalidInput, one_of
from fedglb.studies import SweepResult, load
from fedglb.studies.run.fixed_models import SCHEMA

#: The two ways to count communication, with the label of their axis.
MEASURES = {
    "transfers": "communication: transfers (messages that carry numbers)",
    "scalars": "communication: scalars (numbers transferred)",
}
#: The profile of a study that is only a look.
QUICK = "quick"
PAPER = (
    "Chuanhao Li and Hongning Wang (2022), “Communication Efficient Federated Learning for "
    "Generalized Linear Bandits”."
)
_NEEDED = {
    "runs": ("label", "algorithm", "seed", "regret", "reward", "syncs", "rounds", "transfers",
             "scalars"),
    "traces": ("label", "seed", "t", "regret", "reward", "syncs", "transfers", "scalars"),
}  # fmt: skip


@dataclass(frozen=True)
class Study:
    """What a report is made of.

    Attributes
    ----------
    name
        Its name, such as "synthetic".
    title
        One line, such as "The paper's synthetic problem".
    profile
        How much was run: "quick", "full", …; may be empty.
    measure
        The communication axis: "transfers" or "scalars".
    result
        Runs, traces, manifest.
    baselines
        Columns name ("random play", "best-fitting logistic model", "best-fitting linear model"),
        seed, regret, reward; may have no rows.
    choice
        How the parameters were chosen, or None. Its keys: rule, seeds, horizon, chosen, algorithms,
        candidates, and optionally not_searched: labels that took no part in the search, and
        stopped: how many candidates were not run to the end.
    facts
        About the data: dataset, checksum, mode, …; may be empty.
    full
        Of a quick look: the size of the full study (seeds, horizon, clients, configurations).
    own
        Whether this is a sweep of one's own: the page is then about what it varies.
    """

    name: str
    title: str
    profile: str
    measure: str
    result: SweepResult = field(repr=False)
    baselines: pl.DataFrame = field(repr=False)
    choice: dict[str, Any] | None = field(default=None, repr=False)
    facts: dict[str, Any] = field(default_factory=dict, repr=False)
    full: dict[str, Any] = field(default_factory=dict, repr=False)
    own: bool = False

    def __post_init__(self) -> None:
        one_of("measure", self.measure, MEASURES)
        for table, columns in _NEEDED.items():
            frame: pl.DataFrame = getattr(self.result, table)
            for column in columns:
                if column not in frame.columns:
                    allowed = f"a table with the column {column!r}, as a sweep leaves it"
                    raise InvalidInput(f"result.{table}", frame.columns, allowed)
        if self.result.runs.is_empty():
            raise InvalidInput("result.runs", "a table without rows", "at least one finished run")


def no_baselines() -> pl.DataFrame:
    """Return the table of baselines without rows."""
    return pl.DataFrame(schema=SCHEMA)


def study_of_sweep(folder: str | Path) -> Study:
    """Return the study of a finished sweep: its runs and data; no baselines, no choice.

    As in the paper, communication is counted in transfers, or in scalars if DisLinUCB is among the
    algorithms, because its messages have another size.
    """
    result = load(folder)
    name = str(result.manifest["name"])
    linear = "dislinucb" in result.runs["algorithm"]
    return Study(
        name=name,
        title=f"The sweep “{name}”",
        profile="",
        measure="scalars" if linear else "transfers",
        result=result,
        baselines=no_baselines(),
        facts=result.manifest.get("data", {}),
        own=True,
    )
