"""An experiment: algorithms, environment and seeds, checked as a whole."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fedglb.algorithms import Algorithm
from fedglb.algorithms.strategy import AnyAlgorithm
from fedglb.environments import Environment
from fedglb.environments.datasets import Progress
from fedglb.errors import InvalidInput, Place, instance, integer, relocated, under
from fedglb.io.toml import convert, read_file
from fedglb.problem_table import ProblemTable
from fedglb.provenance import identity
from fedglb.simulation.simulate import known_horizon
from fedglb.studies.spec.description import in_tables, made_by_functions
from fedglb.studies.spec.environment import environment
from fedglb.studies.spec.grid import (
    Configuration,
    Selection,
    as_tables,
    choices,
    configurations,
)
from fedglb.studies.spec.own_code import digests

#: The most runs of a sweep: more is probably a mistake in a grid.
MOST_RUNS = 100_000


#: Keys that only `fedglb reproduce` reads; a file for a sweep must not have them.
STUDY_KEYS = ("title", "measure", "search", "profile", "across", "panel")


class Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file. Values of type `Any` depend on the environment and the presets."""

    name: str
    horizon: int
    seeds: int | list[int]
    environment: Any
    algorithm: list[dict[str, Any]]
    problem: Any = None
    defaults: dict[str, Any] = {}


@dataclass(frozen=True)
class Experiment:
    """The specification of a sweep; made and checked by `read_experiment`.

    Attributes
    ----------
    name
        Its name; results go to results/NAME.
    env
        The environment, with the problem.
    horizon
        T.
    seeds
        The seeds, in the order of the results.
    configurations
        The algorithms, in the order of the results.
    document
        The tables of the file, as JSON; objects in them are described by their contents.
    tables
        The tables themselves, from which a worker builds the same experiment.
    own
        Digests of the user's code: by module, the sources of parts (of an installed package, its
        version); by name of a function, its result.

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
    tables: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    own: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        algorithms: Mapping[str, object] | Sequence[AnyAlgorithm],
        environment: Environment,
        horizon: int | None = None,
        seeds: int | Sequence[int] = 10,
        name: str = "experiment",
    ) -> Experiment:
        """Create an experiment from objects: any algorithms on any environment.

        Parameters
        ----------
        algorithms
            The algorithms: a list, or a dictionary of names, each with an algorithm or with a list
            of algorithms whose parameters differ.
        environment
            The environment.
        horizon
            T; None: all steps of an environment that has an end.
        seeds
            A number n for 1 … n, or a list.
        name
            The name of the results.

        Returns
        -------
        Experiment
            For `sweep` and `reproduce`.

        Raises
        ------
        InvalidInput
            If an argument is invalid, or an object cannot be pickled.

        Examples
        --------
        >>> import fedglb as fg
        >>> env = fg.Synthetic(fg.Problem(dim=3), clients=5, arms=4)
        >>> algorithms = {"auto": fg.fedglb_auto(), "UCB": [fg.fedglb_ucb(d) for d in (1.0, 9.0)]}
        >>> experiment = fg.Experiment.of(algorithms, env, horizon=100, seeds=2)
        >>> [c.label for c in experiment.configurations]
        ['auto', 'UCB D=1', 'UCB D=9']
        """
        instance("environment", environment, Environment, "fg.Synthetic(problem, 200, 25)")
        steps = environment.horizon if horizon is None else horizon
        if steps is None:
            raise InvalidInput("horizon", None, "the number of steps T, e.g. horizon=2000")
        return read_experiment(
            {
                "name": name, "horizon": steps, "seeds": seeds, "environment": environment,
                "algorithm": algorithms,
            }
        )  # fmt: skip

    @property
    def identity(self) -> str:
        """A digest of experiment, code and data."""
        return identity(self.document, self.env.facts(), self.own)

    @property
    def runs(self) -> int:
        """The number of runs."""
        return len(self.configurations) * len(self.seeds)

    @property
    def interactions(self) -> int:
        """The number of interactions per run."""
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
        A TOML file, or its tables as a dictionary; docs/research.md has the keys. A dictionary may
        hold objects: an environment, a problem, algorithms, parts of algorithms.
    seeds
        Replaces the seeds of the file: a number n for 1 … n, or a list.
    progress
        Called with a line of text before data is downloaded and clustered.

    Returns
    -------
    Experiment
        For `sweep`.

    Raises
    ------
    InvalidInput
        If the file cannot be read, or a key or its value is invalid; the message names it.
    DataUnavailable
        If a data set of the experiment was not found.

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
    if "algorithm" in raw:
        with under(source=where):
            raw["algorithm"] = as_tables(raw["algorithm"])
    if seeds is not None:
        raw["seeds"] = _plain(list(seeds) if isinstance(seeds, Sequence) else seeds)
        seeds_of(raw["seeds"])
    with under(source=where):
        for key in STUDY_KEYS:
            if key in raw:
                allowed = f"no such key for a sweep: only `fedglb reproduce {where}` reads it"
                raise InvalidInput(key, raw[key], allowed)
        return _build(convert(raw, Document, where), raw, progress)


def _plain(value: Any) -> Any:
    """Return tables with TOML's types: NumPy numbers and arrays as Python's, tuples as lists."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value


def _build(document: Document, raw: dict[str, Any], progress: Progress | None) -> Experiment:
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", document.name):
        allowed = "letters, digits, '-', '_' and '.': it is the name of the results' folder"
        raise InvalidInput("name", document.name, allowed)
    integer("horizon", document.horizon)
    env = environment(document.environment, document.problem, progress)
    known_horizon(env, document.horizon)
    seeds = seeds_of(document.seeds)
    made = []
    for choice in choices(document.algorithm, document.defaults, len(seeds), MOST_RUNS):
        with relocated(partial(_place, choice)):
            algorithm = choice.build()
            if isinstance(algorithm, Algorithm):
                algorithm.setting(env.problem, env.clients, document.horizon)
        made.append((choice, algorithm))
    labelled = configurations(made)
    modules: set[str] = set()
    text = json.dumps(in_tables(raw, modules), sort_keys=True)
    by_functions = made_by_functions(raw, env, [algorithm for _, algorithm in made], modules)
    own = {**digests(modules), **by_functions}
    return Experiment(
        document.name, env, document.horizon, seeds, labelled, text, raw, own
    )  # fmt: skip


def _place(choice: Selection, path: Place) -> Place:
    """Return the key of the file for an invalid argument."""
    if path[0] not in choice.values and path[0] in ProblemTable.__struct_fields__:
        return ("problem", *path)
    return choice.place(path)


def seeds_of(given: object) -> tuple[int, ...]:
    """Return the seeds from a number or a list."""
    if not isinstance(given, list):
        return tuple(range(1, integer("seeds", given, at_most=1_000_000) + 1))
    if not given:
        raise InvalidInput("seeds", [], "at least one seed, or the number of seeds")
    for i, seed in enumerate(given):
        integer(("seeds", i), seed, at_least=0, at_most=2**63 - 1)
    if len(set(given)) < len(given):
        raise InvalidInput("seeds", given, "each seed once")
    return tuple(given)
