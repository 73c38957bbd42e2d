"""FedGLB-Auto with effects of recurring arms, written straight down in plain NumPy.

An independent derivation for tests: θ and all effects are one vector, every matrix is dense and
summed anew over its samples, inverses and determinants are explicit. It shares no code with the
package, except the stream of random numbers for the rules that draw and for ties.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import cos, exp, inf, log1p, pi, sqrt, tanh

import numpy as np
from numpy.linalg import cholesky, inv, norm
from scipy.special import ndtri

from fedglb.kernels.philox import normals, two_normals, uniforms
from tests.plain import LINKS, _logdet

Array = np.ndarray
START, SHARE = 1 / 64, 0.01  # λ before the first update; an effect's variance over that of θ
RULES = ("Bayes", "Thompson", "OptimisticThompson")
#: s by the largest |z|
CONCORDANCE = {"logistic": lambda z: tanh(z / 2), "poisson": lambda z: 1.0, "identity": lambda z: 0}


@dataclass(frozen=True)
class Model:
    theta: Array
    effects: dict[int, float]  # u by key, of the keys that were played
    ridges: Array  # λ of each block of features
    second: float  # λ₂


@dataclass
class Outcome:
    choices: Array  # (T, N) int, -1 where the client did not act
    updates: list[tuple[int, int]]  # (t from 1, client from 0 that asked)
    models: list[Model]  # after each update


def one_of_the_best(scores: Array, seed: int, t: int, i: int) -> int:
    """The rule for ties: of the arms within rounding of the best, one is drawn."""
    best = scores.max()
    tied = np.flatnonzero(scores >= best - 1e-12 * max(1.0, abs(best)))
    return int(tied[int(uniforms(seed, t, i, 0, 2**32 - 1)[0] * len(tied))])


def student(degrees: float, *place: int) -> float:
    """Student's t by Bailey's method: Box and Muller's with another length."""
    u, v = uniforms(*place)
    return sqrt(degrees * ((1 - u) ** (-2 / degrees) - 1)) * cos(2 * pi * v)


def weight(link: str, z: Array) -> Array:
    """The slope at z, or that of the secant from 0 to z where it is steeper."""
    mean, slope = LINKS[link].mean, LINKS[link].slope
    far = np.where(np.abs(z) < 1e-3, 1.0, z)
    secant = np.where(np.abs(z) < 1e-3, 0.0, (mean(far) - mean(np.zeros(1))) / far)
    return np.maximum(slope(z), secant)


class Offers:
    """What a client has been offered: which arms have a key.

    A place is that of an arm's effect in (θ, u); -1: the arm comes too rarely to get one.
    """

    def __init__(self, d: int, m: int, ids: bool) -> None:
        self.d, self.m, self.ids = d, m, ids
        self.counts = Counter[int]()
        self.decisions, self.recurred = 0, False

    def rows(self, arms: Array, places: Array, known: Callable[[int], bool]) -> Array:
        """The arms as rows (x, e_a), or (x, 0) without a key."""
        rows = np.zeros((len(arms), self.m))
        rows[:, : self.d] = arms
        self.decisions += 1
        if not (self.ids or self.recurred or self.decisions <= 16 or self.decisions % 8 == 0):
            return rows  # while nothing recurs, one decision of eight is looked at
        for k, place in enumerate(places):
            if place < 0:
                continue
            self.counts[place] += 1
            self.recurred |= self.counts[place] >= 3
            if self.ids or self.counts[place] >= 3 or known(place):
                rows[k, place] = 1.0
        return rows


@dataclass(frozen=True)
class Score:
    """An arm's score by one of `RULES`."""

    rule: str
    link: str
    dispersion: float
    names: Array  # of effects

    def __call__(
        self, rows: Array, A: Array, centre: Array, h: Array, R: int, *place: int
    ) -> Array:
        """For the posterior of (θ, u) with precision A, weights h of effects of R known arms.

        `place` is the seed, the step and the client.
        """
        P, phi, m, t = inv(A), self.dispersion, len(centre), place[1]
        d = m - len(self.names)
        means, variances = rows @ centre, np.einsum("ki,ij,kj->k", rows, P, rows)
        if self.rule == "Bayes":
            return means + ndtri(1 - 1 / (t + 1)) * np.sqrt(phi * variances)
        optimistic, recurs = self.rule == "OptimisticThompson", rows[:, d:].any(axis=1)
        sigma = sqrt(phi) * (0.5 if optimistic and not recurs.any() else 1.0)
        unit, played = LINKS[self.link].slope(np.zeros(1))[0], h.sum()
        degrees = 1 + (R + 1) ** 2 * unit / (2 * max(played, unit)) + 4 * h / unit
        z = np.empty(d)
        normals(*place, 0, z)
        drawn = np.zeros(m)
        drawn[:d] = centre[:d] + sigma * cholesky(P[:d, :d]) @ z
        for a in d + np.flatnonzero(rows[:, d:].any(axis=0)):  # independent given θ
            at = (*place, 0, 2**31 + int(self.names[a - d]) % 2**31)
            number = student(degrees[a - d], *at) if optimistic else two_normals(*at)[0]
            shift = A[a, :d] @ (drawn[:d] - centre[:d]) / A[a, a]
            drawn[a] = centre[a] - shift + sigma * sqrt(1 / A[a, a]) * number
        if not optimistic:
            return rows @ drawn
        tops = np.full(len(rows), inf)
        if recurs.any() and played > 0:
            tops = np.sqrt(2 * np.log(np.maximum(1, played * variances)))
            for k in np.flatnonzero(recurs):
                nu = degrees[rows[k, d:].argmax()]
                tops[k] = sqrt(nu * (exp(tops[k] ** 2 / nu) - 1))
            tops = means + tops * np.sqrt(phi * variances)
        return np.minimum(np.maximum(rows @ drawn, means), tops)


@dataclass(frozen=True)
class Fit:
    """The coordinator's model: the Newton step and the ridges."""

    anchor: Array  # (θ, u)
    H: Array  # of everybody's samples, without penalty
    sizes: Array  # of blocks of features
    ridges: Array
    second: float  # λ₂
    full: bool = True  # not the end of a shortened step

    @classmethod
    def nothing(cls, d: int, m: int, blocks: tuple[int, ...] | None) -> Fit:
        sizes = np.array([d] if blocks is None else blocks)
        ridges = np.full(len(sizes), START)
        return cls(np.zeros(m), np.zeros((m, m)), sizes, ridges, START / SHARE)

    @property
    def matrix(self) -> Array:
        """The posterior's precision."""
        penalty = np.full(len(self.H), self.second)
        penalty[: sum(self.sizes)] = np.repeat(self.ridges, self.sizes)
        return self.H + np.diag(penalty)

    def known(self, place: int) -> bool:
        return bool(self.H[place, place] > 0)

    def solved(self, link: str, right: Array) -> Fit:
        """One step to the solution of matrix·(θ, u) = right."""
        d, anchor, end = sum(self.sizes), self.anchor, inv(self.matrix) @ right
        end, full = shortened(link, anchor, end, d)
        return replace(self, anchor=end, full=full)

    def updated(self, link: str, dispersion: float, H: Array, right: Array) -> Fit:
        """The next model, from the sums of all samples: right = H·anchor - gradient."""
        sizes, d, m = self.sizes, sum(self.sizes), len(H)
        old = replace(self, H=H)
        first, P = old.solved(link, right).anchor, inv(old.matrix)
        starts = np.cumsum(sizes) - sizes
        directions = sizes - self.ridges * np.add.reduceat(P.diagonal()[:d], starts)  # determined
        effects = m - d - self.second * np.trace(P[d:, d:])
        squares = np.add.reduceat(first[:d] ** 2, starts)
        ridges = dispersion * (directions + 1) / (squares + dispersion / START)
        variance, played = 1 / np.repeat(ridges, sizes), np.trace(H[d:, d:])
        prior = variance.max()  # of xᵀθ over φ: for arms of mean length, at most of length 1
        if played > 0:
            prior = min(prior, float(H.diagonal()[:d] @ variance) / played)
        squares = first[d:] @ first[d:] + SHARE * dispersion * prior
        second = dispersion * (effects + 1) / squares
        return replace(old, ridges=ridges, second=second).solved(link, right)

    def model(self, names: Array) -> Model:
        d = sum(self.sizes)
        u = {int(a): float(self.anchor[d + k]) for k, a in enumerate(names) if self.known(d + k)}
        return Model(self.anchor[:d].copy(), u, self.ridges, self.second)


def shortened(
    link: str, start: Array, end: Array, d: int, bound: float | None = None
) -> tuple[Array, bool]:
    """The end of Newton's step in (θ, u), and whether it is the full one.

    `bound` is one of |z|; None: from both ends.
    """

    def largest(v: Array) -> float:
        return float(np.abs(v[d:]).max(initial=0.0))

    reach = max(norm(v[:d]) for v in (start, end)) + max(largest(start), largest(end))
    factor = CONCORDANCE[link](reach if bound is None else bound)
    r = factor * (norm((end - start)[:d]) + largest(end - start))
    return (start + log1p(r) / r * (end - start), False) if r > 1.79 else (end, True)


def effects_of(keys: Array, d: int, ids: bool) -> tuple[Array, Array]:
    """The keys that can have an effect, and the places of all keys' effects in (θ, u)."""
    names, places, counts = np.unique(keys, return_inverse=True, return_counts=True)
    enough = counts >= (1 if ids else 3)
    place = np.where(enough, d - 1 + np.cumsum(enough), -1)
    return names[enough], place[places].reshape(keys.shape)


def weighted(link: str, samples: list[tuple[Array, float]], at: Array) -> tuple[Array, Array]:
    """The weighted matrix and the gradient of samples at a point."""
    X, y = np.array([x for x, _ in samples]).reshape(-1, len(at)), np.array([y for _, y in samples])
    z = X @ at
    return (X.T * weight(link, z)) @ X, X.T @ (LINKS[link].mean(z) - y)


def fedglb_auto(
    link: str,
    dispersion: float,
    arms: Array,
    rewards: Array,
    keys: Array,
    ids: bool = True,
    delays: Array | None = None,
    active: Array | None = None,
    seed: int = 0,
    rule: str = "Bayes",
    threshold: float = 0.1,
    blocks: tuple[int, ...] | None = None,
) -> Outcome:
    """One of `RULES`.

    `keys` (T, N, K) name the arms. They are `ids`, or else an arm has its key from its third offer
    to a client on, and where the client's model knows the key already. `blocks` are the sizes of
    blocks of features, each with a λ of its own; None: one block.
    """
    T, N, _, d = arms.shape
    names, places = effects_of(keys, d, ids)
    m = d + len(names)
    on = np.ones((T, N), bool) if active is None else active
    late = np.zeros((T, N), int) if delays is None else delays
    out = Outcome(np.full((T, N), -1), [], [])
    score, offers = Score(rule, link, dispersion, names), [Offers(d, m, ids) for _ in range(N)]
    waiting: list[list[tuple[int, Array, float]]] = [[] for _ in range(N)]
    own: list[list[tuple[Array, float]]] = [[] for _ in range(N)]  # known, since the model
    everything: list[tuple[Array, float]] = []  # known, up to the model
    fit = Fit.nothing(d, m, blocks)

    def known(i: int, place: int) -> bool:
        return fit.known(place) or any(x[place] != 0 for x, _ in own[i])

    def scores(t: int, i: int, rows: Array) -> Array:
        more, gradient = weighted(link, own[i], fit.anchor)
        h = (fit.H + more).diagonal()[d:]
        A = fit.matrix + more
        centre = fit.anchor - inv(A) @ gradient
        return score(rows, A, centre, h, np.count_nonzero(h), seed, t, i)

    def asks(i: int) -> bool:
        """By the gain of log det S, S the Schur complement of the block of θ."""
        more = weighted(link, own[i], fit.anchor)[0]
        P, Q = inv(fit.matrix)[:d, :d], inv(fit.matrix + more)[:d, :d]  # the inverses of S
        return len(own[i]) * (_logdet(P) - _logdet(Q)) >= threshold

    for t in range(1, T + 1):
        for i in range(N):
            if on[t - 1, i]:
                rows = offers[i].rows(arms[t - 1, i], places[t - 1, i], partial(known, i))
                arm = one_of_the_best(scores(t, i, rows), seed, t, i)
                out.choices[t - 1, i] = arm
                waiting[i].append((t + late[t - 1, i], rows[arm], rewards[t - 1, i, arm]))
            new = [(x, y) for due, x, y in waiting[i] if due == t]
            own[i] += new
            if new and asks(i):
                for each in own:
                    everything.extend(each)
                    each.clear()
                H, gradient = weighted(link, everything, fit.anchor)
                fit = fit.updated(link, dispersion, H, H @ fit.anchor - gradient)
                out.updates.append((t, i))
                out.models.append(fit.model(names))
    return out
