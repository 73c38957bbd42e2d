"""The network of a simulation: what messages between clients and coordinator suffer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

import numpy as np

from fedglb.errors import InvalidInput, integer, number
from fedglb.typing import FloatArray

#: Steps in which a client is away, (first, last).
Stretch: TypeAlias = tuple[int, int]


@dataclass(frozen=True)
class Network:
    """A network between the clients and the coordinator of a simulation.

    Each client has a link in each direction. A link delivers messages in order and loses none: a
    lost message is sent again until it arrives, as over TCP. Meanwhile clients go on choosing with
    the models they have. Step t is at the time t·`step`; times are in seconds.

    Parameters
    ----------
    loss
        The probability that a message is lost, in [0, 1), each time it is sent; a sequence: of each
        client's links.
    delay
        The time a message takes, at least; a sequence: for each client, such as
        `[0.1] * 9 + [30.0]` with one that is slow.
    bandwidth
        Bits per second; a sequence: for each client. A message waits until its link has sent those
        before it.
    jitter
        A further delay, uniform on [0, jitter], drawn for each message.
    away
        The clients that nobody reaches for a while: {client: (first step, last step)}, or a list of
        such pairs for a client. Its messages, and those to it, wait until it is back. It goes on
        choosing alone (`fg.Partial` makes clients that do not choose).
    step
        Seconds from one step to the next.
    retry
        Seconds after which a lost message is sent again.
    time_limit
        Seconds after which the coordinator goes on without the clients that have not answered a
        request. They get the model, and take part in the next update. Algorithms of parts only; a
        `Strategy` has its own rules.

    Raises
    ------
    InvalidInput
        If a number is out of its range.

    Examples
    --------
    One of five clients is slow; the others wait for it, unless there is a limit:

    >>> import fedglb as fg
    >>> env = fg.Synthetic(fg.Problem(dim=3), clients=5, arms=4)
    >>> algorithm = fg.fedglb_ucb(threshold=1.0, solver=fg.Newton())
    >>> for limit in (60.0, 1.0):
    ...     network = fg.Network(delay=[0.1, 0.1, 0.1, 0.1, 5.0], time_limit=limit)
    ...     run = fg.simulate(algorithm, env, horizon=100, seed=1, network=network)
    ...     print(f"{run.update_seconds:.1f}")
    30.1
    1.5
    """

    loss: float | Sequence[float] = 0.0
    delay: float | Sequence[float] = 0.0
    bandwidth: float | Sequence[float] = math.inf
    jitter: float = 0.0
    away: Mapping[int, Any] = field(default_factory=dict)
    step: float = 1.0
    retry: float = 1.0
    time_limit: float = math.inf

    def __post_init__(self) -> None:
        _each(self, "loss", at_least=0.0, below=1.0)
        _each(self, "delay", at_least=0.0)
        _each(self, "bandwidth", above=0.0, allow_infinite=True)
        number("jitter", self.jitter, at_least=0.0)
        number("step", self.step, above=0.0)
        number("retry", self.retry, above=0.0)
        number("time_limit", self.time_limit, above=0.0, allow_infinite=True)
        if not isinstance(self.away, Mapping):
            allowed = "{client: (first step, last step)}, e.g. {3: (100, 200)}"
            raise InvalidInput("away", self.away, allowed)
        stretches = {integer("away", i, at_least=0): _stretches(i, s) for i, s in self.away.items()}
        object.__setattr__(self, "away", stretches)

    def __repr__(self) -> str:  # results show what differs from the defaults
        plain: dict[str, Any] = vars(type(self)) | {"away": {}}
        given = ((f.name, getattr(self, f.name)) for f in fields(self))
        said = [f"{name}={value!r}" for name, value in given if value != plain[name]]
        return f"Network({', '.join(said)})"

    @property
    def draws(self) -> bool:
        """Whether anything is drawn: losses, or jitter."""
        return self.jitter > 0.0 or bool(np.any(np.asarray(self.loss) > 0.0))

    def absences(self, client: int) -> list[tuple[float, float]]:
        """Return the times at which nobody reaches a client.

        Parameters
        ----------
        client
            The client.

        Returns
        -------
        list
            Pairs of seconds: from, until.
        """
        stretches: tuple[Stretch, ...] = self.away.get(client, ())
        return [(first * self.step, (last + 1) * self.step) for first, last in stretches]

    def of_clients(self, name: str, clients: int) -> FloatArray:
        """Return a number of each client.

        Parameters
        ----------
        name
            "loss", "delay" or "bandwidth".
        clients
            N.

        Returns
        -------
        array
            Shape (N,).
        """
        given = np.asarray(getattr(self, name), dtype=float)
        if given.ndim and len(given) != clients:
            allowed = f"a number, or {clients} of them, one per client"
            raise InvalidInput(f"network.{name}", f"{len(given)} of them", allowed)
        return np.broadcast_to(given, (clients,)).copy()

    def check(self, clients: int) -> None:
        """Raise `InvalidInput` unless the network fits a number of clients.

        Parameters
        ----------
        clients
            N.
        """
        for name in ("loss", "delay", "bandwidth"):
            self.of_clients(name, clients)
        for i in self.away:
            integer("network.away", i, at_least=0, at_most=clients - 1)


def _each(network: Network, name: str, **bounds: Any) -> None:
    """Check a number, or one per client, which becomes a tuple."""
    given = getattr(network, name)
    several = isinstance(given, Sequence) or (isinstance(given, np.ndarray) and given.ndim > 0)
    if isinstance(given, str) or not several:
        number(name, given, **bounds)
        return
    each = tuple(float(number((name, i), value, **bounds)) for i, value in enumerate(given))
    object.__setattr__(network, name, each)


def _stretches(client: object, given: Any) -> tuple[Stretch, ...]:
    single = isinstance(given, Sequence) and not any(isinstance(each, Sequence) for each in given)
    made = []
    for pair in [given] if single else given if isinstance(given, Sequence) else [None]:
        if not isinstance(pair, Sequence) or len(pair) != 2:
            allowed = "(first step, last step), or a list of them"
            raise InvalidInput(f"away[{client}]", given, allowed)
        first = integer(f"away[{client}]", pair[0])
        made.append((first, integer(f"away[{client}]", pair[1], at_least=first)))
    return tuple(sorted(made))
