"""The one-pass update and its noise, written straight down in plain NumPy and whole numbers.

An independent derivation for tests: it shares no code with the package. Sums over samples are
Python's whole numbers, inverses are explicit, and nothing is kept that a formula does not ask for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log, sqrt

import numpy as np
from numpy.linalg import eigh, inv, norm
from scipy.special import ndtri

from tests.plain import LINKS, Problem, _project

Array = np.ndarray
UNIT = 2.0**-30


@dataclass(frozen=True)
class Noise:
    """What the noise of privacy is: `draw(client, update)` are one client's m whole numbers."""

    weights: tuple[float, ...]
    sigma_v: float  # of one client's share, in units of v
    sigma_h: float
    rewards: tuple[float, float]
    draw: Callable[[int, int], Array]


@dataclass
class Outcome:
    choices: Array  # (T, N) int, -1 where the client did not act
    releases: list[list[list[int]]]  # by update and client: m whole numbers
    thetas: list[Array]
    matrices: list[Array]


def whole(number: float) -> int:
    """To the nearest multiple of 2⁻³⁰, in units of that."""
    return round(float(number) * 2**30)


def sums(link: str, S: float, rewards: tuple[float, float], theta: Array, samples) -> list[int]:
    """Σ (v, triangle of H) over (x, y); each sample is rounded by itself."""
    mu, slope = LINKS[link].mean, LINKS[link].slope
    d = len(theta)
    total = [0] * (d + d * (d + 1) // 2)
    for x, y in samples:
        z = min(max(float(x @ theta), -S), S)
        w = float(slope(np.float64(z)))
        v = x * (min(max(y, rewards[0]), rewards[1]) - float(mu(np.float64(z))) + w * z)
        H = w * np.outer(x, x)
        row = [*v] + [H[i, j] * (1 if i == j else sqrt(2)) for i in range(d) for j in range(i + 1)]
        total = [a + whole(b) for a, b in zip(total, row, strict=True)]
    return total


def unpacked(numbers: list[float], d: int) -> tuple[Array, Array]:
    """v and H of real numbers in units of 2⁻³⁰."""
    v, H, k = np.array(numbers[:d]) * UNIT, np.zeros((d, d)), d
    for i in range(d):
        for j in range(i + 1):
            H[i, j] = H[j, i] = numbers[k] * UNIT * (1 if i == j else sqrt(0.5))
            k += 1
    return v, H


def one_pass(
    p: Problem,
    dispersion: float,
    arms: Array,
    rewards: Array,
    steps: set[int],
    active: Array | None = None,
    noise: Noise | None = None,
) -> Outcome:
    """Bayes's index on the shared model; updates at the ends of `steps`."""
    (T, N, _, d), everything = arms.shape, (-np.inf, np.inf)
    on = np.ones((T, N), bool) if active is None else active
    out = Outcome(np.full((T, N), -1), [], [], [])
    theta, P, s2 = np.zeros(d), np.eye(d) / p.lam, 0.0
    new: list[list[tuple[Array, float]]] = [[] for _ in range(N)]  # since the last update
    batches: list[list[list[int]]] = []  # by update and client
    totals: list[list[int]] = []  # r_b, the sum over clients
    for t in range(1, T + 1):
        for i in range(N):
            if on[t - 1, i]:
                x = arms[t - 1, i]
                variance = np.array([dispersion * (a @ P @ a) + s2 * (P @ a) @ (P @ a) for a in x])
                score = x @ theta + ndtri(1 - 1 / (t + 1)) * np.sqrt(variance)
                arm = int(np.flatnonzero(score >= score.max() - 1e-12)[0])
                out.choices[t - 1, i] = arm
                new[i].append((x[arm], float(rewards[t - 1, i, arm])))
        if t not in steps:
            continue
        b = len(batches) + 1
        limits = everything if noise is None else noise.rewards
        batches.append([sums(p.link, p.S, limits, theta, new[i]) for i in range(N)])
        new = [[] for _ in range(N)]
        f = [1.0] + [0.0] * b if noise is None else list(noise.weights)
        F = [round(each * 2**30) for each in f]  # exact: they are multiples of 2⁻³⁰
        sent = []
        for i in range(N):
            exact = [
                sum(F[b - 1 - j] * batches[j][i][k] for j in range(b))
                for k in range(len(batches[0][i]))
            ]
            release = [(each + 2**29) >> 30 for each in exact]  # floor(· + 1/2)
            if noise is not None:
                drawn = noise.draw(i, b).tolist()
                release = [a + e for a, e in zip(release, drawn, strict=True)]
            sent.append(release)
        out.releases.append(sent)
        totals.append([sum(each) for each in zip(*sent, strict=True)])
        if noise is None:
            prefix = [float(sum(each)) for each in zip(*totals, strict=True)]
        else:
            prefix = [
                sum(f[b - 1 - j] * totals[j][k] for j in range(b)) for k in range(len(totals[0]))
            ]
        v, H = unpacked(prefix, d)
        theta, A, s2 = fit(p, v, H, noise, b, N)
        P = inv(A)
        out.thetas.append(theta)
        out.matrices.append(A)
    return out


def fit(
    p: Problem, v: Array, H: Array, noise: Noise | None, b: int, N: int
) -> tuple[Array, Array, float]:
    """θ, A, and the variance that noise has in the sums behind θ."""
    d = len(v)
    if noise is None:
        A = H + p.lam * np.eye(d)
        return _project(inv(A) @ v, A, p.S), A, 0.0
    spread = sqrt(N * sum(each**2 for each in noise.weights[:b]))
    sigma_v, sigma_h = spread * noise.sigma_v, spread * noise.sigma_h
    kappa = sigma_h * (sqrt(2 * d) + sqrt(2 * log(6 * b * (b + 1) / p.delta)))
    values, Q = eigh(H + (p.lam + kappa) * np.eye(d))
    A = (Q * np.maximum(values, p.lam + kappa / 10)) @ Q.T
    return _project(inv(A) @ v, A, p.S), A, sigma_v**2 + kappa**2 * p.S**2 / d


def distance(a: Array, b: Array) -> float:
    """The relative difference of two arrays."""
    return float(norm(a - b) / max(float(norm(b)), 1.0))
