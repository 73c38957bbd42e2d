"""Rules around another rule: `Bank` bounds its regret, `EpsilonGreedy` draws some uniformly."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedglb.errors import InvalidInput, instance, number, under
from fedglb.parts.choice.base import Choice, KernelChoice
from fedglb.parts.choice.function import as_choice
from fedglb.parts.choice.index import Greedy


@dataclass(frozen=True)
class Bank(KernelChoice):
    """Play the arm of an index as long as the confidence sets bound the regret of all of it.

    Let low(x) ≤ xᵀθ* ≤ high(x) for all arms on offer, U the largest `high`, g(x) = U − low(x) and
    w(x) = high(x) − low(x). A client adds up g − C·w of the arms that it has played. It plays the
    arm of the index if the sum stays at most G with it, else the arm of the largest `high`, which
    has g = w. So Σg ≤ C·Σw + G after every step, and its regret is at most k_μ times that, whatever
    the index: C times what proofs for upper confidence bounds use, and G. Steps with g < C·w pay
    for others. With C = 1 and G = 0 only arms of the largest `high` are played, as by `Ucb`. A
    federation cannot run it.

    Parameters
    ----------
    index
        The rule that ranks the arms.
    factor
        C ≥ 1.
    credit
        G ≥ 0, in the units of xᵀθ; for each client.

    Raises
    ------
    InvalidInput
        If `index` is not a rule, or a wrapper, or a number is not finite or too small.

    References
    ----------
    docs/theory.md: the proposition on the bank.

    Examples
    --------
    >>> from fedglb.parts.choice import Bank, Bayes
    >>> Bank(Bayes())
    Bank(index=Bayes(), factor=8.0, credit=0.0)
    >>> Bank(Bayes()).caveats()
    ()
    """

    stored_name = "Bank"

    index: Choice
    factor: float = 8.0
    credit: float = 0.0

    def __post_init__(self) -> None:
        with under("index"):
            object.__setattr__(self, "index", as_choice(self.index))
        instance("index", self.index, Choice, "Bayes()")
        if self.index.ranked_by is not self.index:
            allowed = "a rule that does not wrap another one, e.g. Bayes()"
            if self.index.epsilon > 0.0:
                allowed += "; explore uniformly outside: EpsilonGreedy(epsilon, Bank(…))"
            raise InvalidInput("index", self.index, allowed)
        number("factor", self.factor, at_least=1.0)
        number("credit", self.credit, at_least=0.0)

    @property
    def bank(self) -> tuple[float, float]:
        """C and G."""
        return self.factor, self.credit

    @property
    def first_of_ties(self) -> bool:
        """The index's."""
        return self.index.first_of_ties

    @property
    def draws(self) -> int:
        """The index's."""
        return self.index.draws

    @property
    def logged_draws(self) -> int:
        """The index's."""
        return self.index.logged_draws

    @property
    def ranked_by(self) -> Choice:
        """The index."""
        return self.index

    def caveats(self) -> tuple[str, ...]:
        """Return none: the index needs no proof."""
        return ()


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
        with under("rule"):
            object.__setattr__(self, "rule", as_choice(self.rule))
        instance("rule", self.rule, Choice, "Ucb()")
        if isinstance(self.rule, EpsilonGreedy):
            allowed = "a rule other than EpsilonGreedy: set the larger epsilon once"
            raise InvalidInput("rule", self.rule, allowed)

    @property
    def bank(self) -> tuple[float, float] | None:
        """The other rule's; an arm drawn uniformly may be any, and is not charged."""
        return self.rule.bank

    @property
    def first_of_ties(self) -> bool:
        """The other rule's."""
        return self.rule.first_of_ties

    @property
    def draws(self) -> int:
        """The other rule's."""
        return self.rule.draws

    @property
    def logged_draws(self) -> int:
        """The other rule's."""
        return self.rule.logged_draws

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
