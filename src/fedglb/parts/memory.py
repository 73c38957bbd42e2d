"""How long samples count: for ever, by a half-life, or by one that the coordinator chooses.

A sample of age a has the weight 2^(−a/h) in all sums of a global update. Between two updates a
client's own new samples count 1. Ages are in steps, in federations in seconds
(`fedglb.kernels.ageing`).
"""

from __future__ import annotations

import math
from abc import ABC
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedglb.errors import InvalidInput, number
from fedglb.model import SharedModel
from fedglb.parts.spread import respread
from fedglb.setting import Setting
from fedglb.typing import FloatArray

#: Nats by which a longer memory may be behind the best one and still be taken; having lost as many
#: to the one that is taken, it begins anew.
BEHIND = 5.0
#: The share of their weights that memories give to each other at an update.
SHARE = 0.001
#: Half-lives in simulations, in steps, and in federations, in seconds: 64, 16 and 4 days, and one.
_STEPS = (1024.0, 256.0, 64.0, 16.0)
_SECONDS = (5529600.0, 1382400.0, 345600.0, 86400.0)


class Memory(ABC):  # noqa: B024 - subclasses differ in data
    """How long samples count. Subclasses are frozen dataclasses."""

    #: Whether old samples count less.
    forgets: ClassVar[bool] = True

    @property
    def shortest(self) -> float:
        """The shortest half-life that may come into force; infinity by default."""
        return math.inf

    def in_force(self, model: SharedModel | None) -> FloatArray | None:
        """Return the row of numbers of `kernels.ageing` after a model; None: all samples count 1.

        Parameters
        ----------
        model
            The last shared model; None before the first.

        Returns
        -------
        array or None
            For the sums of the next update.
        """
        return None


@dataclass(frozen=True)
class Forever(Memory):
    """All samples count alike, however old.

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.fedglb_auto().memory
    Forever()
    """

    stored_name = "Forever"

    forgets = False


@dataclass(frozen=True)
class HalfLife(Memory):
    """A sample's weight halves with each half-life: it is 2^(−age/h).

    Parameters
    ----------
    half_life
        h > 0, in steps; in a federation in seconds.

    Raises
    ------
    InvalidInput
        If `half_life` is not a number > 0.

    References
    ----------
    Russac, Vernade and Cappé (2019), *Weighted linear bandits for non-stationary environments*;
    docs/theory.md, section 7.14.

    Examples
    --------
    >>> import fedglb as fg
    >>> env = fg.Drifting(fg.Synthetic(fg.Problem(dim=3), clients=5, arms=5), speed=0.01)
    >>> run = fg.simulate(fg.fedglb_auto(memory=fg.HalfLife(50)), env, horizon=50, seed=1)
    >>> run.syncs > 0
    True
    """

    stored_name = "HalfLife"

    half_life: float

    def __post_init__(self) -> None:
        number("half_life", self.half_life, above=0.0)

    @property
    def shortest(self) -> float:
        """Half-life h itself."""
        return self.half_life

    def in_force(self, model: SharedModel | None) -> FloatArray:
        """Return one rate, 1/h."""
        return np.array([1.0 / self.half_life])


@dataclass(frozen=True)
class Adaptive(Memory):
    """The coordinator chooses among half-lives by how well each would have predicted.

    It follows one filter per half-life, from the sums of the updates alone, and sends the memory in
    force with each model. Taken is the longest within five nats of the best (`Filters`). Clients
    send nothing more; an update that changes the memory is followed by another one at once.

    Parameters
    ----------
    half_lives
        Numbers > 0 that fall, in steps, in a federation in seconds; infinity is always among them.
        None (default): 1024, 256, 64 and 16 steps; in a federation 64, 16 and 4 days, and one.

    Raises
    ------
    InvalidInput
        If these are not at least one number, finite, > 0 and falling.

    References
    ----------
    docs/theory.md, section 7.14.

    Examples
    --------
    >>> import fedglb as fg
    >>> env = fg.Synthetic(fg.Problem(dim=3), clients=5, arms=5)
    >>> run = fg.simulate(fg.fedglb_auto(memory=fg.Adaptive()), env, horizon=50, seed=1)
    >>> run.syncs > 0
    True
    """

    stored_name = "Adaptive"

    half_lives: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.half_lives is None:
            return
        if not self.half_lives:
            raise InvalidInput("half_lives", self.half_lives, "at least one number")
        for k, each in enumerate(self.half_lives):
            number(f"half_lives[{k}]", each, above=0.0)
            if k and each >= self.half_lives[k - 1]:
                allowed = "numbers that fall, e.g. (1024, 256, 64, 16)"
                raise InvalidInput("half_lives", self.half_lives, allowed)
        object.__setattr__(self, "half_lives", tuple(map(float, self.half_lives)))

    def in_seconds(self) -> Adaptive:
        """Return the memory of a federation, in which it names its half-lives."""
        return self if self.half_lives is not None else Adaptive(_SECONDS)

    @property
    def finite(self) -> tuple[float, ...]:
        """The half-lives beside infinity."""
        return _STEPS if self.half_lives is None else self.half_lives

    @property
    def shortest(self) -> float:
        """The last one."""
        return self.finite[-1]

    def in_force(self, model: SharedModel | None) -> FloatArray:
        """Return the memory that came with the model; before the first one, no forgetting."""
        return np.zeros(1) if model is None or model.memory is None else model.memory


@dataclass(frozen=True)
class NewSums:
    """What an update's sums say of the samples since the last one."""

    hessian: FloatArray  # S of all samples, once effects are eliminated, with the weights in force
    gradient: FloatArray  # their gradient at `theta`
    theta: FloatArray  # the last model
    samples: int  # number of new samples
    #: the gradient there of samples that came before, by the sums of the last update;
    #: None: they are not known apart
    before: FloatArray | None
    #: T of the last update's sums, and of these; None: all clients have one model
    spread: tuple[FloatArray, FloatArray] | None = None
    clients: int = 1  # number of clients in the sums


@dataclass(frozen=True)
class Filters:
    """The coordinator's filters: one per half-life, the longest first.

    Filter k keeps the quadratic model ½θᵀPθ − wᵀθ of the loss of all samples with its weights. An
    update's batch is reconstructed from the sums over all samples: its Hessian as their share of
    the new samples, its gradient as what the old ones do not explain. log v follows the log
    probability of each batch under each filter, mixed by the fixed share.
    """

    P: FloatArray  # (m, d, d)
    w: FloatArray  # (m, d)
    samples: FloatArray  # Σ of the weights of all samples, (m,)
    log_v: FloatArray  # log weights of the memories, (m,)
    lost: FloatArray  # nats lost to the one taken, since the last gain or restart, (m,)
    memories: FloatArray  # rows as in `kernels.ageing`, behind their ends not a number, (m, ·)
    now: float  # the time of the last update; infinity: there was none
    taken: int = 0  # which memory is in force
    switched: bool = False  # whether the last update changed it

    @classmethod
    def begin(cls, memory: Adaptive, dim: int) -> Filters:
        """Return the filters before any update."""
        m = 1 + len(memory.finite)
        memories = np.full((m, 2 * m - 1), math.nan)
        memories[:, 0] = [0.0, *(1.0 / h for h in memory.finite)]
        return cls(
            np.zeros((m, dim, dim)), np.zeros((m, dim)), np.zeros(m), np.full(m, -math.log(m)),
            np.zeros(m), memories, math.inf,
        )  # fmt: skip

    @property
    def in_force(self) -> FloatArray:
        """The row of the memory in force."""
        row = self.memories[self.taken]
        return np.asarray(row[~np.isnan(row)])

    def faded(self, now: float) -> FloatArray:
        """Return the factors of the weights since the last update, shape (m,)."""
        return np.asarray(np.exp2(-self._halvings(now)))

    def _halvings(self, now: float) -> FloatArray:
        rates = np.array([row[~np.isnan(row)][-1] for row in self.memories])
        return rates * max(now - self.now, 0.0)

    def after(self, batch: NewSums, setting: Setting, now: float) -> Filters:
        """Return the filters after an update at time `now`; `setting` has the λ in force before."""
        fade, k = self.faded(now), self.taken
        # the mean weight of samples spread evenly over the time since the last update
        aged = math.log(2.0) * self._halvings(now)
        mean = np.divide(-np.expm1(-aged), aged, out=np.ones_like(aged), where=aged > 0.0)
        samples = fade * self.samples + mean * batch.samples
        share = batch.samples / samples[k] if samples[k] > 0.0 else 0.0
        W, log_v, lost = share * batch.hessian, self.log_v, self.lost.copy()
        if batch.before is None or batch.samples == 0:
            w = W @ batch.theta - share * batch.gradient
        else:
            w = W @ batch.theta - (batch.gradient - batch.before) / mean[k]
            gains = self._gains(*self._aged(batch, mean), W, w, setting)
            log_v = log_v + gains
            v = np.exp(log_v - log_v.max())
            log_v = np.log((1.0 - SHARE) * v / v.sum() + SHARE / v.size)
            taken = int(np.argmax(log_v >= log_v.max() - BEHIND))
            lost = np.maximum(lost + gains[taken] - gains, 0.0)
            k = taken
        P, old = self._aged(batch, fade)
        P += mean[:, None, None] * W
        w = old + mean[:, None] * w
        # of the memory in force the sums are known
        P[self.taken] = batch.hessian
        w[self.taken] = batch.hessian @ batch.theta - batch.gradient
        memories = self.memories.copy()
        lost[k:] = 0.0
        for j in np.flatnonzero(lost > BEHIND):
            P[j], w[j], samples[j], lost[j] = P[k], w[k], samples[k], 0.0
            memories[j] = _restarted(memories[k], now, memories[j])
        return Filters(P, w, samples, log_v, lost, memories, now, k, k != self.taken)

    def _aged(self, batch: NewSums, faded: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return P and w with these factors and the batch's T, as if clients had equal parts."""
        if batch.spread is None:
            return faded[:, None, None] * self.P, faded[:, None] * self.w
        A = np.array(
            [
                respread(each / batch.clients, *batch.spread, f)
                for each, f in zip(self.P, faded, strict=True)
            ]
        )
        return A @ self.P, (A @ self.w[:, :, None])[:, :, 0]

    @staticmethod
    def _gains(
        P: FloatArray, p: FloatArray, W: FloatArray, w: FloatArray, setting: Setting
    ) -> FloatArray:
        """Return the log probability of a batch under each filter, but for a common term.

        P and p are those of the filters, faded to the middle of the batch, as it were. With
        θ ~ N(m, C) it is log ∫ exp(−½θᵀWθ + wᵀθ): ½rᵀ(C⁻¹ + W)⁻¹r − ½mᵀWm + wᵀm −
        ½ log det(I + CW), with r = w − Wm.
        """
        gains, unit = np.empty(len(P)), setting.problem.dispersion
        for j in range(len(P)):
            precision = P[j] + np.diag(setting.penalty)
            m = np.linalg.solve(precision, p[j])
            r, more = w - W @ m, precision + W
            square = r @ np.linalg.solve(more, r) - m @ W @ m + 2.0 * (w @ m)
            dets = np.linalg.slogdet(more)[1] - np.linalg.slogdet(precision)[1]
            gains[j] = 0.5 * (square / unit - dets)
        return gains


def _restarted(winner: FloatArray, now: float, own: FloatArray) -> FloatArray:
    """Return the winner's row up to now, with one's own last rate from then on."""
    row = winner.copy()
    n = int(np.sum(~np.isnan(row)))
    row[n : n + 2] = now, own[~np.isnan(own)][-1]
    return row
