"""FedGLB-Auto with effects of recurring arms, written straight down in plain NumPy.

An independent derivation for tests: θ and all effects are one vector, every matrix is dense and
summed anew over its samples, inverses and determinants are explicit. It shares no code with the
package, except the stream of random numbers for the rules that draw and for ties.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
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
    mean, phi = LINKS[link].mean, dispersion
    T, N, K, d = arms.shape
    names, places = np.unique(keys, return_inverse=True)
    places = d + places.reshape(keys.shape)  # of an arm's effect in the vector (θ, u)
    m = d + len(names)
    on = np.ones((T, N), bool) if active is None else active
    late = np.zeros((T, N), int) if delays is None else delays
    out = Outcome(np.full((T, N), -1), [], [])
    offers = [Counter[int]() for _ in range(N)]
    decisions, recurred = np.zeros(N, int), np.zeros(N, bool)
    waiting: list[list[tuple[int, Array, float]]] = [[] for _ in range(N)]
    own: list[list[tuple[Array, float]]] = [[] for _ in range(N)]  # known, since the model
    everything: list[tuple[Array, float]] = []  # known, up to the model
    sizes = np.array([d] if blocks is None else blocks)
    starts = np.cumsum(sizes) - sizes
    anchor, H = np.zeros(m), np.zeros((m, m))
    ridges, second = np.full(len(sizes), START), START / SHARE

    def penalty() -> Array:
        return np.diag(np.r_[np.repeat(ridges, sizes), np.full(m - d, second)])

    def sums(samples: list[tuple[Array, float]]) -> tuple[Array, Array]:
        """The weighted matrix and the gradient of samples at the anchor."""
        X, y = np.array([x for x, _ in samples]).reshape(-1, m), np.array([y for _, y in samples])
        z = X @ anchor
        return (X.T * weight(link, z)) @ X, X.T @ (mean(z) - y)

    def known(i: int, place: int) -> bool:
        return H[place, place] > 0 or any(x[place] != 0 for x, _ in own[i])

    def offered(t: int, i: int) -> Array:
        """The arms as rows (x, e_a), or (x, 0) without a key."""
        rows = np.zeros((K, m))
        rows[:, :d] = arms[t - 1, i]
        decisions[i] += 1
        if not (ids or recurred[i] or decisions[i] <= 16 or decisions[i] % 8 == 0):
            return rows  # while nothing recurs, one decision of eight is looked at
        for k, place in enumerate(places[t - 1, i]):
            offers[i][place] += 1
            recurred[i] |= offers[i][place] >= 3
            if ids or offers[i][place] >= 3 or known(i, place):
                rows[k, place] = 1.0
        return rows

    def scores(t: int, i: int, rows: Array) -> Array:
        more, gradient = sums(own[i])
        A = H + penalty() + more
        P = inv(A)
        centre = anchor - P @ gradient
        means, variances = rows @ centre, np.einsum("ki,ij,kj->k", rows, P, rows)
        if rule == "Bayes":
            return means + ndtri(1 - 1 / (t + 1)) * np.sqrt(phi * variances)
        optimistic, recurs = rule == "OptimisticThompson", rows[:, d:].any(axis=1)
        sigma = sqrt(phi) * (0.5 if optimistic and not recurs.any() else 1.0)
        h, unit = (H + more).diagonal()[d:], LINKS[link].slope(np.zeros(1))[0]
        played = h.sum()
        share = (np.count_nonzero(h) + 1) ** 2 * unit / (2 * max(played, unit))
        degrees = 1 + share + 4 * h / unit
        z = np.empty(d)
        normals(seed, t, i, 0, z)
        drawn = np.zeros(m)
        drawn[:d] = centre[:d] + sigma * cholesky(P[:d, :d]) @ z
        for place in d + np.flatnonzero(rows[:, d:].any(axis=0)):  # independent given θ
            at = (seed, t, i, 0, 2**31 + int(names[place - d]) % 2**31)
            number = student(degrees[place - d], *at) if optimistic else two_normals(*at)[0]
            shift = A[place, :d] @ (drawn[:d] - centre[:d]) / A[place, place]
            drawn[place] = centre[place] - shift + sigma * sqrt(1 / A[place, place]) * number
        if not optimistic:
            return rows @ drawn
        tops = np.full(K, inf)
        if recurs.any() and played > 0:
            tops = np.sqrt(2 * np.log(np.maximum(1, played * variances)))
            for k in np.flatnonzero(recurs):
                nu = degrees[rows[k, d:].argmax()]
                tops[k] = sqrt(nu * (exp(tops[k] ** 2 / nu) - 1))
            tops = means + tops * np.sqrt(phi * variances)
        return np.minimum(np.maximum(rows @ drawn, means), tops)

    def asks(i: int) -> bool:
        """By the gain of log det S, S the Schur complement of the block of θ."""
        before = H + penalty()
        P, Q = inv(before)[:d, :d], inv(before + sums(own[i])[0])[:d, :d]  # the inverses of S
        return len(own[i]) * (_logdet(P) - _logdet(Q)) >= threshold

    def update(t: int, i: int) -> None:
        nonlocal anchor, H, ridges, second
        for each in own:
            everything.extend(each)
            each.clear()
        H, gradient = sums(everything)

        def solved() -> Array:
            end = inv(H + penalty()) @ (H @ anchor - gradient)
            reach = max(norm(v[:d]) for v in (anchor, end)) + np.abs([anchor, end])[:, d:].max()
            moved = norm((end - anchor)[:d]) + np.abs((end - anchor)[d:]).max()
            r = CONCORDANCE[link](reach) * moved
            return anchor + (log1p(r) / r if r > 1.79 else 1.0) * (end - anchor)

        first, P = solved(), inv(H + penalty())
        directions = sizes - ridges * np.add.reduceat(P.diagonal()[:d], starts)  # determined
        effects = m - d - second * np.trace(P[d:, d:])
        squares = np.add.reduceat(first[:d] ** 2, starts)
        ridges = phi * (directions + 1) / (squares + phi / START)
        variance, played = 1 / np.repeat(ridges, sizes), np.trace(H[d:, d:])
        prior = variance.max()  # of xᵀθ over φ: for arms of mean length, at most of length 1
        if played > 0:
            prior = min(prior, float(H.diagonal()[:d] @ variance) / played)
        second = phi * (effects + 1) / (first[d:] @ first[d:] + SHARE * phi * prior)
        anchor = solved()
        out.updates.append((t, i))
        u = {int(names[a]): float(anchor[d + a]) for a in range(m - d) if H[d + a, d + a] > 0}
        out.models.append(Model(anchor[:d].copy(), u, ridges, second))

    for t in range(1, T + 1):
        for i in range(N):
            if on[t - 1, i]:
                rows = offered(t, i)
                arm = one_of_the_best(scores(t, i, rows), seed, t, i)
                out.choices[t - 1, i] = arm
                waiting[i].append((t + late[t - 1, i], rows[arm], rewards[t - 1, i, arm]))
            new = [(x, y) for due, x, y in waiting[i] if due == t]
            own[i] += new
            if new and asks(i):
                update(t, i)
    return out
