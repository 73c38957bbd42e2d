"""A part that is a plain function beside the package's part that does the same.

`python -m benchmarks own_rule`. Processor time of one thread per interaction without drawing, the
least of a few repetitions, in the setting of `benchmarks.simulation`. An interaction of N-ONS-GLM
has the least beside the part; the last rule is one that numba cannot compile.
"""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np

import fedglb as fg
from benchmarks.simulation import D, K, N, pieces
from fedglb.parts.local_update import Ons
from fedglb.parts.trigger import Event
from fedglb.typing import FloatArray

REPEATS = 5
WIDTHS = {"rule": 2.0, 1: 1.0}


def newton(
    theta: FloatArray, direction: FloatArray, predicted: float, y: float, curvature: float
) -> FloatArray:
    """The step of `Ons`, without its projection onto the ball."""
    return theta - (predicted - y) / curvature * direction


def asks(t: int, t_last: int, log_gain: float) -> bool:
    """`Event(10.0)`."""
    return (t - t_last) * log_gain >= 10.0


ALONE = fg.n_ons_glm(confidence=fg.Fixed(0.3))

PAIRS = {
    "choice": [
        replace(ALONE, choice=fg.Sigma(2.0)),
        fg.n_ons_glm(confidence=fg.Fixed(0.3), choice=lambda mean, sd, t: mean + 2.0 * sd),
    ],
    "choice, fedglb_auto": [
        fg.fedglb_auto(choice=fg.Sigma(2.0)),
        fg.fedglb_auto(choice=lambda mean, sd, t: mean + 2.0 * sd),
    ],
    "radius": [ALONE, fg.n_ons_glm(confidence=lambda: 0.3)],
    "trigger": [
        fg.Algorithm("x", Ons(), fg.Newton(), Event(10.0), fg.Fixed(0.3)),
        fg.Algorithm("x", Ons(), fg.Newton(), asks, fg.Fixed(0.3)),
    ],
    "local update": [
        fg.Algorithm("x", Ons(), fg.Newton(), Event(10.0), fg.Fixed(0.3)),
        fg.Algorithm("x", newton, fg.Newton(), Event(10.0), fg.Fixed(0.3)),
    ],
    "choice, not compiled": [
        replace(ALONE, choice=fg.Sigma(2.0)),
        fg.n_ons_glm(
            confidence=fg.Fixed(0.3), choice=lambda mean, sd: mean + WIDTHS["rule"] * sd
        ),
    ],
}  # fmt: skip


def measure() -> dict[str, float]:
    """Return µs per interaction with the package's part and with the function, and their ratio."""
    env, found = fg.Synthetic(fg.Problem(D), N, K), {}
    for name, pair in PAIRS.items():
        spent = np.full(2, np.inf)
        for _ in range(REPEATS):
            spent = np.minimum(spent, [pieces(env, [algorithm])[1] for algorithm in pair])
        found[f"{name}: the package's, µs"], found[f"{name}: a function, µs"] = spent
        found[f"{name}: ratio"] = spent[1] / spent[0]
    return found


if __name__ == "__main__":
    print(json.dumps(measure()))
