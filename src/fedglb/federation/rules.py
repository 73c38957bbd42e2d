"""How an agent treats its decisions."""

from __future__ import annotations

from dataclasses import dataclass

from fedglb.errors import InvalidInput, integer, number


@dataclass(frozen=True)
class Rules:
    """How an agent treats its decisions.

    Parameters
    ----------
    explore
        The share of decisions that are drawn uniformly from the arms.
    expire_after
        Seconds that a decision waits for its reward.
    most_pending
        How many decisions wait at most: with one more, the oldest expires.
    """

    explore: float = 0.0
    expire_after: float = 30 * 86400.0
    most_pending: int = 10_000

    def __post_init__(self) -> None:
        if not 0.0 <= number("explore", self.explore) <= 1.0:
            raise InvalidInput("explore", self.explore, "a share between 0 and 1")
        number("expire_after", self.expire_after, above=0.0, allow_infinite=True)
        integer("most_pending", self.most_pending)
