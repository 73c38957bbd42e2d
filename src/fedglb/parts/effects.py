"""Effects of recurring arms at the coordinator: their sums, their fit, and λ₂ by evidence.

The arrow of `kernels.effects`: with Λ₂ = diag(h) + λ₂I the effects are eliminated, which leaves a
system of d unknowns.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fedglb.kernels.effects import (
    BUCKETS,
    COUNT,
    CROSS,
    EFFECT,
    PRECISION,
    ROWS,
    TARGET,
    add_sent,
    empty_sums,
    sums_to_send,
)
from fedglb.model import SharedModel
from fedglb.setting import Setting
from fedglb.typing import FloatArray

#: The prior variance of an effect, as a share of that of xᵀθ for an arm of mean length, and how
#: many effects' worth of data that prior has.
SHARE, WEIGHT = 0.01, 1.0


def sum_tables(
    clients: int, setting: Setting, rows: int, model: SharedModel | None
) -> tuple[FloatArray, float]:
    """Return empty tables of sums for clients, and the number of buckets; for 0 rows none."""
    d, rows = setting.problem.dim, rows if setting.effect_ridge else 0
    tables = np.empty((clients, rows and ROWS + rows * (d + CROSS)))
    known, buckets = effects_of(model)
    if rows:
        empty_sums(known, d, tables)
    return tables, buckets


def effects_of(model: SharedModel | None) -> tuple[FloatArray, float]:
    """Return a model's rows of effects, and its number of buckets."""
    if model is None or model.effects is None:
        return np.empty(0), float(BUCKETS)
    return model.effects[2:], float(model.effects[1])


def to_send(tables: FloatArray, d: int) -> list[FloatArray | None]:
    """Return each client's sums as they are sent; None where arms have no effects."""
    if not tables.size:
        return [None] * len(tables)
    ends = np.empty(len(tables), dtype=np.int64)
    sent = sums_to_send(tables, d, ends)
    return [sent[first:end] for first, end in zip([0, *ends[:-1]], ends, strict=True)]


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

    @classmethod
    def of(
        cls,
        sent: Iterable[FloatArray],
        theta: FloatArray,
        model: SharedModel | None,
        rows: int,
    ) -> ArmSums:
        """Add up what clients sent, in their order; θ is the last model's.

        The buckets are halved while their arms do not fit into a table of `rows` rows: then arms
        share an effect.
        """
        d, (known, buckets) = theta.size, effects_of(model)
        given = np.concatenate([*sent])
        before = np.empty(ROWS + (known.size // (d + 3)) * (d + CROSS))
        empty_sums(known, d, before[None])
        total = np.zeros(ROWS + (rows + 1) * (d + CROSS))
        add_sent(given, theta, before, buckets, total)
        while int(total[COUNT]) > rows:
            buckets /= 2.0
            total[:] = 0.0
            add_sent(given, theta, before, buckets, total)
        each = total[ROWS:].reshape(-1, d + CROSS)[: int(total[COUNT])]
        h, b = each[:, PRECISION], each[:, CROSS:]
        mean = np.divide(each[:, EFFECT], h, out=np.zeros(h.size), where=h > 0.0)
        return cls(each[:, 0], buckets, h, b, each[:, TARGET], mean)

    def reduced(
        self, setting: Setting, hessian: FloatArray, pull: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return Hessian and pull of θ's system once the effects are eliminated.

        The Hessian is symmetric to the bit: a message has one triangle of it.
        """
        D = self.h + setting.effect_ridge
        per = self.b / D[:, None]
        gone = self.b.T @ per
        return hessian - 0.5 * (gone + gone.T), pull + self.b.T @ self.u - per.T @ self.p

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
        # of xᵀθ: φ/λ times r² or, with blocks, the sum of this over blocks
        scaled = float(np.sum(hessian.diagonal() / setting.penalty))
        bound = float(np.max(1.0 / setting.penalty))  # for ‖x‖ = 1
        prior = SHARE * phi * (min(bound, scaled / total) if total > 0.0 else bound)
        return phi * (determined + WEIGHT) / (float(u @ u) + WEIGHT * prior)

    def shared(self, setting: Setting, u: FloatArray) -> FloatArray:
        """Return a model's `effects`."""
        D = self.h + setting.effect_ridge
        rows = np.column_stack([self.keys, D, u, self.b])
        return np.concatenate([[setting.effect_ridge, self.buckets], rows.ravel()])
