"""Array index constants: places in a learner's arrays, in constants, in radius terms.

An array of numbers is filled (`in_order`) and read by the same names.
"""

from __future__ import annotations

from collections.abc import Mapping

#: In `vectors`: the model θ, and the centre of the ellipsoid.
THETA, CENTRE = 0, 1
#: In `matrices`: A and A⁻¹.
MATRIX, INVERSE = 0, 1
#: In `counters`: the gain of log det A since the last model, samples since then, the epoch.
LOG_GAIN, UPDATES, EPOCH = 0, 1, 2
#: In a link's addresses: μ, μ′, the cumulant m, and both of μ and μ′ for many z at once.
MEAN, VARIANCE, CUMULANT, DERIVATIVES = 0, 1, 2, 3
#: Behind them in a problem's: the projection for many features, 0 for few.
PROJECTION = 4
#: Rows of the scratch of a decision, one number per arm: upper bounds, squared widths, the ends of
#: the certified intervals, and the scores by which arms are ranked.
UPPER, WIDTHS, LOW, HIGH, SCORES = range(5)
#: Behind them: what effects add to xᵀθ and to the squared width, the arms' names, the degrees of
#: freedom of their effects and the weight of all samples (`kernels.effects`), the least
#: scores that are drawn; and, where arms have effects, the d rows of shifted arms.
OFFSET, EXTRA, NAME, DEGREES, TOTAL, LEAST, SHIFTED = range(5, 12)


def work_rows(named: bool, d: int) -> int:
    """Return the number of rows of that scratch, where arms have names (and effects) or not."""
    return SHIFTED + d if named else SHIFTED


def in_order(numbers: Mapping[int, float]) -> tuple[float, ...]:
    """Return a table's numbers in the order of their places 0, 1, ….

    >>> C_MU, BALL = range(2)
    >>> in_order({BALL: 1.0, C_MU: 0.25})
    (0.25, 1.0)
    """
    return tuple(numbers[place] for place in range(len(numbers)))
