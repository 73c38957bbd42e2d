"""Policies to be evaluated: from the arms on offer to the probability of each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from fedglb.errors import InvalidInput, array, instance, integer, number
from fedglb.parts.choice import EpsilonGreedy
from fedglb.protocol import Client
from fedglb.typing import FloatArray

#: A policy in plain Python: arms (K, d) to probabilities (K,).
PlainPolicy = Callable[[FloatArray], ArrayLike]


class Policy(ABC):
    """A policy that does not change: with which probability it would play each arm on offer.

    `fg.evaluate` also takes a function from arms (K, d) to probabilities (K,).

    Examples
    --------
    >>> import numpy as np
    >>> import fedglb as fg
    >>> class First(fg.Policy):
    ...     def probabilities(self, arms: np.ndarray) -> np.ndarray:
    ...         return np.broadcast_to(np.arange(arms.shape[1]) == 0, arms.shape[:2]) * 1.0
    >>> First().probabilities(np.ones((1, 3, 2)))
    array([[1., 0., 0.]])
    """

    @abstractmethod
    def probabilities(self, arms: FloatArray) -> FloatArray:
        """Return the probability of each arm, for several decisions at once.

        Parameters
        ----------
        arms
            The arms on offer in m decisions, shape (m, K, d).

        Returns
        -------
        array
            Shape (m, K); each row sums to 1.
        """


@dataclass(frozen=True)
class UniformPolicy(Policy):
    """Play every arm equally often.

    Examples
    --------
    >>> import numpy as np
    >>> import fedglb as fg
    >>> fg.UniformPolicy().probabilities(np.ones((1, 4, 2)))
    array([[0.25, 0.25, 0.25, 0.25]])
    """

    def probabilities(self, arms: FloatArray) -> FloatArray:
        """Return 1/K for each of K arms."""
        m, K, _ = arms.shape
        return np.full((m, K), 1.0 / K)


@dataclass(frozen=True, eq=False)
class ModelPolicy(Policy):
    """Play by the predictions xᵀθ of a fixed model: greedy, ε-greedy or softmax.

    Parameters
    ----------
    theta
        θ, shape (d,); for example the `theta` of a run.
    epsilon
        ε, from 0 to 1: the probability of an arm drawn uniformly.
    temperature
        τ ≥ 0. 0 (default): the arm of the largest xᵀθ, the first of equal ones. Else an arm is
        played with a probability in proportion to exp(xᵀθ/τ).

    Raises
    ------
    InvalidInput
        If an argument is invalid.

    Examples
    --------
    >>> import numpy as np
    >>> import fedglb as fg
    >>> arms = np.eye(2)[None]
    >>> fg.ModelPolicy([1.0, 0.0], epsilon=0.2).probabilities(arms)
    array([[0.9, 0.1]])
    >>> fg.ModelPolicy([1.0, 0.0], temperature=0.5).probabilities(arms).round(3)
    array([[0.881, 0.119]])
    """

    theta: ArrayLike
    epsilon: float = 0.0
    temperature: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "theta", array("theta", self.theta, (None,)).copy())
        if number("epsilon", self.epsilon, at_least=0.0, allowed="a number from 0 to 1") > 1.0:
            raise InvalidInput("epsilon", self.epsilon, "a number from 0 to 1")
        number("temperature", self.temperature, at_least=0.0)

    def probabilities(self, arms: FloatArray) -> FloatArray:
        """Return ε/K plus 1 − ε times the model's probability."""
        if arms.shape[2] != np.size(self.theta):
            raise InvalidInput("theta.shape", np.shape(self.theta), f"({arms.shape[2]},)")
        scores = arms @ np.asarray(self.theta)
        if self.temperature > 0.0:
            raised = np.exp((scores - scores.max(axis=1, keepdims=True)) / self.temperature)
            own = raised / raised.sum(axis=1, keepdims=True)
        else:
            own = np.zeros(scores.shape)
            own[np.arange(len(own)), scores.argmax(axis=1)] = 1.0
        return np.asarray(self.epsilon / arms.shape[1] + (1.0 - self.epsilon) * own)


@dataclass(frozen=True, eq=False)
class ClientPolicy(Policy):
    """Play as a client would, with its choice rule and its current state.

    Parameters
    ----------
    client
        The client. It is copied: later samples have no effect.
    draws
        Where the choice itself is random (`Thompson`, equal scores), the probability of an arm is
        the share of so many draws that play it.

    Raises
    ------
    InvalidInput
        If an argument is invalid.

    Examples
    --------
    >>> import numpy as np
    >>> import fedglb as fg
    >>> algorithm = fg.fedglb_auto(choice=fg.EpsilonGreedy(0.2, fg.Bayes()))
    >>> client = fg.Client(0, algorithm, algorithm.setting(fg.Problem(dim=2), 1, None))
    >>> _ = client.observe([0.0, 1.0], 1.0, t=1)
    >>> fg.ClientPolicy(client).probabilities(0.5 * np.eye(2)[None])
    array([[0.9, 0.1]])
    """

    client: Client = field(repr=False)
    draws: int = 100
    _epsilon: float = field(init=False, repr=False, default=0.0)

    def __post_init__(self) -> None:
        instance("client", self.client, Client, "fg.Client(0, algorithm, setting)")
        integer("draws", self.draws)
        # What is drawn uniformly is added exactly below, so the copy does without.
        of, choice = self.client, self.client.algorithm.choice
        inner = choice.rule if isinstance(choice, EpsilonGreedy) else choice
        algorithm = replace(of.algorithm, choice=inner)
        copy = Client.from_arrays(of.id, algorithm, of.agreed, of.to_arrays())
        object.__setattr__(self, "_epsilon", float(choice.epsilon))
        object.__setattr__(self, "client", copy)

    def probabilities(self, arms: FloatArray) -> FloatArray:
        """Return how often the client would play each arm."""
        client, K = self.client, arms.shape[1]
        randomised, draws = client.algorithm.choice.randomised, self.draws
        found = np.zeros((len(arms), K))
        t = client.clock + 1
        for row, offer in enumerate(arms):
            columns = np.ascontiguousarray(offer.T)
            for draw in range(draws):
                chosen = client.decide(columns, t, number=1 + row * draws + draw)
                if chosen.propensity == 1.0 and not randomised:
                    found[row, chosen.arm] = 1.0
                    break
                found[row, chosen.arm] += 1.0 / draws
        return np.asarray(self._epsilon / K + (1.0 - self._epsilon) * found)


def probabilities(policy: Policy | PlainPolicy, arms: FloatArray) -> FloatArray:
    """Return a policy's probabilities for arms (m, K, d), checked: shape (m, K)."""
    if isinstance(policy, Policy):
        found = np.asarray(policy.probabilities(arms), dtype=np.float64)
    elif callable(policy):
        found = np.stack([array("policy(arms)", policy(o), (arms.shape[1],)) for o in arms])
    else:
        allowed = "a Policy, e.g. fg.ModelPolicy(theta), or a function of arms (K, d)"
        raise InvalidInput("policy", policy, allowed)
    if found.shape != arms.shape[:2]:
        raise InvalidInput("policy(arms).shape", found.shape, f"{arms.shape[:2]}")
    wrong = ~(found >= -1e-12).all(axis=1) | ~(np.abs(found.sum(axis=1) - 1.0) <= 1e-6)
    if wrong.any():
        given = found[np.flatnonzero(wrong)[0]].tolist()
        raise InvalidInput("policy(arms)", given, "probabilities >= 0 that sum to 1")
    return np.maximum(found, 0.0)
