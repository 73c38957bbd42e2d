"""Algorithms by name: builds them from what the command line and a sweep's file say.

A solver or a preset that is added to the tables `SOLVERS` and `ALGORITHMS` is known to both. Where
a name stands, a sweep may have `"package.module:function"` (`fedglb.algorithms.own`) or a part.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from fedglb.algorithms import ALGORITHMS
from fedglb.algorithms.base import Algorithm
from fedglb.algorithms.own import call, find, is_own, takes
from fedglb.errors import InvalidInput, number, one_of, under
from fedglb.parts.choice import (
    Bayes,
    Certified,
    Choice,
    EpsilonGreedy,
    Greedy,
    Sigma,
    Thompson,
    Ucb,
)
from fedglb.parts.confidence import Confidence, Fixed, Iterate, OnePassRadius
from fedglb.parts.global_update import AGD, LBFGS, GlobalUpdate, Newton, OneExchange
from fedglb.parts.ridge import Evidence
from fedglb.privacy import GaussianMechanism

T = TypeVar("T")

SOLVERS: dict[str, type[GlobalUpdate]] = {
    "agd": AGD, "newton": Newton, "lbfgs": LBFGS, "one-exchange": OneExchange,
}  # fmt: skip
CHOICES: dict[str, type[Choice]] = {
    "ucb": Ucb, "greedy": Greedy, "sigma": Sigma, "bayes": Bayes, "thompson": Thompson,
    "epsilon-greedy": EpsilonGreedy, "certified": Certified,
}  # fmt: skip
#: The column of a sweep's tables with the first λ, where a rule chooses it.
RIDGE_START = "ridge_start"
#: The column with ε of the privacy.
EPSILON = "epsilon"
RADII = ("lemma", "iterate", "one-pass", "fixed")
_signature = functools.cache(inspect.signature)  # a sweep asks once per configuration


def parameters(preset: str) -> dict[str, Any]:
    """Return the parameters that a preset takes, with their defaults.

    Parameters
    ----------
    preset
        A key of `ALGORITHMS`, or the name of a function of somebody's own.

    Returns
    -------
    dict
        Defaults by name; `inspect.Parameter.empty` for a parameter that must be given.

    Examples
    --------
    >>> list(parameters("n-ons-glm"))
    ['exploration', 'ridge', 'delta', 'confidence']
    """
    if is_own(preset):
        return dict(takes(find("name", preset)))
    return {k: p.default for k, p in _signature(ALGORITHMS[preset]).parameters.items()}


@functools.cache
def all_parameters() -> dict[str, type]:
    """Return every parameter of any preset with its kind: float, int, or str for names.

    `RIDGE_START` and `EPSILON` are among them, for tables of results; no preset takes them.
    """
    kinds: dict[str, type] = {}
    for preset in ALGORITHMS.values():
        hints = typing.get_type_hints(preset)
        for key in _signature(preset).parameters:
            options = {hints[key], *typing.get_args(hints[key])}
            kinds[key] = next((kind for kind in (float, int) if kind in options), str)
    return {**kinds, RIDGE_START: float, EPSILON: float}


def solver_options(name: str) -> tuple[str, ...]:
    """Return the options that a solver takes.

    Parameters
    ----------
    name
        A key of `SOLVERS`.

    Returns
    -------
    tuple of str
        Names, in the order of the class.

    Examples
    --------
    >>> solver_options("newton")
    ('tolerance', 'stop', 'rounds')
    """
    return tuple(_signature(SOLVERS[name]).parameters)


def build(preset: str, given: Mapping[str, Any]) -> Algorithm:
    """Build an algorithm from names and numbers.

    Parameters
    ----------
    preset
        A key of `ALGORITHMS`, or the name of a function of somebody's own.
    given
        Its parameters, as the preset names them; `solver` is a name or a table such as
        ``{"name": "agd", "stop": "fixed", "rounds": 20}``, `confidence` is "lemma",
        "iterate", "one-pass" or ``{"fixed": 0.3}``, `choice` is a name such as "bayes", a name
        and a number such as "sigma:3", or a table such as
        ``{"name": "certified", "index": "bayes"}``, and `ridge` is a number or
        ``{"evidence": 0.01}``, and `privacy` a table of `GaussianMechanism`'s
        parameters, such as ``{"epsilon": 1.0, "delta": 1e-6}``. The first three may also be a
        part, or ``"package.module:function"`` in place of a name. Parameters of these names mean
        the same for a function of somebody's own.

    Returns
    -------
    Algorithm
        What the preset returns.

    Raises
    ------
    InvalidInput
        If the preset does not take a parameter, lacks one, or refuses its value.

    Examples
    --------
    >>> build("fedglb-ucb", {"threshold": 10.0, "solver": "newton"}).solver
    Newton(tolerance=None, stop='certificate', rounds=None)
    >>> build("n-ons-glm", {"confidence": {"fixed": 0.3}}).confidence
    Fixed(alpha=0.3)
    """
    takes = parameters(preset)
    for key, value in given.items():
        if key not in takes:
            allowed = f"only parameters that {preset} takes: {', '.join(takes)}"
            raise InvalidInput(key, value, allowed)
    for key, default in takes.items():
        if default is inspect.Parameter.empty and key not in given:
            raise InvalidInput(key, None, f"a value: {preset} needs one")
    chosen = dict(given)
    if "solver" in chosen:
        chosen["solver"] = solver(chosen["solver"])
    if "confidence" in chosen:
        chosen["confidence"] = confidence(chosen["confidence"])
    if "choice" in chosen:
        with under("choice"):
            chosen["choice"] = choice(chosen["choice"])
    if isinstance(chosen.get("ridge"), Mapping):
        chosen["ridge"] = ridge_rule(chosen["ridge"])
    if "privacy" in chosen:
        with under("privacy"):
            chosen["privacy"] = privacy(chosen["privacy"])
    if is_own(preset):
        return call(("name",), preset, chosen, Algorithm, "fg.fedglb_ucb(threshold=10.0)")
    return ALGORITHMS[preset](**chosen)


def _own_part(spec: object, kind: type[T], example: str) -> T | None:
    """Return a part that is given as such, or by the name of a function; None for other names."""
    if isinstance(spec, kind):
        return spec
    table = dict(spec) if isinstance(spec, Mapping) else {"name": spec}
    if not is_own(table.get("name")):
        return None
    argument = ("name",) if isinstance(spec, Mapping) else ()
    return call(argument, str(table.pop("name")), table, kind, example)


def solver(spec: object) -> GlobalUpdate:
    """Build a solver from its name, or from a table of its name and options."""
    with under("solver"):
        own = _own_part(spec, GlobalUpdate, "fg.Newton()")  # type: ignore[type-abstract]
    if own is not None:
        return own
    table = dict(spec) if isinstance(spec, Mapping) else {"name": spec}
    with under("solver"):
        if "name" not in table:
            raise InvalidInput("name", None, f"one of {', '.join(SOLVERS)}")
        argument = ("name",) if isinstance(spec, Mapping) else ()
        name = one_of(argument, table.pop("name"), SOLVERS)
        takes = solver_options(name)
        for key, value in table.items():
            if key not in takes:
                allowed = f"only options that the solver {name} takes: {', '.join(takes)}"
                raise InvalidInput(key, value, allowed)
        return SOLVERS[name](**table)


def confidence(spec: object) -> Confidence[Any] | None:
    """Build a radius from its name, a table `{fixed = 0.3}` or a part."""
    with under("confidence"):
        own = _own_part(spec, Confidence, "fg.Fixed(0.3)")  # type: ignore[type-abstract]
    if own is not None:
        return own
    if isinstance(spec, Mapping):
        if list(spec) != ["fixed"]:
            raise InvalidInput("confidence", dict(spec), "the radius as {fixed = 0.3}")
        return Fixed(number(("confidence", "fixed"), spec["fixed"], at_least=0.0))
    if spec == "fixed":
        raise InvalidInput("confidence", spec, "a constant radius as {fixed = 0.3}")
    kind = one_of("confidence", spec, RADII)
    if kind == "one-pass":
        return OnePassRadius()
    return Iterate() if kind == "iterate" else None


def choice(spec: object) -> Choice:
    """Build a choice rule from its name, its name and a number, or a table of name and options.

    Examples
    --------
    >>> choice("bayes"), choice("sigma:3")
    (Bayes(), Sigma(width=3.0))
    >>> choice({"name": "epsilon-greedy", "epsilon": 0.1, "rule": "ucb"})
    EpsilonGreedy(epsilon=0.1, rule=Ucb())
    """
    if not (isinstance(spec, str) and spec.partition(":")[0] in CHOICES):  # sigma:3 is a width
        own = _own_part(spec, Choice, "fg.Ucb()")  # type: ignore[type-abstract]
        if own is not None:
            return own
    table = dict(spec) if isinstance(spec, Mapping) else _named_choice(spec)
    argument = ("name",) if isinstance(spec, Mapping) else ()
    name = one_of(argument, table.pop("name", None), CHOICES)
    takes = _signature(CHOICES[name]).parameters
    for key, value in table.items():
        if key not in takes:
            known = ", ".join(takes) or "none"
            raise InvalidInput(key, value, f"only options that the rule {name} takes: {known}")
        if key in ("index", "rule"):
            with under(key):
                table[key] = choice(value)
    for key, parameter in takes.items():
        if parameter.default is inspect.Parameter.empty and key not in table:
            given = isinstance(spec, Mapping)
            example = _TABLES.get(name, "")
            raise InvalidInput(key if given else (), spec, f"its {key} too, e.g. {example}")
    return CHOICES[name](**table)


_TABLES = {
    "epsilon-greedy": 'epsilon-greedy:0.1, or {name = "epsilon-greedy", epsilon = 0.1}',
    "certified": '{name = "certified", index = "bayes", slack = 8.0}',
}


def _named_choice(spec: object) -> dict[str, Any]:
    """Return the table that a name stands for, with a number for its first option if given."""
    if not isinstance(spec, str) or ":" not in spec:
        return {"name": spec}
    name, _, value = spec.partition(":")
    one_of((), name, CHOICES)
    first = next(iter(_signature(CHOICES[name]).parameters), None)
    try:
        return {"name": name, str(first): float(value)}
    except ValueError:
        raise InvalidInput((), spec, f"a number after {name}:, e.g. sigma:3") from None


def choice_in_words(part: Choice) -> str:
    """Return a choice rule's name and its options that are not defaults.

    Examples
    --------
    >>> choice_in_words(Bayes()), choice_in_words(EpsilonGreedy(0.1, Sigma(3.0)))
    ('bayes', 'epsilon-greedy epsilon=0.1 rule=(sigma width=3.0)')
    """
    name = next((n for n, kind in CHOICES.items() if type(part) is kind), None)
    if name is None:
        return in_words(part)
    words = [name]
    for key, parameter in _signature(CHOICES[name]).parameters.items():
        value = getattr(part, key)
        if isinstance(value, Choice):
            words.append(f"{key}=({choice_in_words(value)})")
        elif value != parameter.default:
            words.append(f"{key}={value}")
    return " ".join(words)


def in_words(part: object) -> str:
    """Return a part of somebody's own as text: its `repr`, or its class where that has an address.

    Examples
    --------
    >>> in_words(Fixed(0.3)), in_words(object())
    ('Fixed(alpha=0.3)', 'object')
    """
    plain = type(part).__repr__ is object.__repr__
    return type(part).__qualname__ if plain else repr(part)


def ridge_rule(spec: Mapping[str, Any]) -> Evidence:
    """Build the rule that chooses λ, from ``{"evidence": start}``."""
    if list(spec) != ["evidence"]:
        raise InvalidInput("ridge", dict(spec), "a number, or the rule {evidence = 0.0156}")
    return Evidence(number(("ridge", "evidence"), spec["evidence"], above=0.0))


def privacy(spec: object) -> GaussianMechanism | None:
    """Build what makes sums private, from a table of its parameters; "none": nothing does.

    Examples
    --------
    >>> privacy({"epsilon": 1.0, "delta": 1e-6}).noise
    'sums'
    """
    if spec is None or isinstance(spec, GaussianMechanism):
        return spec
    if spec == "none":
        return None
    example = "{epsilon = 1.0, delta = 1e-6}"
    if not isinstance(spec, Mapping):
        raise InvalidInput((), spec, f'"none", or a table such as {example}')
    takes = _signature(GaussianMechanism).parameters
    for key, value in spec.items():
        if key not in takes:
            raise InvalidInput(str(key), value, f"only {', '.join(takes)}")
    for key, parameter in takes.items():
        if parameter.default is inspect.Parameter.empty and key not in spec:
            raise InvalidInput(key, None, f"a number, as in {example}")
    return GaussianMechanism(**spec)


def privacy_in_words(part: GaussianMechanism) -> str:
    """Return δ of the privacy and its options that are not defaults; ε has another column.

    Examples
    --------
    >>> privacy_in_words(privacy({"epsilon": 1.0, "delta": 1e-6, "noise": "silo"}))
    'delta=1e-06 noise=silo'
    """
    defaults = {key: p.default for key, p in _signature(GaussianMechanism).parameters.items()}
    said = {key: getattr(part, key) for key in defaults if key != "epsilon"}
    return " ".join(f"{k}={v}" for k, v in said.items() if v != defaults[k])


def solver_table(part: GlobalUpdate | None) -> dict[str, Any]:
    """Return a solver as a file writes it, with its options that are not defaults.

    It is what `solver` builds the same one from; empty if the solver has no name.

    Examples
    --------
    >>> import fedglb as fg
    >>> solver_table(fg.AGD(stop="fixed", rounds=20))
    {'name': 'agd', 'stop': 'fixed', 'rounds': 20}
    """
    for name, kind in SOLVERS.items():
        if type(part) is kind:
            signature = _signature(kind).parameters
            values = {key: getattr(part, key) for key in signature}
            changed = {k: v for k, v in values.items() if v != signature[k].default}
            return {"name": name, **changed}
    return {}


def solver_in_words(part: GlobalUpdate) -> str | None:
    """Return a solver's name and its options that are not defaults; None if it has no name.

    Examples
    --------
    >>> import fedglb as fg
    >>> solver_in_words(fg.AGD(stop="fixed", rounds=20))
    'agd stop=fixed rounds=20'
    """
    table = solver_table(part)
    name = table.pop("name", None)
    return name and " ".join([name, *(f"{key}={value}" for key, value in table.items())])
