"""From tables that hold lists to configurations, each one algorithm with its own label."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fedglb.algorithms import ALGORITHMS, Algorithm
from fedglb.algorithms.catalog import (
    EPSILON,
    RIDGE_START,
    all_parameters,
    build,
    in_words,
    parameters,
    preset_of,
    privacy_in_words,
)
from fedglb.algorithms.own import find, is_own
from fedglb.algorithms.own import takes as takes_of
from fedglb.errors import InvalidInput, Place, as_text, integer, names_near, number, one_of, under
from fedglb.studies.spec.algorithms import confidence_in_words, family, parameters_of

#: The columns of results that are no parameters of an algorithm.
OTHER_COLUMNS = frozenset(
    {
        "label", "algorithm", "link", "dim", "radius", "noise", "curvature", "clients", "arms",
        "horizon", "seed", "regret", "reward", "syncs", "rounds", "transfers", "scalars",
        "interactions", "caveats", "configuration",
    }
)  # fmt: skip
_SHORT = {"threshold": "D", "updates": "B"}
_MOST_POINTS = 10_000
#: Keys of an `[[algorithm]]` that are not parameters of its preset.
_OF_TABLE = ("name", "label", "defaults")


@dataclass(frozen=True)
class Configuration:
    """One algorithm of a sweep.

    Attributes
    ----------
    label
        What it is called in results; unique within the sweep.
    preset
        The name of its preset; of one that no preset made, its label without parameters.
    parameters
        All parameters of the preset, as text and numbers; None for one that has no value.
    algorithm
        The algorithm itself.
    """

    label: str
    preset: str
    parameters: dict[str, float | int | str | None]
    algorithm: Algorithm


@dataclass(frozen=True)
class Value:
    """A value of a parameter and the place in the file that it comes from."""

    key: Place
    value: Any


@dataclass(frozen=True)
class Selection:
    """A configuration before it has a label: what was chosen, and where it was written."""

    key: Place
    preset: str | Algorithm
    values: dict[str, Value]
    family: str
    label: str | None = None

    def build(self) -> Algorithm:
        """Return the algorithm."""
        if isinstance(self.preset, Algorithm):
            return self.preset
        return build(self.preset, {key: v.value for key, v in self.values.items()})

    def place(self, path: Place) -> Place:
        """Return the place in the file at which a parameter of the preset was given."""
        found = self.values.get(str(path[0]))
        return (*self.key, *path) if found is None else (*found.key, *path[1:])


def choices(
    tables: Sequence[Mapping[str, Any]], defaults: Mapping[str, Any], seeds: int, most: int
) -> list[Selection]:
    """Return every combination of the lists in the `[[algorithm]]` tables.

    Raises before it makes any if they give more than `most` runs with all `seeds`.

    Examples
    --------
    >>> table = {"name": "fedglb-ucb", "threshold": {"from": 1, "to": 100, "points": 3}}
    >>> [c.values["threshold"].value for c in choices([table], {"ridge": 1.0}, 5, 100)]
    [1.0, 10.0, 100.0]
    """
    if not tables:
        raise InvalidInput("algorithm", [], "at least one [[algorithm]] table")
    known: dict[str, Any] = dict(all_parameters())
    for i, table in enumerate(tables):
        if is_own(table.get("name")):
            known |= takes_of(find(("algorithm", i, "name"), table["name"]))
    for key, value in defaults.items():
        _check_key(("defaults", key), value, known)
    grids: list[tuple[Selection, dict[str, list[Value]]]] = []
    for i, table in enumerate(tables):
        where = ("algorithm", i)
        if "name" not in table:
            raise InvalidInput((*where, "name"), None, f"one of {', '.join(ALGORITHMS)}")
        preset = table["name"]
        if isinstance(preset, Algorithm):
            takes = {}
        else:
            if not is_own(preset):
                one_of((*where, "name"), preset, ALGORITHMS)
            takes = parameters(preset)
        begun = Selection(where, preset, {}, family(where, table), table.get("label"))
        shared = defaults if _takes_defaults(where, table) else {}
        axes = {k: values(("defaults", k), v) for k, v in shared.items() if k in takes}
        for key, value in table.items():
            if key not in _OF_TABLE:
                if isinstance(preset, Algorithm):
                    allowed = "no other keys: an algorithm that is an object has its parameters"
                    raise InvalidInput((*where, key), value, allowed)
                _check_key((*where, key), value, takes)
                axes[key] = values((*where, key), value)
        ordered = [key for key in takes if key in axes]  # the preset's order: a stable one
        grids.append((begun, {key: axes[key] for key in ordered}))
    for key, value in defaults.items():
        if not any(key in grid for _, grid in grids):
            allowed = "a key that an algorithm of the file takes"
            raise InvalidInput(("defaults", key), value, allowed)
    runs = seeds * sum(math.prod(len(axis) for axis in grid.values()) for _, grid in grids)
    if runs > most:
        allowed = f"at most {most:,} runs: fewer values in the grids, or fewer seeds"
        raise InvalidInput("configurations × seeds", runs, allowed)
    return [
        replace(begun, values=dict(zip(grid, combination, strict=True)))
        for begun, grid in grids
        for combination in itertools.product(*grid.values())
    ]


def _takes_defaults(where: Place, table: Mapping[str, Any]) -> bool:
    given = table.get("defaults", True)
    if not isinstance(given, bool):
        allowed = "false, for an algorithm that takes nothing from [defaults] or a search"
        raise InvalidInput((*where, "defaults"), given, allowed)
    return given


def _check_key(where: Place, value: Any, known: Mapping[str, Any]) -> None:
    if where[-1] not in known:
        raise InvalidInput(where, value, names_near(where[-1], known))


def values(where: Place, given: Any) -> list[Value]:
    """Return the values of one parameter: of a list, of a logarithmic range, or the one given."""
    if isinstance(given, list):
        if not given:
            raise InvalidInput(where, [], "at least one value")
        return [Value((*where, i), value) for i, value in enumerate(given)]
    if isinstance(given, Mapping) and {"from", "to", "points"} & set(given):
        with under(*where):
            return [Value(where, value) for value in _range(given)]
    return [Value(where, given)]


def _range(table: Mapping[str, Any]) -> list[float]:
    """Return numbers spaced evenly in the logarithm, ends included, to 12 digits."""
    keys = ("from", "to", "points")
    for key in (*keys, *table):
        if key not in keys or key not in table:
            raise InvalidInput((), dict(table), "{from = 0.1, to = 1000.0, points = 13}")
    low = number("from", table["from"], above=0.0)
    high = number("to", table["to"], above=low)
    points = integer("points", table["points"], at_least=2, at_most=_MOST_POINTS)
    shares = (i / (points - 1) for i in range(1, points - 1))
    inner = (low ** (1.0 - share) * high**share for share in shares)  # high/low may overflow
    return [low, *(float(f"{min(x, high):.12g}") for x in inner), high]


def configurations(made: Sequence[tuple[Selection, Algorithm]]) -> tuple[Configuration, ...]:
    """Label the algorithms; refuse one that is given twice."""
    first: dict[Algorithm, Selection] = {}
    for choice, algorithm in made:
        if _hashable(choice, algorithm) in first:
            said = {key: v.value for key, v in choice.values.items()}
            raise InvalidInput(
                choice.key, {"name": choice.preset, **said},
                f"each configuration once: {as_text(first[algorithm].key)} has this one already",
            )  # fmt: skip
        first[algorithm] = choice
    described = [_described(choice, algorithm) for choice, algorithm in made]
    presets = [choice.family for choice, _ in made]
    varying = {preset: _varying(described, presets, preset) for preset in set(presets)}
    labels: list[str] = []
    for form in (_six_digits, str):
        labels = [
            _label(choice, algorithm.name, d, varying[p], form)
            for (choice, algorithm), d, p in zip(made, described, presets, strict=True)
        ]
        if len(set(labels)) == len(labels):
            break
    else:
        _refuse_equal(labels, [choice for choice, _ in made])
    return tuple(
        Configuration(label, preset, d, algorithm)
        for label, preset, d, (_, algorithm) in zip(labels, presets, described, made, strict=True)
    )


def _hashable(choice: Selection, algorithm: Algorithm) -> Algorithm:
    try:
        hash(algorithm)
    except TypeError as error:
        allowed = f"one whose parts are frozen dataclasses ({error})"
        raise InvalidInput(choice.key, algorithm.name, allowed) from None
    return algorithm


def _refuse_equal(labels: Sequence[str], made: Sequence[Selection]) -> None:
    """Refuse two configurations that nothing in their labels tells apart."""
    for i, label in enumerate(labels):
        if label in labels[:i]:
            before = as_text(made[labels.index(label)].key)
            allowed = f"a label of its own: {before} has this one, and no other parameters"
            raise InvalidInput((*made[i].key, "label"), label, allowed)


def _described(choice: Selection, algorithm: Algorithm) -> dict[str, float | int | str | None]:
    """Return all parameters as text and numbers, defaults included."""
    preset, given = choice.preset, {key: v.value for key, v in choice.values.items()}
    if isinstance(preset, Algorithm):
        found = preset_of(preset)
        if found is None:
            return parameters_of(preset)
        preset, given = found
    out: dict[str, float | int | str | None] = {}
    for key, default in parameters(preset).items():
        value = given.get(key, default)
        if key == "solver":
            solver = algorithm.global_update
            out[key] = None if solver is None else in_words(solver)
        elif key == "confidence":
            out[key] = confidence_in_words(value)
        elif key == "choice":
            out[key] = in_words(algorithm.choice)
        elif key == "privacy":
            if (part := algorithm.privacy) is not None:
                out[EPSILON], out[key] = float(part.epsilon), privacy_in_words(part)
        elif key == "ridge" and algorithm.ridge_rule is not None:
            out[key], out[RIDGE_START] = None, algorithm.ridge_rule.start
        elif value is None or value is inspect.Parameter.empty:
            out[key] = None
        elif is_own(preset):
            out[column(key, value)] = value if isinstance(value, float | int) else str(value)
        else:
            out[key] = all_parameters()[key](value)
    return out


def column(key: str, value: object) -> str:
    """Return the column of results for a parameter of a user-defined function.

    Examples
    --------
    >>> column("width", 1.0), column("threshold", 1.0), column("seed", 1)
    ('width', 'threshold', 'own_seed')
    """
    kind = all_parameters().get(key)
    fits = kind is None or isinstance(value, kind) or (kind is float and isinstance(value, int))
    return key if fits and key not in OTHER_COLUMNS else f"own_{key}"


def _varying(
    described: Sequence[dict[str, Any]], presets: Sequence[str], preset: str
) -> frozenset[str]:
    """Return the parameters that tell the configurations of a preset apart."""
    own = [d for d, p in zip(described, presets, strict=True) if p == preset]
    keys = {key for d in own for key in d}
    return frozenset(key for key in keys if any(d.get(key) != own[0].get(key) for d in own))


def _label(
    choice: Selection,
    name: str,
    described: Mapping[str, Any],
    varying: frozenset[str],
    form: Callable[[float], str],
) -> str:
    words = [name if choice.label is None else choice.label]
    always = {"threshold", "updates", "solver"} if choice.label is None else set()
    for key, value in described.items():
        if key not in always | varying or value is None:
            continue
        text = form(value) if isinstance(value, float) else str(value)
        words.append(text if key == "solver" else f"{_SHORT.get(key, key)}={text}")
    return " ".join(words)


def _six_digits(value: float) -> str:
    return f"{value:.6g}"
