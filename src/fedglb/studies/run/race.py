"""Racing: each candidate of a search runs only as long as it can still win.

All runs of a candidate, every algorithm on every seed, are played side by side. Now and then its
score so far is compared with a limit, the final score of another candidate; above it the candidate
is stopped. The limit is fixed beforehand, so that the stopping point depends neither on the number
of workers nor on their order.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import msgspec

from fedglb.algorithms import Algorithm
from fedglb.io.atomic import atomic_write
from fedglb.provenance import cores, identity
from fedglb.simulation.compiled import CompiledEngine
from fedglb.simulation.simulate import advance
from fedglb.studies.run.local import WorkerDied, run_calls
from fedglb.studies.run.schedule import MOST_DEATHS
from fedglb.studies.run.sweep import SweepFailed
from fedglb.studies.run.task import LARGEST, Sources, experiment_here, leave_with
from fedglb.studies.spec.experiment import Experiment

#: How often a candidate's score is compared with the limit, over the whole horizon.
LOOKS = 50
#: Smaller regrets count as this: ratios to almost no regret would outweigh all others.
_LEAST = 1.0
_FORMAT = 1  # of the files


@dataclass(frozen=True)
class Entrant:
    """A candidate, its remaining seeds, and the score it must not exceed."""

    experiment: Experiment
    before: tuple[tuple[float, ...], ...]  # by algorithm, the regrets on earlier seeds
    limit: float

    def file(self) -> str:
        """Return the name of the file for its result, unique to this entrant."""
        question = [_FORMAT, LOOKS, self.experiment.document, self.before, self.limit]
        facts, own = self.experiment.env.facts(), self.experiment.own
        return f"{identity(json.dumps(question), facts, own)[:24]}.json"


class Raced(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The result of a candidate.

    By algorithm the mean regret over all seeds, so far if it was stopped; and its steps over all
    seeds: the horizon times their number, unless it was stopped.
    """

    regrets: list[float]
    steps: int


def score(regrets: Sequence[float]) -> float:
    """Return the search's objective: the mean of log(regret), with regrets below 1 as 1.

    `search.RULE` has ratios to each algorithm's least regret; these least regrets are the same for
    all candidates, so they do not change which one is best. Hence the score needs nothing from
    other candidates. It never falls if a regret grows, and a run's regret never falls: at any
    moment of a run, the score of the regrets so far is at most the final one. A candidate whose
    score so far is above another's final one is not the best.
    """
    return math.fsum(math.log(max(r, _LEAST)) for r in regrets) / len(regrets)


def mean(regrets: Sequence[float]) -> float:
    """Return the mean over seeds; rounded once, so that it never falls if a regret grows."""
    return math.fsum(regrets) / len(regrets)


def race(
    entrants: Sequence[Entrant], folder: Path, jobs: int | None, ended: Callable[[int], None]
) -> list[Raced]:
    """Run the candidates, each for as long as it can still win; earlier results are read.

    The longest ones come first; `ended` is called with the number of ended candidates.
    """
    count = cores() if jobs is None else jobs
    folder.mkdir(exist_ok=True)
    kept = ((i, _read(folder / entrant.file())) for i, entrant in enumerate(entrants))
    found = {i: made for i, made in kept if made is not None}
    failures: dict[int, str] = {}
    deaths = 0
    while missing := [i for i in range(len(entrants)) if i not in found and i not in failures]:
        some = [(i, entrants[i]) for i in missing]
        results: Iterable[tuple[int, Raced | str]]
        if count == 1:
            results = (_run(i, e.experiment, e.before, e.limit) for i, e in some)
        else:
            sent = ((i, Sources.of(e.experiment), e.before, e.limit, os.getpid()) for i, e in some)
            results = run_calls(((_work, arguments) for arguments in sent), count)
        try:
            for i, result in results:
                deaths = 0
                if isinstance(result, str):
                    failures[i] = result
                    continue
                atomic_write(folder / entrants[i].file(), msgspec.json.encode(result))
                found[i] = result
                ended(len(found))
        except WorkerDied:
            deaths += 1
            if deaths == MOST_DEATHS:
                what = f"a worker process died {deaths} times in a row (killed, or out of memory)"
                raise SweepFailed(
                    f"{what} in the search; with fewer --jobs it needs less"
                ) from None
    if failures:
        raise SweepFailed("; ".join(list(failures.values())[:3]))
    return [found[i] for i in range(len(entrants))]


def _read(path: Path) -> Raced | None:
    """Return a stored result, or None if missing or damaged."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Raced)
    except (OSError, msgspec.DecodeError):
        return None


def _work(
    number: int, sources: Sources, before: tuple[tuple[float, ...], ...], limit: float, parent: int
) -> tuple[int, Raced | str]:
    """Run a candidate in a worker process."""
    leave_with(parent)
    experiment = experiment_here(sources, parent)
    if isinstance(experiment, str):
        return number, f"search: {experiment}"
    return _run(number, experiment, before, limit)


def _run(
    number: int, experiment: Experiment, before: Sequence[Sequence[float]], limit: float
) -> tuple[int, Raced | str]:
    """Run a candidate; return its number, and its result or the error."""
    try:
        return number, run_while_it_can_win(experiment, before, limit)
    except Exception as error:
        labels = ", ".join(c.label for c in experiment.configurations[:3])
        return number, f"search, {labels}, …: {type(error).__name__}: {error}"


def run_while_it_can_win(
    experiment: Experiment, before: Sequence[Sequence[float]], limit: float
) -> Raced:
    """Play the seeds of an experiment side by side until the score is above a limit.

    Runs at most as many at a time as a task of a sweep, to save memory: the regret on later seeds
    is at least 0.
    """
    env, horizon, seeds = experiment.env, experiment.horizon, experiment.seeds
    # `reproduce` has refused strategies
    algorithms = [cast("Algorithm", c.algorithm) for c in experiment.configurations]
    known = [list(regrets) for regrets in before]
    raced = Raced([], 0)
    at_once = max(1, LARGEST // len(algorithms))
    for begin in range(0, len(seeds), at_once):
        now, later = seeds[begin : begin + at_once], [0.0] * len(seeds[begin + at_once :])
        done = horizon * len(known[0])
        lanes = [[CompiledEngine(a, env, horizon, seed) for a in algorithms] for seed in now]
        played = zip(
            *(
                advance(lane, env, horizon, seed, -(-horizon // LOOKS))
                for lane, seed in zip(lanes, now, strict=True)
            ),
            strict=True,
        )
        so_far: list[list[float]] = []
        for steps in played:
            so_far = [
                [float(run.recorder.log.totals[0]) for run in one]
                for one in zip(*lanes, strict=True)
            ]
            regrets = [mean([*k, *s, *later]) for k, s in zip(known, so_far, strict=True)]
            raced = Raced(regrets, done + sum(steps))
            if score(regrets) > limit:
                return raced
        known = [[*k, *s] for k, s in zip(known, so_far, strict=True)]
    return raced
