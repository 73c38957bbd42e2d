"""Run one algorithm on an environment, or several side by side on the same arms and noise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, Literal, TypeAlias, get_args

from fedglb.algorithms import Algorithm
from fedglb.environments import Block, Environment
from fedglb.errors import InvalidInput, instance, integer, one_of
from fedglb.kernels.threads import each
from fedglb.parts.own import say_plain
from fedglb.simulation.bar import steps_bar
from fedglb.simulation.compiled import CompiledEngine, block_arrays, plain_part
from fedglb.simulation.engine import Progress
from fedglb.simulation.play import BlockArrays
from fedglb.simulation.reference import Observer, ReferenceEngine
from fedglb.simulation.results import Run

AnyEngine: TypeAlias = CompiledEngine | ReferenceEngine
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
    """Run `algorithm` on `env` for `horizon` steps and return the results.

    Parameters
    ----------
    algorithm
        The algorithm, e.g. `fg.fedglb_ucb(threshold=10.0)`.
    env
        The environment.
    horizon
        T, the number of steps; None: all steps of a recorded environment.
    seed
        Seed of the true parameter, the arms and the noise: algorithms with the same seed see
        the same ones.
    engine
        "compiled" plays blocks of interactions in compiled code, "reference" delivers each
        message of the protocol. They give the same results, to the bit. Where numba cannot compile
        a part, "reference" plays, and a warning says so.
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
        If an argument is invalid, or algorithm and environment do not fit together.

    References
    ----------
    Li and Wang (2022), Section 3.1: the order of interactions, and regret.

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


def compare(
    algorithms: Iterable[Algorithm],
    env: Environment,
    horizon: int | None = None,
    seed: int = 0,
    *,
    progress: Progress | bool | None = None,
) -> list[Run]:
    """Run several algorithms on the same arms and noise, which are drawn only once.

    The results equal those of `simulate`. Drawing the arms of a step takes about as long as playing
    it, so this is the fast way to compare algorithms. With several cores (NUMBA_NUM_THREADS limits
    them) the algorithms run in several threads. One with a part that numba cannot compile plays in
    the reference engine, and a warning says so.

    Parameters
    ----------
    algorithms
        The algorithms, e.g. `[fg.fedglb_ucb(threshold=d) for d in (1.0, 10.0)]`.
    env
        The environment.
    horizon
        T, the number of steps; None: all steps of a recorded environment.
    seed
        Seed of the true parameter, the arms and the noise.
    progress
        Called with the number of steps that all algorithms have done so far, from time to time.
        True: draw a bar, in a notebook or on a terminal.

    Returns
    -------
    list of Run
        One result per algorithm, in their order.

    Raises
    ------
    InvalidInput
        If an argument is invalid, or an algorithm does not fit the environment.

    Examples
    --------
    >>> import fedglb as fg
    >>> env = fg.Synthetic(fg.Problem(dim=3), clients=5, arms=4)
    >>> algorithms = [fg.fedglb_ucb(threshold=d, solver=fg.Newton()) for d in (0.1, 1.0, 10.0)]
    >>> [run.syncs for run in fg.compare(algorithms, env, horizon=20, seed=1)]
    [14, 5, 1]
    """
    if isinstance(algorithms, Algorithm):
        raise InvalidInput("algorithms", algorithms, "a list of algorithms, e.g. [algorithm]")
    every = list(algorithms)
    for k, algorithm in enumerate(every):
        instance(f"algorithms[{k}]", algorithm, Algorithm, "fg.fedglb_ucb(threshold=10.0)")
    instance("env", env, Environment, "fg.Synthetic(problem, clients=200, arms=25)")
    steps = known_horizon(env, horizon)
    seed = integer("seed", seed, at_least=0)
    engines = [_engine(algorithm, env, steps, seed) for algorithm in every]
    title = every[0].name if len(every) == 1 else f"{len(every)} algorithms"
    with steps_bar(progress, title, steps) as tell:
        # the reference engine takes as long for a step as the compiled one for many
        compiled = all(isinstance(engine, CompiledEngine) for engine in engines)
        for done in advance(engines, env, steps, seed, None if compiled else 1):
            if tell is not None:
                tell(done)
    return [engine.result() for engine in engines]


def _engine(algorithm: Algorithm, env: Environment, horizon: int, seed: int) -> AnyEngine:
    """Return the compiled engine; the reference engine if a part is plain Python."""
    plain = plain_part(algorithm)
    if plain is None:
        return CompiledEngine(algorithm, env, horizon, seed)
    engine = ReferenceEngine(algorithm, env, horizon, seed)
    (part, why), code = plain, getattr(plain[0], "function", type(plain[0]))
    say_plain(code, f"{part} plays through the reference engine, which is slower: {why}")
    return engine


def advance(
    engines: Sequence[AnyEngine],
    env: Environment,
    horizon: int,
    seed: int,
    at_most: int | None = None,
) -> Iterator[int]:
    """Play all engines on the same steps; yield the number of steps done, from time to time.

    Stop iterating to end early: the engines then have their results so far. `at_most`: maximum
    steps from one yield to the next; None: one block.
    """
    for block in env.checked_blocks(horizon, seed):
        shared = block_arrays(block)
        steps = shared.arms.shape[0]
        for begin in range(0, steps, at_most or steps):
            end = min(begin + (at_most or steps), steps)
            arrays: dict[str, Any] = {
                name: array[begin:end]
                for name, array in shared._asdict().items()
                if name != "first"
            }
            piece = shared._replace(first=shared.first + begin, **arrays)
            each(partial(_play, block, begin, end, piece), engines)
            yield shared.first + end - 1


def _play(block: Block, begin: int, end: int, piece: BlockArrays, engine: AnyEngine) -> None:
    """Play some steps of a block, which are in `piece`, too."""
    if isinstance(engine, CompiledEngine):
        engine.play(piece)
    else:
        engine.play(block, begin, end)


def known_horizon(env: Environment, horizon: int | None) -> int:
    """Return T: `horizon`, or else the number of steps of a recorded environment."""
    limit = env.horizon
    if horizon is None:
        if limit is None:
            raise InvalidInput("horizon", None, "the number of steps T, e.g. horizon=2000")
        return limit
    steps = integer("horizon", horizon)
    if limit is not None and steps > limit:
        raise InvalidInput("horizon", horizon, f"at most {limit}, the recorded steps")
    return steps
