"""A decision: what an agent answers, when it expires, and the draw that may make it explore."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from fedglb.errors import InvalidInput, integer, number


@dataclass(frozen=True)
class DecisionRules:
    """How often an agent explores, and when its decisions expire.

    Parameters
    ----------
    explore
        The share of decisions that are drawn uniformly from the arms, between 0 and 1.
    expire_after
        Seconds that a decision waits for its reward.
    most_pending
        How many decisions wait at most: with one more, the oldest expires.

    Raises
    ------
    InvalidInput
        A value is not allowed.
    """

    explore: float = 0.0
    expire_after: float = 30 * 86400.0
    most_pending: int = 10_000

    def __post_init__(self) -> None:
        if not 0.0 <= number("explore", self.explore) <= 1.0:
            raise InvalidInput("explore", self.explore, "a share between 0 and 1")
        number("expire_after", self.expire_after, above=0.0, allow_infinite=True)
        integer("most_pending", self.most_pending)


@dataclass(frozen=True)
class Decision:
    """What an agent chose, and how: what `Agent.choose` returns.

    Parameters
    ----------
    id
        What `Agent.observe` takes; never given twice, not even after a crash.
    arm
        The index of the chosen arm among those offered.
    arm_id
        Its id, where ids were given.
    score
        Its upper confidence bound; `score − width` is the estimate of xᵀθ.
    width
        α‖x‖ in the norm of A⁻¹: how far the estimate may be off.
    propensity
        The probability with which this arm was chosen: 1 without exploration.
    model
        The update whose model the agent used, 0 before the first.

    Examples
    --------
    >>> import fedglb as fg
    >>> from fedglb.federation import Agent
    >>> with Agent.open(getfixture("tmp_path") / "agent.db", fg.Problem(dim=2)) as agent:
    ...     decision = agent.choose([[0.6, 0.0], [0.0, 1.0]], ids=["red", "blue"])
    >>> decision.arm, decision.arm_id, decision.propensity
    (1, 'blue', 1.0)
    """

    id: str
    arm: int
    arm_id: str | int | None
    score: float
    width: float
    propensity: float
    model: int


def draw(seed: bytes, number: int) -> tuple[float, float]:
    """Return two uniforms in [0, 1) for the decision of this number.

    They come from a keyed hash: a generator's state could be lost or repeated by a crash.

    Examples
    --------
    >>> draw(b"seed", 1) == draw(b"seed", 1) != draw(b"seed", 2)
    True
    """
    bits = hashlib.blake2b(number.to_bytes(8, "little"), key=seed, digest_size=16).digest()
    first, second = (int.from_bytes(bits[k : k + 8], "little") >> 11 for k in (0, 8))
    return first * 2.0**-53, second * 2.0**-53
