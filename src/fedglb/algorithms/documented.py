"""Shared docstrings of the presets: each parameter is explained once, here."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from typing import Any, TypeVar

Preset = TypeVar("Preset", bound=Callable[..., Any])

#: Where an algorithm can run.
ANYWHERE = "For `simulate`, `compare` or a federation."
SIMULATED = "For `simulate` or `compare`; a federation cannot run it."
SCHEDULED = "For `simulate` or `compare`; a schedule needs a horizon, which a federation lacks."

PARAMETERS = {
    "threshold": (
        "D ≥ 0 of the event trigger: the smaller, the more global updates; 0 makes one after every "
        "interaction, infinity none."
    ),
    "updates": "B, the number of global updates, evenly over the horizon: 1 ≤ B ≤ T.",
    "solver": (
        "How all clients fit one model: `AGD` (None, the default, is ``AGD()``), `Newton`, `LBFGS` "
        "or a custom part. The algorithm has it as `Algorithm.solver`."
    ),
    "exploration": (
        "Multiplies the radius of the confidence ellipsoid; 1 (default) is the proven radius. "
        "Published experiments with the paper's algorithms use 0.1 to 0.3. It does not multiply "
        "`Fixed`."
    ),
    "ridge": "λ > 0 of the ridge penalty (λ/2)‖θ‖².",
    "delta": "δ, the failure probability of all confidence sets together, in (0, 1).",
    "choice": (
        "The choice of an arm. None (default): `Ucb`, the largest upper confidence bound. Or a "
        "function, e.g. ``lambda mean, sd: mean + 2.0 * sd``."
    ),
    "clock": (
        "The event trigger's factor on a client's gain: the \"steps\" since the last update "
        '(default), or the client\'s "own samples" since its last model (see `Event`).'
    ),
    "privacy": (
        "None (default). Other values are refused: an event trigger leaks raw samples. "
        "`fedglb_private` has updates on a schedule."
    ),
    "memory": (
        "How long samples count. None (default): ``Forever()``; ``HalfLife(h)``, or `Adaptive`, "
        "which needs `OneExchange` as the solver."
    ),
    "tolerance": (
        "ε with F(θ) − min F ≤ ε after every sample. None (default): 1/n². A smaller one takes "
        "more passes over the samples and makes the radius smaller, which includes the error of "
        "the fit."
    ),
}


def documented(
    returns: str = ANYWHERE, raises: str = "", radius: str = "", **parameters: str
) -> Callable[[Preset], Preset]:
    """Return a decorator that writes Parameters, Returns and Raises into a preset's docstring.

    `returns`: where the algorithm can run; `raises`: further causes of `InvalidInput`; `radius`:
    the default of `confidence`; `parameters`: texts that differ from `PARAMETERS`.
    """
    if radius:
        text = f"The radius. None (default): {radius}. Or `Fixed(alpha)`, or a function."
        parameters["confidence"] = text

    def fill(preset: Preset) -> Preset:
        names = inspect.signature(preset).parameters
        assert parameters.keys() <= names.keys(), preset
        texts = {name: parameters.get(name) or PARAMETERS[name] for name in names}
        refused = "If an argument is out of its range, or a part does not fit the others"
        refused += f"; {raises}." if raises else "."
        sections = [
            _section("Parameters", texts),
            _section("Returns", {"Algorithm": returns}),
            _section("Raises", {"InvalidInput": refused}),
        ]
        before, mark, after = inspect.cleandoc(preset.__doc__ or "").partition("References\n---")
        preset.__doc__ = before + "".join(sections) + mark + after
        return preset

    return fill


def _section(title: str, entries: dict[str, str]) -> str:
    lines = [title, "-" * len(title)]
    for name, text in entries.items():
        lines += [name, textwrap.indent(textwrap.fill(text, 96), "    ")]
    return "\n".join(lines) + "\n\n"
