"""Run one algorithm on one environment."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

from fedglb.algorithms import Algorithm
from fedglb.environments import Environment
from fedglb.errors import InvalidInput, instance, integer, one_of
from fedglb.simulation.bar import steps_bar
from fedglb.simulation.compare import compare, known_horizon
from fedglb.simulation.engine import Progress
from fedglb.simulation.reference import Observer, ReferenceEngine
from fedglb.simulation.results import Run

EngineName: TypeAlias = Literal["compiled", "reference"]
ENGINES: Final[tuple[EngineName, ...]] = get_args(EngineName)


def simulate(
    algorithm: Algorithm,
    env: Environment,
    horizon: int | None = None,
    seed: int = 0,
    engine: EngineName = "compiled",
    *,
    observer: Observer | None = None,
    progress: Progress | bool | None = None,
) -> Run:
    """Run `algorithm` on `env` for `horizon` steps and return what happened.

    Parameters
    ----------
    algorithm
        What to run, e.g. `fg.fedglb_ucb(threshold=10.0)`.
    env
        Where arms and rewards come from.
    horizon
        T, the number of steps; None: all steps of a recorded environment.
    seed
        Seed of the true parameter, the arms and the noise: algorithms that are run with the
        same seed see the same ones.
    engine
        "compiled" plays blocks of interactions in compiled code, "reference" delivers each
        message of the protocol. They give the same results, to the bit.
    observer
        Called as observer(t, i, client) before client i chooses in step t; only with
        engine="reference".
    progress
        Called with the number of steps done so far, from time to time. True: draw a bar, in a
        notebook or on a terminal.

    Returns
    -------
    Run
        Regret, reward and communication, in total and step by step.

    Raises
    ------
    InvalidInput
        Where an argument is wrong, or algorithm and environment do not fit together.

    References
    ----------
    Li and Wang (2022), Section 3.1: the order of interactions, and what regret is.

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
    if engine == "compiled":
        if observer is not None:
            raise InvalidInput("engine", engine, 'engine="reference", or no observer')
        return compare([algorithm], env, horizon, seed, progress=progress)[0]
    steps = known_horizon(env, horizon)
    seed = integer("seed", seed, at_least=0)
    run = ReferenceEngine(algorithm, env, steps, seed, observer)
    with steps_bar(progress, algorithm.name, steps) as tell:
        run.run(tell)
    return run.result()
