"""How large a client's sums can be for any samples: no honest answer exceeds these bounds.

A false answer within them cannot be detected: nobody but the client sees its samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedglb.errors import InvalidInput, number
from fedglb.links import Link
from fedglb.parts.global_update import Query
from fedglb.protocol.assembly import Contribution
from fedglb.typing import FloatArray

# Relative. The extremes of a link are searched on a grid, which may be off by this much; rounding
# errors of sums over up to 10⁹ samples are far smaller.
MARGIN = 1e-3
_UNIT = 2.0**-53
_FAR = 700.0  # a link's functions may overflow at larger |z|
_TINY = 1e-100  # of slopes
_UNDERFLOW = 1e-30  # ‖x‖² of a sample may round to 0 where x does not


def trace(matrix: FloatArray) -> float:
    """Return the trace, infinite where it overflows: e^z at an extreme θ."""
    return float(sum(matrix.diagonal().tolist()))


@dataclass(frozen=True)
class Batch:
    """The samples that a sum ranges over: n, M = Σ x xᵀ, and how far M can be off by rounding.

    With `before`: only the samples of `part` that are not in `before`. With `slope`: `part` has
    Σ μ′ x xᵀ in place of M, with μ′ within these two numbers, so that M is only bounded.
    """

    part: Contribution
    before: Contribution | None = None
    slope: tuple[float, float] | None = None

    @property
    def samples(self) -> int:
        """The number n."""
        return self.part.samples - (0 if self.before is None else self.before.samples)

    @cached_property
    def matrix(self) -> FloatArray:
        """The sum M, or an upper bound on it."""
        whole = self.part.matrix
        if self.slope is not None:
            # Below _TINY, weights may underflow and what is divided by them overflow: M ≼ nI.
            least = self.slope[0]
            return whole / least if least > _TINY else self.samples * np.eye(len(whole))
        return whole if self.before is None else whole - self.before.matrix

    @cached_property
    def lower(self) -> FloatArray:
        """The sum M, or a lower bound on it."""
        return self.matrix if self.slope is None else self.part.matrix / self.slope[1]

    @cached_property
    def slack(self) -> float:
        """An s for which M + sI, as computed and factored, is at least the true M + (s/2)I.

        A sum of n terms is off by at most n·u·Σ‖x‖², the Cholesky factor and a solve with it by
        3d²·u·‖M‖; a difference of two sums by twice as much as the larger one.
        """
        n, d = self.part.samples, self.part.matrix.shape[0]
        size = trace(self.part.matrix if self.slope is None else self.matrix)
        return float(16.0 * _UNIT * (n + d * d) * (size + _UNDERFLOW))


@dataclass(frozen=True)
class Limits:
    """What one sample can add to the sums of a query.

    Parameters
    ----------
    query
        The query.
    residual
        The largest |μ(z) − y|.
    slope
        The smallest and the largest μ′(z).
    loss
        The smallest and the largest m(z) − y z.
    """

    query: Query
    residual: float = math.inf
    slope: tuple[float, float] = (-math.inf, math.inf)
    loss: tuple[float, float] = (-math.inf, math.inf)


def reward_range(link: Link, limit: float | None) -> tuple[float, float]:
    """Return the smallest and largest reward: the link's support, within ±limit if there is one."""
    low, high = link.support
    if limit is None:
        return low, high
    number("reward_limit", limit, above=0.0)
    if max(low, -limit) > min(high, limit):
        raise InvalidInput("reward_limit", limit, f"a limit that allows rewards in {link.support}")
    return max(low, -limit), min(high, limit)


def limits(link: Link, rewards: tuple[float, float], query: Query) -> Limits:
    """Return the limits for |z| ≤ ‖θ‖ and y within `rewards`; infinite where there is no limit.

    μ increases with z, and so the cumulant m, with m′ = μ, is convex.
    """
    reach = float(np.linalg.norm(query.theta)) * (1.0 + 1e-8) + 1e-8  # ‖x‖ ≤ 1, and rounding
    if not reach <= _FAR:
        return Limits(query)
    low, high = rewards
    means = link.mean(-reach), link.mean(reach)
    size = max(abs(v) for v in (*means, *rewards))
    residual = max(means[1] - low, high - means[0]) + MARGIN * size
    everything = (-math.inf, math.inf)
    return Limits(
        query,
        residual if math.isfinite(residual) else math.inf,
        _slopes(link, reach) if query.hessian else everything,
        _losses(link, reach, rewards) if query.loss and math.isfinite(size) else everything,
    )


def _slopes(link: Link, reach: float) -> tuple[float, float]:
    least, most = link.c_mu(reach), link.k_mu(reach)
    return least - MARGIN * abs(least), most + MARGIN * abs(most)


def _losses(link: Link, reach: float, rewards: tuple[float, float]) -> tuple[float, float]:
    """Extremes of a function that is convex in z and linear in y."""
    corners = [link.loss(z, y) for z in (-reach, reach) for y in rewards]
    least = min(link.loss(_inverse_mean(link, y, reach), y) for y in rewards)
    size = max(abs(v) for v in (*corners, least)) + reach * max(abs(y) for y in rewards)
    return least - MARGIN * size, max(corners) + MARGIN * size


def _inverse_mean(link: Link, y: float, reach: float) -> float:
    """The z with |z| ≤ reach where μ(z) is nearest to y."""
    low, high = -reach, reach
    if link.mean(low) >= y:
        return low
    if link.mean(high) <= y:
        return high
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if link.mean(middle) < y else (low, middle)
    return low
