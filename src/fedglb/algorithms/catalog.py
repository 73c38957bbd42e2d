"""Algorithms by name, built from command lines and sweep files.

Both know every solver and preset in the tables `SOLVERS` and `ALGORITHMS`. In place of a name, a
sweep may have `"package.module:function"` (`fedglb.algorithms.own`) or a part.
"""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from fedglb.algorithms import ALGORITHMS
from fedglb.algorithms.base import Algorithm
from fedglb.algorithms.own import call, check_options, find, is_own, takes
from fedglb.algorithms.strategy import AnyAlgorithm, Strategy
from fedglb.errors import InvalidInput, number, one_of, under
from fedglb.parts.choice import (
    Bank,
    Bayes,
    Choice,
    EpsilonGreedy,
    Greedy,
    OptimisticThompson,
    OwnChoice,
    Sigma,
    Thompson,
    Ucb,
)
from fedglb.parts.confidence import Confidence, Fixed, Iterate, OnePassRadius, OwnRadius
from fedglb.parts.global_update import AGD, LBFGS, GlobalUpdate, Newton, OneExchange
from fedglb.parts.memory import Adaptive, Forever, HalfLife, Memory
from fedglb.parts.own import FunctionPart
from fedglb.parts.ridge import Evidence
from fedglb.privacy import GaussianMechanism

T = TypeVar("T")

SOLVERS: dict[str, type[GlobalUpdate]] = {
    "agd": AGD, "newton": Newton, "lbfgs": LBFGS, "one-exchange": OneExchange,
}  # fmt: skip
CHOICES: dict[str, type[Choice]] = {
    "ucb": Ucb, "greedy": Greedy, "sigma": Sigma, "bayes": Bayes, "thompson": Thompson,
    "optimistic-thompson": OptimisticThompson,
    "epsilon-greedy": EpsilonGreedy, "bank": Bank,
}  # fmt: skip
MEMORIES: dict[str, type[Memory]] = {
    "forever": Forever, "half-life": HalfLife, "adaptive": Adaptive,
}  # fmt: skip
RADII = ("lemma", "iterate", "one-pass", "fixed")
#: How options that must be given are written.
_EXAMPLES = {
    "epsilon-greedy": 'epsilon-greedy:0.1, or {name = "epsilon-greedy", epsilon = 0.1}',
    "bank": '{name = "bank", index = "bayes", factor = 8.0}',
    "privacy": "{epsilon = 1.0, delta = 1e-6}",
    "half-life": 'half-life:100, or {name = "half-life", half_life = 100.0}',
}
#: The column of a sweep's tables with the first λ, where a rule chooses it.
RIDGE_START = "ridge_start"
#: The column with ε of the privacy.
EPSILON = "epsilon"


def parameters(preset: str) -> dict[str, Any]:
    """Return the parameters that a preset takes, with their defaults.

    `preset` is a key of `ALGORITHMS` or a `module:function` path; a required parameter has the
    default `inspect.Parameter.empty`.

    Examples
    --------
    >>> list(parameters("n-ons-glm"))
    ['exploration', 'ridge', 'delta', 'confidence', 'choice']
    """
    return dict(takes(find("name", preset) if is_own(preset) else ALGORITHMS[preset]))


@functools.cache
def all_parameters() -> dict[str, type]:
    """Return every parameter of any preset with its kind: float, int, or str for names.

    `RIDGE_START` and `EPSILON` are among them, for tables of results; no preset takes them.
    """
    kinds: dict[str, type] = {}
    for preset in ALGORITHMS.values():
        hints = typing.get_type_hints(preset)
        for key in takes(preset):
            options = {hints[key], *typing.get_args(hints[key])}
            kinds[key] = next((kind for kind in (float, int) if kind in options), str)
    return {**kinds, RIDGE_START: float, EPSILON: float}


def build(preset: str, given: Mapping[str, Any]) -> Algorithm:
    """Build an algorithm from the name of a preset, or a `module:function` path, and parameters.

    `solver`, `confidence`, `choice`, `ridge`, `privacy` and `memory` take the arguments of the
    functions with these names, also for a user's function; not for a strategy.

    Examples
    --------
    >>> build("fedglb-ucb", {"threshold": 10.0, "solver": "newton"}).solver
    Newton(tolerance=None, stop='certificate', rounds=None)
    >>> build("n-ons-glm", {"confidence": {"fixed": 0.3}}).confidence
    Fixed(alpha=0.3)
    """
    return _built(preset, given, Algorithm)


def build_any(preset: str, given: Mapping[str, Any]) -> AnyAlgorithm:
    """Build an algorithm or a strategy, as `build` does."""
    made = _built(preset, given, object)
    if not isinstance(made, Algorithm | Strategy):
        allowed = f"a function that returns an Algorithm or a Strategy; this: {made!r}"
        raise InvalidInput("name", preset, allowed)
    return made


def _built(preset: str, given: Mapping[str, Any], kind: type[T]) -> T:
    check_options(preset, given, parameters(preset))
    makers = {
        "solver": solver, "confidence": confidence, "choice": choice, "ridge": ridge,
        "privacy": privacy, "memory": memory,
    }  # fmt: skip
    chosen, made_by = dict(given), find("name", preset) if is_own(preset) else ALGORITHMS[preset]
    has_parts = not (isinstance(made_by, type) and issubclass(made_by, Strategy))
    for key, make in makers.items():
        if key in chosen and has_parts:
            with under(key):
                chosen[key] = make(chosen[key])
    if is_own(preset):
        return call(("name",), preset, chosen, kind, "fg.fedglb_ucb(threshold=10.0)")
    made: Any = ALGORITHMS[preset](**chosen)
    return cast("T", made)


def _own_part(
    spec: object, kind: type[T], example: str, function_part: type[FunctionPart] | None = None
) -> T | None:
    """Return a part object, or the part of a `module:function` path; None for other names.

    A function that cannot be called with the table's numbers alone is itself the `function_part`.
    """
    if function_part is not None:
        spec = function_part.of(spec)
    if isinstance(spec, kind):
        return spec
    table = dict(spec) if isinstance(spec, Mapping) else {"name": spec}
    if not is_own(table.get("name")):
        return None
    argument = ("name",) if isinstance(spec, Mapping) else ()
    name = str(table.pop("name"))
    if function_part is not None and function_part.is_part(function := find(argument, name), table):
        return function_part.of(functools.partial(function, **table))  # type: ignore[no-any-return]
    return call(argument, name, table, kind, example)


def _named_part(what: str, spec: object, known: Mapping[str, type[T]]) -> T:
    """Build a part from its name, or from a table of its name and options."""
    table = dict(spec) if isinstance(spec, Mapping) else {"name": spec}
    if "name" not in table:
        raise InvalidInput("name", None, f"one of {', '.join(known)}")
    argument = ("name",) if isinstance(spec, Mapping) else ()
    name = one_of(argument, table.pop("name"), known)
    kind: Callable[..., T] = known[name]
    check_options(f"the {what} {name}", table, takes(kind), _EXAMPLES.get(name, ""))
    for key in ("index", "rule"):  # a rule around another
        if key in table:
            with under(key):
                table[key] = choice(table[key])
    return kind(**table)


def solver(spec: object) -> GlobalUpdate:
    """Build a solver from its name, a table of its name and options, a path or a part."""
    own = _own_part(spec, GlobalUpdate, "fg.Newton()")  # type: ignore[type-abstract]
    return _named_part("solver", spec, SOLVERS) if own is None else own


def confidence(spec: object) -> Confidence[Any] | None:
    """Build a radius from its name, a table `{fixed = 0.3}`, a path or a part; None: the lemma."""
    own = _own_part(spec, Confidence, "fg.Fixed(0.3)", OwnRadius)  # type: ignore[type-abstract]
    if own is not None:
        return own
    if isinstance(spec, Mapping):
        if list(spec) != ["fixed"]:
            raise InvalidInput((), dict(spec), "the radius as {fixed = 0.3}")
        return Fixed(number("fixed", spec["fixed"], at_least=0.0))
    if spec == "fixed":
        raise InvalidInput((), spec, "a constant radius as {fixed = 0.3}")
    named = {"lemma": None, "iterate": Iterate(), "one-pass": OnePassRadius()}
    return named[one_of((), spec, RADII)]


def choice(spec: object) -> Choice:
    """Build a choice rule from its name, its name and a number, a table, a path or a part.

    Examples
    --------
    >>> choice("bayes"), choice("sigma:3")
    (Bayes(), Sigma(width=3.0))
    >>> choice({"name": "epsilon-greedy", "epsilon": 0.1, "rule": "ucb"})
    EpsilonGreedy(epsilon=0.1, rule=Ucb(ties='random'))
    """
    spec = _with_number(spec, CHOICES, "sigma:3")
    own = _own_part(spec, Choice, "fg.Ucb()", OwnChoice)  # type: ignore[type-abstract]
    return _named_part("rule", spec, CHOICES) if own is None else own


def _with_number(spec: object, known: Mapping[str, type], example: str) -> object:
    """Return a part's name and number, "name:number", as a table; other specs as they are."""
    name, colon, value = spec.partition(":") if isinstance(spec, str) else ("", "", "")
    if not colon or name not in known:  # else it is a path
        return spec
    first = next(iter(takes(known[name])), "number")
    try:
        return {"name": name, first: float(value)}
    except ValueError:
        raise InvalidInput((), spec, f"a number after {name}:, e.g. {example}") from None


def memory(spec: object) -> Memory:
    """Build a memory from its name, its name and a number, a table or a part.

    Examples
    --------
    >>> memory("half-life:100"), memory({"name": "adaptive", "half_lives": [64.0, 16.0]})
    (HalfLife(half_life=100.0), Adaptive(half_lives=(64.0, 16.0)))
    """
    if isinstance(spec, Memory):
        return spec
    return _named_part("memory", _with_number(spec, MEMORIES, "half-life:100"), MEMORIES)


def ridge(spec: object) -> Any:
    """Build the rule that chooses λ from ``{"evidence": start}``; a number is returned as it is."""
    if not isinstance(spec, Mapping):
        return spec
    if list(spec) != ["evidence"]:
        raise InvalidInput((), dict(spec), "a number, or the rule {evidence = 0.0156}")
    return Evidence(number("evidence", spec["evidence"], above=0.0))


def privacy(spec: object) -> GaussianMechanism | None:
    """Build the privacy mechanism from a table of its parameters; "none": no privacy.

    Examples
    --------
    >>> privacy({"epsilon": 1.0, "delta": 1e-6}).noise
    'sums'
    """
    if spec is None or isinstance(spec, GaussianMechanism):
        return spec
    if spec == "none":
        return None
    if not isinstance(spec, Mapping):
        raise InvalidInput((), spec, f'"none", or a table such as {_EXAMPLES["privacy"]}')
    check_options("privacy", spec, takes(GaussianMechanism), _EXAMPLES["privacy"])
    return GaussianMechanism(**spec)


def _changed(part: Any) -> dict[str, Any]:
    """Return the options of a part that are not defaults."""
    kind: Callable[..., object] = type(part)
    values = {key: (getattr(part, key), default) for key, default in takes(kind).items()}
    return {key: value for key, (value, default) in values.items() if value != default}


def as_table(part: Any) -> dict[str, Any]:
    """Return a solver, a choice rule or a memory as a table of a file; empty if it has no name.

    Examples
    --------
    >>> import fedglb as fg
    >>> as_table(fg.AGD(stop="fixed", rounds=20))
    {'name': 'agd', 'stop': 'fixed', 'rounds': 20}
    """
    tables: tuple[Mapping[str, type], ...] = (SOLVERS, CHOICES, MEMORIES)
    names = {kind: name for known in tables for name, kind in known.items()}
    return {"name": names[type(part)], **_changed(part)} if type(part) in names else {}


def in_words(part: object) -> str:
    """Return a part as results write it: its name, and its options that are not defaults.

    A part without a name is its `repr`, or its class if the `repr` has an address.

    Examples
    --------
    >>> in_words(Newton()), in_words(EpsilonGreedy(0.1, Sigma(3.0)))
    ('newton', 'epsilon-greedy epsilon=0.1 rule=(sigma width=3.0)')
    >>> in_words(Fixed(0.3)), in_words(object())
    ('Fixed(alpha=0.3)', 'object')
    """
    table = as_table(part)
    if not table:
        plain = type(part).__repr__ is object.__repr__
        return type(part).__qualname__ if plain else repr(part)
    said = [str(table.pop("name"))]
    for key, value in table.items():
        said.append(f"{key}=({in_words(value)})" if isinstance(value, Choice) else f"{key}={value}")
    return " ".join(said)


def privacy_in_words(part: GaussianMechanism) -> str:
    """Return δ of the privacy and its options that are not defaults; ε has another column.

    Examples
    --------
    >>> privacy_in_words(privacy({"epsilon": 1.0, "delta": 1e-6, "noise": "silo"}))
    'delta=1e-06 noise=silo'
    """
    return " ".join(f"{k}={v}" for k, v in _changed(part).items() if k != "epsilon")


def preset_of(algorithm: Algorithm) -> tuple[str, dict[str, Any]] | None:
    """Return the preset of an equal algorithm and its arguments, or None.

    Arguments that are defaults of the preset are left out. Found by building it again.

    Examples
    --------
    >>> import fedglb as fg
    >>> preset_of(fg.n_ons_glm(ridge=2.0))
    ('n-ons-glm', {'ridge': 2.0})
    >>> from dataclasses import replace
    >>> preset_of(replace(fg.n_ons_glm(), name="mine")) is None
    True
    """
    local = algorithm.local_update
    places = (algorithm, algorithm.trigger, local, getattr(local, "rate", None))
    for preset, make in ALGORITHMS.items():
        chosen = {}
        for key in parameters(preset):
            owner = next((place for place in places if hasattr(place, key)), None)
            if owner is not None:
                chosen[key] = getattr(owner, key)
        if _made(make, chosen) != algorithm:
            continue
        for key in list(chosen):  # leave out defaults of the preset
            fewer = {k: v for k, v in chosen.items() if k != key}
            if _made(make, fewer) == algorithm:
                chosen = fewer
        return preset, chosen
    return None


def _made(make: Callable[..., Algorithm], chosen: dict[str, Any]) -> Algorithm | None:
    try:
        return make(**chosen)
    except (ValueError, TypeError):  # it lacks a parameter, or refuses a value
        return None
