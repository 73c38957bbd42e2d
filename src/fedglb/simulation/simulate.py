"""Run one algorithm on an environment, or several side by side on the same arms and noise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import methodcaller
from typing import Any, Final, Literal, TypeAlias, get_args

from fedglb.algorithms import Algorithm
from fedglb.algorithms.strategy import AnyAlgorithm, Strategy
from fedglb.environments import Environment, Network, Networked
from fedglb.errors import InvalidInput, instance, integer, one_of
from fedglb.kernels.threads import each
from fedglb.parts.own import say_plain
from fedglb.simulation.bar import steps_bar
from fedglb.simulation.compiled import CompiledEngine, block_arrays, plain_part
from fedglb.simulation.reference import Observer, ReferenceEngine
from fedglb.simulation.results import Run
from fedglb.simulation.stepwise import Progress
from fedglb.simulation.strategic import StrategyEngine

AnyEngine: TypeAlias = CompiledEngine | ReferenceEngine | StrategyEngine
EngineName: TypeAlias = Literal["compiled", "reference"]
ENGINES: Final[tuple[EngineName, ...]] = get_args(EngineName)
_ENV = "fg.Synthetic(problem, clients=200, arms=25)"


def simulate(
    algorithm: AnyAlgorithm,
    env: Environment,
    horizon: int | None = None,
    seed: int = 0,
    engine: EngineName = "compiled",
    *,
    network: Network | None = None,
    observer: Observer | None = None,
    progress: Progress | bool | None = None,
) -> Run:
    """Run `algorithm` on `env` for `horizon` steps and return the results.

    Parameters
    ----------
    algorithm
        The algorithm, e.g. `fg.fedglb_ucb(threshold=10.0)`; or an `fg.Strategy`.
    env
        The environment.
    horizon
        T, the number of steps; None: all steps of a recorded environment.
    seed
        Seed of the true parameter, the arms and the noise: algorithms with the same seed see
        the same ones.
    engine
        "compiled" plays blocks of interactions in compiled code, "reference" delivers each
        message of the protocol. They give the same results, to the bit. A strategy, and any
        algorithm over a network, has its messages delivered in either case. Where numba cannot
        compile a part, "reference" plays, and a warning says so.
    network
        The network that loses and delays messages; None: they arrive at once. The same as
        `fg.Networked(env, network)`.
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
    _check("algorithm", algorithm)
    env = _over(env, network)
    one_of("engine", engine, ENGINES)
    if observer is not None and (engine == "compiled" or not isinstance(algorithm, Algorithm)):
        allowed = 'no observer, or an fg.Algorithm with engine="reference"'
        raise InvalidInput("observer", observer, allowed)
    if engine == "compiled":
        return compare([algorithm], env, horizon, seed, progress=progress)[0]
    steps = known_horizon(env, horizon)
    seed = integer("seed", seed, at_least=0)
    run = stepwise(algorithm, env, steps, seed, observer)
    with steps_bar(progress, algorithm.name, steps) as tell:
        run.run(tell)
    return run.result()


def _over(env: Environment, network: Network | None) -> Environment:
    """Return the environment over the network, if there is one."""
    instance("env", env, Environment, _ENV)
    if network is None:
        return env
    instance("network", network, Network, "fg.Network(delay=0.5)")
    return Networked(env, network)


def _check(argument: str, algorithm: object) -> None:
    if not isinstance(algorithm, AnyAlgorithm):
        allowed = "an Algorithm, e.g. fg.fedglb_ucb(threshold=10.0), or an fg.Strategy"
        raise InvalidInput(argument, algorithm, allowed)


def stepwise(
    algorithm: AnyAlgorithm,
    env: Environment,
    horizon: int,
    seed: int,
    observer: Observer | None = None,
) -> ReferenceEngine | StrategyEngine:
    """Return the engine that delivers each message."""
    if isinstance(algorithm, Strategy):
        return StrategyEngine(algorithm, env, horizon, seed)
    return ReferenceEngine(algorithm, env, horizon, seed, observer)


def compare(
    algorithms: Iterable[AnyAlgorithm],
    env: Environment,
    horizon: int | None = None,
    seed: int = 0,
    *,
    network: Network | None = None,
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
        The algorithms, e.g. `[fg.fedglb_ucb(threshold=d) for d in (1.0, 10.0)]`, strategies
        among them.
    env
        The environment.
    horizon
        T, the number of steps; None: all steps of a recorded environment.
    seed
        Seed of the true parameter, the arms and the noise.
    network
        The network that loses and delays messages; None: they arrive at once.
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
    if isinstance(algorithms, AnyAlgorithm):
        raise InvalidInput("algorithms", algorithms, "a list of algorithms, e.g. [algorithm]")
    every = list(algorithms)
    for k, algorithm in enumerate(every):
        _check(f"algorithms[{k}]", algorithm)
    env = _over(env, network)
    steps = known_horizon(env, horizon)
    seed = integer("seed", seed, at_least=0)
    engines = [_engine(algorithm, env, steps, seed) for algorithm in every]
    title = every[0].name if len(every) == 1 else f"{len(every)} algorithms"
    with steps_bar(progress, title, steps) as tell:
        # plain Python takes as long for a step as the compiled engine for many
        compiled = all(isinstance(engine, CompiledEngine) for engine in engines)
        for done in advance(engines, env, steps, seed, None if compiled else 1):
            if tell is not None:
                tell(done)
    return [engine.result() for engine in engines]


def _engine(algorithm: AnyAlgorithm, env: Environment, horizon: int, seed: int) -> AnyEngine:
    """Return the compiled engine where it can play, and a warning where a part prevents that."""
    if not isinstance(algorithm, Algorithm) or env.network is not None:
        return stepwise(algorithm, env, horizon, seed)
    if (plain := plain_part(algorithm)) is None:
        return CompiledEngine(algorithm, env, horizon, seed)
    engine = stepwise(algorithm, env, horizon, seed)  # refuses an invalid part before the warning
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

    Compiled engines play in threads, the others, with a user's code in them, one by one in the
    caller's thread. Stop iterating to end early: the engines then have their results so far.
    `at_most`: maximum steps from one yield to the next; None: one block.
    """
    compiled = [engine for engine in engines if isinstance(engine, CompiledEngine)]
    others = [engine for engine in engines if not isinstance(engine, CompiledEngine)]
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
            each(methodcaller("play", piece), compiled)
            for engine in others:
                engine.play(block, begin, end)
            yield shared.first + end - 1


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
