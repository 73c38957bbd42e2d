"""Random data for Theorems M and L: losses, fitted models, own samples, integrals over a prior."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf, log, pi, tanh

import numpy as np
from numpy.linalg import cholesky, eigh, inv, norm, slogdet, solve

import fedglb as fg
from fedglb.kernels.ball import minimise_quadratic
from fedglb.parts.mixture import Fit, local_radius
from fedglb.parts.self_concordance import taylor_excess
from tests import plain, plain_mixture

LOGISTIC, POISSON, IDENTITY = fg.Logistic(), fg.Poisson(), fg.Identity()
NOISE = 0.5  # R of the identity link


def concordance(link, radius) -> float:
    """s with |μ″| ≤ sμ′ on |z| ≤ radius."""
    return {"logistic": tanh(radius / 2.0), "poisson": 1.0, "identity": 0.0}[link.name]


@dataclass(frozen=True)
class Data:
    """Samples, and the loss L(θ) of their likelihood (without ridge; divided by R² if linear)."""

    link: fg.Link
    X: np.ndarray
    y: np.ndarray
    dispersion: float = 1.0

    def loss(self, theta):
        """L(θ), or L of every row."""
        z = self.X @ theta.T
        y = self.y if z.ndim == 1 else self.y[:, None]
        return (self.link.cumulant(z) - y * z).sum(axis=0) / self.dispersion

    def gradient(self, theta):
        return self.X.T @ (self.link.mean(self.X @ theta) - self.y) / self.dispersion

    def hessian(self, theta):
        return (self.X.T * self.link.variance(self.X @ theta)) @ self.X / self.dispersion

    def __add__(self, other: Data) -> Data:
        X, y = np.vstack([self.X, other.X]), np.concatenate([self.y, other.y])
        return Data(self.link, X, y, self.dispersion)


def in_ball(rng, S, dim):
    """A point of the ball, on its sphere in one of three cases."""
    direction = rng.normal(size=dim)
    return direction / norm(direction) * S * rng.choice([1.0, rng.uniform(), rng.uniform()])


def draw(rng, link, theta, count, noise=NOISE) -> Data:
    """Samples of the parameter θ, with arms of all lengths up to 1."""
    X = np.array([in_ball(rng, 1.0, len(theta)) for _ in range(count)]).reshape(count, len(theta))
    X *= rng.uniform(0.3, 1.0, len(theta))  # some directions are seen less
    z = X @ theta
    y = {
        "logistic": lambda: (rng.uniform(size=count) < link.mean(z)).astype(float),
        "poisson": lambda: rng.poisson(link.mean(z)).astype(float),
        "identity": lambda: z + noise * rng.normal(size=count),
    }[link.name]()
    return Data(link, X, y, noise**2 if link.name == "identity" else 1.0)


@dataclass(frozen=True)
class Model:
    """A fitted model: θ_t, Ĥ, ℓ, q, and a residual that is known or only bounded by ε."""

    theta: np.ndarray
    H: np.ndarray
    ell: float
    drift: float = 0.0
    bound: float = 0.0
    residual: np.ndarray | None = None

    @cached_property
    def fit(self) -> Fit:
        h, U = eigh(self.H)
        e = np.zeros(len(h)) if self.residual is None else U.T @ self.residual
        square = float(self.theta @ self.theta)
        return Fit(np.maximum(h, 0.0), self.ell, self.drift, self.bound, e, square)

    @property
    def plain(self) -> plain_mixture.Model:
        e = np.zeros(len(self.H)) if self.residual is None else self.residual
        return plain_mixture.Model(self.theta, self.H, self.ell, e, self.bound, self.drift)


def plain_problem(link, S) -> plain.Problem:
    return plain.Problem(link.name, S, NOISE, 1.0, 1.0, 0.05)


def prior(j, dim, S) -> plain_mixture.Component:
    """Component j of the mixture."""
    return plain_mixture.components(plain_problem(LOGISTIC, S), dim, below=4.0**j)[j]


def newton_step(data: Data, start, ridge, S):
    """θ_1 and its multiplier: the minimum over the ball of the quadratic model at `start`."""
    H, theta = data.hessian(start), np.empty(len(start))
    matrix = H + ridge * np.eye(len(start))
    nu = minimise_quadratic(matrix, H @ start - data.gradient(start), S, theta)
    return theta, nu


def one_exchange(data: Data, ridge, S, steps) -> Model:
    """The model after some steps from 0, of which the last one is not evaluated."""
    start, nu, theta = np.zeros(data.X.shape[1]), 0.0, np.zeros(data.X.shape[1])
    for _ in range(steps):
        start = theta
        theta, nu = newton_step(data, start, ridge, S)
    H, move = data.hessian(start), theta - start
    q = concordance(data.link, S) * norm(move)
    return Model(theta, H, ridge + nu, q, taylor_excess(q) * np.sqrt(move @ H @ move))


def evaluated(data: Data, ridge, S, steps) -> Model:
    """The same model with its Hessian and its exact residual."""
    model = one_exchange(data, ridge, S, steps)
    return at(data, model.theta, model.ell)


def at(data: Data, theta, ell) -> Model:
    """Any point and any ℓ as a model: the residual pays for what it is."""
    return Model(theta, data.hessian(theta), ell, residual=data.gradient(theta) + ell * theta)


@dataclass(frozen=True)
class Local:
    """A client's own samples since a model, linearised there."""

    model: Model
    own: Data

    @cached_property
    def H(self):
        return self.model.H + self.own.hessian(self.model.theta)

    @cached_property
    def G(self):
        return self.own.gradient(self.model.theta)

    @cached_property
    def P(self):
        return inv(self.H + self.model.ell * np.eye(len(self.G)))

    @cached_property
    def u(self):
        return -self.P @ self.G

    @property
    def theta(self):
        return self.model.theta + self.u

    def given(self, first=False):
        """What `local_radius` takes from the client: gain, ‖u‖, m², ‖θ_i‖², trace."""
        ell, eye = self.model.ell, np.eye(len(self.G))
        gain = slogdet(self.H + ell * eye)[1] - slogdet(self.model.H + ell * eye)[1]
        m2 = max(-self.u @ self.G - ell * self.u @ self.u, 0.0)
        trace = np.trace(self.own.hessian(self.model.theta)) if first else -1.0
        return gain, norm(self.u), m2, self.theta @ self.theta, trace

    def radius(self, S, delta, terms, first=False) -> float:
        """The kernel's X of Theorem L."""
        s_bar = concordance(self.own.link, inf)
        return local_radius(*self.given(first), len(self.G), S, s_bar, delta, *terms[:-1])

    def plain_set(self, S, r, j, log_term, first=False) -> plain_mixture.LocalSet:
        """Theorem L for component j, where `log_term` is log(1/(w_jδ))."""
        p, own = plain_problem(self.own.link, S), plain_mixture.Samples(self.own.X, self.own.y)
        return plain_mixture.local_set(p, self.model.plain, own, j, r, log_term, first)


def log_evidence(data: Data, centre, precision, star, nodes=71, width=11.0) -> float:
    """log ∫ exp(L(θ*) − L(θ)) N(θ; centre, I/precision) dθ by the trapezoidal rule."""
    dim, eye = len(centre), np.eye(len(centre))
    mode, step = centre.copy(), np.ones(dim)
    while norm(step) > 1e-9:
        slope = data.gradient(mode) + precision * (mode - centre)
        step = solve(data.hessian(mode) + precision * eye, slope)
        mode = mode - step / max(norm(step), 1.0)
    root = cholesky(inv(data.hessian(mode) + precision * eye))
    axis = np.linspace(-width, width, nodes)
    grid = np.stack(np.meshgrid(*[axis] * dim), axis=-1).reshape(-1, dim)
    theta = mode + grid @ root.T
    log_prior = 0.5 * dim * log(precision / (2.0 * pi))
    log_prior = log_prior - 0.5 * precision * ((theta - centre) ** 2).sum(axis=1)
    exponent = data.loss(star) - data.loss(theta) + log_prior
    top = exponent.max()
    cell = (axis[1] - axis[0]) ** dim * np.prod(np.diag(root))
    return float(top + log(np.exp(exponent - top).sum() * cell))
