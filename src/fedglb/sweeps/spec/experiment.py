"""An experiment: which algorithms, on which problem, for which seeds. Checked as a whole."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from fedglb.datasets import DATASETS, Progress
from fedglb.environments import Classification, Environment, Synthetic, clustered
from fedglb.errors import InvalidInput, integer, one_of
from fedglb.io.toml import read_file
from fedglb.links import LINKS
from fedglb.problem import Problem
from fedglb.sweeps.spec.document import (
    ClassificationTable,
    Document,
    ProblemTable,
    SyntheticTable,
    parse,
)
from fedglb.sweeps.spec.grid import Configuration, choices, configurations

#: The most runs of a sweep: more is a slip in a grid.
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
        In the order of the results.
    configurations
        The algorithms, in the order of the results.
    document
        The tables of the file, as JSON: what a worker needs to build the same experiment.
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
        A TOML file, or its tables as a dictionary.
    seeds
        Instead of the file's own: a number n for 1 … n, or a list.
    progress
        Called with a line of text where data has to be fetched and grouped first.

    Examples
    --------
    >>> experiment = read_experiment({
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
    try:
        return _build(document, raw, progress)
    except InvalidInput as error:
        argument = f"{where}: {error.argument}"
        raise InvalidInput(argument, error.value, error.allowed) from None


def _plain(value: Any) -> Any:
    """Return tables as TOML has them: NumPy's numbers and arrays are Python's, tuples are lists."""
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
    table = document.problem
    env = _environment(document.environment, table, progress)
    problem = env.problem
    seeds = _seeds(document.seeds)
    made = []
    for choice in choices(document.algorithm, document.defaults, len(seeds), MOST_RUNS):
        algorithm = choice.build()
        try:
            algorithm.setting(problem, env.clients, document.horizon)
        except InvalidInput as error:
            if choice.where(error.argument) is None and error.argument in table.__struct_fields__:
                raise _under("problem", error) from None
            raise choice.blame(error) from None
        made.append((choice, algorithm))
    try:
        text = json.dumps(raw, sort_keys=True)
    except TypeError as error:
        raise InvalidInput("tables", str(error), "plain numbers and text only") from None
    return Experiment(document.name, env, document.horizon, seeds, configurations(made), text)


def _environment(
    table: SyntheticTable | ClassificationTable, problem: ProblemTable, progress: Progress | None
) -> Environment:
    """Build the environment; data that is not on this machine yet is fetched."""
    one_of("problem.link", problem.link, LINKS)
    if isinstance(table, SyntheticTable):
        if problem.dim is None:
            allowed = "a whole number, the features of an arm: it is missing"
            raise InvalidInput("problem.dim", None, allowed)
        made = _problem(problem, problem.dim)
        try:
            return Synthetic(made, table.clients, table.arms)
        except InvalidInput as error:
            raise _under("environment", error) from None
    one_of("environment.dataset", table.dataset, DATASETS)
    try:
        data = clustered(
            table.dataset, table.clusters, mode=cast("Any", table.mode), constant=table.constant,
            scale=cast("Any", table.scale), progress=progress,
        )  # fmt: skip
    except InvalidInput as error:
        raise _under("environment", error) from None
    if problem.dim not in (None, data.dim):
        allowed = f"{data.dim}, the features of {table.dataset}, or leave it out"
        raise InvalidInput("problem.dim", problem.dim, allowed)
    made = _problem(problem, data.dim)
    try:
        return Classification(made, table.clients, data, table.offered)
    except InvalidInput as error:
        raise _under("environment", error) from None


def _problem(table: ProblemTable, dim: int) -> Problem:
    try:
        return Problem(dim, LINKS[table.link](), table.radius, table.noise, table.curvature)
    except InvalidInput as error:
        raise _under("problem", error) from None


def _under(table: str, error: InvalidInput) -> InvalidInput:
    return InvalidInput(f"{table}.{error.argument}", error.value, error.allowed)


def _seeds(given: object) -> tuple[int, ...]:
    if not isinstance(given, list):
        return tuple(range(1, integer("seeds", given, at_most=1_000_000) + 1))
    if not given:
        raise InvalidInput("seeds", [], "at least one seed, or their number")
    for i, seed in enumerate(given):
        integer(f"seeds[{i}]", seed, at_least=0, at_most=2**63 - 1)
    if len(set(given)) < len(given):
        raise InvalidInput("seeds", given, "each seed once")
    return tuple(given)
