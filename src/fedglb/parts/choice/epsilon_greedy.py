"""ε-greedy wrapper around another rule."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedglb.errors import InvalidInput, instance, number
from fedglb.parts.choice.base import Choice
from fedglb.parts.choice.index import Greedy
from fedglb.setting import Setting


@dataclass(frozen=True)
class EpsilonGreedy(Choice):
    """Play an arm drawn uniformly with probability ε, and the arm of another rule otherwise.

    Every arm then has a probability of at least ε/K, so that what is recorded can be used to
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
        If `epsilon` is not in [0, 1], or `rule` is no rule, or one that explores uniformly itself.

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
            allowed = "a rule that is not EpsilonGreedy itself: give the larger epsilon once"
            raise InvalidInput("rule", self.rule, allowed)

    @property
    def slack(self) -> float:
        """The other rule's; an arm drawn uniformly may be any."""
        return self.rule.slack

    @property
    def draws(self) -> int:
        """The other rule's."""
        return self.rule.draws

    @property
    def ranked_by(self) -> Choice:
        """The rule whose score ranks the arms, if none is drawn uniformly."""
        return self.rule.ranked_by

    def constants(self, setting: Setting, dispersion: float) -> tuple[float, ...]:
        """Return those of the other rule."""
        return self.rule.constants(setting, dispersion)

    def caveats(self) -> tuple[str, ...]:
        """Return those of the other rule, and that exploration never ends."""
        if self.epsilon == 0.0:
            return self.rule.caveats()
        return (
            *self.rule.caveats(),
            f"{self}: arms drawn uniformly make the regret grow linearly",
        )
