"""Studies written by hand, with numbers that are known."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import polars as pl
import pytest

from fedglb.studies import SweepResult
from fedglb.studies.report import page
from fedglb.studies.report.figures.style import COLUMN, PAGE
from fedglb.studies.report.page import Drawn
from fedglb.studies.report.summary import NAMES, StudyNumbers
from fedglb.studies.results.study import Cell, Study


def undrawn(name: str, alt: str, caption: str, draw: object) -> Drawn:
    """What `page.drawn` returns, without a figure."""
    return Drawn(name, alt, caption, {f"{name}.svg": b"<svg/>"}, {})


@contextmanager
def papers() -> Iterator[None]:
    """Draw the figures for papers, too, which most tests leave out: they take long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "PAPERS", {"column": COLUMN, "page": PAGE})
        yield


def six(low: float, high: float) -> list[float]:
    """Regrets of six seeds whose mean less and plus one standard error are `low` and `high`."""
    mean, half = (low + high) / 2, (high - low) / 2
    return [mean + sign * half * math.sqrt(5) for sign in (-1, 1, -1, 1, -1, 1)]


def config(
    algorithm: str, cost: float, regrets: list[float], *, few: bool = False, **more: Any
) -> dict[str, Any]:
    """One configuration: its communication and its regret for each seed.

    Two regrets stand for six seeds: the mean less and plus one standard error. One stands for six
    seeds that have it. With `few`, they are those of one or two seeds.
    """
    if len(regrets) <= 2 and not few:
        regrets = six(regrets[0], regrets[-1])
    name = NAMES.get(algorithm, algorithm)
    dial = [f"{'D' if k == 'threshold' else 'B'}={more[k]:g}" for k in ("threshold", "updates")
            if k in more]  # fmt: skip
    label = more.pop("label", " ".join([name, *dial, *filter(None, [more.get("solver")])]))
    return {"label": label, "algorithm": algorithm, "cost": cost, "regrets": regrets, **more}


def study(*configs: dict[str, Any], horizon: int = 80, **more: Any) -> Study:
    """A study of some configurations.

    `client_regret`, if there, has that of each client by seed; else all have a quarter.
    `updates_at`, if there, are the steps of the global updates of each seed.

    Traces go like t^power for regret (`regret_power`, 1/2 unless told) and communication
    (`cost_power`); syncs are one for each transfer.
    """
    runs, traces = [], []
    for c in configs:
        for i, regret in enumerate(c["regrets"]):
            at = c.get("updates_at")
            syncs = c["cost"] if at is None else len(at)
            total = {"regret": float(regret), "reward": 1000.0 - regret, "syncs": syncs,
                     "rounds": c.get("rounds", c["cost"] // 5), "transfers": c["cost"],
                     "scalars": 3 * c["cost"], "bits": 192 * c["cost"]}  # fmt: skip
            runs.append(
                {"label": c["label"], "algorithm": c["algorithm"],
                 "threshold": c.get("threshold"), "solver": c.get("solver"),
                 "clock": c.get("clock"), "exploration": c.get("exploration"),
                 "updates": c.get("updates"), "confidence": c.get("confidence", "lemma"),
                 "link": "logistic", "seed": i + 1, "interactions": 4 * horizon, **total,
                 "caveats": c.get("caveats", []), "randomised": c.get("randomised", True),
                 "client_regret": c.get("client_regret", {}).get(i + 1, [regret / 4] * 4)}
            )  # fmt: skip
            for t in range(1, horizon + 1):
                grown = (t / horizon) ** c.get("cost_power", 0.5)
                step = {k: int(v * grown) if k != "regret" else v for k, v in total.items()}
                if at is not None:
                    step["syncs"] = sum(s <= t for s in at)
                step["transfers"] = total["transfers"] * grown
                step["scalars"] = total["scalars"] * grown
                step["bits"] = total["bits"] * grown
                step["regret"] = regret * (t / horizon) ** c.get("regret_power", 0.5)
                traces.append({"label": c["label"], "seed": i + 1, "t": t, **step})
    schema = {"threshold": pl.Float64, "updates": pl.Int64, "solver": pl.String,
              "clock": pl.String, "exploration": pl.Float64, "confidence": pl.String,
              "caveats": pl.List(pl.String)}  # fmt: skip
    manifest = {
        "name": "made", "horizon": horizon, "clients": 4, "arms": 5,
        "seeds": list(range(1, len(configs[0]["regrets"]) + 1)) if configs else [],
        "document": json.dumps({"name": "made", "note": "<b>&"}),
        "software": {"fedglb": "0", "sources": "abc", "python": "3", "dependencies": {"x": "1"}},
        "sessions": [{"machine": {"processor": "p", "cores": 1, "memory_bytes": None,
                                  "system": "s"}}],
        "wall_seconds": 1.0, "run_seconds": 700.0, "started": "then", "identity": "i",
        "files": {"runs.parquet": "d"}, "data": more.pop("data", {}), "own": {}, "problem": {},
        "configurations": [],
    }  # fmt: skip
    given = {"name": "made", "title": "Made", "profile": "", "measure": "transfers",
             **more}  # fmt: skip
    result = SweepResult(
        pl.DataFrame(runs, schema_overrides=schema), pl.DataFrame(traces), manifest
    )
    return Study(cells=(Cell("", None, result),), **given)


def numbers(*configs: dict[str, Any], **more: Any) -> StudyNumbers:
    """The summary of a study."""
    return StudyNumbers.of_study(study(*configs, **more))


def good() -> list[dict[str, Any]]:
    """Numbers with which all claims hold."""
    return [
        config("fedglb-ucb", 1000, [90.0, 110.0], threshold=0.1),
        config("fedglb-ucb", 100, [180.0, 220.0], threshold=10.0),
        config("fedglb-ucb", 30, [280.0, 320.0], threshold=100.0),
        config("fedglb-ucb", 10, [390.0, 410.0], threshold=1000.0),
        config("fedglb-ucb-1", 30, [700.0, 900.0], updates=3),
        config("fedglb-ucb-1", 100, [500.0, 700.0], updates=10),
        config("fedglb-ucb-1", 1000, [290.0, 310.0], updates=100),
        config("fedglb-ucb-2", 20, [800.0, 810.0], updates=2),
        config("fedglb-ucb-2", 50, [400.0, 600.0], updates=5),
        config("fedglb-ucb-2", 500, [300.0, 320.0], updates=50),
        config("fedglb-ucb-2", 2000, [90.0, 92.0], updates=200),
        config("dislinucb", 500, [700.0, 900.0], threshold=1.0),
        config("one-ucb-glm", 100_000, [95.0, 97.0]),
        config("n-ucb-glm", 0, [900.0, 1100.0]),
        config("n-ons-glm", 0, [1100.0, 1300.0]),
    ]


def bad() -> list[dict[str, Any]]:
    """Numbers with which no claim holds."""
    grown = {"cost_power": 1.5, "regret_power": 1}
    return [
        config("fedglb-ucb", 1000, [400.0, 440.0], threshold=0.1, **grown),
        config("fedglb-ucb", 100, [300.0, 310.0], threshold=10.0, **grown),
        config("fedglb-ucb", 30, [250.0, 260.0], threshold=100.0, **grown),
        config("fedglb-ucb", 10, [200.0, 230.0], threshold=1000.0, cost_power=1.5),
        config("fedglb-ucb-1", 50, [100.0, 120.0], updates=5),
        config("fedglb-ucb-1", 100, [100.0, 120.0], updates=10),
        config("fedglb-ucb-1", 200, [100.0, 120.0], updates=20),
        config("dislinucb", 500, [50.0, 60.0], threshold=1.0),
        config("one-ucb-glm", 2000, [20.0, 22.0]),
    ]
