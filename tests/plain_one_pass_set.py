"""The proven set of the one-pass update, written straight down from docs/theory.md, section 10.

An independent derivation for tests, as in `tests.plain`: it shares no code with the package, and
uses explicit matrices and inverses where the package works in an eigenbasis. It starts from what
clients released, whole numbers in units of 2^-30.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf, log, sqrt

import numpy as np
from numpy.linalg import cholesky, eigh, eigvalsh, inv, norm

from tests.plain import Array, Problem
from tests.plain_mixture import kappa, phi, widening
from tests.plain_one_pass import Noise, fit, unpacked

WINDOWS = (4, 6, 8, 12, 16, 24, 32, 48, 64)


@dataclass(frozen=True)
class Given:
    """The numbers of a run; `decoder` makes prefix sums of releases, None without privacy."""

    d: int
    S: float
    skew: float
    dispersion: float
    ridge: float
    delta: float
    decoder: Array | None = None
    vector: float = 0.0  # the standard deviation of one client's share in v
    matrix: float = 0.0  # and in H


@dataclass(frozen=True)
class Release:
    clients: int
    numbers: Array


@dataclass(frozen=True)
class Window:
    """What is known of the batches i + 1, ..., b at the model after b."""

    low: Array
    most: Array  # an upper bound on what `low` is without noise
    high: Array  # eigenvalues of an upper bound on the Hessian
    eps: float
    weight: float
    error: float
    drift: float
    noise: float
    slope: Array


@dataclass(frozen=True)
class Ellipsoid:
    """|theta* - centre|_W <= rho."""

    rho: float
    centre: Array
    W: Array
    width: float
    distance: float


class OnePass:
    """Prefix sums, models and sets after each update; all clients take part in every one."""

    def __init__(self, given: Given, releases: list[Release]) -> None:
        self.given, self.b = given, len(releases)
        self.windows: dict[tuple[int, int], Window] = {}
        d = given.d
        self.P, self.U = [np.zeros((d, d))], [np.zeros(d)]
        self.factors = [np.zeros(self.b)]  # of each release in each prefix sum
        self.clients = np.array([r.clients for r in releases], dtype=float)
        self.thetas = [np.zeros(d)]
        for b in range(1, self.b + 1):
            f = np.zeros(self.b)
            f[:b] = 1.0 if given.decoder is None else given.decoder[b - 1, :b]
            parts = [unpacked(r.numbers, d) for r in releases]
            self.factors.append(f if given.decoder is not None else np.zeros(self.b))
            self.U.append(sum(f[k] * parts[k][0] for k in range(b)) / given.dispersion)
            self.P.append(sum(f[k] * parts[k][1] for k in range(b)) / given.dispersion)
            self.thetas.append(self.model(b))

    def model(self, b: int) -> Array:
        """The posterior mean, given the noise of both sums; any point of the ball would do."""
        g = self.given
        p = Problem("", g.S, 0.0, 1.0, g.ridge, g.delta)
        noise = None
        if g.decoder is not None:
            noise = Noise(g.decoder, g.decoder, g.vector, g.matrix, (-inf, inf), lambda *_: 0)
        v, H = g.dispersion * self.U[b], g.dispersion * self.P[b]
        return fit(p, g.dispersion, v, H, noise, self.clients[:b].tolist())[0]

    # -- noise

    def variance(self, i: int, j: int) -> float:
        return float(((self.factors[j] - self.factors[i]) ** 2 * self.clients).sum())

    def error(self, i: int, j: int) -> float:
        g = self.given
        if g.decoder is None:
            return 0.0
        B = len(g.decoder)
        tail = sqrt(2 * g.d) + sqrt(2 * log(4 * (B * (B + 1) / 2) / g.delta))
        return g.matrix / g.dispersion * sqrt(self.variance(i, j)) * tail

    # -- one window, and one choice of component, tau and l

    def share(self, i: int) -> float:
        g = self.given
        if g.decoder is None:
            return g.delta / 2 if i == 0 else g.delta / (2 * i * (i + 1))
        return g.delta / (2 * len(g.decoder)) * (1 / 2 if i == 0 else 1 / (2 * len(WINDOWS)))

    def window(self, i: int, b: int) -> Window:
        if (i, b) not in self.windows:
            self.windows[i, b] = self._window(i, b)
        return self.windows[i, b]

    def _window(self, i: int, b: int) -> Window:
        """What does not depend on the component, tau, l and r."""
        g, theta, batches = self.given, self.thetas[b], range(i + 1, b + 1)
        turn = {k: g.skew * norm(theta - self.thetas[k - 1]) for k in range(1, b + 1)}
        w = {k: min(exp(-turn[m]) for m in range(k, b + 1)) for k in batches}
        H = {k: self.P[k] - self.P[k - 1] for k in batches}
        excess = self.error(i, b) / w[b]
        drift, squares = 0.0, 0.0
        for k in range(i + 1, b):
            drift += (w[k + 1] - w[k]) * self.error(i, k)
            excess += (1 / w[k] - 1 / w[k + 1]) * self.error(i, k)
        for k in batches:
            u = theta - self.thetas[k - 1]
            inside = u @ H[k] @ u + self.error(k - 1, k) * (u @ u)
            squares += phi(turn[k]) ** 2 / w[k] * max(inside, 0.0)
        noise = self.variance(i, b) * (g.vector**2 + (g.matrix * g.S) ** 2)
        low = sum(w[k] * H[k] for k in batches)
        high = eigvalsh(sum(H[k] / w[k] for k in batches))
        values, vectors = eigh(low)
        above = np.maximum(values + w[b] * self.error(i, b) + drift, 0.0)
        return Window(
            low=low,
            most=vectors @ np.diag(above) @ vectors.T,
            high=np.maximum(high + excess, 0.0),
            eps=sqrt(squares),
            weight=w[b],
            error=self.error(i, b),
            drift=drift,
            noise=noise / g.dispersion**2,
            slope=(self.P[b] - self.P[i]) @ theta - (self.U[b] - self.U[i]),
        )

    def ellipsoid(self, i: int, b: int, j: int, tau: float, ell: float, r: float) -> Ellipsoid:
        g, theta, at = self.given, self.thetas[b], self.window(i, b)
        S, square, left = g.S, theta @ theta, 1 - tau
        origin, truth, weight = (g.d / S**2, 0.0, 1 / 2)
        if j > 0:
            origin, truth, weight = 0.0, 4.0 ** (j - 1), 1 / (2 * j * (j + 1))
        a = (kappa(r) - tau**2 * kappa(tau * r)) / left
        shift = ell + tau * origin - left * (at.noise + truth)
        shift -= abs(2 - a * at.weight) * at.error + a * at.drift
        W = a * at.low + shift * np.eye(g.d)
        smallest = eigvalsh(W)[0]
        if smallest <= 0:
            return Ellipsoid(inf, theta, W, inf, inf)
        u = origin + truth
        growth = widening(1 / (u + at.noise + at.high[0])) * exp(tau * r)
        B = np.log(1 + (at.noise + growth * at.high) / u).sum()
        B += 2 * log(1 / (weight * self.share(i))) + origin * (left * square + tau * S**2)
        e = at.slope + ell * theta
        move = np.linalg.solve(W, e)
        root = inv(cholesky(W))
        bent = at.eps * sqrt(max(eigvalsh(root @ at.most @ root.T)[-1], 0.0))
        inside = B / left + ell * max(S**2 - square, 0.0) + e @ move + bent**2
        rho = bent + sqrt(inside + 2 * at.eps * sqrt(move @ at.most @ move))
        width = rho * sqrt(np.trace(inv(W)))
        return Ellipsoid(rho, theta - move, W, width, norm(move) + rho / sqrt(smallest))

    # -- the search

    def smallest(self, i: int, b: int, r: float) -> tuple[Ellipsoid, float]:
        g = self.given
        start = g.ridge / g.dispersion + self.error(i, b)
        for _ in range(100):
            best, at, distance = None, (0, 0.0, start), inf
            tries = [
                (j, tau / 10, start * 4.0**p)
                for p in range(-2, 10)
                for tau in range(10)
                for j in range(61)
            ]
            skip = None
            for j, tau, ell in tries:
                if (tau, ell) == skip:
                    continue
                E = self.ellipsoid(i, b, j, tau, ell, r)
                if E.rho == inf:
                    skip = (tau, ell)
                    continue
                distance = min(distance, E.distance)
                if best is None or E.width < best.width:
                    best, at = E, (j, tau, ell)
            assert best is not None
            for move in range(12):
                for sign in (-1, 1):
                    j, tau, ell = at
                    if move % 2 == 0:
                        ell *= sqrt(2.0) ** sign
                    else:
                        tau = min(max(tau + sign * 0.05, 0.0), 0.95)
                    E = self.ellipsoid(i, b, j, tau, ell, r)
                    distance = min(distance, E.distance)
                    if E.width < best.width:
                        best, at = E, (j, tau, ell)
            if not g.skew * distance < r * (1 - 1e-3):
                return best, r
            r = g.skew * distance
        raise AssertionError("no end")

    def set(self, b: int) -> tuple[float, Array, Array]:
        """rho, centre and W of the set after b updates."""
        g = self.given
        starts = [0] + [b - size for size in WINDOWS if size < b]
        r = g.skew * (g.S + min(norm(self.thetas[b]), g.S))
        for i in starts:
            r = min(r, self.smallest(i, b, r)[1])
        out, least = (1.0, np.zeros(g.d), np.eye(g.d) / g.S**2), inf
        for i in starts:
            best, reached = self.smallest(i, b, r)
            r = min(r, reached)
            if best.width < 0.999 * least:
                out, least = (best.rho, best.centre, best.W), best.width
        return out
