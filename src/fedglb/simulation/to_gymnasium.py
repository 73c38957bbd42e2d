"""An environment of this package as a Gymnasium environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedglb.environments import Environment
from fedglb.environments.base import all_rewards
from fedglb.errors import InvalidInput, instance, integer
from fedglb.simulation.simulate import known_horizon
from fedglb.typing import FloatArray

if TYPE_CHECKING:
    import gymnasium
    import numpy as np


def to_gymnasium(
    env: Environment, client: int | None = 0, horizon: int | None = None, seed: int | None = None
) -> gymnasium.Env[FloatArray, np.int64]:
    """Return an environment as a `gymnasium.Env`, for agents of other packages.

    The observation is the arms on offer, a Box of shape (K, d); an action is the index of an arm,
    Discrete(K); the reward is that of the arm. After the last step `truncated` is True and the
    observation is 0.

    `reset(seed=s)` starts the stream of `fg.simulate(…, seed=s)`: the same arms, and the same
    reward for the same choice. Without a seed, reset draws one from the environment's
    generator.

    `info` has `t`, the acting `client`, and `means`, the mean rewards of the arms on offer, which
    are hidden from the agent; after a step also `regret` and `mean` of the choice, and after
    reset `seed`.

    Parameters
    ----------
    env
        The environment.
    client
        The client, counted from 0. None: all clients, one interaction after the other, in the order
        of simulations; `info["client"]` is the acting client.
    horizon
        T, the number of steps of an episode; None: all steps of a recorded environment.
    seed
        The seed of the first episode, if reset gets none; None: random.

    Returns
    -------
    gymnasium.Env
        The environment; it can be copied with `copy.deepcopy`.

    Raises
    ------
    InvalidInput
        If an argument is invalid, or Gymnasium is not installed (``fedglb[gymnasium]``).

    Examples
    --------
    >>> import fedglb as fg
    >>> env = fg.Synthetic(fg.Problem(dim=3), clients=5, arms=4)
    >>> bandit = fg.to_gymnasium(env, client=2, horizon=100)
    >>> arms, info = bandit.reset(seed=1)
    >>> arms.shape, info["client"], info["t"]
    ((4, 3), 2, 1)
    >>> arms, reward, terminated, truncated, info = bandit.step(bandit.action_space.sample())
    >>> info["t"], terminated, truncated
    (2, False, False)
    """
    instance("env", env, Environment, "fg.Synthetic(problem, clients=200, arms=25)")
    all_rewards(env, "fg.to_gymnasium")
    if client is not None:
        client = integer("client", client, at_least=0, at_most=env.clients - 1)
    steps = known_horizon(env, horizon)
    if seed is not None:
        seed = integer("seed", seed, at_least=0)
    try:
        from fedglb.simulation.gymnasium_env import BanditEnv
    except ImportError:
        allowed = "Gymnasium: pip install 'fedglb[gymnasium]'"
        raise InvalidInput("gymnasium", "not installed", allowed) from None
    return BanditEnv(env, client, steps, seed)
