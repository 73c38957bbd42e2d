"""The trade-offs worth having: those that no other beats in both regret and communication."""

from __future__ import annotations

from collections.abc import Sequence


def pareto_front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Return which of the points (communication, regret) are on the front, cheapest first.

    Of points that are equal in both, the first one counts.

    Examples
    --------
    >>> pareto_front([(50.0, 10.0), (60.0, 20.0), (0.0, 35.0)])
    [2, 0]
    """
    front: list[int] = []
    for i in sorted(range(len(points)), key=lambda i: points[i]):
        if (
            not front or points[i][1] < points[front[-1]][1]
        ):  # more communication: regret has to fall
            front.append(i)
    return front
