"""The step size 1/γ of variant 3, which its local update, global update and radius share."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedglb.errors import InvalidInput, integer
from fedglb.setting import Setting


@dataclass(frozen=True)
class LazyRate:
    """What γ = c/(G² n_max) follows from: a bound on the samples in one global update.

    Parameters
    ----------
    updates
        B, the number of global updates.
    batch_limit
        n_max, the most samples in one global update. None: N⌊T/B⌋, which is what the schedule
        gives; give a number where clients start with samples of their own (`Client.absorb`).

    Raises
    ------
    InvalidInput
        If `updates` or `batch_limit` is not a whole number ≥ 1.

    References
    ----------
    docs/theory.md, section 2.4 (Lemma 7); erratum 5 in section 11.

    Examples
    --------
    >>> import fedglb as fg
    >>> setting = fg.fedglb_ucb_3(updates=5).setting(fg.Problem(dim=2), clients=2, horizon=10)
    >>> round(LazyRate(updates=5).gamma(setting), 4)
    0.092
    """

    stored_name = "LazyRate"

    updates: int
    batch_limit: int | None = None

    def __post_init__(self) -> None:
        integer("updates", self.updates)
        if self.batch_limit is not None:
            integer("batch_limit", self.batch_limit)

    def gamma(self, setting: Setting) -> float:
        """Return γ (simpler than the paper's: it follows from strong convexity, erratum 5).

        Raises
        ------
        InvalidInput
            If neither `batch_limit` nor the horizon is known.
        """
        problem = setting.problem
        if self.batch_limit is not None:
            n_max = self.batch_limit
        elif setting.horizon is not None:
            n_max = max(setting.clients * (setting.horizon // self.updates), 1)
        else:
            raise InvalidInput(
                "batch_limit",
                None,
                "the most samples in one update, where the horizon is not known",
            )
        return problem.c_mu / (gradient_bound(setting) ** 2 * n_max)


def gradient_bound(setting: Setting) -> float:
    """Return G, a bound on |μ(xᵀθ) − y| for all θ in the ball.

    Parameters
    ----------
    setting
        The setting of the run.

    Returns
    -------
    float
        For bounded rewards what the support gives. Else 2k_μS + R√(2 log(2NT/δ)), which holds for
        all Gaussian rewards of a run at once with probability at least 1 − δ.

    Raises
    ------
    InvalidInput
        If the rewards are unbounded and the horizon is not known.

    References
    ----------
    docs/theory.md, section 2.4.

    Examples
    --------
    >>> import fedglb as fg
    >>> setting = fg.fedglb_ucb_3(updates=5).setting(fg.Problem(dim=2), clients=2, horizon=10)
    >>> round(gradient_bound(setting), 4)  # logistic, S = 1: μ(1) − 0
    0.7311
    """
    problem = setting.problem
    low, high = problem.link.support
    if math.isfinite(low) and math.isfinite(high):
        means = problem.link.mean(-problem.S), problem.link.mean(problem.S)
        return max(high - means[0], means[1] - low)
    if setting.horizon is None:
        raise InvalidInput(
            "horizon",
            None,
            "the number of steps T, on which the bound G of unbounded rewards depends",
        )
    tail = math.sqrt(2.0 * math.log(2.0 * setting.clients * setting.horizon / setting.delta))
    return 2.0 * problem.k_mu * problem.S + problem.R * tail
