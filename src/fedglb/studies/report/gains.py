"""What joining gained each client of a study with an axis, against learning alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from fedglb.studies.report.along import Line, Panel, best_alone_at
from fedglb.studies.report.numerals import amount, percent, setting
from fedglb.studies.report.page import PageTable
from fedglb.studies.results.study import Study
from fedglb.typing import FloatArray


@dataclass(frozen=True)
class Gain:
    """An algorithm that communicates, at one value of the axis of a panel."""

    panel: str
    value: float
    algorithm: str
    name: str
    alone: str  # the algorithm that it is compared with
    #: Regret alone less regret joined, of each client with the same arms and noise, of all seeds:
    #: increasing, shape (seeds · N,).
    clients: FloatArray = field(repr=False)

    @property
    def losing(self) -> float:
        """The share of clients with more regret than alone."""
        return float((self.clients < 0.0).mean())

    @property
    def least(self) -> float:
        """The mean of the tenth of clients with the least gain."""
        return float(self.clients[: -(-len(self.clients) // 10)].mean())

    def plain(self) -> dict[str, Any]:
        """Return its numbers for JSON."""
        return {
            "panel": self.panel, "value": self.value, "algorithm": self.algorithm,
            "name": self.name, "alone": self.alone, "mean": float(self.clients.mean()),
            "median": float(np.median(self.clients)), "least_tenth": self.least,
            "losing": self.losing,
        }  # fmt: skip


def gains(panel: Panel) -> list[Gain]:
    """Return the gains of all lines of a panel, line by line; none without a line alone."""
    alone = [line for line in panel.lines if line.alone and not line.level]
    made = []
    for line in panel.lines:
        for k, value in enumerate(panel.values if alone and not line.alone else ()):
            other = best_alone_at(alone, k)
            difference = _regrets(panel, other, k) - _regrets(panel, line, k)
            sorted_ = np.sort(difference, axis=None)
            made.append(Gain(panel.title, value, line.algorithm, line.name, other.name, sorted_))
    return made


def _regrets(panel: Panel, line: Line, k: int) -> FloatArray:
    """Return the regret of each client of a line at its k-th value, shape (seeds, N)."""
    (cell,) = (cell for cell in panel.cells if cell.value == line.values[k])
    runs = cell.result.runs.filter(pl.col("label") == line.labels[k]).sort("seed")
    return np.array(runs["client_regret"].to_list())


def table(study: Study, found: Sequence[Gain]) -> PageTable:
    """Return the numbers of a study's gains for the page."""
    head = ["algorithm", study.axis, "mean", "median", "least tenth", "clients that lose"]
    cells = [
        [
            f"{gain.panel}: {gain.name}" if gain.panel else gain.name, setting(gain.value),
            amount(gain.clients.mean()), amount(float(np.median(gain.clients))),
            amount(gain.least), percent(gain.losing),
        ]
        for gain in found
    ]  # fmt: skip
    return PageTable(
        "What joining gained: regret alone less regret joined, per client", head, cells
    )
