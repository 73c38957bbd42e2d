"""The algorithms, each written straight down in one plain NumPy function.

An independent derivation with explicit inverses and determinants, for tests: it shares no code
with the package and keeps no incremental state that a formula does not ask for. "Lemma ..." names
the radius, "erratum n" the slip of the paper (in the documentation's numbering) that a line avoids.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf, log, sqrt
from typing import NamedTuple

import numpy as np
from numpy.linalg import eigh, inv, norm, slogdet
from scipy.optimize import brentq
from scipy.special import expit, ndtr

Array = np.ndarray


@dataclass(frozen=True)
class Problem:
    link: str  # "logistic" | "poisson" | "identity" | "probit"
    S: float  # radius of the ball that holds theta*
    R: float  # noise bound
    c: float  # curvature c_mu, a given number
    lam: float
    delta: float
    exploration: float = 1.0  # multiplies a lemma's radius, never a fixed one


@dataclass
class Outcome:
    choices: Array  # (T, N) int, -1 where the client did not act
    alphas: Array  # (T, N) radius used, exploration included, nan where the client did not act
    syncs: list[tuple[int, int]]  # (t from 1, client from 0 that triggered, -1 for a schedule)
    thetas: list[Array]  # the global model after each sync
    transfers: Array | None = None  # (T,) up and down, to the end of each step; None: not counted


# ------------------------------------------------------------------------------------- helpers


class Link(NamedTuple):
    cumulant: Callable[[Array], Array]  # m, the loss is m(z) - y z
    mean: Callable[[Array], Array]  # mu = m'
    slope: Callable[[Array], Array]  # mu'


def _phi(z: Array) -> Array:
    return np.exp(-0.5 * np.square(z)) / sqrt(2 * np.pi)


LINKS = {
    "logistic": Link(lambda z: np.logaddexp(0.0, z), expit, lambda z: expit(z) * expit(-z)),
    "poisson": Link(np.exp, np.exp, np.exp),
    "identity": Link(lambda z: 0.5 * np.square(z), lambda z: 1.0 * z, np.ones_like),
    "probit": Link(lambda z: z * ndtr(z) + _phi(z), ndtr, _phi),
}


def _logdet(A: Array) -> float:
    return float(slogdet(A)[1])


def _growth(A: Array, before: Array) -> float:
    """log(det A / det before), at least 0 in exact arithmetic and so here."""
    return max(0.0, _logdet(A) - _logdet(before))


def _blank(arms: Array, active: Array | None) -> tuple[Array, Outcome]:
    """Who acts when, and an outcome with nothing in it."""
    T, N = arms.shape[:2]
    on = np.ones((T, N), bool) if active is None else np.asarray(active, bool)
    return on, Outcome(np.full((T, N), -1), np.full((T, N), np.nan), [], [])


def _schedule(T: int, updates: int) -> frozenset[int]:
    """The steps t (from 1) at whose end a global update happens: exactly `updates` of them."""
    if not 1 <= updates <= T:
        raise ValueError("1 <= updates <= T")
    return frozenset(k * (T // updates) for k in range(1, updates + 1))


def _choose(x: Array, centre: Array, A_inv: Array, alpha: float) -> int:
    """The lowest index whose score is within rounding of the best."""
    width = np.sqrt(np.maximum(np.einsum("kd,de,ke->k", x, A_inv, x), 0.0))
    score = x @ centre + alpha * width
    best = score.max()
    return int(np.flatnonzero(score >= best - 1e-12 * max(1.0, abs(best)))[0])


def _multiplier(
    point: Callable[[float], Array], S: float, high: float, scale: float, tol: float
) -> float:
    """The nu in [0, high] with |point(nu)| = S to tol (nu + scale); |point(nu)| falls with nu."""

    def excess(nu: float) -> float:
        return 1 / S - 1 / float(norm(point(nu)))  # nearly linear in nu

    if excess(0.0) <= 0.0:
        return 0.0
    return brentq(excess, 0.0, high, xtol=tol * scale, rtol=tol, maxiter=1000)


def _project(theta: Array, A: Array, S: float) -> Array:
    """argmin of |v - theta|_A over the ball |v| <= S: (A + nu I) v = A theta, |v| = S."""
    if norm(theta) <= S:
        return theta
    values, Q = eigh(A)
    w = values * (Q.T @ theta)  # A theta in the eigenbasis; |v| <= |A theta| / nu bounds nu
    nu = _multiplier(lambda nu: w / (values + nu), S, 2 * norm(w) / S, values[0], 1e-15)
    v = Q @ (w / (values + nu))
    return v * (S / norm(v))


def _newton(link: Link, X: Array, y: Array, ridge: float, theta: Array) -> Array:
    """The minimiser of sum m(x'theta) - y x'theta + (ridge/2) |theta|^2, by damped Newton steps."""

    def loss(v: Array) -> float:
        z = X @ v
        with np.errstate(over="ignore"):  # Poisson: an infinite loss halves the step
            return float(np.sum(link.cumulant(z) - y * z) + 0.5 * ridge * (v @ v))

    for _ in range(200):
        z = X @ theta
        g = X.T @ (link.mean(z) - y) + ridge * theta
        H = (X.T * link.slope(z)) @ X + ridge * np.eye(len(theta))
        step = inv(H) @ g
        size, value = 1.0, loss(theta)
        while loss(theta - size * step) > value + 1e-12 * max(1.0, abs(value)):
            size /= 2
        theta = theta - size * step
        if norm(size * step) <= 1e-10 * max(1.0, float(norm(theta))):
            break  # the next step is at most of the order of this one's square: below rounding
    return theta


def _fit(p: Problem, X: Array, y: Array, start: Array) -> Array:
    """The minimiser of F over the ball |theta| <= S, to machine precision.

    n F = sum l + (lam/2) |theta|^2 (erratum 1: lam over all clients' samples together). Where the
    free minimiser lies outside (erratum 4), the ridge is raised from lam to lam + nu until
    |theta| = S, and Newton steps on the optimality conditions in (theta, nu) polish the pair.
    """
    link, d = LINKS[p.link], X.shape[1]
    free = _newton(link, X, y, p.lam, start)
    if norm(free) <= p.S:
        return free

    def raised(nu: float) -> Array:
        return _newton(link, X, y, p.lam + nu, free * (p.S / norm(free)))

    # strong convexity bounds nu: |theta(nu)| <= |gradient at 0| / (lam + nu)
    high = 2 * norm(X.T @ (link.mean(np.zeros(len(X))) - y)) / p.S
    nu = _multiplier(raised, p.S, high, p.lam, 1e-7)
    theta = raised(nu)
    for _ in range(3):  # each step squares the error, and 1e-7 is what is left of it
        z = X @ theta
        g = X.T @ (link.mean(z) - y) + (p.lam + nu) * theta
        K = np.zeros((d + 1, d + 1))
        K[:d, :d] = (X.T * link.slope(z)) @ X + (p.lam + nu) * np.eye(d)
        K[:d, d] = K[d, :d] = theta
        step = inv(K) @ np.append(g, 0.5 * (theta @ theta - p.S**2))
        theta, nu = theta - step[:d], nu - float(step[d])
    return theta * (p.S / norm(theta))


class Fit(NamedTuple):
    theta: Array
    nu: float  # multiplier of the ball
    residual: float  # at least |g + nu theta| in the norm of A^-1, g the gradient at theta
    anchor: Array  # where the samples are linearised
    floor: float  # at most the smallest eigenvalue of the Hessian at the anchor


def _first_fit(p: Problem, d: int) -> Fit:
    """Before any sample."""
    return Fit(np.zeros(d), 0.0, 0.0, np.zeros(d), p.lam)


def _refit(p: Problem, X: Array, y: Array, last: Fit, tolerance: float | None) -> Fit:
    """The next fit of a learner that refits after every sample.

    `tolerance` 0 asks for the exact minimiser. Otherwise it is the minimiser of the quadratic model
    at the last anchor, which moves until F(theta) - min F <= tolerance (None: 1/n^2) is certain
    (the documentation's "incremental exact MLE", here with every sum taken anew).
    """
    n, d = X.shape
    if tolerance == 0.0:
        return last._replace(theta=_fit(p, X, y, last.theta))
    allowed = 1 / n if tolerance is None else n * tolerance
    link, anchor, floor = LINKS[p.link], last.anchor, last.floor
    s = {"logistic": float(np.tanh(p.S / 2)), "poisson": 1.0, "identity": 0.0, "probit": p.S}[
        p.link
    ]
    while True:
        slopes = link.slope(X @ anchor)
        g = X.T @ (link.mean(X @ anchor) - y) + p.lam * anchor
        H = (X.T * slopes) @ X + p.lam * np.eye(d)
        theta = _project(anchor - inv(H) @ g, H, p.S)
        step = theta - anchor
        r = s * float(norm(step))
        if r <= 1.79:  # else the full step might go uphill
            on_sphere = norm(theta) >= p.S * (1 - 1e-12)
            nu = max(0.0, -float((g + H @ step) @ theta) / p.S**2) if on_sphere else 0.0
            excess = (np.expm1(r) - r) / r if r > 1e-4 else r / 2 + r**2 / 6
            square = np.exp(r) * excess**2 * (step @ H @ step)
            kappa = s * sqrt(square * np.exp(r) / floor)
            omega = np.inf
            if kappa < 1:
                omega = sum(kappa**j / ((j + 1) * (j + 2)) for j in range(4000))
            if square * omega + 0.5 * nu * max(p.S**2 - theta @ theta, 0.0) <= allowed:
                # The gradient's remainders are at most slopes |x'step| excess, sample by sample.
                sup = link.slope(np.linspace(-p.S, p.S, 2001)).max()
                sup = min(sup, link.slope(np.zeros(1))[0] * np.exp(s * norm(anchor)))
                residual = excess * sqrt(sup * np.sum(slopes * (X @ step) ** 2))
                return Fit(theta, nu, residual, anchor, floor)
        anchor = theta if r <= 1.79 else anchor + np.log1p(r) / r * step
        H = (X.T * link.slope(X @ anchor)) @ X + p.lam * np.eye(d)
        floor = 1 / float(np.trace(inv(H)))


def _r_g(p: Problem, A: Array, delta: float, fit: Fit | None = None) -> float:
    """Lemma "global model"; None: at the exact minimiser over the ball its first terms vanish."""
    ratio = _logdet(A) - len(A) * log(p.lam / p.c)
    width = (p.R / p.c) * sqrt(ratio + 2 * log(1 / delta)) + sqrt(p.lam / p.c) * p.S
    if fit is not None:
        length = float(norm(fit.theta))
        width += fit.residual / p.c + sqrt(fit.nu * length * max(p.S - length, 0.0) / p.c)
    return width


def _beta_local(p: Problem, B: float, delta: float) -> float:
    """Bound on sum [x'(theta_s - theta*)]^2 from an online regret of at most B.

    Erratum 3: the delta inside the root is the split one. Then eight refinements of
    q^2 <= a + f q sqrt(log(q / delta)), each of them valid.
    """
    a, f = 1 + 2 * B / p.c, 2 * sqrt(2) * p.R / p.c
    q = sqrt(2 * a + f**2 * log((1 / delta) * sqrt(4 * a + f**4 / (4 * delta**2))))
    for _ in range(8):
        L = log(q / delta)
        q = f * sqrt(L) / 2 + sqrt(f**2 * L / 4 + a)
    return q**2 - 1


def _iterate(p: Problem, r_g: float, gradients: float, own: int, delta: float) -> float:
    """The radius around the ONS iterate; without own samples that is the model, and r_g its."""
    if own == 0:
        return r_g
    return sqrt(r_g**2 + gradients / p.c**2 + 2 * (p.R / p.c) ** 2 * log(1 / delta))


# --------------------------------------------------------------------- the paper's eight algorithms


def _fedglb(
    p: Problem,
    arms: Array,
    rewards: Array,
    active: Array | None,
    alpha: float | None,
    ellipsoid: str = "lemma",
    threshold: float = inf,
    clock: str = "steps",
    schedule: frozenset[int] = frozenset(),
) -> Outcome:
    """Local ONS and exact global solves, at a client's event or at the ends of scheduled steps.

    `clock`: "steps" or "own samples" since the model; `ellipsoid`: the "lemma"'s or the
    "iterate"'s, which is centred at the ONS iterate.
    """
    mean = LINKS[p.link].mean
    T, N, _, d = arms.shape
    on, out = _blank(arms, active)
    A0 = (p.lam / p.c) * np.eye(d)
    X, Y, n = np.zeros((T * N, d)), np.zeros(T * N), 0  # all samples: the global objective's
    theta_g, A_g = np.zeros(d), A0.copy()
    theta, A, b = np.zeros((N, d)), np.tile(A0, (N, 1, 1)), np.zeros((N, d))
    z2, gradients = np.zeros(N), np.zeros(N)  # |z|^2 and sum |grad l|^2_{A_s^-1} since the sync
    z2_g, r_g, beta_global = 0.0, sqrt(p.lam / p.c) * p.S, 0.0
    epoch, t_last, since = 1, 0, np.zeros(N, int)  # own samples since the sync

    def sync(t: int, i: int) -> None:
        nonlocal theta_g, A_g, z2_g, r_g, beta_global, epoch, t_last
        theta_g = _fit(p, X[:n], Y[:n], theta_g)
        M = X[:n].T @ X[:n]
        A_g = A0 + M
        r_g = _r_g(p, A_g, p.delta / 2)
        beta_global, z2_g = r_g**2, theta_g @ M @ theta_g
        theta[:], A[:], b[:] = theta_g, A_g, M @ theta_g  # erratum 2: b is theta_g's own
        z2[:], gradients[:], since[:] = 0.0, 0.0, 0
        epoch, t_last = epoch + 1, t
        out.syncs.append((t, i))
        out.thetas.append(theta_g.copy())

    for t in range(1, T + 1):
        for i in range(N):
            if not on[t - 1, i]:
                continue
            A_inv = inv(A[i])
            centre = A_inv @ b[i] if ellipsoid == "lemma" else theta[i]
            radius = alpha
            split = p.delta / (2 * N * epoch * (epoch + 1))
            if radius is None and ellipsoid == "iterate":
                radius = p.exploration * _iterate(p, r_g, gradients[i], since[i], split)
            if radius is None:  # Lemma "FedGLB"; erratum 3: delta split over clients and epochs
                B2 = gradients[i] / (2 * p.c) + (p.c / 2) * r_g**2
                beta = beta_global + _beta_local(p, B2, split)
                square = beta + (p.lam / p.c) * p.S**2 - (z2_g + z2[i]) + centre @ b[i]
                radius = p.exploration * sqrt(max(square, 0.0))
            k = _choose(arms[t - 1, i], centre, A_inv, radius)
            out.choices[t - 1, i], out.alphas[t - 1, i] = k, radius
            x, y = arms[t - 1, i, k], rewards[t - 1, i, k]
            X[n], Y[n], n = x, y, n + 1
            A[i] += np.outer(x, x)
            since[i] += 1
            time = {"steps": t - t_last, "own samples": since[i]}[clock]
            if t in schedule:
                continue  # samples right before a sync are in the solve and get no ONS step
            if time * _growth(A[i], A_g) >= threshold:
                sync(t, i)
                continue
            A_inv = inv(A[i])
            z = x @ theta[i]
            grad = x * (mean(z) - y)
            gradients[i] += grad @ A_inv @ grad
            z2[i] += z**2
            b[i] += x * z
            theta[i] = _project(theta[i] - A_inv @ grad / p.c, A[i], p.S)
        if t in schedule:
            sync(t, -1)
    return out


def fedglb_ucb(
    problem: Problem,
    arms: Array,
    rewards: Array,
    threshold: float,
    active: Array | None = None,
    alpha: float | None = None,
    clock: str = "steps",
    ellipsoid: str = "lemma",
) -> Outcome:
    """FedGLB-UCB: local ONS, exact global solve, event trigger."""
    return _fedglb(problem, arms, rewards, active, alpha, ellipsoid, threshold, clock)


def fedglb_ucb_1(
    problem: Problem,
    arms: Array,
    rewards: Array,
    updates: int,
    active: Array | None = None,
    alpha: float | None = None,
) -> Outcome:
    """FedGLB-UCB_1: no local update, exact global solve, schedule."""
    p = problem
    T, N, _, d = arms.shape
    on, out = _blank(arms, active)
    schedule = _schedule(T, updates)
    X, Y, n = np.zeros((T * N, d)), np.zeros(T * N), 0
    theta, A = np.zeros(d), (p.lam / p.c) * np.eye(d)
    dA = np.zeros((N, d, d))
    r_g = sqrt(p.lam / p.c) * p.S  # before the first sync

    for t in range(1, T + 1):
        for i in range(N):
            if not on[t - 1, i]:
                continue
            radius = p.exploration * r_g if alpha is None else alpha
            k = _choose(arms[t - 1, i], theta, inv(A), radius)
            out.choices[t - 1, i], out.alphas[t - 1, i] = k, radius
            x, y = arms[t - 1, i, k], rewards[t - 1, i, k]
            X[n], Y[n], n = x, y, n + 1
            dA[i] += np.outer(x, x)
        if t in schedule:
            A = A + dA.sum(axis=0)
            dA[:] = 0.0
            theta = _fit(p, X[:n], Y[:n], theta)
            r_g = _r_g(p, A, p.delta)  # Lemma "global model"
            out.syncs.append((t, -1))
            out.thetas.append(theta.copy())
    return out


def fedglb_ucb_2(
    problem: Problem,
    arms: Array,
    rewards: Array,
    updates: int,
    active: Array | None = None,
    alpha: float | None = None,
) -> Outcome:
    """FedGLB-UCB_2: local ONS, exact global solve, schedule."""
    schedule = _schedule(len(arms), updates)
    return _fedglb(problem, arms, rewards, active, alpha, schedule=schedule)


def fedglb_ucb_3(
    problem: Problem,
    arms: Array,
    rewards: Array,
    updates: int,
    y_range: tuple[float, float] | None = None,
    active: Array | None = None,
    alpha: float | None = None,
) -> Outcome:
    """FedGLB-UCB_3: ONS on gradient covariances, locally per sample and globally per batch.

    `y_range` bounds the rewards; None means unbounded ones.
    """
    p, (_, mean, slope) = problem, LINKS[problem.link]
    T, N, _, d = arms.shape
    on, out = _blank(arms, active)
    schedule = _schedule(T, updates)
    # erratum 5: the bound on |mu(x'theta) - y|, and gamma by strong convexity with a batch's size
    ends = np.array([-p.S, 0.0, p.S])
    if y_range is not None:
        G_bound = max(y_range[1] - mean(ends)[0], mean(ends)[2] - y_range[0])
    else:
        k_mu = slope(ends)[1:].max()  # each mu' here is even and falls from 0, or it rises
        G_bound = 2 * k_mu * p.S + p.R * sqrt(2 * log(2 * N * T / p.delta))
    gamma = p.c / (G_bound**2 * max(1, N * (T // updates)))

    X, Y, n, n_last = np.zeros((T * N, d)), np.zeros(T * N), 0, 0
    theta_g, b_g = np.zeros(d), np.zeros(d)
    A_g, V_g = p.lam * np.eye(d), p.lam * np.eye(d)  # erratum 5: A holds lam I
    theta, b = np.zeros((N, d)), np.zeros((N, d))
    A, V = np.tile(A_g, (N, 1, 1)), np.tile(V_g, (N, 1, 1))
    dV = np.zeros((N, d, d))
    gradients_g, z2_g = 0.0, 0.0  # over past batches, each at the model it was played under
    gradients, z2 = np.zeros(N), np.zeros(N)  # over local steps since the sync

    for t in range(1, T + 1):
        for i in range(N):
            if not on[t - 1, i]:
                continue
            V_inv = inv(V[i])
            centre = V_inv @ b[i]
            radius = alpha
            if radius is None:  # Lemma "lazy ONS"; erratum 5: + centre'b
                B_P = (gradients_g + gradients[i]) / (2 * gamma) + gamma * p.lam * p.S**2 / 2
                beta = _beta_local(p, B_P, p.delta / (N * (updates + 1)))
                square = p.lam * p.S**2 + beta + centre @ b[i] - (z2_g + z2[i])
                radius = p.exploration * sqrt(max(square, 0.0))
            k = _choose(arms[t - 1, i], centre, V_inv, radius)
            out.choices[t - 1, i], out.alphas[t - 1, i] = k, radius
            x, y = arms[t - 1, i, k], rewards[t - 1, i, k]
            X[n], Y[n], n = x, y, n + 1
            z = x @ theta[i]
            grad = x * (mean(z) - y)
            A[i] += np.outer(grad, grad)
            V[i] += np.outer(x, x)
            dV[i] += np.outer(x, x)
            if t not in schedule:
                A_inv = inv(A[i])
                gradients[i] += grad @ A_inv @ grad
                z2[i] += z**2
                b[i] += x * z
                theta[i] = _project(theta[i] - A_inv @ grad / gamma, A[i], p.S)  # erratum 5
        if t in schedule:
            batch = X[n_last:n]
            G = batch.T @ (mean(batch @ theta_g) - Y[n_last:n])
            A_g = A_g + np.outer(G, G)
            A_inv = inv(A_g)
            gradients_g += G @ A_inv @ G
            total = dV.sum(axis=0)
            V_g = V_g + total
            b_g = b_g + total @ theta_g
            z2_g += theta_g @ total @ theta_g
            theta_g = _project(theta_g - A_inv @ G / gamma, A_g, p.S)
            theta[:], A[:], V[:], b[:] = theta_g, A_g, V_g, b_g
            dV[:], z2[:], gradients[:] = 0.0, 0.0, 0.0
            n_last = n
            out.syncs.append((t, -1))
            out.thetas.append(theta_g.copy())
    return out


def _ucb_glm(
    one: bool,
    problem: Problem,
    arms: Array,
    rewards: Array,
    active: Array | None = None,
    alpha: float | None = None,
    tolerance: float | None = 0.0,
) -> Outcome:
    """A model that is refitted after every interaction; `one` on everybody's samples."""
    p = problem
    T, N, _, d = arms.shape
    on, out = _blank(arms, active)
    L = 1 if one else N
    X, Y = [np.zeros((0, d))] * L, [np.zeros(0)] * L
    fits, A = [_first_fit(p, d)] * L, np.tile((p.lam / p.c) * np.eye(d), (L, 1, 1))

    for t in range(1, T + 1):
        for i in range(N):
            if not on[t - 1, i]:
                continue
            j = 0 if one else i
            # Lemma "global model" per learner; before its first sample √(λ/c)S
            width = sqrt(p.lam / p.c) * p.S
            if len(Y[j]):
                width = _r_g(p, A[j], p.delta / L, fits[j])
            radius = p.exploration * width if alpha is None else alpha
            k = _choose(arms[t - 1, i], fits[j].theta, inv(A[j]), radius)
            out.choices[t - 1, i], out.alphas[t - 1, i] = k, radius
            x = arms[t - 1, i, k]
            X[j], Y[j] = np.vstack([X[j], x]), np.append(Y[j], rewards[t - 1, i, k])
            A[j] += np.outer(x, x)
            fits[j] = _refit(p, X[j], Y[j], fits[j], tolerance)
            if one:
                out.syncs.append((t, i))
                out.thetas.append(fits[j].theta)
    return out


one_ucb_glm, n_ucb_glm = partial(_ucb_glm, True), partial(_ucb_glm, False)


def n_ons_glm(
    problem: Problem,
    arms: Array,
    rewards: Array,
    active: Array | None = None,
    alpha: float | None = None,
) -> Outcome:
    """N-ONS-GLM: every client alone, one ONS step after every interaction."""
    return _fedglb(problem, arms, rewards, active, alpha)


def dislinucb(
    problem: Problem,
    arms: Array,
    rewards: Array,
    threshold: float,
    active: Array | None = None,
    alpha: float | None = None,
    clock: str = "steps",
) -> Outcome:
    """DisLinUCB: ridge regression whatever the link, sums exchanged, event trigger."""
    p = problem
    T, N, _, d = arms.shape
    on, out = _blank(arms, active)
    A_g, b_g = p.lam * np.eye(d), np.zeros(d)
    A, b = np.tile(A_g, (N, 1, 1)), np.zeros((N, d))
    dA, db = np.zeros((N, d, d)), np.zeros((N, d))
    epoch, t_last, since = 1, 0, np.zeros(N, int)  # own samples since the sync

    for t in range(1, T + 1):
        for i in range(N):
            if not on[t - 1, i]:
                continue
            A_inv = inv(A[i])
            radius = alpha
            if radius is None:  # linear OFUL, delta split over clients and epochs
                ratio = _logdet(A[i]) - d * log(p.lam)
                union = 2 * log(N * epoch * (epoch + 1) / p.delta)
                radius = p.exploration * (p.R * sqrt(ratio + union) + sqrt(p.lam) * p.S)
            k = _choose(arms[t - 1, i], A_inv @ b[i], A_inv, radius)
            out.choices[t - 1, i], out.alphas[t - 1, i] = k, radius
            x, y = arms[t - 1, i, k], rewards[t - 1, i, k]
            A[i] += np.outer(x, x)
            dA[i] += np.outer(x, x)
            b[i] += x * y
            db[i] += x * y
            since[i] += 1
            time = {"steps": t - t_last, "own samples": since[i]}[clock]
            if time * _growth(A[i], A_g) >= threshold:
                A_g, b_g = A_g + dA.sum(axis=0), b_g + db.sum(axis=0)
                A[:], b[:] = A_g, b_g
                dA[:], db[:], since[:] = 0.0, 0.0, 0
                epoch, t_last = epoch + 1, t
                out.syncs.append((t, i))
                out.thetas.append(inv(A_g) @ b_g)
    return out


# ----------------------------------------------------------------------- algorithms of other papers


def fedlinucb(
    problem: Problem,
    arms: Array,
    rewards: Array,
    threshold: float,
    active: Array | None = None,
    alpha: float | None = None,
) -> Outcome:
    """FedLinUCB (He et al. 2022): clients exchange sums with the server one by one."""
    p = problem
    T, N, _, d = arms.shape
    on, out = _blank(arms, active)
    server, server_b = p.lam * np.eye(d), np.zeros(d)
    sigma, b = np.tile(server, (N, 1, 1)), np.zeros((N, d))  # as downloaded
    local, local_b = np.zeros((N, d, d)), np.zeros((N, d))  # not uploaded yet
    radius = alpha
    if radius is None:  # Theorem 5.1, T counts the interactions of all agents
        rounds = 1 + N * T / (min(threshold, 1) * p.lam)
        inner = p.R * sqrt(d * log(rounds / p.delta)) + sqrt(p.lam) * p.S
        spread = sqrt(1 + N * threshold) + N * sqrt(2 * threshold)
        radius = p.exploration * (sqrt(p.lam) * p.S + spread * inner)

    for t in range(1, T + 1):
        for i in range(N):
            if not on[t - 1, i]:
                continue
            inverse = inv(sigma[i])
            k = _choose(arms[t - 1, i], inverse @ b[i], inverse, radius)
            out.choices[t - 1, i], out.alphas[t - 1, i] = k, radius
            x, y = arms[t - 1, i, k], rewards[t - 1, i, k]
            local[i] += np.outer(x, x)
            local_b[i] += x * y
            if np.linalg.det(sigma[i] + local[i]) > (1 + threshold) * np.linalg.det(sigma[i]):
                server, server_b = server + local[i], server_b + local_b[i]
                local[i], local_b[i] = 0.0, 0.0
                sigma[i], b[i] = server, server_b
                out.syncs.append((t, i))
                out.thetas.append(inv(server) @ server_b)
    return out


def async_linucb(
    problem: Problem,
    arms: Array,
    rewards: Array,
    threshold: float,
    download: float,
    active: Array | None = None,
    alpha: float | None = None,
) -> Outcome:
    """Async-LinUCB (Li and Wang, AISTATS 2022), as sets of samples: who has which, and the server.

    Every matrix is summed anew over the samples of a set.
    """
    p = problem
    T, N, _, d = arms.shape
    on, out = _blank(arms, active)
    out.transfers = np.zeros(T, int)
    X, Y, n = np.zeros((T * N, d)), np.zeros(T * N), 0
    has = np.zeros((N, T * N), bool)  # own samples, and those that were sent
    served = np.zeros(T * N, bool)  # uploaded
    own = np.zeros((N, T * N), bool)

    def matrix(which: Array) -> Array:
        return p.lam * np.eye(d) + X[which].T @ X[which]

    def model(which: Array) -> Array:
        return inv(matrix(which)) @ (X[which].T @ Y[which])

    def grows(large: Array, small: Array, by: float) -> bool:
        return np.linalg.det(matrix(large)) > (1 + by) * np.linalg.det(matrix(small))

    for t in range(1, T + 1):
        for i in range(N):
            if not on[t - 1, i]:
                continue
            A, radius = matrix(has[i]), alpha
            if radius is None:
                noise = p.R * sqrt(_logdet(A) - d * log(p.lam) + 2 * log(1 / p.delta))
                radius = p.exploration * (noise + sqrt(p.lam) * p.S)
            k = _choose(arms[t - 1, i], model(has[i]), inv(A), radius)
            out.choices[t - 1, i], out.alphas[t - 1, i] = k, radius
            X[n], Y[n] = arms[t - 1, i, k], rewards[t - 1, i, k]
            own[i, n], has[i, n], n = True, True, n + 1
            if grows(has[i], has[i] & ~(own[i] & ~served), threshold):
                served = served | own[i]
                out.transfers[t - 1 :] += 1
                out.syncs.append((t, i))
                out.thetas.append(model(served))
                for j in range(N):
                    if grows(served, has[j] & served, download):
                        has[j] |= served
                        out.transfers[t - 1 :] += 1
    return out


def _ecolog_step(
    p: Problem, W: Array, theta: Array, x: Array, weight: float, target: float
) -> Array:
    """argmin of |v - theta|_W^2 / (2 + 2S) + weight m(x'v) - target x'v over the ball |v| <= S.

    For a multiplier nu of the ball, v = G (W theta - (1+S) r x) with G = (W + nu I)^-1, where
    r = weight mu(x'v) - target is the root of an equation in one unknown.
    """
    mean, half = LINKS[p.link].mean, 1 + p.S

    def inside(nu: float) -> Array:
        G = inv(W + nu * np.eye(len(x)))
        free, width = x @ G @ W @ theta, x @ G @ x

        def gap(r: float) -> float:
            return weight * float(mean(free - half * r * width)) - target - r

        first = gap(0.0)  # the gap falls with r at a slope of -1 or steeper
        r = brentq(gap, min(0.0, first), max(0.0, first), xtol=1e-15) if first else 0.0
        return G @ (W @ theta - half * r * x)

    if norm(inside(0.0)) <= p.S:
        return inside(0.0)
    high = 1.0
    while norm(inside(high)) > p.S:
        high *= 2
    v = inside(_multiplier(inside, p.S, high, float(eigh(W)[0][0]), 1e-14))
    return v * (p.S / norm(v))


def _ecolog(
    one: bool,
    problem: Problem,
    arms: Array,
    rewards: Array,
    active: Array | None = None,
    alpha: float | None = None,
) -> Outcome:
    """ECOLog (Faury et al. 2022), for every client alone or for `one` learner of all samples."""
    p = problem
    T, N, _, d = arms.shape
    on, out = _blank(arms, active)
    link, L = LINKS[p.link], 1 if one else N
    theta, W = np.zeros((L, d)), np.tile(p.lam * np.eye(d), (L, 1, 1))
    losses, moved, n = np.zeros(L), np.zeros(L), np.zeros(L, int)
    for t in range(1, T + 1):
        for i in range(N):
            if not on[t - 1, i]:
                continue
            j = 0 if one else i
            radius = alpha
            if radius is None:
                square = p.lam * p.S**2
                if n[j]:
                    square += 2 * (1 + p.S) * (log(L / p.delta) + losses[j]) - moved[j]
                radius = p.exploration * sqrt(max(square, 0.0))
            k = _choose(arms[t - 1, i], theta[j], inv(W[j]), radius)
            out.choices[t - 1, i], out.alphas[t - 1, i] = k, radius
            x, y = arms[t - 1, i, k], rewards[t - 1, i, k]
            blind = _ecolog_step(p, W[j], theta[j], x, 2.0, 2 * float(link.mean(0.0)))
            new = _ecolog_step(p, W[j], theta[j], x, 1.0, y)
            for v, sign in ((blind, 1), (new, -1)):
                losses[j] += sign * (link.cumulant(x @ v) - y * (x @ v))
            moved[j] += (new - theta[j]) @ W[j] @ (new - theta[j])
            theta[j], n[j] = new, n[j] + 1
            W[j] += link.slope(x @ new) * np.outer(x, x)
            if one:
                out.syncs.append((t, i))
                out.thetas.append(new)
    return out


one_ecolog, n_ecolog = partial(_ecolog, True), partial(_ecolog, False)


def _ofuglb(
    one: bool,
    problem: Problem,
    arms: Array,
    rewards: Array,
    active: Array | None = None,
    alpha: float | None = None,
    tolerance: float | None = 0.0,
) -> Outcome:
    """OFUGLB (Lee et al. 2024), by its ellipsoid: the fit, and the set of likelihood ratios.

    For theta in the ball and any other point v of it, exp((L(theta*) - L(v)) / phi) has mean at
    most 1, and so has its mean over v uniform in the ball. A copy of the ball, shrunk by c towards
    theta, has a share of c^d in it, and L is at most L(theta) + 2 S c Lip there. So, but for
    delta, L(theta*) - L(theta) <= phi log(1/delta) + min over c of (d phi log(1/c) + 2 S c Lip).
    """
    p = problem
    T, N, _, d = arms.shape
    on, out = _blank(arms, active)
    link, L = LINKS[p.link], 1 if one else N
    s = {"logistic": float(np.tanh(p.S / 2)), "poisson": 1.0, "identity": 0.0}[p.link]
    phi = p.R**2 if p.link == "identity" else 1.0
    bend = 1 + s * p.S  # L curves at least as H / bend up to theta*
    ends = link.mean(np.array([-p.S, p.S]))
    X, Y = [np.zeros((0, d))] * L, [np.zeros(0)] * L
    fits, W = [_first_fit(p, d)] * L, np.tile(bend * p.lam * np.eye(d), (L, 1, 1))
    residual = np.zeros(L)
    for t in range(1, T + 1):
        for i in range(N):
            if not on[t - 1, i]:
                continue
            j = 0 if one else i
            radius = alpha
            if radius is None:
                n, length = len(Y[j]), float(norm(fits[j].theta))
                above = 0.5 * p.lam * (p.S**2 - length**2)
                above += fits[j].nu * length * max(p.S - length, 0.0)
                if n:
                    lipschitz = np.abs(Y[j][:, None] - ends).max(axis=1).sum()
                    c = min(1.0, d * phi / (2 * p.S * lipschitz))
                    # the paper has d in place of 2 S c Lip / phi, which is smaller where c = 1
                    above += phi * (log(L / p.delta) + d * log(1 / c) + d)
                # |E|_W^2 / (2 bend) <= above + residual |E|_W
                b = 2 * bend * residual[j]
                radius = p.exploration * (b + sqrt(b * b + 8 * bend * max(above, 0.0))) / 2
            k = _choose(arms[t - 1, i], fits[j].theta, inv(W[j]), radius)
            out.choices[t - 1, i], out.alphas[t - 1, i] = k, radius
            X[j] = np.vstack([X[j], arms[t - 1, i, k]])
            Y[j] = np.append(Y[j], rewards[t - 1, i, k])
            fits[j] = fit = _refit(p, X[j], Y[j], fits[j], tolerance)
            anchor = fit.theta if tolerance == 0.0 else fit.anchor
            step = fit.theta - anchor
            r, slopes = s * float(norm(step)), link.slope(X[j] @ anchor)
            W[j] = np.exp(-r) * (X[j].T * slopes) @ X[j] + bend * p.lam * np.eye(d)
            excess = (np.expm1(r) - r) / r if r > 1e-4 else r / 2 + r**2 / 6
            residual[j] = excess * sqrt(np.exp(r) * np.sum(slopes * (X[j] @ step) ** 2))
            if one:
                out.syncs.append((t, i))
                out.thetas.append(fit.theta)
    return out


one_ofuglb, n_ofuglb = partial(_ofuglb, True), partial(_ofuglb, False)
