"""Several algorithms on the same arms and noise."""

from __future__ import annotations

from collections.abc import Sequence

from fedglb.algorithms import Algorithm
from fedglb.environments import Environment
from fedglb.simulate.reference import Progress
from fedglb.simulate.results import Run
from fedglb.simulate.simulate import simulate


def lockstep(
    algorithms: Sequence[Algorithm],
    env: Environment,
    horizon: int | None,
    seed: int,
    *,
    progress: Progress | None = None,
) -> list[Run]:
    """Run several algorithms on the same arms and noise; one result each, in order.

    `progress` is called with the number of steps that all of them have done.

    Examples
    --------
    >>> import fedglb as fg
    >>> env = fg.Synthetic(fg.Problem(dim=3), clients=2, arms=4)
    >>> runs = lockstep([fg.n_ons_glm(), fg.fedglb_ucb(1.0)], env, horizon=5, seed=1)
    >>> [run.parameters["algorithm"] for run in runs]
    ['N-ONS-GLM', 'FedGLB-UCB']
    """
    runs: list[Run] = []
    for done, algorithm in enumerate(algorithms):

        def steps(t: int, done: int = done) -> None:
            if progress is not None and horizon is not None:
                progress((done * horizon + t) // len(algorithms))

        runs.append(simulate(algorithm, env, horizon, seed, progress=steps))
    return runs
