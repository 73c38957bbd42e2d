"""Estimate runs, minutes and disk of a study, from a short probe of its runs."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedglb.errors import integer
from fedglb.provenance import cores
from fedglb.studies.results.tables import recorded_steps
from fedglb.studies.run.search import candidates, with_choice
from fedglb.studies.run.sweep import SweepFailed
from fedglb.studies.run.task import LARGEST, Task, run_task
from fedglb.studies.spec.experiment import Experiment
from fedglb.studies.spec.grid import values
from fedglb.studies.spec.plan import Plan, read_plan

#: The probe doubles its horizon until it has taken this long, in seconds.
LONG_ENOUGH = 1.5
#: Approximate bytes of page and figures.
_PAGE = 5_000_000
#: A run is in a sweep's tables, and in its parts.
_COPIES = 2
#: Time grows at least linearly with the horizon, and at most quadratically.
_POWERS = (1.0, 2.0)


def _say_nothing(text: str) -> None:
    """Ignore progress of downloads: an estimate prints only its answer."""


@dataclass(frozen=True)
class StudyEstimate:
    """The estimated cost of a study."""

    name: str
    profile: str
    configurations: int
    seeds: int
    interactions: int  # maximum per run
    search_runs: int  # at most, and the interactions of each
    search_interactions: int
    jobs: int
    seconds: float  # with these jobs; the search as if it stopped nothing
    bytes: int  # of the folder
    probe_runs: int  # what was measured: runs side by side, their steps, their time
    probe_steps: int
    probe_seconds: float

    @property
    def runs(self) -> int:
        """The number of reported runs."""
        return self.configurations * self.seeds


def estimate(
    source: str | Path | Mapping[str, Any], profile: str | None = None, jobs: int | None = None
) -> StudyEstimate:
    """Estimate the cost of `reproduce`, from some seconds of its runs."""
    plan = read_plan(source, profile)
    count = cores() if jobs is None else integer("jobs", jobs)
    every = [] if plan.search is None else candidates(plan.search)
    tables = [with_choice(plan.tables, every[0])] if every else [c.tables for c in plan.cells]
    wholes = [plan.read(each, _say_nothing) for each in tables]
    probes: dict[str, _Probe] = {}  # one for each panel: the value of the axis matters little
    seconds, size = 0.0, float(_PAGE)
    for cell, each, whole in zip(plan.cells, tables, wholes, strict=True):
        if cell.panel not in probes:
            probes[cell.panel] = _probe(plan, each, whole.horizon)
        probe = probes[cell.panel]
        seconds += whole.runs * probe.seconds(whole.horizon)
        size += _COPIES * whole.runs * len(recorded_steps(whole.horizon)) * probe.bytes_per_point
    search_runs = search_steps = 0
    if plan.search is not None:
        search_runs = len(every) * len(plan.search.algorithm) * len(plan.search.seeds)
        search_steps = plan.search.horizon or whole.horizon
        seconds += search_runs * probe.seconds(search_steps)
        size += _COPIES * search_runs * len(recorded_steps(search_steps)) * probe.bytes_per_point
    return StudyEstimate(
        plan.name, plan.profile, sum(len(each.configurations) for each in wholes),
        len(whole.seeds), max(each.interactions for each in wholes), search_runs,
        search_steps * whole.env.clients, count, seconds / count, int(size), probe.runs,
        probe.steps, probe.took,
    )  # fmt: skip


@dataclass(frozen=True)
class _Probe:
    """Some runs side by side: their time, and its growth with the horizon."""

    runs: int
    steps: int
    took: float
    power: float
    bytes_per_point: float

    def seconds(self, horizon: int) -> float:
        """Return the approximate seconds of one run with a horizon, on one core."""
        return float(self.took / self.runs * (horizon / self.steps) ** self.power)


def _probe(plan: Plan, tables: dict[str, Any], horizon: int) -> _Probe:
    """Play some of the runs for a few steps, twice as many each time; in CPU seconds."""
    steps = min(max(horizon // 64, 8), horizon)
    _play(plan.read(shortened(tables, steps), _say_nothing))  # compiles the kernels
    before: tuple[int, float] | None = None
    while True:
        runs, took, size = _play(plan.read(shortened(tables, steps), _say_nothing))
        power = _POWERS[0]
        if before is not None:
            power = math.log(took / before[1]) / math.log(steps / before[0])
        if took >= LONG_ENOUGH or steps == horizon:
            clipped = min(max(power, _POWERS[0]), _POWERS[1])
            return _Probe(runs, steps, took, clipped, size / (runs * len(recorded_steps(steps))))
        before, steps = (steps, took), min(2 * steps, horizon)


def _play(experiment: Experiment) -> tuple[int, float, int]:
    """Run up to 16 configurations side by side; return their number, seconds and bytes."""
    every = len(experiment.configurations)
    count = min(every, LARGEST)
    task = Task(experiment.seeds[0], tuple(i * every // count for i in range(count)))
    begin = time.process_time()  # CPU time, unaffected by other processes
    outcome = run_task(experiment, task, None)
    took = time.process_time() - begin
    if outcome.part is None or outcome.failures:
        raise SweepFailed("; ".join(outcome.failures))
    return count, max(took, 1e-6), len(outcome.part)


def shortened(tables: Mapping[str, Any], steps: int) -> dict[str, Any]:
    """Return a sweep's tables for fewer steps, with fewer global updates B in proportion."""
    share = steps / tables["horizon"]

    def fewer(table: Mapping[str, Any]) -> dict[str, Any]:
        if "updates" not in table:
            return dict(table)
        given = [v.value for v in values((), table["updates"])]
        kept = dict.fromkeys(max(1, round(v * share)) for v in given)  # each once
        return {**table, "updates": list(kept)}

    return {
        **tables, "horizon": steps,
        "algorithm": [fewer(table) for table in tables["algorithm"]],
        **({"defaults": fewer(tables["defaults"])} if "defaults" in tables else {}),
    }  # fmt: skip
