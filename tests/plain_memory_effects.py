"""The choice among half-lives, with effects of arms and clients that differ, written straight down.

An independent derivation for tests from docs/theory.md, section 7.14: what the filters do, given
the sums that clients send. θ and all effects are one vector, as in `tests.plain_effects`, and
every matrix is dense.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log

import numpy as np
from numpy.linalg import inv, slogdet

from tests.plain_effects import Array
from tests.plain_memory import Follower
from tests.plain_personal import eliminated, spread

SHARE, ENOUGH = 0.001, 5.0  # α, and the nats that decide
ALONE = 4.0  # what is added to T where a client learns alone


@dataclass(frozen=True)
class Sums:
    """What a client sends at an update: the arrow's full matrix, and its right side."""

    samples: int  # how many, without weights
    M: Array  # of (θ, u): A, and per arm h and b
    right: Array  # p, and per arm f
    alone: tuple[bool, bool] = (False, False)  # whether it learns θ alone, and effects


@dataclass(frozen=True)
class Prior:
    """The model in force before an update: all that the filters have to know of it."""

    theta: Array
    ridges: Array  # λ of each feature
    second: float  # λ₂
    T: Array
    effects: float  # τ_e²


class Judge:
    """The choice among half-lives."""

    def __init__(self, half_lives: list[float], d: int, dispersion: float) -> None:
        rates = [0.0, *(1 / h for h in half_lives)]
        self.d, self.phi = d, dispersion
        self.all = [
            Follower([(0.0, r)], np.zeros((d, d)), np.zeros(d), share=1 / len(rates)) for r in rates
        ]
        self.taken, self.changed = 0, False
        self.last: tuple[float, dict[int, Sums], Prior] | None = None

    @property
    def row(self) -> list[float]:
        """The memory in force: its first rate, then the time and the rate of each restart."""
        return [number for piece in self.all[self.taken].pieces for number in piece][1:]

    def see(self, now: float, clients: dict[int, Sums], model: Prior) -> None:
        """Judge by the update at `now`."""
        first = self.last is None
        then, before, old = self.last or (now, {}, model)
        age = now - then
        fade = [0.5 ** (f.rate * age) for f in self.all]
        # the mean of 2^(-rate a) over 0 < a < age
        mean = [(1 - k) / (log(2) * f.rate * age) if k < 1 else 1.0
                for f, k in zip(self.all, fade, strict=True)]  # fmt: skip
        S, q = self.solved([(each.M, each.right) for each in clients.values()], model)
        lost, new, sent = fade[self.taken], 0, []
        for i, each in clients.items():
            known = before.get(i)
            if not first and (known is None or known.alone != each.alone):
                sent.append((each.M, each.right))  # nothing is new
                continue
            new += each.samples - (known.samples if known else 0)
            if known:
                sent.append(self.renewed(known, lost, old, model))

        counts = [k * f.count + m * new for f, k, m in zip(self.all, fade, mean, strict=True)]
        winner, part = self.taken, new / counts[self.taken]
        W, w = part * S, part * q
        faded = [self.spread_anew(f, k, len(clients), old, model)
                 for f, k in zip(self.all, fade, strict=True)]  # fmt: skip
        if not (first or self.changed or new == 0):
            S0, q0 = self.solved(sent, model)
            g, expected = S @ model.theta - q, S0 @ model.theta - q0
            w = W @ model.theta - (g - expected) / mean[self.taken]
            laws = [self.spread_anew(f, m, len(clients), old, model)
                    for f, m in zip(self.all, mean, strict=True)]  # fmt: skip
            winner = self.judged([self.evidence(*law, W, w, model.ridges) for law in laws])
        for f, (P, v), m, count in zip(self.all, faded, mean, counts, strict=True):
            f.P, f.w, f.count = P + m * W, v + m * w, count
        self.all[self.taken].P, self.all[self.taken].w = S, q
        for k, f in enumerate(self.all):
            if k >= winner:
                f.lost = 0.0
            elif f.lost > ENOUGH:  # it begins anew
                source = self.all[winner]
                f.P, f.w, f.count, f.lost = source.P, source.w, source.count, 0.0
                f.pieces = [*source.pieces, (float(now), f.rate)]
        self.changed, self.taken = winner != self.taken, winner
        self.last = now, clients, model

    def solved(self, sent: list[tuple[Array, Array]], model: Prior) -> tuple[Array, Array]:
        """S and q of all clients' sums, without effects of arms."""
        M, right = sum(M for M, _ in sent), sum(right for _, right in sent)
        penalty = np.where(np.arange(len(M)) < self.d, 0.0, model.second)
        S, q = eliminated(M + np.diag(penalty), right, self.d)
        return S, q

    def renewed(self, sums: Sums, lost: float, old: Prior, model: Prior) -> tuple[Array, Array]:
        """A client's last sums as they would be sent now, if nothing were new."""
        alone = ALONE * sums.alone[0] * np.eye(self.d)
        M, right = spread(sums.M, sums.right, -old.T - alone, -old.effects)
        M, right = spread(lost * M, lost * right, model.T + alone, model.effects)
        return M, right

    def spread_anew(
        self, f: Follower, factor: float, N: int, old: Prior, model: Prior
    ) -> tuple[Array, Array]:
        """A filter's P and w times the factor, for the spread of now."""
        M = factor * inv(np.eye(self.d) + f.P @ (factor * model.T - old.T) / N)
        return M @ f.P, M @ f.w

    def evidence(self, P: Array, w: Array, W: Array, v: Array, ridges: Array) -> float:
        """The log of the integral of exp(-θᵀWθ/2 + vᵀθ) under a filter's law of θ."""
        A = P + np.diag(ridges)
        moved = (w + v) @ inv(A + W) @ (w + v) - w @ inv(A) @ w
        return float(0.5 * moved / self.phi - 0.5 * (slogdet(A + W)[1] - slogdet(A)[1]))

    def judged(self, gains: list[float]) -> int:
        """New shares by the evidence: the longest memory within 3 nats of the best."""
        joint = [f.share * exp(gain - max(gains)) for f, gain in zip(self.all, gains, strict=True)]
        for f, v in zip(self.all, joint, strict=True):
            f.share = (1 - SHARE) * v / sum(joint) + SHARE / len(joint)
        best = max(f.share for f in self.all)
        winner = next(k for k, f in enumerate(self.all) if f.share >= best * exp(-ENOUGH))
        for f, gain in zip(self.all, gains, strict=True):
            f.lost = max(f.lost + gains[winner] - gain, 0.0)
        return winner
