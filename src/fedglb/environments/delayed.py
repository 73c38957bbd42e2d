"""Rewards that come late: clients go on choosing meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fedglb.environments.base import Block, Environment, generator
from fedglb.environments.changed import Changed
from fedglb.errors import InvalidInput, integer


@dataclass(frozen=True)
class Delayed(Changed):
    """An environment whose rewards come late.

    The reward of a choice in step t becomes known to its client in step t + delay, after the
    client's choice of that step. Then the client learns, and its trigger sees that step's number,
    as in a federation's agent that observes late; several rewards in one step are learned in order
    of their choices, and then the trigger is checked once. Rewards also arrive at a client that
    does not act in that step. Rewards due after the last step are never learned. Regret and reward
    are counted in the step of the choice.

    Parameters
    ----------
    env
        The environment whose rewards come late.
    steps
        The delay, a whole number ≥ 0; or two of them (least, most): each reward then has a
        separate delay, uniform on least, …, most.

    Raises
    ------
    InvalidInput
        If `steps` is invalid.

    Examples
    --------
    >>> import fedglb as fg
    >>> env = fg.Synthetic(fg.Problem(dim=3), clients=4, arms=5)
    >>> late = fg.Delayed(env, steps=5)
    >>> fg.simulate(fg.n_ons_glm(), late, horizon=20).choices[:6, 0].tolist()  # nothing learned yet
    [0, 0, 0, 0, 0, 0]
    >>> fg.Delayed(env, steps=(0, 10)).longest_delay
    10
    """

    env: Environment
    steps: int | tuple[int, int]

    def __post_init__(self) -> None:
        super().__post_init__()
        given = self.steps
        if isinstance(given, tuple | list):
            if len(given) != 2:
                raise InvalidInput("steps", given, "a whole number >= 0, or a pair (least, most)")
            least = integer(("steps", 0), given[0], at_least=0)
            object.__setattr__(
                self, "steps", (least, integer(("steps", 1), given[1], at_least=least))
            )
        else:
            integer("steps", given, at_least=0)

    @property
    def _range(self) -> tuple[int, int]:
        return self.steps if isinstance(self.steps, tuple) else (self.steps, self.steps)

    @property
    def longest_delay(self) -> int:
        """The maximum delay of a reward in steps."""
        return self.env.longest_delay + self._range[1]

    @property
    def draws(self) -> bool:
        """Whether delays are drawn."""
        return self._range[0] < self._range[1]

    def changes(self, seed: int) -> Callable[[Block], Block]:
        """Return the function that adds the delays to blocks."""
        (least, most), draw = self._range, generator(seed, "delays")

        def change(block: Block) -> Block:
            shape = block.arms.shape[:2]
            # one uniform per step and client, so that the size of a block does not matter
            shares = draw.random(shape) if most > least else np.zeros(shape)
            delays = least + (shares * (most - least + 1)).astype(np.int64)
            return replace(block, delays=delays if block.delays is None else delays + block.delays)

        return change if most > 0 else lambda block: block
