"""Rules around another rule: `Certified` leaves out arms, `EpsilonGreedy` draws some uniformly."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from fedglb.errors import InvalidInput, instance, number
from fedglb.parts.choice.base import Choice, KernelChoice
from fedglb.parts.choice.index import Greedy


@dataclass(frozen=True)
class Certified(KernelChoice):
    """Play the arm of the largest index among those that the confidence sets allow.

    Let low(x) ≤ xᵀθ* ≤ high(x) for all arms on offer, U the largest `high`, and
    w(x) = (high(x) − low(x))/2. The arms x with U − low(x) ≤ 2C·w(x) are allowed. The arm of the
    largest `high` always is; and a step's regret is at most k_μ(U − low(x)) ≤ 2C·k_μ·w(x),
    whatever the index: C times what proofs for upper confidence bounds use. With C = 1 only an arm
    of the largest `high` is allowed.

    Parameters
    ----------
    index
        The rule that ranks the arms.
    slack
        C ≥ 1; infinity allows all arms.

    Raises
    ------
    InvalidInput
        If `index` is not a rule, or a wrapper, or `slack` is not a number ≥ 1.

    References
    ----------
    docs/theory.md: the proposition on certified choice.

    Examples
    --------
    >>> from fedglb.parts.choice import Bayes, Certified
    >>> Certified(Bayes())
    Certified(index=Bayes(), slack=8.0)
    >>> Certified(Bayes()).caveats()
    ()
    """

    stored_name = "Certified"

    index: Choice
    slack: float = 8.0

    def __post_init__(self) -> None:
        instance("index", self.index, Choice, "Bayes()")
        if self.index.ranked_by is not self.index:
            allowed = "a rule that does not wrap another one, e.g. Bayes()"
            if self.index.epsilon > 0.0:
                allowed += "; explore uniformly outside: EpsilonGreedy(epsilon, Certified(…))"
            raise InvalidInput("index", self.index, allowed)
        number("slack", self.slack, at_least=1.0, allow_infinite=True, allowed="a number >= 1")

    @property
    def first_of_ties(self) -> bool:
        """The index's."""
        return self.index.first_of_ties

    @property
    def draws(self) -> int:
        """The index's."""
        return self.index.draws

    @property
    def ranked_by(self) -> Choice:
        """The index."""
        return self.index

    def caveats(self) -> tuple[str, ...]:
        """Return none, as the index needs no proof; the index's where all arms are allowed."""
        return self.index.caveats() if self.slack == math.inf else ()


@dataclass(frozen=True)
class EpsilonGreedy(KernelChoice):
    """Play an arm drawn uniformly with probability ε, and the arm of another rule otherwise.

    Every arm then has a probability of at least ε/K, so that the log can be used to
    estimate how any other rule would have done.

    Parameters
    ----------
    epsilon
        ε, from 0 to 1.
    rule
        The other rule; `Greedy()` by default.

    Raises
    ------
    InvalidInput
        If `epsilon` is not in [0, 1], or `rule` is not a rule, or itself explores uniformly.

    References
    ----------
    Langford and Zhang (2007), The epoch-greedy algorithm for contextual multi-armed bandits.

    Examples
    --------
    >>> from fedglb.parts.choice import EpsilonGreedy, Ucb
    >>> EpsilonGreedy(0.1)
    EpsilonGreedy(epsilon=0.1, rule=Greedy())
    >>> EpsilonGreedy(0.1, Ucb()).needs_sets
    True
    """

    stored_name = "EpsilonGreedy"

    epsilon: float = field()  # without a default: the one of the base class would count as one
    rule: Choice = field(default_factory=Greedy)

    def __post_init__(self) -> None:
        allowed = "a number from 0 to 1"
        if number("epsilon", self.epsilon, at_least=0.0, allowed=allowed) > 1.0:
            raise InvalidInput("epsilon", self.epsilon, allowed)
        instance("rule", self.rule, Choice, "Ucb()")
        if isinstance(self.rule, EpsilonGreedy):
            allowed = "a rule other than EpsilonGreedy: set the larger epsilon once"
            raise InvalidInput("rule", self.rule, allowed)

    @property
    def slack(self) -> float:
        """The other rule's; an arm drawn uniformly may be any."""
        return self.rule.slack

    @property
    def first_of_ties(self) -> bool:
        """The other rule's."""
        return self.rule.first_of_ties

    @property
    def draws(self) -> int:
        """The other rule's."""
        return self.rule.draws

    @property
    def ranked_by(self) -> Choice:
        """The rule whose score ranks the arms, if none is drawn uniformly."""
        return self.rule.ranked_by

    def caveats(self) -> tuple[str, ...]:
        """Return the other rule's, and that exploration never ends."""
        if self.epsilon == 0.0:
            return self.rule.caveats()
        return (
            *self.rule.caveats(),
            f"{self}: arms drawn uniformly make the regret grow linearly",
        )
