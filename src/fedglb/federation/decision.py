"""A decision: what an agent answers, and the draw that may make it explore."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Decision:
    """What an agent chose, and how.

    Parameters
    ----------
    id
        What `observe` takes; never given twice, not even after a crash.
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
        The update whose model the agent held, 0 before the first.
    """

    id: str
    arm: int
    arm_id: str | int | None
    score: float
    width: float
    propensity: float
    model: int


def draw(seed: bytes, number: int) -> tuple[float, float]:
    """Return two uniforms in [0, 1) that belong to the decision of this number.

    Of a keyed hash, so there is no generator whose state a crash could lose or repeat.

    Examples
    --------
    >>> draw(b"seed", 1) == draw(b"seed", 1) != draw(b"seed", 2)
    True
    """
    bits = hashlib.blake2b(number.to_bytes(8, "little"), key=seed, digest_size=16).digest()
    first, second = (int.from_bytes(bits[k : k + 8], "little") >> 11 for k in (0, 8))
    return first * 2.0**-53, second * 2.0**-53
