"""Effects of recurring arms at the coordinator: their sums, their fit, and λ₂ by evidence.

The arrow of `kernels.effects`: with Λ₂ = diag(h) + λ₂I the effects are eliminated, which leaves a
system of d unknowns.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedglb.kernels.effects import BUCKETS, CROSS, KEY, PRECISION, TARGET, fill_table
from fedglb.model import SharedModel
from fedglb.setting import Setting
from fedglb.typing import FloatArray

if TYPE_CHECKING:
    from fedglb.algorithms import Algorithm

#: The prior variance of an effect, as a share of that of xᵀθ for an arm of mean length, and how
#: many effects' worth of data that prior has.
SHARE, WEIGHT = 0.01, 1.0
#: The share of a table's rows that a model may fill: more of them, and rows are hard to find.
FULL = 0.75


def effect_table(
    algorithm: Algorithm, setting: Setting, model: SharedModel | None
) -> tuple[FloatArray, float]:
    """Return an empty table of a client's sums with a model's effects u, and its buckets."""
    d, rows = setting.problem.dim, algorithm.local_update.effects
    table = np.zeros(rows * (d + CROSS))
    if model is None or model.effects is None or not rows:
        return table, float(BUCKETS)
    fill_table(table, model.effects[2:], np.zeros(d))
    by_row = table.reshape(rows, d + CROSS)
    by_row[:, [PRECISION, TARGET]] = 0.0
    by_row[:, CROSS:] = 0.0
    return table, float(model.effects[1])


def effect_rows(table: FloatArray, d: int) -> FloatArray | None:
    """Return a table of sums as it is sent: key, h, g and b of each arm played, by keys."""
    if not table.size:
        return None
    rows = table.reshape(-1, d + CROSS)
    rows = rows[np.any(rows[:, [PRECISION, TARGET]] != 0.0, axis=1)]
    rows = rows[np.argsort(rows[:, KEY])]
    sent = np.hstack([rows[:, [KEY, PRECISION, TARGET]], rows[:, CROSS:]])
    sent[:, 0] -= 1.0
    return sent.ravel()


@dataclass(frozen=True)
class ArmSums:
    """The sums of all clients for m arms with effects, at the last model's θ_t and u.

    Their quadratic model of the loss is ½uᵀdiag(h)u + uᵀBθ − uᵀp + …, B the matrix of rows b.
    """

    keys: FloatArray  # (m,), increasing
    buckets: float  # keys are below this
    h: FloatArray  # Σμ′, (m,)
    b: FloatArray  # Σμ′x, (m, d)
    p: FloatArray  # hu + bᵀθ_t − Σ(μ − y), (m,)
    u: FloatArray  # the effects of the last model, (m,)
    cross: FloatArray  # Σ b u, (d,)

    @classmethod
    def of(
        cls,
        sent: Iterable[FloatArray],
        theta: FloatArray,
        model: SharedModel | None,
        rows: int,
    ) -> ArmSums:
        """Add up what clients sent, in their order; θ is the last model's.

        The buckets are halved while their arms would fill a table of `rows` rows too much: then
        arms share an effect.
        """
        d, buckets, known = theta.size, float(BUCKETS), np.empty((0, theta.size + 3))
        if model is not None and model.effects is not None:
            buckets, known = float(model.effects[1]), model.effects[2:].reshape(-1, d + 3)
        given = np.concatenate([each.reshape(-1, d + 3) for each in (*sent, np.empty(0))])
        keys, h, g, b = given[:, 0], given[:, 1], given[:, 2], given[:, 3:]
        u = _looked_up(keys, known[:, 0], known[:, 2])
        while len(kept := np.unique(keys % buckets)) > FULL * rows:
            buckets /= 2.0
        total, place = np.zeros((kept.size, d + 3)), np.searchsorted(kept, keys % buckets)
        np.add.at(total, place, np.column_stack([h, b, h * u + b @ theta - g, h * u]))
        cross, h = b.T @ u, total[:, 0]
        mean = np.divide(total[:, -1], h, out=np.zeros(h.size), where=h > 0.0)
        return cls(kept, buckets, h, total[:, 1 : d + 1], total[:, d + 1], mean, cross)

    def reduced(
        self, setting: Setting, hessian: FloatArray, pull: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return Hessian and pull of θ's system once the effects are eliminated."""
        D = self.h + setting.effect_ridge
        per = self.b / D[:, None]
        return hessian - self.b.T @ per, pull + self.cross - per.T @ self.p

    def effects(self, setting: Setting, theta: FloatArray) -> FloatArray:
        """Return the effects given θ, shape (m,)."""
        return (self.p - self.b @ theta) / (self.h + setting.effect_ridge)

    def next_ridge(
        self, setting: Setting, hessian: FloatArray, reduced: FloatArray, u: FloatArray
    ) -> float:
        """Return λ₂ by a step of evidence whose prior is tied to λ.

        Parameters
        ----------
        setting
            With the λ in force from now on, and the λ₂ so far.
        hessian
            Σμ′xxᵀ, shape (d, d).
        reduced
            That of θ once the effects are eliminated, with the λ so far on its diagonal.
        u
            The effects of the fit, shape (m,).

        Returns
        -------
        float
            λ₂ = φ/τ², with τ² ← (Σu² + aρr²φ/λ)/(γ₂ + a): a prior variance of ρr²φ/λ with the
            weight of a effects, r² the arms' mean squared length, and γ₂ the number of effects that
            the data determine.
        """
        D, phi = self.h + setting.effect_ridge, setting.problem.dispersion
        per = self.b / D[:, None]
        variances = 1.0 / D + np.einsum("ij,ij->i", per, np.linalg.solve(reduced, per.T).T)
        determined = float(np.sum(1.0 - setting.effect_ridge * variances))
        total = float(self.h.sum())
        length = min(1.0, float(np.trace(hessian)) / total) if total > 0.0 else 1.0
        prior = SHARE * length * phi / setting.ridge
        return phi * (determined + WEIGHT) / (float(u @ u) + WEIGHT * prior)

    def shared(self, setting: Setting, u: FloatArray) -> FloatArray:
        """Return a model's `effects`."""
        D = self.h + setting.effect_ridge
        rows = np.column_stack([self.keys, D, u, self.b])
        return np.concatenate([[setting.effect_ridge, self.buckets], rows.ravel()])


def _looked_up(keys: FloatArray, known: FloatArray, values: FloatArray) -> FloatArray:
    """Return the values of keys among `known`, which increase; 0 for others."""
    if not known.size:
        return np.zeros(keys.size)
    place = np.minimum(np.searchsorted(known, keys), known.size - 1)
    return np.where(known[place] == keys, values[place], 0.0)
