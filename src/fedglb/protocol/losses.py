"""Quadratic models of the loss of clients' samples, from their sums, and what they say of θ.

Sums of an earlier update are made those of a later one: with less weight and, where clients have
models of their own, less what their differences account for then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from fedglb.kernels.personal import ALONE
from fedglb.model import SharedModel, shared_theta
from fedglb.parts.effects import effects_of
from fedglb.parts.spread import covariance
from fedglb.protocol.messages import ModelSums
from fedglb.typing import FloatArray, IntArray


@dataclass(frozen=True)
class Losses:
    """½θᵀAθ − θᵀq of n clients and, for each arm with an effect u, ½hu² + u(bᵀθ − f)."""

    A: FloatArray  # (n, d, d)
    q: FloatArray  # (n, d)
    client: IntArray  # of which client a row is, (rows,)
    keys: FloatArray  # of which arm, (rows,)
    h: FloatArray  # (rows,)
    b: FloatArray  # (rows, d)
    f: FloatArray  # (rows,)

    @classmethod
    def of(cls, parts: Sequence[ModelSums], model: SharedModel | None, d: int) -> Losses:
        """Return those of the clients' sums at a model."""
        theta, known = shared_theta(model, d), effects_of(model)[0].reshape(-1, d + 3)
        A = np.array([part.hessian for part in parts]).reshape(-1, d, d)
        q = A @ theta - np.array([part.gradient for part in parts]).reshape(-1, d)
        tables = [np.empty(0) if part.effects is None else part.effects for part in parts]
        client = np.repeat(np.arange(len(parts)), [table.size // (d + 3) for table in tables])
        rows = np.concatenate([np.empty(0), *tables]).reshape(-1, d + 3)
        keys, h, gradient, b = rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 3:]
        u = np.zeros(keys.size)
        if len(known):
            at = np.minimum(np.searchsorted(known[:, 0], keys), len(known) - 1)
            u = np.where(known[at, 0] == keys, known[at, 2], 0.0)
        np.add.at(q, client, b * u[:, None])
        return cls(A, q, client, keys, h, b, h * u + b @ theta - gradient)

    def weighed(self, factor: float) -> Losses:
        """Return the same with samples of less weight."""
        more = {name: factor * getattr(self, name) for name in ("A", "q", "h", "b", "f")}
        return replace(self, **more)

    def respread(
        self,
        alone: Sequence[float],
        before: SharedModel | None,
        after: SharedModel | None,
        factor: float,
    ) -> Losses:
        """Return the same with the spread of another model, and samples of less weight.

        `alone` is 1 for clients that learn alone. −T and −τ² take a spread away.
        """
        unit, out = np.eye(self.q.shape[1]), []
        for i, flag in enumerate(alone):
            rows = (self.client == i) & (self.h > 0.0)
            b, h, f = self.b[rows], self.h[rows], self.f[rows]
            arrow = Arrow(
                self.A[i] - b.T @ (b / h[:, None]), self.q[i] - b.T @ (f / h), b / h[:, None],
                f / h, 1.0 / h,
            )  # fmt: skip
            for sign, model in ((-1.0, before), (1.0, after)):
                T = covariance(model, len(unit)) + flag * ALONE[0] * unit
                tau = 0.0 if model is None or model.spread is None else float(model.spread[1])
                arrow = arrow.spread(sign * T, sign * tau)
                if sign < 0.0:
                    arrow = arrow.weighed(factor)
            h = 1.0 / arrow.v
            b = h[:, None] * arrow.x
            A, q = arrow.S + b.T @ arrow.x, arrow.q + b.T @ arrow.t
            client = np.full(h.size, i)
            out.append(Losses(A[None], q[None], client, self.keys[rows], h, b, h * arrow.t))
        names = [field.name for field in fields(self)]
        if not out:
            return self
        joined = {name: np.concatenate([getattr(o, name) for o in out]) for name in names}
        return Losses(**joined)


@dataclass(frozen=True)
class Arrow:
    """θ with precision S and right side q, and effects u | θ ~ N(t − xᵀθ, v)."""

    S: FloatArray
    q: FloatArray
    x: FloatArray
    t: FloatArray
    v: FloatArray

    def spread(self, T: FloatArray, tau: float) -> Arrow:
        """Return that of θ + N(0, T) and u + N(0, τ²): lemma T of docs/theory.md."""
        R = np.linalg.inv(np.eye(len(T)) + self.S @ T)
        q = R @ self.q
        v = self.v + tau + np.einsum("ij,ij->i", self.x @ (T @ R), self.x)
        return Arrow(R @ self.S, q, self.x @ R.T, self.t - self.x @ (T @ q), v)

    def weighed(self, factor: float) -> Arrow:
        """Return that of samples of less weight."""
        return replace(self, S=factor * self.S, q=factor * self.q, v=self.v / factor)


def of_theta(
    losses: Sequence[Losses], ridge: float, buckets: float
) -> tuple[FloatArray, FloatArray]:
    """Return S and q of all clients' samples together: what they say of θ, whatever the effects.

    `ridge` is λ₂, and arms whose keys are equal modulo `buckets` share an effect.
    """
    S = np.sum([each.A.sum(axis=0) for each in losses], axis=0)
    q = np.sum([each.q.sum(axis=0) for each in losses], axis=0)
    keys = np.concatenate([each.keys for each in losses])
    if keys.size:
        arms, arm = np.unique(np.fmod(keys, buckets), return_inverse=True)
        D, B, f = np.full(arms.size, ridge), np.zeros((arms.size, q.size)), np.zeros(arms.size)
        np.add.at(D, arm, np.concatenate([each.h for each in losses]))
        np.add.at(B, arm, np.concatenate([each.b for each in losses]))
        np.add.at(f, arm, np.concatenate([each.f for each in losses]))
        S, q = S - B.T @ (B / D[:, None]), q - B.T @ (f / D)
    return 0.5 * (S + S.T), q
