"""Run one algorithm on one environment."""

from __future__ import annotations

from typing import Any

from fedglb.algorithms import Algorithm
from fedglb.environments import Environment
from fedglb.errors import InvalidInput, instance, integer, one_of
from fedglb.simulate.reference import Observer, Progress, ReferenceEngine
from fedglb.simulate.results import Run

ENGINES = ("reference",)


def simulate(
    algorithm: Algorithm,
    env: Environment,
    horizon: int | None = None,
    seed: int = 0,
    engine: str = "reference",
    *,
    observer: Observer | None = None,
    progress: Progress | None = None,
) -> Run:
    """Run `algorithm` on `env` for `horizon` steps and return what happened.

    Parameters
    ----------
    algorithm
        From a preset, e.g. `fg.fedglb_ucb(threshold=10.0)`.
    env
        Where arms and rewards come from.
    horizon
        T; None: all steps of a recorded environment.
    seed
        Seeds parameter, arms and noise; runs of one seed see the same.
    engine
        "reference": the protocol, message by message.
    observer
        Called as observer(t, i, client) before client i chooses in step t.
    progress
        Called with the number of steps done, after each.

    Examples
    --------
    >>> import fedglb as fg
    >>> env = fg.Synthetic(fg.Problem(dim=3), clients=5, arms=4)
    >>> run = fg.simulate(fg.fedglb_ucb(threshold=1.0), env, horizon=20, seed=1)
    >>> run.trace.height, run.choices.shape
    (20, (20, 5))
    """
    instance("algorithm", algorithm, Algorithm, "fg.fedglb_ucb(threshold=10.0)")
    instance("env", env, Environment, "fg.Synthetic(problem, clients=200, arms=25)")
    one_of("engine", engine, ENGINES)
    steps = _horizon(env, horizon)
    integer("seed", seed, at_least=0)
    run = ReferenceEngine(algorithm, env, steps, seed, observer)
    run.run(progress)
    trace, updates = run.recorder.frames()
    return Run(
        regret=run.recorder.regret,
        reward=run.recorder.reward,
        syncs=run.coordinator.syncs,
        rounds=run.coordinator.rounds,
        transfers=run.ledger.transfers,
        scalars=run.ledger.scalars,
        trace=trace,
        updates=updates,
        choices=run.recorder.choices,
        ledger=run.ledger.frame(),
        theta=run.shared_theta(),
        parameters=_parameters(algorithm, env, steps, seed, engine),
        caveats=algorithm.caveats(env.problem),
    )


def _horizon(env: Environment, horizon: int | None) -> int:
    limit = env.horizon
    if horizon is None:
        if limit is None:
            raise InvalidInput("horizon", None, "the number of steps T, e.g. horizon=2000")
        return limit
    steps = integer("horizon", horizon)
    if limit is not None and steps > limit:
        raise InvalidInput("horizon", horizon, f"at most the {limit} steps that were recorded")
    return steps


def _parameters(
    algorithm: Algorithm, env: Environment, horizon: int, seed: int, engine: str
) -> dict[str, Any]:
    problem = env.problem
    return {
        "algorithm": algorithm.name,
        "local_update": repr(algorithm.local_update),
        "global_update": repr(algorithm.global_update),
        "trigger": repr(algorithm.trigger),
        "confidence": repr(algorithm.confidence),
        "exploration": algorithm.exploration,
        "ridge": algorithm.ridge,
        "delta": algorithm.delta,
        "environment": type(env).__name__,
        "link": problem.link.name,
        "dim": problem.dim,
        "radius": problem.S,
        "noise": problem.R,
        "curvature": problem.c_mu,
        "clients": env.clients,
        "arms": env.arms,
        "horizon": horizon,
        "seed": seed,
        "engine": engine,
    }
