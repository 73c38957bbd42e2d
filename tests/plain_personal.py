"""FedGLB-Personal, written straight down in plain NumPy from docs/theory.md, section 7.13.

An independent derivation for tests, as `tests.plain_effects`: θ and all effects are one vector, and
an arrow is its dense matrix M and right side, of which the solution is the mean.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, log, sqrt

import numpy as np
from numpy.linalg import eigh, inv, norm, solve
from scipy.special import logsumexp

from tests.plain import _logdet
from tests.plain_effects import (
    Array,
    Fit,
    Offers,
    Score,
    effects_of,
    one_of_the_best,
    shortened,
    weighted,
)

ALONE = (4.0, 1.0, 1 / 4, 1 / 16)  # g
KNOWN = 1e-6  # of V̄'s largest eigenvalue: smaller ones say nothing


@dataclass(frozen=True)
class Spread:
    """The spread of the shared model, in units of the dispersion."""

    tau2: float = 0.0  # of θ beside the directions
    effects: float = 0.0  # τ_e²
    directions: Array | float = 0.0  # F

    def matrix(self, d: int) -> Array:
        return self.tau2 * np.eye(d) + self.directions


@dataclass(frozen=True)
class Statistics:
    """What a client says at its next update of its last adoption: s, f and a flag, twice."""

    theta: tuple[float, float, bool] = (0.0, 0.0, False)
    effects: tuple[float, float, bool] = (0.0, 0.0, False)
    residual: Array | None = None  # rrᵀ/φ
    V: Array | None = None


@dataclass
class Outcome:
    choices: Array  # (T, N) int, -1 where the client did not act
    updates: list[tuple[int, int]]  # (t from 1, client from 0 that asked)
    fits: list[Fit]  # after each update
    spreads: list[Spread]
    alone: list[list[bool]]  # for each client, after each update
    wider_effects: list[list[float]]
    kappas: list[list[float]]  # κ of each client, after each update
    accepted: list[tuple[float, bool]]  # τ² that were taken, in standard errors; whether τ² was 0
    margins: list[float]  # how near decisions were to their thresholds


def eliminated(M: Array, right: Array, d: int) -> tuple[Array, Array]:
    """S and q: effects without samples and prior are nothing."""
    there = np.flatnonzero(M.diagonal()[d:] > 0) + d
    B = M[:d, there] / M.diagonal()[there]
    return M[:d, :d] - B @ M[there, :d], right[:d] - B @ right[there]


def assembled(S: Array, q: Array, rows: dict[int, tuple[float, Array, float]], m: int):
    """The matrix and the right side of S, q and, by place, D, b and f."""
    d = len(q)
    M, right = np.zeros((m, m)), np.zeros(m)
    M[:d, :d], right[:d] = S, q
    for a, (D, b, f) in rows.items():
        M[a, a], M[:d, a], M[a, :d], right[a] = D, b, b, f
        M[:d, :d] += np.outer(b, b) / D
        right[:d] += b * f / D
    return M, right


def spread(M: Array, right: Array, T: Array, effects: float) -> tuple[Array, Array]:
    """Lemma T: the arrow with the law of each pair (θ, u_a), once T and τ_e² are added to it."""
    m, d = len(M), len(T)
    S, q = eliminated(M, right, d)
    rows = {}
    for a in np.flatnonzero(M.diagonal()[d:] > 0) + d:
        K, k, more = np.zeros((d + 1, d + 1)), np.zeros(d + 1), np.zeros((d + 1, d + 1))
        D, b, f = M[a, a], M[a, :d], right[a]
        K[:d, :d], K[:d, d], K[d, :d], K[d, d] = S + np.outer(b, b) / D, b, b, D
        k[:d], k[d] = q + b * f / D, f
        more[:d, :d], more[d, d] = T, effects  # added to the pair's covariance
        K, k = (solve(np.eye(d + 1) + K @ more, each) for each in (K, k))
        rows[int(a)] = K[d, d], (K[:d, d] + K[d, :d]) / 2, k[d]
    outer = np.eye(d) + S @ T
    return assembled(solve(outer, S), solve(outer, q), rows, m)


def schur(M: Array, d: int) -> Array:
    return eliminated(M, np.zeros(len(M)), d)[0]


def evidence(S: Array, q: Array, C: Array, mean: Array, phi: float) -> float:
    """log of the marginal likelihood of θ ~ N(mean, φC), up to a constant."""
    a, inner = q - S @ mean, np.eye(len(q)) + S @ C
    value = q @ mean - 0.5 * mean @ S @ mean + 0.5 * a @ C @ solve(inner, a)
    return float(value / phi - 0.5 * _logdet(inner))


def scores_of_theta(S: Array, q: Array, C: Array, mean: Array, phi: float):
    """s, f, rrᵀ/φ and V."""
    inner = np.eye(len(q)) + S @ C
    V, r = solve(inner, S), solve(inner, q - S @ mean)
    return r @ r / phi - np.trace(V), np.trace(V @ V), np.outer(r, r) / phi, V


def kappa_of(T: Array, mean: Array, phi: float) -> float:
    """κ: clients have less in common than they differ."""
    differ = len(T) * phi * (mean @ T @ mean)
    return max(0.0, 1 - ((mean @ mean) ** 2 / differ) ** 2) if differ > 0 else 0.0


@dataclass
class Client:
    """A client's posterior, since its last adoption."""

    link: str
    phi: float
    d: int
    centre: Array  # (θ_i, u_i), where later samples are linearised
    M: Array  # the posterior's precision at the adoption
    second: float  # λ₂'
    enough: float  # what learning alone has to gain in log evidence
    samples: list[tuple[Array, float]] = field(default_factory=list)
    before: int = 0  # samples in the model
    T: Array | None = None  # T_i, τ_i²
    effects: float = 0.0
    alone: float = 0.0  # g
    kappa: float = 0.0
    wider_effects: float = 0.0
    statistics: Statistics = field(default_factory=Statistics)

    def __post_init__(self) -> None:
        m = len(self.M)
        self.T = np.zeros((self.d, self.d))
        self.anchor = np.zeros(m)  # of the samples that were sent
        self.own = self.sent = self.said = np.zeros((m, m)), np.zeros(m)
        self.unguarded = np.zeros(self.d)

    @property
    def new(self) -> list[tuple[Array, float]]:
        return self.samples[self.before :]

    def now(self) -> tuple[Array, Array]:
        """The posterior's precision and mean."""
        more, gradient = weighted(self.link, self.new, self.centre)
        return self.M + more, self.centre - inv(self.M + more) @ gradient

    def has(self, place: int) -> bool:
        return any(x[place] != 0 for x, _ in self.samples)

    def gain(self, shared: Fit, T: Array) -> float:
        """Of log det Q by the samples since the adoption, or of the client's own log det S."""
        d = self.d
        before, after = schur(self.M, d), schur(self.now()[0], d)
        if not self.T.any() and self.effects == 0:
            return _logdet(after) - _logdet(before)
        S, P = schur(self.own[0], d), schur(shared.matrix, d)
        then, now = (solve(np.eye(d) + S @ self.T, S) for S in (S, S + after - before))
        Q = P + P @ T @ P
        return _logdet(Q + now - then) - _logdet(Q)

    def sums(self, shared: Fit) -> tuple[Array, Array]:
        """What the client sends: its arrow at its own anchor, spread."""
        d, base, (A, present) = self.d, shared.anchor, self.now()
        step = present - base
        reach = 8 + norm(base[:d])
        if norm(step[:d]) > reach:  # effects are those given θ
            step[:d] *= reach / norm(step[:d])
            step[d:] -= A[d:, :d] @ (base + step - present)[:d] / A.diagonal()[d:]
        reach = 8 + np.abs(base[d:]).max(initial=0.0)
        step[d:] = np.clip(step[d:], -reach, reach) * [self.has(a) for a in range(d, len(base))]
        self.anchor, self.before = base + step, len(self.samples)
        M, gradient = weighted(self.link, self.samples, self.anchor)
        self.own = M, M @ self.anchor - gradient
        self.said = self.own
        if self.alone or self.wider_effects:
            shared = [base[a] * self.has(a) for a in range(d, len(base))]
            at = np.r_[self.unguarded, shared]
            M, gradient = weighted(self.link, self.samples, at)
            self.said = M, M @ at - gradient
        self.sent = spread(*self.own, self.T, self.effects)
        return self.sent

    def adopt(self, shared: Fit, beside: Spread, margins: list[float]) -> None:
        d, m, phi = self.d, len(self.M), self.phi
        M, right = shared.matrix - self.sent[0], shared.matrix @ shared.anchor - self.sent[1]
        S, q = eliminated(*self.said, d)
        if np.trace(S) <= 1e-10 * np.trace(self.said[0][:d, :d]):
            S, q = 0 * S, 0 * q  # effects explain everything, but for rounding
        others, weighed = eliminated(M, right, d)
        C0 = inv(others)
        mean, T = C0 @ weighed, beside.matrix(d)
        counts = self.before > 0 and shared.full
        self.statistics = Statistics()
        if counts:
            s, f, residual, V = scores_of_theta(S, q, C0 + T, mean, phi)
            C = C0 + T
            self.unguarded = mean + C @ solve(np.eye(d) + S @ C, q - S @ mean)
            margins += [abs(s * s / (4 * f) - 1)] if f > 0 else []
            self.alone = 0.0
            if s > 0 and s * s > 4 * f:
                now = evidence(S, q, C, mean, phi)
                zero = np.zeros(d)
                self.alone = self.chosen(
                    [evidence(S, q, g * np.eye(d), zero, phi) - now for g in ALONE], margins
                )
            theta = s, f, self.alone > 0
        self.T = T + (4.0 if self.alone else 0.0) * np.eye(d)
        self.kappa = 0.0 if self.alone else kappa_of(T, mean, phi)
        prior = inv(C0 + self.T + self.kappa * (T + d * np.outer(mean, mean) / phi))  # Π
        if self.alone:
            prior, mean = np.eye(d) / self.alone, np.zeros(d)
        if counts:
            C = inv(prior + S)
            law = C @ (prior @ mean + q), C
            s, f = self.adopt_effects(M, right, *law, shared.second, beside.effects, margins)
            effects = s, f, self.wider_effects > 0
            self.statistics = Statistics(theta, effects, residual, V)
        self.effects = beside.effects + self.wider_effects
        self.second = 1 / (1 / shared.second + self.effects)

        M, right = spread(M, right, self.T, self.effects)
        S, q = eliminated(M, right, d)
        M[:d, :d] += prior - S
        right[:d] += prior @ mean - q
        self.M = M + self.own[0]
        end = solve(self.M, right + self.own[1])
        played = np.r_[np.ones(d, bool), [self.has(a) for a in range(d, m)]]
        start = np.where(played, self.anchor, end)
        centre = shortened(self.link, start, end, d, inf)[0] if self.before else end
        given = end[d:] - self.M[d:, :d] @ (centre - end)[:d] / self.M.diagonal()[d:]
        self.centre = np.where(played, centre, np.r_[centre[:d], given])  # others follow θ

    def adopt_effects(self, M, right, theta, C, second, tau2, margins) -> tuple[float, float]:
        """Effects' statistics, given the law of θ, and their guard."""
        d, (own, own_right) = self.d, self.said
        M2, right2 = spread(M, right, self.T, tau2)
        error, var = [], []
        for a in range(d, len(M)):
            if own[a, a] > 0 and M[a, a] > 1.001 * second:
                h, D = own[a, a], M2[a, a]
                apart = own[a, :d] / h - M2[a, :d] / D
                error.append(own_right[a] / h - right2[a] / D - apart @ theta)
                var.append(1 / h + 1 / D + apart @ C @ apart)
        e2, w = np.square(error) / self.phi, np.array(var)
        s, f = float(np.sum((e2 / w - 1) / w)), float(np.sum(1 / w**2))
        self.wider_effects = 0.0
        margins += [abs(s * s / (4 * f) - 1)] if f > 0 else []
        if s > 0 and s * s > 4 * f:
            fits = [-0.5 * np.sum(np.log(w + g) + e2 / (w + g)) for g in (0.0, *ALONE)]
            self.wider_effects = self.chosen([each - fits[0] for each in fits[1:]], margins)
        return s, f

    def chosen(self, gains: list[float], margins: list[float]) -> float:
        """g, or 0 if all together gain too little."""
        gain = logsumexp(gains) - log(len(gains))
        margins.append(abs(gain - self.enough))
        return ALONE[int(np.argmax(gains))] if gain > self.enough else 0.0


def counted(said: list[tuple[float, float, bool]]) -> list[int]:
    """The clients whose statistics count."""
    there = [i for i, (_, f, _) in enumerate(said) if f > 0]
    flagged = [i for i in there if said[i][2]]
    return [i for i in there if i not in flagged] if 5 * len(flagged) <= len(said) else there


def pooled(said: list[tuple[float, float, bool]], tau2: float, out: Outcome) -> float:
    """The new τ²."""
    among = [said[i] for i in counted(said)]
    if not among:
        return tau2
    s, f = sum(each[0] for each in among), sum(each[1] for each in among)
    return limited(tau2 + s / f, f, tau2, len(said), out)


def limited(value: float, f: float, tau2: float, N: int, out: Outcome) -> float:
    errors, limit = value / sqrt(2 / f), min(1.0, log(N) / log(50)) + 1.5 * (tau2 == 0)
    out.margins.append(abs(errors - limit))
    if errors <= limit:
        return 0.0
    out.accepted.append((errors, tau2 == 0))
    return value


def pooled_with_directions(
    said: list[Statistics], tau2: float, F: Array | float, out: Outcome
) -> tuple[float, Array | float]:
    """The new τ² and F."""
    counts = counted([each.theta for each in said])
    f = np.array([said[i].theta[1] for i in counts])
    E = np.mean([said[i].residual for i in counts], axis=0)
    V = np.mean([said[i].V for i in counts], axis=0)
    values, axes = eigh(V)
    axes = axes[:, values > KNOWN * values[-1]]  # coordinates of which samples say something
    old, F = np.linalg.matrix_rank(F, 1e-9), axes.T @ (F + np.zeros(V.shape)) @ axes
    E, V = axes.T @ E @ axes, axes.T @ V @ axes
    d, n = len(V), max(2.0, np.sqrt(f).sum() ** 2 / f.sum())
    gamma = d / n
    half = root(V)
    N = half @ root(np.eye(d) - half @ F @ half, 0.01)
    N = N @ N.T
    whole = root(N)
    ells, e = (each[..., ::-1] for each in eigh(inv(whole) @ E @ inv(whole)))
    edge, F, k = sqrt(n - 1) + sqrt(d), np.zeros((d, d)), 0
    for ell, column in zip(ells, e.T, strict=True):
        limit = edge**2 / n
        if k >= old:
            limit += 3.3 * edge / n * (1 / sqrt(n - 1) + 1 / sqrt(d)) ** (1 / 3)
        out.margins.append(abs(ell / limit - 1))
        if ell <= limit:
            break
        gap = ell - 1 - gamma
        size = (gap + sqrt(max(gap * gap - 4 * gamma, 0.0))) / 2
        direction = inv(V) @ whole @ column
        F += size * np.outer(direction, direction)
        k += 1
    F = axes @ F @ axes.T
    if k == d:
        return tau2, F
    rest = e[:, k:].T @ N @ e[:, k:]
    s = len(f) * np.sum((ells[k:] - 1) * rest.diagonal())
    value = tau2 + s / (f.sum() * np.sum(rest**2) / np.sum(V**2))
    return limited(value, f.sum(), tau2, len(said), out), F


def root(A: Array, least: float = 0.0) -> Array:
    """The symmetric root of a matrix, of which eigenvalues are at least a number."""
    values, vectors = eigh(A)
    return (vectors * np.sqrt(np.maximum(values, least))) @ vectors.T


def fedglb_personal(
    link: str,
    dispersion: float,
    arms: Array,
    rewards: Array,
    keys: Array,
    ids: bool = True,
    delays: Array | None = None,
    active: Array | None = None,
    seed: int = 0,
    rule: str = "OptimisticThompson",
    threshold: float = 0.1,
    blocks: tuple[int, ...] | None = None,
    spikes: bool = False,
) -> Outcome:
    """As `tests.plain_effects.fedglb_auto`."""
    T, N, _, d = arms.shape
    names, places = effects_of(keys, d, ids)
    m = d + len(names)
    on = np.ones((T, N), bool) if active is None else active
    late = np.zeros((T, N), int) if delays is None else delays
    out = Outcome(np.full((T, N), -1), [], [], [], [], [], [], [], [])
    score, offers = Score(rule, link, dispersion, names), [Offers(d, m, ids) for _ in range(N)]
    fit, beside = Fit.nothing(d, m, blocks), Spread()
    enough = log(1 / min(1 / 8, 1.5 / N) - 1)
    clients = [
        Client(link, dispersion, d, np.zeros(m), fit.matrix, fit.second, enough) for _ in range(N)
    ]
    waiting: list[list[tuple[int, Array, float]]] = [[] for _ in range(N)]

    def update() -> None:
        nonlocal fit, beside
        said = [c.statistics for c in clients]
        sent = [c.sums(fit) for c in clients]
        fit = fit.updated(link, dispersion, sum(M for M, _ in sent), sum(r for _, r in sent))
        tau2, F = beside.tau2, beside.directions
        theta = [each.theta for each in said]
        if spikes and counted(theta):
            tau2, F = pooled_with_directions(said, tau2, F, out)
        else:
            tau2 = pooled(theta, tau2, out)
        effects = pooled([each.effects for each in said], beside.effects, out)
        beside = Spread(tau2, effects, F)
        for c in clients:
            c.adopt(fit, beside, out.margins)
        out.fits.append(fit)
        out.spreads.append(beside)
        out.alone.append([c.alone > 0 for c in clients])
        out.wider_effects.append([c.wider_effects for c in clients])
        out.kappas.append([c.kappa for c in clients])

    for t in range(1, T + 1):
        for i, client in enumerate(clients):
            if on[t - 1, i]:
                rows = offers[i].rows(
                    arms[t - 1, i], places[t - 1, i], lambda a, c=client: fit.known(a) or c.has(a)
                )
                A, centre = client.now()
                h = np.maximum(A.diagonal()[d:] - client.second, 0)
                there = [fit.known(a) or client.has(a) for a in range(d, m)]
                values = score(rows, A, centre, h * there, sum(there), seed, t, i)
                arm = one_of_the_best(values, seed, t, i)
                out.choices[t - 1, i] = arm
                waiting[i].append((t + late[t - 1, i], rows[arm], rewards[t - 1, i, arm]))
            new = [(x, y) for due, x, y in waiting[i] if due == t]
            client.samples += new
            if not new:
                continue
            since = len(client.new)
            clocked = since * client.gain(fit, beside.matrix(d))
            out.margins.append(abs(clocked / threshold - 1))
            if clocked >= threshold or since >= 4 + client.before / 2:
                out.updates.append((t, i))
                update()
    return out
