"""The one-pass update and its noise, written straight down in plain NumPy and whole numbers.

An independent derivation for tests: it shares no code with the package. Sums over samples are
Python's whole numbers, inverses are explicit, and nothing is kept that a formula does not ask for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.linalg import eigh, inv, norm
from scipy.special import ndtri

from tests.plain import LINKS, Problem, _project
from tests.plain_mixture import equals, one_of

Array = np.ndarray
UNIT = 2.0**-30


@dataclass(frozen=True)
class Noise:
    """What the noise of privacy is: `draw(client, update)` are one client's m whole numbers."""

    encoder: Array  # (B, B): row b has what each batch counts in release b
    decoder: Array  # (B, B): row b has what each release counts in the sum of all batches
    vector: float  # standard deviation of one client's share, in units of v
    matrix: float
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
    seed: int,
    active: Array | None = None,
    noise: Noise | None = None,
) -> Outcome:
    """Bayes's index on the shared model; updates at the ends of `steps`."""
    (T, N, _, d), everything = arms.shape, (-np.inf, np.inf)
    on = np.ones((T, N), bool) if active is None else active
    out = Outcome(np.full((T, N), -1), [], [], [])
    theta, P = np.zeros(d), np.eye(d) / p.lam
    new: list[list[tuple[Array, float]]] = [[] for _ in range(N)]  # since the last update
    batches: list[list[list[int]]] = []  # by update and client
    totals: list[list[int]] = []  # r_b, the sum over clients
    for t in range(1, T + 1):
        for i in range(N):
            if on[t - 1, i]:
                x = arms[t - 1, i]
                variance = np.array([dispersion * (a @ P @ a) for a in x])
                score = x @ theta + ndtri(1 - 1 / (t + 1)) * np.sqrt(variance)
                arm = one_of(equals(score), seed, t, i, 0)
                out.choices[t - 1, i] = arm
                new[i].append((x[arm], float(rewards[t - 1, i, arm])))
        if t not in steps:
            continue
        b = len(batches) + 1
        limits = everything if noise is None else noise.rewards
        batches.append([sums(p.link, p.S, limits, theta, new[i]) for i in range(N)])
        new = [[] for _ in range(N)]
        # exact: entries are multiples of 2⁻³⁰
        E = [
            2**30 * (j == b - 1) if noise is None else noise.encoder[b - 1, j] * 2**30
            for j in range(b)
        ]
        D = [1.0] * b if noise is None else noise.decoder[b - 1, :b].tolist()
        assert all(each == round(each) for each in E)
        sent = []
        for i in range(N):
            exact = [
                sum(round(E[j]) * batches[j][i][k] for j in range(b))
                for k in range(len(batches[0][i]))
            ]
            release = [(each + 2**29) >> 30 for each in exact]  # floor(· + 1/2)
            if noise is not None:
                drawn = noise.draw(i, b).tolist()
                release = [a + e for a, e in zip(release, drawn, strict=True)]
            sent.append(release)
        out.releases.append(sent)
        totals.append([sum(each) for each in zip(*sent, strict=True)])
        prefix = [sum(D[j] * totals[j][k] for j in range(b)) for k in range(len(totals[0]))]
        v, H = unpacked(prefix, d)
        theta, A = fit(p, dispersion, v, H, noise, [N] * b)
        P = inv(A)
        out.thetas.append(theta)
        out.matrices.append(A)
    return out


def fit(
    p: Problem, dispersion: float, v: Array, H: Array, noise: Noise | None, present: list[int]
) -> tuple[Array, Array]:
    """θ, and the matrix A that widths are measured in; `present`: clients in each release so far.

    With noise: v = Hθ + e, where e has the covariance φH + s²I, φ the dispersion, and the prior of
    θ is N(0, φ/λ). So the posterior mean is (HVH + λI)⁻¹HVv with V = (H + s²/φ)⁻¹.
    """
    d = len(v)
    I = np.eye(d)  # noqa: E741
    if noise is None:
        A = H + p.lam * I
        return _project(inv(A) @ v, A, p.S), A
    row = noise.decoder[len(present) - 1]
    spread = sqrt(sum(row[j] ** 2 * n for j, n in enumerate(present)))
    sigma_v, sigma_H = spread * noise.vector, spread * noise.matrix
    # James and Stein: what is no multiple of the identity is shrunk as far as noise explains it
    level = max(np.trace(H) / d, sigma_H / sqrt(d))
    rest, expected = H - level * I, sigma_H**2 * d * (d + 1) / 2
    kept = 0.0 if d == 1 else max(0.0, 1.0 - expected / float(np.sum(rest**2)))
    values, Q = eigh(level * I + kept * rest)
    H = (Q * np.maximum(values, level / 10)) @ Q.T
    s2 = sigma_v**2 + sigma_H**2 * p.S**2 * (1 + 1 / d) / 2
    V = inv(H + s2 / dispersion * I)
    C = H @ V @ H + p.lam * I
    return _project(inv(C) @ H @ V @ v, C, p.S), H + p.lam * I


def distance(a: Array, b: Array) -> float:
    """The relative difference of two arrays."""
    return float(norm(a - b) / max(float(norm(b)), 1.0))
