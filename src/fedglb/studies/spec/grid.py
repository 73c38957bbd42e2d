"""From tables that hold lists, or objects, to configurations: labelled algorithms."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedglb.algorithms import ALGORITHMS, Algorithm
from fedglb.algorithms.catalog import (
    EPSILON,
    RIDGE_START,
    all_parameters,
    build_any,
    in_words,
    parameters,
    preset_of,
    privacy_in_words,
)
from fedglb.algorithms.own import find, is_own
from fedglb.algorithms.own import takes as takes_of
from fedglb.algorithms.strategy import AnyAlgorithm, Strategy
from fedglb.errors import InvalidInput, Place, as_text, integer, names_near, number, one_of, under
from fedglb.parts.confidence import Fixed, as_confidence

#: The columns of results that are not parameters of an algorithm.
OTHER_COLUMNS = frozenset(
    {
        "label", "algorithm", "link", "dim", "radius", "noise", "curvature", "clients", "arms",
        "horizon", "seed", "regret", "reward", "syncs", "rounds", "transfers", "scalars", "bits",
        "interactions", "caveats", "randomised", "client_regret", "update_seconds",
        "configuration",
    }
)  # fmt: skip
_SHORT = {"threshold": "D", "updates": "B"}
_MOST_POINTS = 10_000
#: Keys of an `[[algorithm]]` that are not parameters of its preset.
_OF_TABLE = ("name", "label", "defaults")


@dataclass(frozen=True)
class Configuration:
    """One algorithm of a sweep."""

    label: str  # unique within the sweep
    preset: str  # without a preset: its label without parameters
    parameters: dict[str, float | int | str | None]  # all of the preset's, as text and numbers
    algorithm: AnyAlgorithm


@dataclass(frozen=True)
class Value:
    """A value of a parameter and its place in the file."""

    key: Place
    value: Any


@dataclass(frozen=True)
class Selection:
    """A configuration without a label: the values and their places in the file."""

    key: Place
    preset: str | AnyAlgorithm
    values: dict[str, Value]
    family: str
    label: str | None = None

    @property
    def given(self) -> dict[str, Any]:
        """The values of the parameters."""
        return {key: v.value for key, v in self.values.items()}

    def build(self) -> AnyAlgorithm:
        """Return the algorithm."""
        return build_any(self.preset, self.given) if isinstance(self.preset, str) else self.preset

    def place(self, path: Place) -> Place:
        """Return the place in the file of a parameter of the preset."""
        found = self.values.get(str(path[0]))
        return (*self.key, *path) if found is None else (*found.key, *path[1:])


def as_tables(given: Any) -> Any:
    """Return the `algorithm` entry as a list of tables.

    An algorithm that is an object becomes a table with the object under `name`; the key of a
    dictionary becomes its `label`. Anything else is returned unchanged, and refused later.
    """
    if isinstance(given, AnyAlgorithm):
        given = [given]
    if isinstance(given, list):
        return [{"name": each} if isinstance(each, AnyAlgorithm) else each for each in given]
    if not isinstance(given, Mapping):
        return given
    tables = []
    for label, one in given.items():
        several = one if isinstance(one, list) and one else [one]
        for each in several:
            if isinstance(each, AnyAlgorithm):
                tables.append({"label": label, "name": each})
            elif isinstance(each, Mapping) and "label" not in each:
                tables.append({"label": label, **each})
            else:
                allowed = "an fg.Algorithm, an fg.Strategy, a table with a name, or a list"
                raise InvalidInput(("algorithm", str(label)), each, allowed)
    return tables


def family(where: Place, table: Mapping[str, Any]) -> str:
    """Return an algorithm's name in results, without its parameters.

    That is its label; else the name of the preset, or of the function; else, for an object, the
    preset that makes it, or its own name.
    """
    name, label = table["name"], table.get("label")
    if isinstance(name, AnyAlgorithm):
        found = preset_of(name) if isinstance(name, Algorithm) else None
        made_by = None if found is None else found[0]
    else:
        made_by = name
    if label is None:
        return name.name if made_by is None else str(made_by)
    if not isinstance(label, str) or not label.strip() or not label.isprintable():
        raise InvalidInput((*where, "label"), label, "text of one line")
    if label in ALGORITHMS and label != made_by:
        allowed = "another label: this one is the name of a different preset"
        raise InvalidInput((*where, "label"), label, allowed)
    return label


def choices(
    tables: Sequence[Mapping[str, Any]], defaults: Mapping[str, Any], seeds: int, most: int
) -> list[Selection]:
    """Return every combination of the lists in the `[[algorithm]]` tables.

    Raises first if there are more than `most` runs with all `seeds`.
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
        if isinstance(preset, AnyAlgorithm):
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
                if isinstance(preset, AnyAlgorithm):
                    allowed = "no other keys: an algorithm object already has its parameters"
                    raise InvalidInput((*where, key), value, allowed)
                _check_key((*where, key), value, takes)
                axes[key] = values((*where, key), value)
        ordered = [key for key in takes if key in axes]  # the preset's order: a stable one
        grids.append((begun, {key: axes[key] for key in ordered}))
    for key, value in defaults.items():
        if not any(key in grid for _, grid in grids):
            allowed = "a parameter of an algorithm in the file"
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
        allowed = "false, or no such key"
        raise InvalidInput((*where, "defaults"), given, allowed)
    return given


def _check_key(where: Place, value: Any, known: Mapping[str, Any]) -> None:
    if where[-1] not in known:
        raise InvalidInput(where, value, names_near(where[-1], known))


def values(where: Place, given: Any) -> list[Value]:
    """Return the values of one parameter: of a list, of a logarithmic range, or a single one."""
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


def configurations(made: Sequence[tuple[Selection, AnyAlgorithm]]) -> tuple[Configuration, ...]:
    """Label the algorithms; raise for duplicates."""
    first: dict[AnyAlgorithm, Selection] = {}
    for choice, algorithm in made:
        try:
            before = first.setdefault(algorithm, choice)
        except TypeError as error:
            allowed = f"parts that are frozen dataclasses, with tuples instead of arrays ({error})"
            raise InvalidInput(choice.key, algorithm.name, allowed) from None
        if before is not choice:
            same = f"{as_text(before.key)} already has this one (all fields of the dataclass)"
            allowed = f"each configuration once: {same}"
            raise InvalidInput(choice.key, {"name": choice.preset, **choice.given}, allowed)
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


def _refuse_equal(labels: Sequence[str], made: Sequence[Selection]) -> None:
    """Raise for two configurations with the same label."""
    for i, label in enumerate(labels):
        if label in labels[:i]:
            before = as_text(made[labels.index(label)].key)
            allowed = f"a unique label: {before} has the same label and parameters"
            raise InvalidInput((*made[i].key, "label"), label, allowed)


def _described(choice: Selection, algorithm: AnyAlgorithm) -> dict[str, float | int | str | None]:
    """Return all parameters as text and numbers, defaults included."""
    preset, given = choice.preset, choice.given
    if isinstance(preset, Strategy):
        fields = ((f.name, getattr(preset, f.name)) for f in dataclasses.fields(preset))
        return {column(key, value): _as_result(value) for key, value in fields}
    if isinstance(preset, Algorithm):
        found = preset_of(preset)
        if found is None:
            return parameters_of(preset)
        preset, given = found
    out: dict[str, float | int | str | None] = {}
    for key, default in parameters(preset).items():
        value = given.get(key, default)
        if isinstance(algorithm, Strategy):  # a function's
            out[column(key, value)] = _as_result(value)
        elif key == "solver":
            solver = algorithm.global_update
            out[key] = None if solver is None else in_words(solver)
        elif key == "confidence":
            out[key] = confidence_in_words(value)
        elif key == "choice":
            out[key] = in_words(algorithm.choice)
        elif key == "memory":
            out[key] = in_words(algorithm.memory)
        elif key == "privacy":
            if (part := algorithm.privacy) is not None:
                out[EPSILON], out[key] = float(part.epsilon), privacy_in_words(part)
        elif key == "ridge" and algorithm.ridge_rule is not None:
            out[key], out[RIDGE_START] = None, algorithm.ridge_rule.start
        elif value is None or value is inspect.Parameter.empty:
            out[key] = None
        elif is_own(preset):
            out[column(key, value)] = _as_result(value)
        else:
            out[key] = all_parameters()[key](value)
    return out


def _as_result(value: object) -> float | int | str | None:
    """Return a value as a number or text; without addresses, which differ between processes."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, int) and abs(value) >= 2**63:  # no column has such numbers
        return float(value)
    if value is None or isinstance(value, float | int):
        return value
    return re.sub(r" at 0x[0-9a-fA-F]+", "", str(value))


def parameters_of(algorithm: Algorithm) -> dict[str, float | int | str | None]:
    """Return the parameters of an algorithm without a preset, as text and numbers."""
    out: dict[str, float | int | str | None] = {}
    for key in ("threshold", "updates", "clock"):
        if hasattr(algorithm.trigger, key):
            out[key] = getattr(algorithm.trigger, key)
    if algorithm.global_update is not None:
        out["solver"] = in_words(algorithm.global_update)
    out["exploration"] = float(algorithm.exploration)
    rule = algorithm.ridge_rule
    out |= {"ridge": float(algorithm.ridge)} if rule is None else {"ridge_start": rule.start}  # type: ignore[arg-type]
    out["delta"] = float(algorithm.delta)
    out["confidence"] = confidence_in_words(algorithm.confidence)
    out["choice"] = in_words(algorithm.choice)
    out["memory"] = in_words(algorithm.memory)
    if algorithm.privacy is not None:
        out["epsilon"] = algorithm.privacy.epsilon
        out["privacy"] = privacy_in_words(algorithm.privacy)
    return out


def confidence_in_words(value: Any) -> str:
    """Return a radius as text, as results have it: "lemma", "fixed=0.3", "iterate"."""
    value = as_confidence(value)
    if isinstance(value, Fixed):
        return f"fixed={value.alpha}"
    if isinstance(value, Mapping):
        return (
            f"fixed={value['fixed']}"
            if "fixed" in value
            else " ".join(str(v) if k == "name" else f"{k}={v}" for k, v in value.items())
        )
    return value if isinstance(value, str) else "lemma" if value is None else in_words(value)


def column(key: str, value: object) -> str:
    """Return the column of results for a parameter of a user-defined function."""
    kind = all_parameters().get(key)
    fits = kind is None or isinstance(value, kind) or (kind is float and isinstance(value, int))
    return key if fits and key not in OTHER_COLUMNS else f"own_{key}"


def _varying(
    described: Sequence[dict[str, Any]], presets: Sequence[str], preset: str
) -> frozenset[str]:
    """Return the parameters that differ between the configurations of a preset."""
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
