"""`Strategy`: any federated algorithm, as a client and a coordinator in plain Python."""

from __future__ import annotations

import dataclasses
import functools
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Self, TypeAlias

import numpy as np

from fedglb.algorithms.base import Algorithm
from fedglb.errors import InvalidInput, instance, integer
from fedglb.problem import Problem

#: Keeps these draws apart from all others with the same seed.
_ROLE = 0x73747261
_KINDS = "numbers, arrays of numbers, bytes, text, None, and tuples, lists and dicts of these"


@dataclass(frozen=True)
class Payload:
    """A message of a `Strategy`, with more than its content.

    Parameters
    ----------
    content
        Numbers, arrays of numbers, bytes, text, None, and tuples, lists and dicts of these.
    to
        The client that gets it; None (default): from the coordinator, all clients. A client's
        messages go to the coordinator.
    bits
        The size in bits; None (default): that of the content by its types. Numbers that are
        quantised, but kept in an array of a larger type, state it.
    name
        The kind of message, as the ledger shows it.

    Raises
    ------
    InvalidInput
        If `to` or `bits` is no whole number.

    Examples
    --------
    A sign per coordinate, 1 bit each:

    >>> import numpy as np
    >>> import fedglb as fg
    >>> fg.Payload(np.sign([0.3, -0.2, 0.9]), bits=3, name="Signs").bits
    3
    """

    content: Any
    to: int | None = None
    bits: int | None = None
    name: str = "Payload"

    def __post_init__(self) -> None:
        if self.to is not None:
            integer("to", self.to, at_least=0)
        if self.bits is not None:
            integer("bits", self.bits, at_least=0)
        instance("name", self.name, str, '"Gradient"')


@dataclass
class World:
    """What a client, or the coordinator, of a `Strategy` knows of its run.

    Parameters
    ----------
    problem
        The problem: `problem.dim` is d, `problem.link` the link.
    clients
        N.
    arms
        K.
    horizon
        T.
    seed
        The seed of the run.
    who
        The client, from 0; −1: the coordinator.

    Examples
    --------
    >>> import fedglb as fg
    >>> world = fg.World(fg.Problem(dim=3), clients=5, arms=4, horizon=100)
    >>> world.problem.dim, world.rng.normal(size=2).shape
    (3, (2,))
    """

    problem: Problem
    clients: int
    arms: int
    horizon: int
    seed: int = 0
    who: int = -1
    drew: bool = field(default=False, init=False)  # whether it was asked for what the seed decides

    def __getattribute__(self, name: str) -> Any:
        if name == "seed":
            self.drew = True
        return super().__getattribute__(name)

    @functools.cached_property
    def rng(self) -> np.random.Generator:
        """Random numbers of this client, or of the coordinator; they follow from the seed."""
        return self._generator(self.who + 1)

    @property
    def common_rng(self) -> np.random.Generator:
        """A new generator of the same random numbers for all: for a start that all share."""
        return self._generator(0, self.clients)

    def _generator(self, *key: int) -> np.random.Generator:
        return np.random.default_rng([_ROLE, self.seed, *key])


@dataclass(frozen=True)
class Strategy(ABC):
    """A federated algorithm as a client and a coordinator: any state, any messages.

    A subclass is a frozen dataclass of hyper-parameters with the methods `client` and
    `coordinator`, which return objects of any class. It runs wherever an `fg.Algorithm` does, as
    plain Python: one object per client, one coordinator, each message delivered and counted.

    A client has

    - `choose(arms, t)`: the index of the arm to play; arms have shape (K, d), t counts from 1;
    - `observe(arm, reward, t)`: learn from the reward of an arm that it played, an array of shape
      (d,); returns messages;
    - `receive(message)`: handle the content of a message; returns messages. Not needed if the
      coordinator sends none.

    The coordinator has

    - `receive(client, message)`: handle the content of a message from client 0 … N − 1; returns
      messages;
    - `end_step(t)`, if there is one: called after step t; returns messages.

    Messages are None (no message), one message, or a list of messages. A message is its content
    (numbers, arrays, bytes, text, None, and tuples, lists and dicts of these) or an `fg.Payload`
    with an addressee or a size. Those of the coordinator without an addressee go to all clients,
    which counts as a global update. Content arrives as a copy that cannot be written to.

    The ledger counts numbers (each number and element of an array) and bits: 64 for a Python
    number (1 for a bool, 128 for a complex one, more for a whole number that needs more), those of
    its type for an element of an array, 8 per byte; none for keys of a dict.

    Examples
    --------
    Clients play the arm of the largest mean reward, a mean over all of them:

    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> import fedglb as fg
    >>> from fedglb.typing import FloatArray
    >>> class Player:
    ...     means = np.zeros(3)
    ...
    ...     def choose(self, arms: FloatArray, t: int) -> int:
    ...         return int(np.argmax(arms @ self.means))
    ...
    ...     def observe(self, arm: FloatArray, reward: float, t: int) -> FloatArray:
    ...         return arm * reward
    ...
    ...     def receive(self, message: FloatArray) -> None:
    ...         self.means = message
    >>> class Adder:
    ...     total = np.zeros(3)
    ...
    ...     def receive(self, client: int, message: FloatArray) -> FloatArray:
    ...         self.total = self.total + message
    ...         return self.total
    >>> @dataclass(frozen=True)
    ... class Sums(fg.Strategy):
    ...     def client(self, i: int, world: fg.World) -> Player:
    ...         return Player()
    ...
    ...     def coordinator(self, world: fg.World) -> Adder:
    ...         return Adder()
    >>> env = fg.Synthetic(fg.Problem(dim=3), clients=2, arms=4)
    >>> run = fg.simulate(Sums(), env, horizon=10)
    >>> run.ledger.select("direction", "messages", "scalars", "bits").rows()
    [('up', 20, 60, 3840), ('down', 40, 120, 7680)]
    """

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Refuse a class that is no dataclass: two of its objects with other numbers are equal."""
        if "__dataclass_fields__" not in vars(cls):
            allowed = "a frozen dataclass, with @dataclass(frozen=True) above the class"
            raise InvalidInput("strategy", cls.__name__, allowed)
        return super().__new__(cls)

    @property
    def name(self) -> str:
        """Its name in results: by default that of the class."""
        return type(self).__name__

    @abstractmethod
    def client(self, i: int, world: World) -> Any:
        """Return client i.

        Parameters
        ----------
        i
            Its number, 0 … N − 1.
        world
            The problem and the size of the run, and this client's random numbers.

        Returns
        -------
        object
            With `choose`, `observe` and `receive`.
        """

    @abstractmethod
    def coordinator(self, world: World) -> Any:
        """Return the coordinator.

        Parameters
        ----------
        world
            The problem and the size of the run, and the coordinator's random numbers.

        Returns
        -------
        object
            With `receive`, and perhaps `end_step`.
        """


#: What simulations play.
AnyAlgorithm: TypeAlias = Algorithm | Strategy


def payloads(returned: Any, what: str) -> list[Payload]:
    """Return what a method returned as messages, frozen; `what` names it in errors."""
    if returned is None:
        return []
    sent = returned if isinstance(returned, list) else [returned]
    made = [each if isinstance(each, Payload) else Payload(each) for each in sent]
    return [dataclasses.replace(each, content=_frozen(each.content, what)) for each in made]


def _frozen(content: Any, what: str) -> Any:
    """Return a copy of a message's content that cannot be written to."""
    if content is None or isinstance(content, bool | int | float | complex | str | bytes):
        return content
    if isinstance(content, bytearray):
        return bytes(content)
    numbers = isinstance(content, np.ndarray | np.generic) and content.dtype.kind in "biufc"
    if numbers and not isinstance(content, np.ma.MaskedArray):  # a copy would lose the mask
        copy = np.array(content)
        copy.flags.writeable = False
        return copy if copy.ndim else copy[()]
    if isinstance(content, tuple | list):
        return tuple(_frozen(each, what) for each in content)
    if isinstance(content, Mapping):
        return MappingProxyType({key: _frozen(each, what) for key, each in content.items()})
    raise InvalidInput(what, content, f"messages of {_KINDS}")


def size(payload: Payload) -> tuple[int, int]:
    """Return the numbers and the bits in a frozen message."""
    numbers, bits = _size(payload.content)
    return numbers, bits if payload.bits is None else payload.bits


def _size(content: Any) -> tuple[int, int]:
    match content:
        case None:
            return 0, 0
        case str():
            return 0, 8 * len(content.encode())
        case bytes():
            return 0, 8 * len(content)
        case np.ndarray() | np.generic():
            return content.size, 8 * content.nbytes
        case tuple():
            inner = [_size(each) for each in content]
        case Mapping():
            inner = [_size(each) for each in content.values()]
        case bool():
            return 1, 1
        case complex():
            return 1, 128
        case int():
            return 1, max(64, content.bit_length())
        case _:
            return 1, 64
    return sum(n for n, _ in inner), sum(b for _, b in inner)
