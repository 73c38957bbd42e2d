"""The step size of variant 3, which its local step, its global step and its radius share."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedglb.errors import InvalidInput, integer
from fedglb.setting import Setting


@dataclass(frozen=True)
class LazyRate:
    """γ = c/(G² n_max): strong convexity of a batch of at most n_max samples.

    Parameters
    ----------
    updates
        B, the number of global updates.
    batch_limit
        n_max, the most samples in one update; None: N⌊T/B⌋, what the schedule gives. Give it
        where clients start with samples of their own (`Client.absorb`).
    """

    stored_name = "LazyRate"

    updates: int
    batch_limit: int | None = None

    def __post_init__(self) -> None:
        integer("updates", self.updates)
        if self.batch_limit is not None:
            integer("batch_limit", self.batch_limit)

    def gamma(self, setting: Setting) -> float:
        """Return γ (erratum 5: strong convexity gives a simpler one than the paper's)."""
        problem = setting.problem
        if self.batch_limit is not None:
            n_max = self.batch_limit
        elif setting.horizon is not None:
            n_max = max(setting.clients * (setting.horizon // self.updates), 1)
        else:
            raise InvalidInput("batch_limit", None, "n_max where the horizon is not known")
        return problem.c_mu / (gradient_bound(setting) ** 2 * n_max)


def gradient_bound(setting: Setting) -> float:
    """Return G ≥ |μ(xᵀθ) − y| for all θ in the ball.

    For bounded rewards from the support; else 2k_μS + R√(2 log(2NT/δ)), which all Gaussian
    rewards of a run meet together with probability 1 − δ.
    """
    problem = setting.problem
    low, high = problem.link.support
    if math.isfinite(low) and math.isfinite(high):
        means = problem.link.mean(-problem.S), problem.link.mean(problem.S)
        return max(high - means[0], means[1] - low)
    if setting.horizon is None:
        raise InvalidInput("horizon", None, "T: unbounded rewards need it for their bound G")
    tail = math.sqrt(2.0 * math.log(2.0 * setting.clients * setting.horizon / setting.delta))
    return 2.0 * problem.k_mu * problem.S + problem.R * tail
