"""Messages that are lost or late, and clients that nobody reaches for a while."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fedglb.environments.base import Block, Environment
from fedglb.environments.changed import Changed
from fedglb.environments.network import Network
from fedglb.errors import instance


@dataclass(frozen=True)
class Networked(Changed):
    """An environment whose clients and coordinator talk over a network.

    Arms and rewards are those of the environment inside. Runs are played by the reference engine.
    `fg.simulate(…, network=network)` is short for it.

    Parameters
    ----------
    env
        The environment.
    over
        The network, an `fg.Network`.

    Raises
    ------
    InvalidInput
        If the network does not fit the number of clients.

    Examples
    --------
    >>> import fedglb as fg
    >>> env = fg.Synthetic(fg.Problem(dim=3), clients=5, arms=4)
    >>> late = fg.Networked(env, fg.Network(delay=2.0, away={0: (10, 30)}))
    >>> run = fg.simulate(fg.fedglb_ucb(threshold=1.0), late, horizon=50, seed=1)
    >>> run.parameters["environment"]
    'Networked(Synthetic, over=Network(delay=2.0, away={0: ((10, 30),)}))'
    """

    env: Environment
    over: Network

    def __post_init__(self) -> None:
        super().__post_init__()
        instance("over", self.over, Network, "fg.Network(delay=0.5)")
        self.over.check(self.clients)

    @property
    def network(self) -> Network:
        """The network between clients and coordinator."""
        return self.over

    @property
    def draws(self) -> bool:
        """Whether losses or delays are drawn."""
        return self.over.draws

    def changes(self, seed: int) -> Callable[[Block], Block]:
        """Return a function that changes nothing."""
        return lambda block: block
