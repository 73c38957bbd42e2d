"""Agents' reports of their rewards, checked for plausibility."""

from __future__ import annotations

import math

import msgspec

from fedglb.typing import FloatArray

_SLACK = 1e-9  # of rounding, in a sum of many
_LARGEST = 2.0**53
_FAR = 1e15  # of a reward without a bound


class RewardStatus(msgspec.Struct, frozen=True):
    """An agent's report: all rewards since its process started, and the newest ones."""

    count: int
    total: float
    recent_count: int
    recent_total: float


class ReportedRewards:
    """The newest report of each client; `rewards` are the smallest and the largest reward.

    The numbers within these bounds cannot be verified; the reports are only shown.
    """

    def __init__(self, rewards: tuple[float, float]) -> None:
        low, high = rewards
        self._low, self._high = max(low, -_FAR), min(high, _FAR)
        self._newest: dict[str, tuple[str, RewardStatus]] = {}

    def of(self, client: str) -> RewardStatus | None:
        """Return a client's newest report."""
        return self._newest[client][1] if client in self._newest else None

    def objection(self, client: str, session: str, numbers: FloatArray) -> str | None:
        """Store a report, or return why it is invalid."""
        if len(numbers) != 4:
            return f"{len(numbers)} numbers instead of four"
        values = [float(v) for v in numbers]
        if not all(map(math.isfinite, values)):
            return "numbers that are not finite"
        count, total, recent_count, recent_total = values
        if any(c != int(c) or not 0 <= c < _LARGEST for c in (count, recent_count)):
            return "not a count"
        if recent_count > count:
            return f"{recent_count:.0f} recent rewards of {count:.0f}"
        for some, their_sum in ((count, total), (recent_count, recent_total)):
            slack = _SLACK * (1.0 + some * max(abs(self._low), abs(self._high)))
            if not some * self._low - slack <= their_sum <= some * self._high + slack:
                return f"{some:.0f} rewards with the sum {their_sum:g}"
        before = self._newest.get(client)
        if before is not None and before[0] == session and count < before[1].count:
            return f"{count:.0f} rewards after {before[1].count}"
        newest = RewardStatus(int(count), total, int(recent_count), recent_total)
        self._newest[client] = (session, newest)
        return None
