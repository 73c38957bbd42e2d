"""What `tests.plain` needs for a radius, from the samples of a trace, with explicit matrices."""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.linalg import slogdet, solve

from fedglb.setting import Setting
from tests import plain
from tests.parts.confidence.traces import Moment, Sync, dual_norm


def log_det(A: np.ndarray) -> float:
    sign, value = slogdet(A)
    assert sign == 1.0
    return float(value)


def gradient(link, X, y, theta, ridge):
    """∇Φ(θ) = Σ x (μ(xᵀθ) − y) + λθ."""
    return X.T @ (link.mean(X @ theta) - y) + ridge * theta


def plain_problem(s: Setting) -> plain.Problem:
    p = s.problem
    return plain.Problem(p.link.name, p.S, p.R, p.c_mu, s.ridge, s.delta)


def global_radius(s: Setting, A, g, nu, theta, delta) -> float:
    """r_g(δ), its first term from the gradient."""
    fit = plain.Fit(theta, nu, dual_norm(g + nu * theta, A), theta, 0.0)
    return plain._r_g(plain_problem(s), A, delta, fit)


def sync_global_radius(m: Moment, sync: Sync, delta: float) -> float:
    """r_g(δ) of an update, from all samples."""
    s = m.setting
    theta, X = sync.solution.theta, sync.X
    A = s.ridge / s.problem.c_mu * np.eye(len(theta)) + X.T @ X
    g = gradient(m.link, X, sync.y, theta, s.ridge)
    return global_radius(s, A, g, sync.solution.multiplier, theta, delta)


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
    c, S, N = s.problem.c_mu, s.problem.S, s.clients
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
    beta_local = plain._beta_local(plain_problem(s), B2, s.delta / (2.0 * N * e * (e + 1)))
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
