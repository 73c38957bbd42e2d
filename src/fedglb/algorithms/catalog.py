"""Algorithms by name: builds them from what the command line and a sweep's file say.

A solver or a preset that is added to the tables `SOLVERS` and `ALGORITHMS` is known to both.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Mapping
from typing import Any

from fedglb.algorithms import ALGORITHMS
from fedglb.algorithms.base import Algorithm
from fedglb.confidence import Confidence, FedGLBPrinted, Fixed
from fedglb.errors import InvalidInput, number, one_of, under
from fedglb.global_update import AGD, LBFGS, GlobalUpdate, Newton

SOLVERS: dict[str, type[GlobalUpdate]] = {"agd": AGD, "newton": Newton, "lbfgs": LBFGS}
RADII = ("lemma", "printed", "fixed")
_signature = functools.cache(inspect.signature)  # a sweep asks once per configuration


def parameters(preset: str) -> dict[str, Any]:
    """Return the parameters that a preset takes, with their defaults.

    Parameters
    ----------
    preset
        A key of `ALGORITHMS`.

    Returns
    -------
    dict
        Defaults by name; `inspect.Parameter.empty` for a parameter that must be given.

    Examples
    --------
    >>> list(parameters("n-ons-glm"))
    ['exploration', 'ridge', 'delta', 'confidence']
    """
    return {k: p.default for k, p in _signature(ALGORITHMS[preset]).parameters.items()}


@functools.cache
def all_parameters() -> dict[str, type]:
    """Return every parameter of any preset with its kind: float, int, or str for names."""
    kinds: dict[str, type] = {}
    for preset in ALGORITHMS.values():
        hints = typing.get_type_hints(preset)
        for key in _signature(preset).parameters:
            options = {hints[key], *typing.get_args(hints[key])}
            kinds[key] = next((kind for kind in (float, int) if kind in options), str)
    return kinds


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
    ('tolerance', 'stop', 'rounds', 'projection')
    """
    return tuple(_signature(SOLVERS[name]).parameters)


def build(preset: str, given: Mapping[str, Any]) -> Algorithm:
    """Build an algorithm from names and numbers.

    Parameters
    ----------
    preset
        A key of `ALGORITHMS`.
    given
        Its parameters, as the preset names them; `solver` is a name or a table such as
        ``{"name": "agd", "stop": "fixed", "rounds": 20}``, `confidence` is "lemma", "printed"
        or ``{"fixed": 0.3}``.

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
    Newton(tolerance=None, stop='certificate', rounds=None, projection='ball')
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
    tolerance = given.get("tolerance")
    if "solver" in chosen:
        chosen["solver"] = solver(chosen["solver"])
        tolerance = getattr(chosen["solver"], "tolerance", None)
    if "confidence" in chosen:
        chosen["confidence"] = confidence(chosen["confidence"], tolerance)
    return ALGORITHMS[preset](**chosen)


def solver(spec: object) -> GlobalUpdate:
    """Build a solver from its name, or from a table of its name and options."""
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


def confidence(spec: object, tolerance: float | None = None) -> Confidence[Any] | None:
    """Build a radius; `tolerance` is the solver's, which enters the printed radius."""
    if isinstance(spec, Mapping):
        if list(spec) != ["fixed"]:
            raise InvalidInput("confidence", dict(spec), "the radius as {fixed = 0.3}")
        return Fixed(number(("confidence", "fixed"), spec["fixed"], at_least=0.0))
    if spec == "fixed":
        raise InvalidInput("confidence", spec, "a constant radius as {fixed = 0.3}")
    kind = one_of("confidence", spec, RADII)
    return FedGLBPrinted(tolerance) if kind == "printed" else None


def solver_in_words(part: GlobalUpdate) -> str | None:
    """Return a solver's name and its options that are not defaults; None if it has no name.

    Examples
    --------
    >>> import fedglb as fg
    >>> solver_in_words(fg.AGD(stop="fixed", rounds=20))
    'agd stop=fixed rounds=20'
    """
    for name, kind in SOLVERS.items():
        if type(part) is kind:
            signature = _signature(kind).parameters
            values = {key: getattr(part, key) for key in signature}
            changed = [f"{k}={v}" for k, v in values.items() if v != signature[k].default]
            return " ".join([name, *changed])
    return None
