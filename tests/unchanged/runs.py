"""Runs of every algorithm with every link and solver, on both engines; and a sweep."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import fedglb as fg

CLIENTS, ARMS, DIM, HORIZON, SEED = 5, 6, 4, 40, 3
ENGINES = ("compiled", "reference")
PROBLEMS = {
    "logistic": fg.Problem(DIM, radius=1.5),
    "poisson": fg.Problem(DIM, fg.Poisson(), noise=1.2),
    "identity": fg.Problem(DIM, fg.Identity(), noise=0.7),
    "probit": fg.Problem(DIM, fg.Probit()),
}
PRESETS: dict[str, dict[str, Any]] = {
    "fedglb-ucb": {"threshold": 0.5},
    "fedglb-ucb-1": {"updates": 4},
    "fedglb-ucb-2": {"updates": 4},
    "fedglb-ucb-3": {"updates": 4},
    "dislinucb": {"threshold": 0.5},
    "one-ucb-glm": {},
    "n-ucb-glm": {},
    "n-ons-glm": {},
}
#: Presets beyond the paper, with the links that each accepts.
NEWER: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "fedglb-mix": ({"threshold": 0.5}, ("logistic", "poisson", "identity")),
    "fedglb-auto": ({}, ("logistic", "poisson", "identity", "probit")),
    "fedglb-iterate": ({"threshold": 0.5, "exploration": 0.2}, tuple(PROBLEMS)),
    "fedglb-private": ({"updates": 4}, tuple(PROBLEMS)),
    "fedlinucb": ({"threshold": 0.5, "exploration": 0.2}, tuple(PROBLEMS)),
    "async-linucb": ({"threshold": 0.5, "exploration": 0.2}, tuple(PROBLEMS)),
    "one-ecolog": ({"exploration": 0.2}, ("logistic",)),
    "n-ecolog": ({"exploration": 0.2}, ("logistic",)),
    "one-ofuglb": ({"exploration": 0.2}, ("logistic", "identity")),
    "n-ofuglb": ({"exploration": 0.2}, ("logistic", "identity")),
}
#: Presets that never have a global update.
ALONE = ("n-ucb-glm", "n-ons-glm", "one-ecolog", "n-ecolog", "one-ofuglb", "n-ofuglb")
SOLVERS: dict[str, dict[str, Any]] = {
    "": {},  # of the presets that take none
    "agd": {"solver": fg.AGD()},
    "agd bound": {"solver": fg.AGD(stop="bound", tolerance=1e-2)},
    "agd fixed": {"solver": fg.AGD(stop="fixed", rounds=3)},
    "newton": {"solver": fg.Newton()},
    "lbfgs": {"solver": fg.LBFGS()},
}
OPTIONS: dict[str, Callable[[], fg.Algorithm]] = {
    "newton fixed": lambda: fg.fedglb_ucb(0.5, fg.Newton(stop="fixed", rounds=2), 0.2),
    "fixed radius": lambda: fg.fedglb_ucb(0.5, fg.Newton(), confidence=fg.Fixed(0.3)),
    "proven radius": lambda: fg.fedglb_ucb(0.5, fg.Newton()),
    "threshold 0": lambda: fg.fedglb_ucb(0.0, fg.Newton(), 0.2),
    "ridge and delta": lambda: fg.fedglb_ucb(0.5, fg.Newton(), 0.2, ridge=0.5, delta=0.1),
    "own samples": lambda: fg.fedglb_ucb(0.5, fg.Newton(), 0.2, clock="own samples"),
}
CHOICES: dict[str, Any] = {
    "greedy": fg.Greedy(),
    "sigma": fg.Sigma(1.5),
    "thompson": fg.Thompson(draws=3),
    "epsilon-greedy": fg.EpsilonGreedy(0.2),
    "epsilon-greedy ucb": fg.EpsilonGreedy(0.2, fg.Ucb()),
    "bank of bayes": fg.Bank(fg.Bayes(), 1.0, 0.1),
}
#: Options of the newer presets, on logistic rewards.
NEWER_OPTIONS: dict[str, Callable[[], fg.Algorithm]] = {
    "mix newton": lambda: fg.fedglb_mix(0.5, solver=fg.Newton()),
    "mix evidence": lambda: fg.fedglb_mix(0.5, ridge=fg.Evidence()),
    "auto lbfgs": lambda: fg.fedglb_auto(0.5, solver=fg.LBFGS()),
    "auto fixed ridge, steps": lambda: fg.fedglb_auto(0.5, clock="steps", ridge=2.0),
    "one-pass radius": lambda: fg.fedglb_private(4, confidence=fg.OnePassRadius()),
    "private bank": lambda: fg.fedglb_private(
        4, confidence=fg.OnePassRadius(), choice=fg.Bank(fg.Bayes(), 1.0)
    ),
    "noise": lambda: fg.fedglb_private(
        4, first=5, privacy=fg.GaussianMechanism(epsilon=8.0, delta=1e-3, neighbours="replace")
    ),
    "noise, zero-out": lambda: fg.fedglb_private(
        4, first=5, growth=1.5, privacy=fg.GaussianMechanism(epsilon=8.0, delta=1e-3)
    ),
    "async download": lambda: fg.async_linucb(0.5, download=0.1, exploration=0.2),
    "variant 3, batches": lambda: fg.fedglb_ucb_3(4, exploration=0.2, batch_limit=3),
}


@dataclass(frozen=True)
class Case:
    """An algorithm on an environment."""

    algorithm: fg.Algorithm
    env: fg.Environment
    syncs: bool  # whether there must be some

    def run(self, engine: str) -> tuple[fg.Run, dict[int, fg.Client]]:
        """Return the run, and the clients at its end where the engine shows them."""
        clients: dict[int, fg.Client] = {}
        watch = {"observer": lambda t, i, client: clients.update({i: client})}
        run = fg.simulate(
            self.algorithm, self.env, HORIZON, SEED, engine,
            **watch if engine == "reference" else {},
        )  # fmt: skip
        assert not self.syncs or run.syncs >= 2, "too few global updates to say anything"
        assert set(run.choices[run.choices >= 0]) == set(range(ARMS))
        return run, clients


def recorded(link: str, active: bool = False) -> fg.Recorded:
    """A stream without ties: its arms have no more than eleven bits, and lengths of all kinds.

    `active`: not all clients act in every step.
    """
    rng = np.random.default_rng(11)
    arms = rng.integers(-1024, 1025, (HORIZON, CLIENTS, ARMS, DIM)) / 2048.0
    theta = np.array([0.5, -0.5, 0.5, 0.25])
    means = PROBLEMS[link].link.mean((arms * theta).sum(axis=3))
    uniforms = rng.integers(1, 1024, (HORIZON, CLIENTS)) / 1024.0
    acting = rng.random((HORIZON, CLIENTS)) < 0.6
    return fg.Recorded(
        PROBLEMS[link], arms, means, uniforms, active=acting if active else None, parameter=theta
    )


def cases() -> dict[str, Case]:
    """Return those whose choices and counts do not hang on a last bit."""
    found = {}
    for preset, given in PRESETS.items():
        takes_solver = preset in ("fedglb-ucb", "fedglb-ucb-1", "fedglb-ucb-2")
        for link in PROBLEMS:
            for solver, part in SOLVERS.items():
                if bool(solver) == takes_solver:
                    algorithm = fg.ALGORITHMS[preset](exploration=0.2, **given, **part)
                    name = " ".join([preset, link, solver]).strip()
                    found[name] = Case(algorithm, recorded(link), preset not in ALONE)
        algorithm = fg.ALGORITHMS[preset](exploration=0.2, **given)
        found[f"{preset} logistic, not all act"] = Case(
            algorithm, recorded("logistic", active=True), preset not in ALONE
        )
    for name, make in OPTIONS.items():
        for link in PROBLEMS:
            found[f"fedglb-ucb {link}, {name}"] = Case(make(), recorded(link), True)
    return found | newer_cases()


def newer_cases() -> dict[str, Case]:
    """Return the cases of the presets beyond the paper."""
    found = {}
    for preset, (given, links) in NEWER.items():
        for link in links:
            case = Case(fg.ALGORITHMS[preset](**given), recorded(link), preset not in ALONE)
            found[f"{preset} {link}"] = case
    for name, choice in CHOICES.items():
        found[f"fedglb-auto, {name}"] = Case(
            fg.fedglb_mix(0.1, choice) if choice.needs_sets else fg.fedglb_auto(choice=choice),
            recorded("logistic"),
            True,
        )
    for name, make in NEWER_OPTIONS.items():
        found[name] = Case(make(), recorded("logistic"), True)
    return found


def delicate_cases() -> dict[str, Case]:
    """Return those in which a last bit, which another processor rounds otherwise, decides.

    All synthetic arms are of length 1: what a client chooses first is a tie but for rounding.
    """
    found = {}
    for link, problem in PROBLEMS.items():
        for preset, given in PRESETS.items():
            found[f"{preset} {link}, synthetic"] = Case(
                fg.ALGORITHMS[preset](exploration=0.2, **given),
                fg.Synthetic(problem, CLIENTS, ARMS),
                preset not in ALONE,
            )
    return found


# -- digests of values alone: no name of a class or a module plays a part -------------------------


def digest(value: object, *, floats: bool = True) -> str:
    """Digest arrays, frames, numbers and lists of them; to the bit, or without `floats`.

    Of a frame, names, types and order of the columns count, too. Without floats, it is left of an
    array or a column of floats that it is there, with its shape.
    """
    text = json.dumps(_plain(value, floats))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def unordered(values: Iterable[Any]) -> list[str]:
    """Digest values whose names, and with them their order, may change."""
    return sorted(digest(value) for value in values)


def _plain(value: object, floats: bool) -> object:
    match value:
        case pl.DataFrame():
            return {
                name: [str(column.dtype), _numbers(column.to_list(), floats)]
                for name, column in zip(value.columns, value.get_columns(), strict=True)
            }
        case np.ndarray():
            return [
                value.dtype.str, list(value.shape), _numbers(value.reshape(-1).tolist(), floats)
            ]  # fmt: skip
        case list() | tuple():
            return [_plain(item, floats) for item in value]
        case _:
            return _numbers([value], floats)


def _numbers(values: list[Any], floats: bool) -> list[Any]:
    """Return floats as text that is exact, signs of zeros included, or with nothing of them."""
    return [
        (value.hex() if floats else "float") if isinstance(value, float) else value
        for value in values
    ]


def digests(run: fg.Run, clients: dict[int, fg.Client]) -> dict[str, str]:
    """Digest what a run gives; the words of its caveats and its parts' names left out.

    The kinds of messages in the ledger are left out, too: names.json has them; and λ of each
    update, which is no result of these runs; and bits, which follow from the scalars.
    """
    values = [
        run.choices, run.ledger.drop("message", "bits"), run.trace.drop("bits"),
        run.updates.drop("ridge", "seconds", "seconds_to_all"),
        run.syncs, run.rounds, run.transfers, run.scalars,
        run.regret, run.reward, run.theta,
    ]  # fmt: skip
    found = {"discrete": digest(values, floats=False), "bits": digest(values)}
    if clients:
        states = [unordered(clients[i].to_arrays().values()) for i in sorted(clients)]
        found["clients"] = digest(states)
    return found


def kinds(run: fg.Run) -> set[str]:
    """Return the kinds of messages in a run's ledger, each with its direction."""
    return {f"{kind} {way}" for kind, way in run.ledger.select("message", "direction").iter_rows()}


def swept(folder: Path) -> fg.SweepResult:
    """Return what a sweep of all algorithms gives."""
    tables = {
        "name": "unchanged",
        "horizon": 24,
        "seeds": 2,
        "problem": {"dim": 3},
        "environment": {"clients": 3, "arms": 4},
        "defaults": {"exploration": 0.1},
        "algorithm": [
            {"name": "fedglb-ucb", "threshold": [0.1, 1.0], "solver": ["agd", "newton"]},
            *({"name": name, **given} for name, given in PRESETS.items() if name != "fedglb-ucb"),
        ],
    }
    return fg.sweep(tables, folder, jobs=1)


def sweep_digests(result: fg.SweepResult, columns: Sequence[str]) -> dict[str, str]:
    """Digest the two tables; they have no times. Of the runs only these columns, but no caveats."""
    tables = [result.runs.select(columns).drop("caveats"), result.traces.drop("bits")]
    return {"discrete": digest(tables, floats=False), "bits": digest(tables)}
