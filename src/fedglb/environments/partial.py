"""Clients that do not act in every step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from fedglb.environments.base import Block, Environment, generator
from fedglb.environments.changed import Changed
from fedglb.errors import InvalidInput, Place, integer, number
from fedglb.typing import BoolArray

#: Called as schedule(seed, t): which clients act in step t, N booleans.
Participation: TypeAlias = Callable[[int, int], Any]


@dataclass(frozen=True)
class Rows:
    """A schedule from an array: row t − 1 is for step t. Equal if the arrays are."""

    steps: int
    clients: int
    bits: bytes = field(repr=False)

    @classmethod
    def of(cls, table: BoolArray) -> Rows:
        """Return the schedule of a bool array (T, N)."""
        steps, clients = table.shape
        return cls(steps, clients, np.ascontiguousarray(table).tobytes())

    def __call__(self, seed: int, t: int) -> BoolArray:
        """Return which clients act in step t."""
        return np.frombuffer(self.bits, dtype=np.bool_, count=self.clients,
                             offset=(t - 1) * self.clients)  # fmt: skip


@dataclass(frozen=True)
class Stretches:
    """A schedule of clients that come and go: all act for `length` steps, then pause as long.

    Each begins at a random place of this cycle, so half of them are there at any time.
    """

    clients: int
    length: int

    def __call__(self, seed: int, t: int) -> BoolArray:
        """Return which clients act in step t."""
        begin = generator(seed, "participation").integers(0, 2 * self.length, self.clients)
        there: BoolArray = (begin + t) % (2 * self.length) < self.length
        return there


def stretches(env: Environment, length: int) -> Partial:
    """Return an environment with clients that come and go, for `length` steps each time."""
    return Partial(env, Stretches(env.clients, integer("length", length)))


def unequal(env: Environment, ratio: float) -> Partial:
    """Return an environment whose first client always acts, and the last in 1/ratio of the steps.

    The others' probabilities are evenly spaced by their logarithms.
    """
    number("ratio", ratio, at_least=1.0)
    most = max(env.clients - 1, 1)
    return Partial(env, [float(ratio) ** (-i / most) for i in range(env.clients)])


@dataclass(frozen=True)
class Partial(Changed):
    """An environment in which not every client acts in every step.

    A client that does not act chooses nothing and has neither regret nor reward in that step; it
    still takes part in global updates, and still learns from rewards that come late.

    Parameters
    ----------
    env
        Any environment. If it already has clients that do not act, a client acts where both allow
        it.
    participation
        The probability that a client acts, in (0, 1], independent for each step and client; or a
        sequence of N of them, one per client; or the clients that act: a bool array of shape
        (T, N), or a function of (seed, t) that returns N values for step t.

    Raises
    ------
    InvalidInput
        If `participation` is invalid. A function's results are checked during the run.

    Examples
    --------
    >>> import numpy as np
    >>> import fedglb as fg
    >>> env = fg.Synthetic(fg.Problem(dim=3), clients=4, arms=5)
    >>> run = fg.simulate(fg.n_ons_glm(), fg.Partial(env, 0.25), horizon=100, seed=1)
    >>> int((run.choices >= 0).sum())  # of 400
    96
    >>> run = fg.simulate(fg.n_ons_glm(), fg.Partial(env, [1, 0.1, 0.1, 0.01]), horizon=100)
    >>> (run.choices >= 0).sum(axis=0).tolist()
    [100, 10, 11, 2]

    Clients that come one after the other, for 25 steps each:

    >>> in_turns = fg.Partial(env, lambda seed, t: np.arange(4) == (t - 1) // 25)
    >>> run = fg.simulate(fg.n_ons_glm(), in_turns, horizon=100)
    >>> (run.choices[24:26] >= 0).tolist()
    [[True, False, False, False], [False, True, False, False]]
    """

    env: Environment
    participation: float | Sequence[float] | BoolArray | Participation

    def __post_init__(self) -> None:
        super().__post_init__()
        given = self.participation
        if callable(given):
            return
        if isinstance(given, np.ndarray) and given.ndim == 1 and given.dtype.kind == "f":
            given = given.tolist()
        if isinstance(given, Sequence) and not isinstance(given, str):
            if len(given) != self.clients:
                allowed = f"{self.clients} probabilities, one per client"
                raise InvalidInput("participation", f"{len(given)} of them", allowed)
            each = tuple(_probability(("participation", i), p) for i, p in enumerate(given))
            object.__setattr__(self, "participation", each)
            return
        if not isinstance(given, np.ndarray):
            _probability("participation", given)
            return
        if given.dtype != np.bool_ or given.ndim != 2 or given.shape[1] != self.clients:
            said = f"{given.dtype} array of shape {given.shape}"
            allowed = f"a bool array of shape (T, {self.clients})"
            raise InvalidInput("participation", said, allowed)
        integer("rows of participation", given.shape[0])
        object.__setattr__(self, "participation", Rows.of(given))

    @property
    def horizon(self) -> int | None:
        """The number of steps of the environment and the schedule."""
        limit, given = self.env.horizon, self.participation
        if not isinstance(given, Rows):
            return limit
        return given.steps if limit is None else min(limit, given.steps)

    @property
    def draws(self) -> bool:
        """Whether the clients that act are drawn, or may depend on the seed."""
        given = self.participation
        if isinstance(given, tuple):
            return set(given) != {1.0}
        return not isinstance(given, Rows) and given != 1.0

    def described(self) -> str:
        """Return the environment's name in results; of many probabilities their range."""
        given = self.participation
        if not isinstance(given, tuple):
            return super().described()
        of_each = f"participation={min(given):g} to {max(given):g}, by client"
        return f"Partial({self.env.described()}, {of_each})"

    def changes(self, seed: int) -> Callable[[Block], Block]:
        """Return the function that sets the active clients of each block."""
        given, draw = self.participation, generator(seed, "participation")

        def change(block: Block) -> Block:
            steps, clients = block.arms.shape[:2]
            if callable(given):
                range_ = range(block.first, block.first + steps)
                active = np.array([_who(given(seed, t), clients) for t in range_])
            else:
                active = draw.random((steps, clients)) < np.asarray(given)
            if block.active is not None:
                active &= block.active
            return replace(block, active=active)

        return change


def _probability(place: str | Place, value: Any) -> float:
    """Check a probability of acting."""
    allowed = "a probability in (0, 1]"
    if place == "participation":
        allowed += ", N of them, a bool array (T, N), or a function of (seed, t)"
    if number(place, value, above=0.0, allowed=allowed) > 1.0:
        raise InvalidInput(place, value, allowed)
    return float(value)


def _who(answer: Any, clients: int) -> BoolArray:
    """Check a schedule's answer: which clients act."""
    said = np.asarray(answer)
    if said.dtype != np.bool_ or said.shape != (clients,):
        given = f"{said.dtype} array of shape {said.shape}"
        allowed = f"a function that returns {clients} booleans"
        raise InvalidInput("participation(seed, t)", given, allowed)
    return said
