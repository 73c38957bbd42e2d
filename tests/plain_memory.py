"""FedGLB without constants, with samples that count less with age, written straight down.

An independent derivation for tests, as in `tests.plain`: it shares no code with the package, takes
every sum over all samples again at each use, and uses explicit inverses. Rewards are logistic, and
choices are by two standard deviations.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, log, log1p, tanh

import numpy as np
from numpy.linalg import eigvalsh, inv, norm, slogdet
from numpy.typing import NDArray

Array = NDArray[np.float64]
START = 1 / 64  # the ridge before any update


def halvings(pieces: list[tuple[float, float]], a: float, b: float) -> float:
    """How often a weight halves from a to b; a piece is a time, and the rate from then on."""
    total = 0.0
    for k, (begin, rate) in enumerate(pieces):
        end = pieces[k + 1][0] if k + 1 < len(pieces) else float("inf")
        total += rate * max(min(b, end) - max(a, begin), 0.0)
    return total


@dataclass
class Data:
    """All samples so far, as lists; the last one has the step in which it was learned."""

    X: list[Array] = field(default_factory=list)
    y: list[float] = field(default_factory=list)
    t: list[int] = field(default_factory=list)

    def quadratic(self, theta: Array, weights: Array, n: int) -> tuple[Array, Array]:
        """Gradient and Hessian at theta over the first n samples."""
        X = np.array(self.X[:n]).reshape(n, len(theta))
        mu = 1 / (1 + np.exp(-X @ theta))
        gradient = X.T @ (weights * (mu - np.array(self.y[:n])))
        return gradient, (X.T * (weights * mu * (1 - mu))) @ X

    def weights(self, pieces: list[tuple[float, float]], now: float, n: int) -> Array:
        return np.array([0.5 ** halvings(pieces, s, now) for s in self.t[:n]])


@dataclass
class Follower:
    """One of the memories that are compared, and its quadratic model of the loss."""

    pieces: list[tuple[float, float]]
    P: Array
    w: Array
    count: float = 0.0
    share: float = 0.0  # its probability
    lost: float = 0.0

    @property
    def rate(self) -> float:
        return self.pieces[-1][1]


class Judge:
    """The choice among half-lives."""

    def __init__(self, half_lives: list[float], d: int) -> None:
        rates = [0.0, *(1 / h for h in half_lives)]
        self.all = [
            Follower([(0.0, r)], np.zeros((d, d)), np.zeros(d), share=1 / len(rates)) for r in rates
        ]
        self.taken, self.last, self.fitted, self.theta = 0, 0, 0, np.zeros(d)
        self.changed = False

    @property
    def pieces(self) -> list[tuple[float, float]]:
        return self.all[self.taken].pieces

    def see(self, data: Data, now: int, theta: Array, ridge: float) -> None:
        """Judge by the update at `now`, whose sums are taken at theta."""
        force, n = self.all[self.taken], len(data.y)
        dt = now - self.last if self.fitted else 0  # the first samples count as new ones
        new = n - self.fitted
        g, H = data.quadratic(theta, data.weights(self.pieces, now, n), n)
        fade = [0.5 ** (f.rate * dt) for f in self.all]
        # the mean of 2^(-rate a) over 0 < a < dt
        mean = [(1 - k) / (f.rate * dt * log(2)) if k < 1 else 1.0
                for f, k in zip(self.all, fade, strict=True)]  # fmt: skip
        counts = [k * f.count + m * new for f, k, m in zip(self.all, fade, mean, strict=True)]
        part = new / counts[self.taken]
        W = part * H
        if self.fitted == 0 or self.changed or new == 0:
            w = W @ theta - part * g
            winner = self.taken
        else:
            then = data.weights(self.pieces, self.last, self.fitted)
            g0, H0 = data.quadratic(self.theta, then, self.fitted)
            old = fade[self.taken] * (g0 + H0 @ (theta - self.theta))
            w = W @ theta - (g - old) / mean[self.taken]
            gains = [self._gain(f, m, W, w, ridge) for f, m in zip(self.all, mean, strict=True)]
            joint = [f.share * exp(v - max(gains)) for f, v in zip(self.all, gains, strict=True)]
            for f, v in zip(self.all, joint, strict=True):
                f.share = 0.999 * v / sum(joint) + 0.001 / len(joint)
            best = max(f.share for f in self.all)
            winner = next(k for k, f in enumerate(self.all) if f.share >= best * exp(-5))
            for f, v in zip(self.all, gains, strict=True):
                f.lost = max(f.lost + gains[winner] - v, 0.0)
        for f, k, m, count in zip(self.all, fade, mean, counts, strict=True):
            f.P, f.w, f.count = k * f.P + m * W, k * f.w + m * w, count
        force.P, force.w = H, H @ theta - g
        for k, f in enumerate(self.all):
            if k >= winner:
                f.lost = 0.0
            elif f.lost > 5:
                source = self.all[winner]
                f.P, f.w, f.count, f.lost = source.P, source.w, source.count, 0.0
                f.pieces = [*source.pieces, (float(now), f.rate)]
        self.changed = winner != self.taken
        self.taken, self.last, self.fitted, self.theta = winner, now, n, theta

    @staticmethod
    def _gain(f: Follower, faded: float, W: Array, w: Array, ridge: float) -> float:
        """The log of the integral of exp(-theta W theta / 2 + w theta) under the filter."""
        A = faded * f.P + ridge * np.eye(len(w))
        b = faded * f.w
        both = b + w
        return float(
            0.5 * (both @ inv(A + W) @ both - b @ inv(A) @ b)
            - 0.5 * (slogdet(A + W)[1] - slogdet(A)[1])
        )


def newton(theta: Array, g: Array, H: Array, ridge: float) -> Array:
    """One Newton step, shortened where it is too long to be trusted."""
    end = inv(H + ridge * np.eye(len(g))) @ (H @ theta - g)
    r = tanh(max(norm(theta), norm(end)) / 2) * norm(end - theta)
    return theta + (1.0 if r <= 1.79 else log1p(r) / r) * (end - theta)


def fedglb_auto(
    arms: Array,
    rewards: Array,
    threshold: float = 0.1,
    half_life: float | None = None,
    half_lives: list[float] | None = None,
) -> tuple[NDArray[np.int64], list[int], list[list[tuple[float, float]]]]:
    """Choices, steps of updates and the memory in force after each, with one of both memories."""
    T, N, _, d = arms.shape
    judge = None if half_lives is None else Judge(half_lives, d)
    fixed = [(0.0, 0.0 if half_life is None else 1 / half_life)]
    choices, steps, memories = np.zeros((T, N), dtype=np.int64), [], []
    data, theta, H, ridge = Data(), np.zeros(d), np.zeros((d, d)), START
    own = [Data() for _ in range(N)]
    for t in range(1, T + 1):
        for i in range(N):
            g_i, H_i = own[i].quadratic(theta, np.ones(len(own[i].y)), len(own[i].y))
            P = inv(H + H_i + ridge * np.eye(d))
            x = arms[t - 1, i]
            scores = x @ (theta - P @ g_i) + 2 * np.sqrt(np.einsum("kj,jl,kl->k", x, P, x))
            k = choices[t - 1, i] = int(scores.argmax())
            for each in (data, own[i]):
                each.X.append(x[k])
                each.y.append(float(rewards[t - 1, i, k]))
                each.t.append(t)
            n = len(own[i].y)
            _, H_i = own[i].quadratic(theta, np.ones(n), n)
            before = H + ridge * np.eye(d)
            again = n * (slogdet(before + H_i)[1] - slogdet(before)[1]) >= threshold
            while again:
                pieces = fixed if judge is None else judge.pieces
                n = len(data.y)
                g, H = data.quadratic(theta, data.weights(pieces, t, n), n)
                if judge is not None:
                    judge.see(data, t, theta, ridge)
                first, h = newton(theta, g, H, ridge), np.maximum(eigvalsh(H), 0.0)
                ridge = float((np.sum(h / (h + ridge)) + 1) / (first @ first + 1 / START))
                theta = newton(theta, g, H, ridge)
                own = [Data() for _ in range(N)]
                steps.append(t)
                memories.append(fixed if judge is None else judge.pieces)
                again = judge is not None and judge.changed
    return choices, steps, memories
