"""Theorems M and L once more, with NumPy: one function per formula, one component at a time."""

from __future__ import annotations

import math
from math import exp, expm1, log, sqrt

import numpy as np

from fedglb.parts.mixture import Fit, GlobalSet, LocalTerms


def kappa(r):
    return 1.0 if r == 0.0 else 2.0 * (exp(-r) - 1.0 + r) / r**2


def kappa_plus(r):
    return 1.0 if r == 0.0 else 2.0 * (exp(r) - 1.0 - r) / r**2


def heat(v):
    return expm1(v / 2.0) / (v / 2.0)


def prior(j, dim, S):
    """u_j, 1_j, w_j."""
    return (dim / S**2, 0.0, 0.5) if j == 0 else (4.0 ** (j - 1), 1.0, 0.5 / (j * (j + 1)))


def set_of(j, fit: Fit, S, r, delta):
    """ρ_j and the eigenvalues of W_j; None where W_j is not positive definite."""
    h = fit.eigenvalues
    u, truth, w = prior(j, len(h), S)
    W = kappa(r) * exp(-fit.drift) * h + fit.ell - truth * u
    if W.min() <= 0.0:
        return None
    tau = heat(1.0 / (u + h[0]))
    B = np.log(1.0 + tau * exp(fit.drift) * h / u).sum() + 2.0 * log(1.0 / (w * delta))
    B += fit.ell * max(S**2 - fit.theta_square, 0.0) + (1.0 - truth) * u * fit.theta_square
    e = fit.step_residual * sqrt((h / W).max()) + sqrt((fit.residual**2 / W).sum())
    return e + sqrt(B + e**2), W


def plain_global_set(fit: Fit, S, s, delta) -> GlobalSet:
    r = 2.0 * S * s
    while True:
        found = {j: set_of(j, fit, S, r, delta) for j in range(40)}
        sets = {j: one for j, one in found.items() if one is not None}
        shorter = s * min(rho / sqrt(W.min()) for rho, W in sets.values())
        if shorter >= r * (1.0 - 1e-4):
            break
        r = shorter
    j = min(sets, key=lambda j: sets[j][0] ** 2 * (1.0 / sets[j][1]).sum())
    rho, W = sets[j]
    u, truth, _ = prior(j, len(W), S)
    width = sqrt(rho**2 * (1.0 / W).sum())
    return GlobalSet(rho, kappa(r) * exp(-fit.drift), fit.ell - truth * u, r, width)


def plain_terms(j, fit: Fit, S, r) -> LocalTerms:
    h, ell = fit.eigenvalues, fit.ell
    u, truth, w = prior(j, len(h), S)
    v = truth * u
    c = heat(1.0 / (u + h[0])) / u
    A = np.log(1.0 + c * h).sum() if 1.0 / c >= ell else np.log(c * (ell + h)).sum()
    eta = max(1.0, h[0] / (h[0] + ell - v)) if truth else 1.0
    residual = fit.step_residual * sqrt(eta) + sqrt((fit.residual**2 / (h + ell - v)).sum())
    omega = sqrt((h[0] + ell) / (h[0] + ell - v)) if truth else 1.0
    curvature = kappa(r) * exp(-fit.drift)
    origin = 0.0 if truth else u
    return LocalTerms(
        A, 2.0 * log(1.0 / w), ell, origin, curvature, fit.drift, residual, eta, omega
    )


def plain_radius(gain, step, m2, theta_square, trace, dim, S, s_bar, delta, terms) -> float:
    A, cost, ell, origin, k, q, residual, eta, _ = terms
    B = A + gain + dim * expm1(s_bar * step + q) + cost + 2.0 * log(1.0 / delta)
    B += ell * (S**2 - theta_square) + origin * theta_square
    B += (kappa_plus(s_bar * step) * exp(q) - 1.0) * m2
    lead = 1.0 - (1.0 - k) * eta
    b = residual + (1.0 - k) * sqrt(eta) * sqrt(m2)
    inside = b**2 + lead * (B + (1.0 - k) * m2)
    X = math.inf
    if lead > 0.0:
        X = 0.0 if inside < 0.0 else (b + sqrt(inside)) / lead
    return X if trace < 0.0 else min(X, sqrt(max(B + (1.0 - k) * S**2 * trace, 0.0)))
