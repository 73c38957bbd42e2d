"""A log as an environment: only the reward of the arm that was played is known."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedglb.environments.base import Block, Environment, digest_of, generator, in_range
from fedglb.errors import InvalidInput, array, instance, integer, one_of, shaped
from fedglb.problem import Problem
from fedglb.typing import FloatArray, IntArray

#: How a log is replayed: which matches count, and how much.
ReplayMethod: TypeAlias = Literal["rejection", "weights"]


class Replay(Environment):
    """Decisions of the past, offered again: an algorithm learns where it plays the logged arm.

    Each client has its own part of the log. In each step it meets its next decision. If it chooses
    the arm that was played, it gets the logged reward and learns from it. Otherwise the reward is
    not known: the choice is no interaction, `run.choices` has −1, and the client learns nothing. A
    client whose part is over does not act.

    method="rejection" (Li et al., 2011): what remains of the log is as if an evenly random policy
    had made it. A decision of propensity p is kept with probability p_min/p, where p_min is the
    smallest propensity in the log; the others are left out, as steps in which the client does not
    act. Every match counts 1. The interactions are then those of the algorithm in a world where
    each client acts with probability p_min in each step: about n·p_min of n decisions count.

    method="weights": nothing is left out, and a match counts 1/p in regret and reward. So
    `run.reward` estimates without bias the reward that the choices would have earned in all
    decisions of the log. The algorithm learns plain rewards, of its matches.

    The regret compares with the log: of a match it is the mean reward of its client's part of the
    log minus the logged reward (times the weight). It is negative where the algorithm is better.

    `fg.replayed` returns the mean reward per decision with its standard error.

    Parameters
    ----------
    problem
        The problem.
    arms
        The arms offered, shape (n, K, d), or (K, d) if they are the same in all decisions; each of
        norm ≤ 1. All decisions have the same number of arms.
    chosen
        The index of the arm that was played, shape (n,).
    rewards
        Its reward, shape (n,).
    propensities
        The probability with which it was played, in (0, 1], shape (n,). None: 1/K, an evenly random
        policy.
    clients
        N: decision j is met by client j mod N, the first one by client 0. Or whose decision each
        is, n names or numbers: client i has those of the i-th, in ascending order.
    method
        "rejection" or "weights".

    Raises
    ------
    InvalidInput
        If a shape or a value is invalid.

    References
    ----------
    Li, Chu, Langford and Wang (2011), *Unbiased Offline Evaluation of Contextual-bandit-based News
    Article Recommendation Algorithms*.

    Examples
    --------
    >>> import numpy as np
    >>> import fedglb as fg
    >>> rng = np.random.default_rng(0)
    >>> chosen = rng.integers(0, 4, 400)  # an evenly random log: arm 3 is the best
    >>> rewards = rng.random(400) < np.where(chosen == 3, 0.9, 0.2)
    >>> env = fg.Replay(fg.Problem(dim=4), np.eye(4), chosen, rewards, clients=2)
    >>> run = fg.simulate(fg.fedglb_auto(), env, seed=1)
    >>> run.choices.shape, int((run.choices >= 0).sum()), run.regret < 0.0
    ((200, 2), 122, True)
    """

    def __init__(
        self,
        problem: Problem,
        arms: ArrayLike,
        chosen: ArrayLike,
        rewards: ArrayLike,
        propensities: ArrayLike | None = None,
        *,
        clients: int | ArrayLike = 1,
        method: ReplayMethod = "rejection",
    ) -> None:
        instance("problem", problem, Problem, "fg.Problem(dim=10)")
        one_of("method", method, get_args(ReplayMethod))
        self.problem, self.method = problem, method
        self.rewards = array("rewards", rewards, (None,)).copy()
        in_range("rewards", self.rewards, problem)
        n = len(self.rewards)
        self._offers = _offers(arms, n, problem.dim)
        self.arms = int(self._offers.shape[-2])
        self.chosen = chosen_arms(chosen, np.full(n, self.arms))
        if propensities is None:
            propensities = np.full(n, 1.0 / self.arms)
        self.propensities = probabilities("propensities", propensities, n, "a probability > 0")
        of = _clients(clients, n)
        self.clients, counts = int(of.max()) + 1, np.bincount(of)
        #: The decision of each client in each step, shape (T, N); −1 where its part is over.
        self._rows = np.full((int(counts.max()), self.clients), -1)
        order = np.argsort(of, kind="stable")
        before = np.repeat(counts.cumsum() - counts, counts)
        self._rows[np.arange(n) - before, of[order]] = order
        self._logged = np.bincount(of, weights=self.rewards) / counts

    @property
    def horizon(self) -> int:
        """T, the number of decisions of the client with the most."""
        return len(self._rows)

    @property
    def randomised(self) -> bool:
        """Whether decisions are left out at random."""
        return self.method == "rejection" and bool(np.ptp(self.propensities) > 0.0)

    @property
    def knows_all_rewards(self) -> bool:
        """False: of each decision only the reward of the arm played is known."""
        return False

    def parameter(self, seed: int) -> FloatArray | None:
        """Return None: a log has no true parameter."""
        return None

    def described(self) -> str:
        """Return the environment's name in results, with the method."""
        return f"{type(self).__name__}({self.method})"

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the log and of whose decisions they are."""
        return digest_of(self._parts())

    def _parts(self) -> Iterator[NDArray[Any]]:
        """Yield the arrays that the digest is of."""
        yield from (self._offers, self.chosen, self.rewards, self.propensities, self._rows)

    def facts(self) -> dict[str, Any]:
        """Return the size and the digest of the log, and the method, as JSON values."""
        return {"decisions": len(self.rewards), "digest": self.digest, "method": self.method}

    def offered(self, rows: IntArray) -> FloatArray:
        """Return the arms that some decisions offered.

        Parameters
        ----------
        rows
            The decisions, whole numbers of any shape.

        Returns
        -------
        array
            Shape (…, K, d), after the shape of `rows`.
        """
        if self._offers.ndim == 3:
            return self._offers[rows]
        return np.broadcast_to(self._offers, (*rows.shape, *self._offers.shape))

    def blocks(self, horizon: int, seed: int) -> Iterator[Block]:
        """Yield the steps 1 … horizon."""
        kept, weighted = np.ones(len(self.rewards), dtype=np.bool_), self.method == "weights"
        if self.randomised:
            shares = self.propensities.min() / self.propensities
            kept = generator(seed, "acceptance").random(len(shares)) < shares
        size = self.block_steps()
        for start in range(0, horizon, size):
            rows = self._rows[start : min(start + size, horizon)]
            there, rows = rows >= 0, np.maximum(rows, 0)
            rewards = np.full((*rows.shape, self.arms), np.nan)
            played = self.chosen[rows][..., None]
            np.put_along_axis(rewards, played, self.rewards[rows][..., None], axis=2)
            yield Block(
                start + 1, self.offered(rows), rewards, rewards=rewards,
                active=there & kept[rows],
                weights=1.0 / self.propensities[rows] if weighted else None,
                benchmark=np.broadcast_to(self._logged, rows.shape),
            )  # fmt: skip


def chosen_arms(chosen: object, counts: IntArray) -> IntArray:
    """Return the indices of the arms played in n decisions with so many arms each; or raise."""
    found = np.asarray(chosen)
    if found.shape != counts.shape or found.dtype.kind not in "iu":
        given = f"{found.dtype} array of shape {found.shape}"
        allowed = f"whole numbers in an array of shape ({len(counts)},)"
        raise InvalidInput("chosen", given, allowed)
    wrong = np.flatnonzero((found < 0) | (found >= counts))
    if wrong.size:
        row = int(wrong[0])
        allowed = f"an index from 0 to {counts[row] - 1}"
        raise InvalidInput(("chosen", row), int(found[row]), allowed)
    return found.astype(np.int64)


def probabilities(name: str, values: ArrayLike, n: int, allowed: str) -> FloatArray:
    """Return n probabilities in (0, 1], or raise `InvalidInput` with what is allowed."""
    found = shaped(name, values, (n,))
    wrong = np.flatnonzero(~((found > 0.0) & (found <= 1.0 + 1e-12)))
    if wrong.size:
        row = int(wrong[0])
        raise InvalidInput((name, row), float(found[row]), allowed)
    return np.minimum(found, 1.0)


def _offers(arms: ArrayLike, n: int, dim: int) -> FloatArray:
    allowed = f"the same number K of arms in all decisions: shape ({n}, K, {dim}) or (K, {dim})"
    try:
        given = np.array(arms, dtype=np.float64, order="C")
    except (TypeError, ValueError):  # also lists of different lengths
        raise InvalidInput("arms", "no array of numbers", allowed) from None
    if given.ndim not in (2, 3):
        raise InvalidInput("arms.shape", given.shape, allowed)
    return array("arms", given, (None, dim) if given.ndim == 2 else (n, None, dim))


def _clients(clients: int | ArrayLike, n: int) -> IntArray:
    """Return the client of each of n decisions."""
    if isinstance(clients, int | np.integer):
        return np.arange(n) % integer("clients", clients, at_most=n)
    labels = np.asarray(clients)
    if labels.shape != (n,) or labels.dtype.kind not in "iuUS":
        given = f"{labels.dtype} array of shape {labels.shape}"
        allowed = f"their number N, or a whole number or a name for each of {n} decisions"
        raise InvalidInput("clients", given, allowed)
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)
