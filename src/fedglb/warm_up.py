"""Small runs that use every kernel of the package: after them no process has to compile."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fedglb.algorithms import (
    ALGORITHMS,
    Algorithm,
    async_linucb,
    fedglb_auto,
    fedglb_mix,
    fedglb_ucb,
)
from fedglb.algorithms.catalog import build, parameters
from fedglb.environments import Recorded, Synthetic
from fedglb.errors import InvalidInput
from fedglb.federation.agent.agent import Agent
from fedglb.federation.agreement import Agreement
from fedglb.federation.preload import preload as update_once
from fedglb.kernels.ball import SMALL, projection
from fedglb.links import LINKS, Poisson
from fedglb.parts.choice import (
    Bank,
    Bayes,
    Choice,
    EpsilonGreedy,
    Greedy,
    Model,
    Sigma,
    Thompson,
    Ucb,
)
from fedglb.parts.confidence import Confidence, Fixed, Iterate
from fedglb.parts.global_update import AGD, LBFGS, GlobalUpdate, Newton
from fedglb.parts.trigger import Always
from fedglb.problem import Problem
from fedglb.simulation import simulate
from fedglb.simulation.stepwise import Progress
from fedglb.studies.run.fixed_models import fixed_models
from fedglb.typing import FloatArray

#: Arguments of presets without defaults.
_GIVEN = {"threshold": 0.1, "updates": 3}


def _stays(theta: FloatArray) -> FloatArray:
    """Return θ: a user's local update, around which a kernel keeps A."""
    return theta


class _Own(Choice):
    """A user's rule: the kernel that reads the model for it."""

    def score(self, arms: FloatArray, model: Model, t: int) -> FloatArray:
        return model.mean


_CHOICES: tuple[Choice, ...] = (
    Ucb(), Greedy(), Sigma(), Bayes(), Thompson(draws=2), EpsilonGreedy(0.5, Greedy()),
    Bank(Bayes()), _Own(),
)  # fmt: skip
_SETS: tuple[Confidence[Any], ...] = (Fixed(0.3), Iterate())
_STEPS = 12


def runs() -> list[tuple[str, Callable[[], object]]]:
    """Return small runs with their names: all of them together use every kernel."""
    return list(_runs())


def warm_up(tell: Progress | None = None) -> None:
    """Compile every kernel that is not on disk yet, and load the others.

    `tell` is called with the number of `runs` done.
    """
    for done, (_, run) in enumerate(runs(), start=1):
        run()
        if tell is not None:
            tell(done)


def _runs() -> Iterator[tuple[str, Callable[[], object]]]:
    problem = Problem(dim=3)
    env = Synthetic(problem, clients=2, arms=4)
    presets = {
        name: build(name, {k: _GIVEN[k] for k in parameters(name) if k in _GIVEN})
        for name in ALGORITHMS
    }
    for name, algorithm in presets.items():
        for engine in ("compiled", "reference"):
            yield f"{name}, {engine}", _simulation(algorithm, env, engine)
        try:
            agreement = Agreement(problem, algorithm, 2)
        except InvalidInput:  # it needs a horizon
            continue
        yield f"{name}, federation", partial(update_once, agreement)
    solvers: list[GlobalUpdate] = [AGD(), Newton(), LBFGS()]
    varied = [fedglb_ucb(0.1, solver) for solver in solvers]
    varied += [fedglb_ucb(0.1, Newton(), confidence=each) for each in _SETS]
    varied += [
        fedglb_mix(0.1, solver=Newton()),
        Algorithm("own", _stays, Newton(), Always(), Fixed(0.3)),
        async_linucb(1.0),  # a client gets a model that does not cover all of its samples
        *(replace(fedglb_mix(0.1), choice=choice) for choice in _CHOICES),
        *(replace(fedglb_ucb(0.1, Newton()), choice=choice) for choice in _CHOICES),
    ]  # fmt: skip
    for algorithm in varied:
        for engine in ("compiled", "reference"):
            yield f"{algorithm}, {engine}", _simulation(algorithm, env, engine)
    for link in LINKS.values():
        yield link.name, partial(_play_with, Problem(dim=3, link=link(), noise=1.0))
    yield "many features", partial(projection, SMALL + 1)
    yield "recorded rewards", _recorded
    yield "an agent", _agent
    yield "fixed models", lambda: fixed_models(env, _STEPS, [1], jobs=1)


def _simulation(algorithm: Algorithm, env: Synthetic, engine: str) -> Callable[[], object]:
    return lambda: simulate(algorithm, env, _STEPS, engine=engine)  # type: ignore[arg-type]


def _play_with(problem: Problem) -> None:
    z, link = np.zeros(2), problem.link
    assert link.compiled_functions.all()  # addresses
    for values in (link.mean(z), link.variance(z), link.cumulant(z), link.sample(z + 0.5, z + 0.5)):
        assert len(np.atleast_1d(values)) == 2
    env = Synthetic(problem, clients=2, arms=4)
    for algorithm in (fedglb_ucb(0.1, Newton()), fedglb_auto()):
        if not isinstance(link, Poisson):
            simulate(algorithm, env, _STEPS)


def _recorded() -> None:
    arms = np.full((2, 2, 2, 3), 0.5)
    env = Recorded(
        Problem(dim=3), arms, np.full((2, 2, 2), 0.5), rewards=np.ones((2, 2, 2)),
        active=np.array([[True, False], [True, True]]),
    )  # fmt: skip
    for engine in ("compiled", "reference"):
        simulate(fedglb_ucb(0.1, Newton()), env, 2, engine=engine)


def _agent() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        Agent.open(Path(folder, "agent.db"), Problem(dim=3), explore=0.5) as agent,
    ):
        for _ in range(3):
            decision = agent.choose(np.eye(3))
            agent.observe(decision.id, 1.0)
