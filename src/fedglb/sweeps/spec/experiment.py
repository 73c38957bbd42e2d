"""An experiment: which algorithms, on which problem, for which seeds. Checked as a whole."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np

from fedglb.datasets import DATASETS, Progress
from fedglb.environments import Classification, Environment, Synthetic, clustered
from fedglb.errors import InvalidInput, Place, integer, one_of, relocated, under
from fedglb.io.toml import read_file
from fedglb.links import LINKS
from fedglb.problem_table import ProblemTable
from fedglb.sweeps.spec.document import (
    CHANGES,
    ClassificationTable,
    Document,
    SyntheticTable,
    parse,
)
from fedglb.sweeps.spec.grid import Configuration, Selection, choices, configurations

#: The most runs of a sweep: more is probably a mistake in a grid.
MOST_RUNS = 100_000


@dataclass(frozen=True)
class Experiment:
    """What a sweep runs; made by `read_experiment`, which checks it.

    Attributes
    ----------
    name
        Its name; results go to results/NAME.
    env
        Where arms and rewards come from, the problem included.
    horizon
        T.
    seeds
        The seeds, in the order of the results.
    configurations
        The algorithms, in the order of the results.
    document
        The tables of the file, as JSON: what a worker needs to build the same experiment.

    Examples
    --------
    >>> import fedglb as fg
    >>> experiment = fg.read_experiment({
    ...     "name": "example", "horizon": 100, "seeds": 2,
    ...     "problem": {"dim": 3}, "environment": {"clients": 5, "arms": 4},
    ...     "algorithm": [{"name": "fedglb-ucb", "threshold": [1, 10]}],
    ... })
    >>> experiment.runs, experiment.interactions
    (4, 500)
    """

    name: str
    env: Environment
    horizon: int
    seeds: tuple[int, ...]
    configurations: tuple[Configuration, ...]
    document: str

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return len(self.configurations) * len(self.seeds)

    @property
    def interactions(self) -> int:
        """How many interactions one run has."""
        return self.env.clients * self.horizon


def read_experiment(
    source: str | Path | Mapping[str, Any],
    seeds: int | Sequence[int] | None = None,
    progress: Progress | None = None,
) -> Experiment:
    """Read an experiment and check all of it; nothing is run.

    Parameters
    ----------
    source
        A TOML file, or its tables as a dictionary; docs/sweeps.md has the keys.
    seeds
        Replaces the seeds of the file: a number n for 1 … n, or a list.
    progress
        Called with a line of text where data has to be fetched and grouped first.

    Returns
    -------
    Experiment
        For `sweep`.

    Raises
    ------
    InvalidInput
        If the file cannot be read, or a key or its value is not allowed; the message says which.
    DataUnavailable
        If the experiment needs a data set that was found nowhere.

    Examples
    --------
    >>> import fedglb as fg
    >>> experiment = fg.read_experiment({
    ...     "name": "example", "horizon": 100, "seeds": 2,
    ...     "problem": {"dim": 3}, "environment": {"clients": 5, "arms": 4},
    ...     "algorithm": [{"name": "fedglb-ucb", "threshold": [1, 10], "solver": "newton"}],
    ... })
    >>> [c.label for c in experiment.configurations], experiment.seeds
    (['FedGLB-UCB D=1 newton', 'FedGLB-UCB D=10 newton'], (1, 2))
    """
    if isinstance(source, Mapping):
        where, raw = "experiment", _plain(source)
    elif isinstance(source, str | Path):
        where, raw = str(source), read_file(Path(source))
    else:
        raise InvalidInput("experiment", source, "a TOML file, or its tables as a dictionary")
    if seeds is not None:
        raw["seeds"] = _plain(list(seeds) if isinstance(seeds, Sequence) else seeds)
        _seeds(raw["seeds"])
    document = parse(raw, where)
    with under(source=where):
        return _build(document, raw, progress)


def _plain(value: Any) -> Any:
    """Return tables as TOML has them: NumPy's numbers and arrays as Python's, tuples as lists."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value


def _build(
    document: Document[SyntheticTable] | Document[ClassificationTable],
    raw: dict[str, Any],
    progress: Progress | None,
) -> Experiment:
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", document.name):
        allowed = "letters, digits, '-', '_' and '.': it names the folder of the results"
        raise InvalidInput("name", document.name, allowed)
    integer("horizon", document.horizon)
    env = _environment(document.environment, document.problem, progress)
    seeds = _seeds(document.seeds)
    made = []
    for choice in choices(document.algorithm, document.defaults, len(seeds), MOST_RUNS):
        with relocated(partial(_place, choice)):
            algorithm = choice.build()
            algorithm.setting(env.problem, env.clients, document.horizon)
        made.append((choice, algorithm))
    try:
        text = json.dumps(raw, sort_keys=True)
    except TypeError as error:
        raise InvalidInput("tables", str(error), "numbers, text, lists and tables only") from None
    return Experiment(document.name, env, document.horizon, seeds, configurations(made), text)


def _place(choice: Selection, path: Place) -> Place:
    """Return the key of the file at which an argument with an error was given."""
    if path[0] not in choice.values and path[0] in ProblemTable.__struct_fields__:
        return ("problem", *path)
    return choice.place(path)


def _environment(
    table: SyntheticTable | ClassificationTable, problem: ProblemTable, progress: Progress | None
) -> Environment:
    """Build the environment; data that is not on this machine yet is fetched."""
    one_of(("problem", "link"), problem.link, LINKS)  # before anything is fetched
    if isinstance(table, SyntheticTable):
        with under("problem"):
            made = problem.build()
        with under("environment"):
            return _changed(Synthetic(made, table.clients, table.arms), table)
    with under("environment"):
        one_of("dataset", table.dataset, DATASETS)
        data = clustered(
            table.dataset, table.clusters, mode=cast("Any", table.mode), constant=table.constant,
            scale=cast("Any", table.scale), progress=progress,
        )  # fmt: skip
    with under("problem"):
        if problem.dim not in (None, data.dim):
            allowed = f"{data.dim}, the features of {table.dataset}, or leave it out"
            raise InvalidInput("dim", problem.dim, allowed)
        made = problem.build(data.dim)
    with under("environment"):
        return _changed(Classification(made, table.clients, data, table.offered), table)


def _changed(env: Environment, table: SyntheticTable | ClassificationTable) -> Environment:
    """Return the environment with what the table changes."""
    given = msgspec.to_builtins(table)
    for key, (kind, parameter) in CHANGES.items():
        if given.get(key) is not None:
            with relocated(partial(_key_of, parameter, key)):
                env = kind(env, given[key])
    return env


def _key_of(parameter: str, key: str, path: Place) -> Place:
    return (key, *path[1:]) if path[0] == parameter else path


def _seeds(given: object) -> tuple[int, ...]:
    if not isinstance(given, list):
        return tuple(range(1, integer("seeds", given, at_most=1_000_000) + 1))
    if not given:
        raise InvalidInput("seeds", [], "at least one seed, or their number")
    for i, seed in enumerate(given):
        integer(("seeds", i), seed, at_least=0, at_most=2**63 - 1)
    if len(set(given)) < len(given):
        raise InvalidInput("seeds", given, "each seed once")
    return tuple(given)
