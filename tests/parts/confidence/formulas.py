"""Every radius once more, straight from the lemmas and from the samples, with explicit matrices."""

from __future__ import annotations

from math import exp, factorial, log, sqrt

import numpy as np
from numpy.linalg import norm, slogdet, solve

from fedglb.kernels.linalg import norm as norm_of_the_kernels
from fedglb.parts.local_update.lazy_ons import LazyRate
from fedglb.setting import Setting
from tests.parts.confidence.traces import Moment, Sync, dual_norm


def log_det(A: np.ndarray) -> float:
    sign, value = slogdet(A)
    assert sign == 1.0
    return float(value)


def gradient(link, X, y, theta, ridge):
    """∇Φ(θ) = Σ x (μ(xᵀθ) − y) + λθ."""
    return X.T @ (link.mean(X @ theta) - y) + ridge * theta


def global_radius(s: Setting, A, g, nu, theta, delta) -> float:
    """r_g(δ), term by term."""
    c, S, R, length = s.problem.c_mu, s.problem.S, s.problem.R, float(norm(theta))
    log_ratio = log_det(A) - log_det(s.ridge / c * np.eye(len(A)))
    return (
        dual_norm(g + nu * theta, A) / c
        + sqrt(nu * length * max(S - length, 0.0) / c)
        + R / c * sqrt(log_ratio + 2.0 * log(1.0 / delta))
        + sqrt(s.ridge / c) * S
    )


def sync_global_radius(m: Moment, sync: Sync, delta: float) -> float:
    """r_g(δ) of an update, from all samples."""
    s = m.setting
    theta, X = sync.solution.theta, sync.X
    A = s.ridge / s.problem.c_mu * np.eye(len(theta)) + X.T @ X
    g = gradient(m.link, X, sync.y, theta, s.ridge)
    return global_radius(s, A, g, sync.solution.multiplier, theta, delta)


def local_bound(regret: float, c: float, R: float, delta: float, steps: int = 8) -> float:
    """β_local = q² − 1."""
    a, f = 1.0 + 2.0 * regret / c, 2.0 * sqrt(2.0) * R / c
    q2 = 2.0 * a + f**2 * log(sqrt(4.0 * a + f**4 / (4.0 * delta**2)) / delta)
    for _ in range(steps):
        L = log(sqrt(q2) / delta)
        q2 = (f * sqrt(L) / 2.0 + sqrt(f**2 * L / 4.0 + a)) ** 2
    return q2 - 1.0


def gradient_norms(m: Moment, A: np.ndarray) -> float:
    """Σ‖∇l‖²_{A_s⁻¹} over the own samples, A_s growing from A."""
    total = 0.0
    for x, y, z in zip(m.X, m.y, m.z, strict=True):
        A = A + np.outer(x, x)
        total += dual_norm(x * (m.link.mean(z) - y), A) ** 2
    return total


def ellipse(prior: float, X, z):
    """A, b, the centre and θ̂ᵀb − ‖z‖² of predictions z."""
    A = prior * np.eye(X.shape[1]) + X.T @ X
    b = X.T @ z
    centre = solve(A, b)
    return A, b, centre, float(centre @ b - z @ z)


def fedglb(m: Moment):
    """A, b, centre, α of Lemma "FedGLB"."""
    s = m.setting
    c, S, R, N = s.problem.c_mu, s.problem.S, s.problem.R, s.clients
    if m.sync is None:
        r, beta_global = sqrt(s.ridge / c) * S, 0.0
        old = np.zeros(0)
    else:
        theta = m.sync.solution.theta
        r = sync_global_radius(m, m.sync, s.delta / 2.0)
        beta_global = r**2
        old = m.old_X @ theta
    A_last = s.ridge / c * np.eye(len(m.star)) + m.old_X.T @ m.old_X
    B2 = gradient_norms(m, A_last) / (2.0 * c) + c / 2.0 * r**2
    e = m.epoch
    beta_local = local_bound(B2, c, R, s.delta / (2.0 * N * e * (e + 1)))
    X, z = np.concatenate([m.old_X, m.X]), np.concatenate([old, m.z])
    A, b, centre, rest = ellipse(s.ridge / c, X, z)
    return A, b, centre, sqrt(max(beta_global + beta_local + s.ridge / c * S**2 + rest, 0.0))


def global_model(m: Moment):
    """A, None, centre, α of variant 1."""
    s, d = m.setting, len(m.star)
    prior = s.ridge / s.problem.c_mu
    if m.sync is None:
        return prior * np.eye(d), None, np.zeros(d), sqrt(prior) * s.problem.S
    A = prior * np.eye(d) + m.old_X.T @ m.old_X
    return A, None, m.sync.solution.theta, sync_global_radius(m, m.sync, s.delta)


def own_model(m: Moment):
    """A, None, centre, α of the exact-MLE baselines; centre and anchor are not recomputed."""
    s, d, theta = m.setting, len(m.star), m.state.theta
    c, S = s.problem.c_mu, s.problem.S
    A = s.ridge / c * np.eye(d) + m.X.T @ m.X
    if not len(m.y):
        return A, None, theta, sqrt(s.ridge / c) * S
    residual, nu = own_residual(m)
    # to the last bit, which the root magnifies
    length = norm_of_the_kernels(theta)
    slack = sqrt(nu * length * max(S - length, 0.0) / c)
    zero = np.zeros(d)
    exact = global_radius(s, A, zero, 0.0, zero, s.delta / s.clients)
    return A, None, theta, residual / c + slack + exact


def own_residual(m: Moment) -> tuple[float, float]:
    """A bound on ‖∇Φ(θ) + νθ‖_{A⁻¹}, and ν, of a fit by the quadratic model at its anchor."""
    s, theta, anchor = m.setting, m.state.theta, m.state.anchor
    S = s.problem.S
    slopes, h = m.link.slope(m.X @ anchor), m.X @ (theta - anchor)
    nu = 0.0
    if norm(theta) >= S * (1.0 - 1e-9):
        model = gradient(m.link, m.X, m.y, anchor, s.ridge) + s.ridge * (theta - anchor)
        nu = max(-float(theta @ (model + m.X.T @ (slopes * h))) / float(theta @ theta), 0.0)
    concordance = s.problem.link.self_concordance(S)
    reach = concordance * float(norm(theta - anchor))
    steepest = min(s.problem.k_mu, float(m.link.slope(0.0)) * exp(concordance * norm(anchor)))
    # (e^u − 1 − u)/u = Σ u^j/(j+1)!
    excess = sum(reach**j / factorial(j + 1) for j in range(1, 60))
    return excess * sqrt(steepest * float(slopes @ (h * h))), nu


def linear(m: Moment):
    """A, b, centre, α of DisLinUCB."""
    s, e = m.setting, m.epoch
    X, y = np.concatenate([m.old_X, m.X]), np.concatenate([m.old_y, m.y])
    A, b, centre, _ = ellipse(s.ridge, X, y)
    log_ratio = log_det(A) - log_det(s.ridge * np.eye(len(A)))
    union = 2.0 * log(s.clients * e * (e + 1) / s.delta)
    alpha = s.problem.R * sqrt(log_ratio + union) + sqrt(s.ridge) * s.problem.S
    return A, b, centre, alpha


def residual_bound(m: Moment) -> float:
    """G."""
    s, link = m.setting, m.link
    S, R = s.problem.S, s.problem.R
    low, high = s.problem.link.support
    if np.isfinite([low, high]).all():
        return max(high - float(link.mean(-S)), float(link.mean(S)) - low)
    k = max(float(np.max(link.slope(np.linspace(-S, S, 2001)))), 0.0)
    return 2.0 * k * S + R * sqrt(2.0 * log(2.0 * s.clients * s.horizon / s.delta))


def lazy_gamma(m: Moment, rate: LazyRate) -> float:
    """γ = c/(G² n_max)."""
    n_max = m.setting.clients * (m.setting.horizon // rate.updates)
    return m.setting.problem.c_mu / (residual_bound(m) ** 2 * n_max)


def lazy_losses(m: Moment):
    """The client's sequence F_1, …, F_P: for each X, y and the model that it is evaluated at.

    Batches of everybody's samples at the model of the update before, then single own samples.
    """
    at = np.zeros(len(m.star))
    out = []
    for sync in [] if m.sync is None else m.sync.history:
        out.append((sync.arms, sync.rewards, at))
        at = sync.solution.theta
    out += [(x[None], y[None], model) for x, y, model in zip(m.X, m.y, m.models, strict=True)]
    return out


def lazy_sums(m: Moment):
    """(∇F_p, A_p) for each p, A_p = λI + Σ ∇F ∇Fᵀ."""
    A = m.setting.ridge * np.eye(len(m.star))
    out = []
    for X, y, at in lazy_losses(m):
        g = X.T @ (m.link.mean(X @ at) - y)
        A = A + np.outer(g, g)
        out.append((g, A))
    return out


def lazy(m: Moment, rate: LazyRate):
    """V, b, centre, α of variant 3."""
    s, gamma = m.setting, lazy_gamma(m, rate)
    S = s.problem.S
    norms = sum(dual_norm(g, A) ** 2 for g, A in lazy_sums(m))
    regret = norms / (2.0 * gamma) + gamma * s.ridge * S**2 / 2.0
    losses = lazy_losses(m)
    X = np.concatenate([m.X[:0], *(part for part, _, _ in losses)])
    z = np.concatenate([np.zeros(0), *(part @ at for part, _, at in losses)])
    V, b, centre, rest = ellipse(s.ridge, X, z)
    delta = s.delta / (s.clients * (rate.updates + 1))
    beta = local_bound(regret, s.problem.c_mu, s.problem.R, delta)
    return V, b, centre, sqrt(max(s.ridge * S**2 + beta + rest, 0.0))
