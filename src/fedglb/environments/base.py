"""The interface of environments."""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from fedglb.environments.network import Network
from fedglb.errors import InvalidInput, arms_in_unit_ball, array, finite, integer, shaped, within
from fedglb.kernels.draw import longest_arm
from fedglb.problem import Problem
from fedglb.typing import BoolArray, FloatArray, IntArray

#: The number of floats in the arms of a block: enough for fast drawing, few enough for the cache of
#: a small machine.
BLOCK_NUMBERS = 2_000_000

_LARGEST = float(np.finfo(np.float64).max)

#: The purposes of random numbers; a new one comes last, because their order makes the streams.
Role: TypeAlias = Literal[
    "parameter", "arms", "noise", "clients", "drift", "delays", "participation", "groups",
    "outliers", "acceptance", "network",
]  # fmt: skip


@dataclass(frozen=True)
class Block:
    """Several steps (s) of a run: the arms offered to each client, and their rewards.

    Parameters
    ----------
    first
        The first of the steps; the first step of a run is 1.
    arms
        The arms offered, shape (s, N, K, d), each of norm ≤ 1 (up to the rounding of float32).
    means
        Mean reward of each arm, shape (s, N, K).
    uniforms
        Numbers in [0, 1), shape (s, N), one per step and client, from which the link draws the
        reward; None with `rewards`.
    rewards
        The reward that each arm would give, shape (s, N, K); None with `uniforms`.
    active
        Which clients act in each step, bool of shape (s, N); None: all of them.
    delays
        The delay of each reward in steps, whole numbers of shape (s, N), at most the environment's
        `longest_delay`; None: no delays.
    ids
        The arms' ids, whole numbers ≥ 0 of shape (s, N, K): arms of one id may have an effect of
        their own. None: arms recur where their features do.
    weights
        How much the regret and the reward of each interaction count, numbers ≥ 0 of shape (s, N);
        the client learns the plain reward. None: 1.
    benchmark
        What the mean chosen is compared with for the regret, shape (s, N); None: the highest mean
        on offer. With a benchmark, rewards may be nan, not known: then the choice of such an arm
        is no interaction, and the client learns nothing from it.

    Examples
    --------
    >>> import numpy as np
    >>> import fedglb as fg
    >>> arms, means = np.ones((4, 2, 3, 1)), np.full((4, 2, 3), 0.5)
    >>> block = fg.Block(1, arms, means, uniforms=np.zeros((4, 2)))
    >>> block.checked(fg.Problem(dim=1), clients=2).arms.shape
    (4, 2, 3, 1)
    """

    first: int
    arms: FloatArray
    means: FloatArray
    uniforms: FloatArray | None = None
    rewards: FloatArray | None = None
    active: BoolArray | None = None
    delays: IntArray | None = None
    ids: IntArray | None = None
    weights: FloatArray | None = None
    benchmark: FloatArray | None = None

    def checked(self, problem: Problem, clients: int) -> Block:
        """Check the block and return it in the layout of the engines.

        All numbers are float64, and arms lie in memory as (s, N, d, K), whatever their order was.

        Parameters
        ----------
        problem
            The problem that the arms and rewards must fit.
        clients
            N, the number of clients.

        Returns
        -------
        Block
            The same steps.

        Raises
        ------
        InvalidInput
            If a shape or a value is invalid.
        """
        arms = _as_played(self.arms, (None, clients, None, problem.dim))
        offered = arms.shape[:3]
        if (self.uniforms is None) == (self.rewards is None):
            given = "none" if self.uniforms is None else "both"
            allowed = "exactly one of uniforms (T, N) and rewards (T, N, K)"
            raise InvalidInput("uniforms and rewards", given, allowed)
        uniforms = rewards = None
        if self.rewards is not None:
            unknown = self.benchmark is not None
            rewards = shaped("rewards", self.rewards, offered)
            in_range("rewards", rewards, problem, unknown)
            means = shaped("means", self.means, offered)
            finite("means", np.where(np.isnan(rewards), 0.0, means) if unknown else means)
        else:
            means = shaped("means", self.means, offered)
            in_range("means", means, problem)
            assert self.uniforms is not None
            uniforms = array("uniforms", self.uniforms, offered[:2])
            within("uniforms", uniforms, 0.0, math.nextafter(1.0, 0.0), "numbers in [0, 1)")
        mask = self.active
        if mask is not None and (mask.dtype != np.bool_ or mask.shape != offered[:2]):
            given = f"{mask.dtype} array of shape {mask.shape}"
            raise InvalidInput("active", given, f"a bool array of shape {offered[:2]}")
        late = self.delays
        if late is not None and (late.dtype.kind not in "iu" or late.shape != offered[:2]):
            given = f"{late.dtype} array of shape {late.shape}"
            raise InvalidInput("delays", given, f"whole numbers of shape {offered[:2]}")
        ids = self.ids
        if ids is not None and (ids.dtype.kind not in "iu" or ids.shape != offered):
            given = f"{ids.dtype} array of shape {ids.shape}"
            raise InvalidInput("ids", given, f"whole numbers of shape {offered}")
        weights, benchmark = self.weights, self.benchmark
        if weights is not None:
            weights = array("weights", weights, offered[:2])
            within("weights", weights, 0.0, math.inf, "numbers >= 0")
        if benchmark is not None:
            benchmark = array("benchmark", benchmark, offered[:2])
        return Block(
            self.first, arms, means, uniforms, rewards, mask, late, ids, weights, benchmark
        )


def _as_played(arms: FloatArray, shape: tuple[int | None, ...]) -> FloatArray:
    """Return arms (s, N, K, d) that lie in memory as (s, N, d, K), each of norm ≤ 1; or raise."""
    lie_so = type(arms) is np.ndarray and arms.ndim == 4 and arms.dtype == np.float64
    lie_so = lie_so and arms.transpose(0, 1, 3, 2).flags.c_contiguous and arms.size > 0
    if not lie_so or any(s not in (None, n) for s, n in zip(shape, arms.shape, strict=True)):
        arms = shaped("arms", arms, shape)
    columns = np.ascontiguousarray(arms.transpose(0, 1, 3, 2))
    if not longest_arm(columns.reshape(-1, *columns.shape[2:])) <= 1.0 + 1e-9:
        arms = arms_in_unit_ball("arms", finite("arms", arms))
        columns = np.ascontiguousarray(arms.transpose(0, 1, 3, 2))
    return columns.transpose(0, 1, 3, 2)


def in_range(name: str, values: FloatArray, problem: Problem, unknown: bool = False) -> None:
    """Raise unless all values ("means" or "rewards") are finite and in the range of the link.

    With `unknown`, some may be nan.
    """
    low, high = problem.link.support
    least, most = max(low, -_LARGEST), min(high, _LARGEST)
    # one look at the ends: NaN is no number between them
    if not (least <= values.min() and values.max() <= most):
        allowed = f"{name} in [{low:g}, {high:g}], the range of the {problem.link.name} link"
        within(name, values if unknown else finite(name, values), least, most, allowed)


class Environment(ABC):
    """A source of arms and rewards for N clients; the base of custom environments.

    A subclass sets the three attributes and has the methods `parameter` and `blocks`.

    Attributes
    ----------
    problem
        The problem.
    clients
        N, the number of clients.
    arms
        K, the number of arms offered to each client in each step.

    Examples
    --------
    An environment whose arms are the same in every step:

    >>> from collections.abc import Iterator
    >>> import numpy as np
    >>> import fedglb as fg
    >>> class Coins(fg.Environment):
    ...     problem, clients, arms = fg.Problem(dim=2), 3, 2
    ...
    ...     def parameter(self, seed: int) -> None:
    ...         return None
    ...
    ...     def blocks(self, horizon: int, seed: int) -> Iterator[fg.Block]:
    ...         shape = (horizon, self.clients, self.arms)
    ...         arms = np.broadcast_to(np.eye(2), (*shape, 2))
    ...         means = np.broadcast_to([0.3, 0.6], shape)
    ...         noise = np.random.default_rng(seed).random(shape[:2])
    ...         yield fg.Block(1, arms, means, uniforms=noise)
    >>> fg.simulate(fg.n_ons_glm(), Coins(), horizon=5).choices.shape
    (5, 3)
    """

    problem: Problem
    clients: int
    arms: int

    @property
    def horizon(self) -> int | None:
        """The number of steps that the environment has; None: no limit."""
        return None

    @property
    def longest_delay(self) -> int:
        """The maximum delay of a reward in steps; 0: no delays."""
        return 0

    @property
    def network(self) -> Network | None:
        """The network between clients and coordinator; None: messages arrive at once."""
        return None

    @property
    def randomised(self) -> bool:
        """Whether runs depend on the seed; where they do not, seeds are no replicates."""
        return True

    @property
    def knows_all_rewards(self) -> bool:
        """Whether each arm has a reward; a log knows that of the arm played only."""
        return True

    @abstractmethod
    def parameter(self, seed: int) -> FloatArray | None:
        """Return θ*, the true parameter.

        Parameters
        ----------
        seed
            The seed of the run.

        Returns
        -------
        array or None
            θ*, shape (d,); None if unknown.
        """

    def parameters(self, seed: int, first: int = 1, steps: int = 1) -> FloatArray | None:
        """Return the parameter of each client in each of some steps.

        Parameters
        ----------
        seed
            The seed of the run.
        first
            The first of the steps.
        steps
            s, their number.

        Returns
        -------
        array or None
            Shape (s, N, d); `parameter` for all, unless a subclass overrides it.
        """
        theta = self.parameter(seed)
        if theta is None:
            return None
        return np.broadcast_to(theta, (steps, self.clients, theta.size))

    def described(self) -> str:
        """Return the environment's name in results: its class name."""
        return type(self).__name__

    def facts(self) -> dict[str, Any]:
        """Return the origin of the data for results, as JSON values."""
        return {}

    @abstractmethod
    def blocks(self, horizon: int, seed: int) -> Iterator[Block]:
        """Yield the steps 1 … horizon, in order; for one seed always the same.

        Parameters
        ----------
        horizon
            T, the number of steps.
        seed
            The seed of the run.

        Yields
        ------
        Block
            The next steps, at most `block_steps()` of them.
        """

    def checked_blocks(self, horizon: int, seed: int) -> Iterator[Block]:
        """Yield `blocks(horizon, seed)`, each one checked.

        Parameters
        ----------
        horizon
            T, the number of steps.
        seed
            The seed of the run.

        Yields
        ------
        Block
            The next steps.

        Raises
        ------
        InvalidInput
            If a block is invalid, or a step is missing or repeated.
        """
        done = 0
        for block in self.blocks(horizon, seed):
            made = block.checked(self.problem, self.clients)
            last = made.first + made.arms.shape[0] - 1
            if made.first != done + 1 or last > horizon:
                given, allowed = f"{made.first} … {last}", f"{done + 1} … {horizon} at most"
                raise InvalidInput("steps of a block", given, allowed)
            if made.delays is not None:
                longest = self.longest_delay
                allowed = f"whole numbers from 0 to longest_delay = {longest}"
                within("delays", made.delays.astype(np.float64), 0.0, float(longest), allowed)
            done = last
            yield made
        if done < horizon:
            raise InvalidInput("blocks", f"steps up to {done}", f"all steps up to {horizon}")

    def block_steps(self) -> int:
        """Return the maximum number of steps per block."""
        return max(1, BLOCK_NUMBERS // (self.clients * self.arms * self.problem.dim))


def digest_of(arrays: Iterable[NDArray[Any]]) -> str:
    """Return the SHA-256 of arrays: their types, shapes and numbers."""
    made = hashlib.sha256()
    for each in arrays:
        made.update(f"{each.dtype.str} {each.shape}".encode())
        made.update(np.ascontiguousarray(each).data)
    return made.hexdigest()


def all_rewards(env: Environment, use: str) -> None:
    """Raise unless each arm has a reward, which `use` needs."""
    if not env.knows_all_rewards:
        allowed = f"an environment in which every arm has a reward, for {use}: a log knows few"
        raise InvalidInput("env", env.described(), allowed)


def generator(seed: int, role: Role) -> np.random.Generator:
    """Return a generator of the random numbers of one role under a seed.

    Each role has a separate stream, so that all algorithms of a comparison see the same arms
    and noise, however many numbers each role draws.
    """
    return np.random.default_rng(_sequence(seed, role))


def stream_key(seed: int, role: Role) -> int:
    """Return the key of one role's stream (`fedglb.kernels.philox`): 64 bits, signed."""
    return int(_sequence(seed, role).generate_state(1, np.uint64).view(np.int64)[0])


def _sequence(seed: int, role: Role) -> np.random.SeedSequence:
    integer("seed", seed, at_least=0)
    return np.random.SeedSequence(seed, spawn_key=(get_args(Role).index(role),))
