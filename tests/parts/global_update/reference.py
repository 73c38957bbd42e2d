"""Exact minimisers of regularised GLM losses, for tests: NumPy only, verified by optimality.

Φ = nF = Σ m(xᵀθ) − y xᵀθ + (λ/2)‖θ‖² is strongly convex, so a point with ∇Φ(θ) + νθ = 0, ν ≥ 0
and ν = 0 or ‖θ‖ = S *is* the minimiser over the ball, however it was found.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from fedglb.model import shared_theta
from fedglb.parts.global_update import Objective, Query, Sums
from fedglb.setting import Setting
from tests.links.families import Family

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_NODES, _WEIGHTS = 0.5 * (_NODES + 1.0), 0.5 * _WEIGHTS  # on [0, 1]


@dataclass(frozen=True)
class Optimum:
    theta: np.ndarray
    multiplier: float
    gradient: np.ndarray  # ∇Φ there: −νθ up to rounding

    @property
    def active(self) -> bool:
        return self.multiplier > 0.0


@dataclass(frozen=True)
class Data:
    """Samples, and what is minimised over them."""

    family: Family
    X: np.ndarray
    y: np.ndarray
    ridge: float
    radius: float

    @property
    def n(self) -> int:
        return len(self.y)

    @property
    def dim(self) -> int:
        return self.X.shape[1]

    @property
    def covariance(self) -> np.ndarray:
        return self.X.T @ self.X

    # -- Φ and its derivatives, regulariser included -------------------------------------------

    def value(self, theta: np.ndarray) -> float:
        z = self.X @ theta
        terms = self.family.cumulant(z) - self.y * z
        return math.fsum(terms) + 0.5 * self.ridge * float(theta @ theta)

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        return self.X.T @ (self.family.mean(self.X @ theta) - self.y) + self.ridge * theta

    def hessian(self, theta: np.ndarray) -> np.ndarray:
        weights = self.family.slope(self.X @ theta)
        return (self.X.T * weights) @ self.X + self.ridge * np.eye(self.dim)

    # -- the protocol's view ---------------------------------------------------------------------

    def objective(self, previous=None) -> Objective:
        problem = self.family.problem(self.dim, self.radius)
        setting = Setting(problem, clients=3, horizon=None, ridge=self.ridge, delta=0.05)
        M = self.covariance
        A = self.ridge / problem.c_mu * np.eye(self.dim) + M
        return Objective(setting, self.n, M, A, shared_theta(previous, self.dim), previous)

    def answer(self, query: Query) -> Sums:
        """The sums over all samples, without the regulariser."""
        z = self.X @ query.theta
        gradient = self.X.T @ (self.family.mean(z) - self.y)
        hessian = (self.X.T * self.family.slope(z)) @ self.X if query.hessian else None
        loss = math.fsum(self.family.cumulant(z) - self.y * z) if query.loss else None
        return Sums(gradient, hessian, loss)

    # -- the minimum ---------------------------------------------------------------------------

    def minimise(self, *, ball: bool, start: np.ndarray | None = None) -> Optimum:
        """The minimiser over the ball or over everything, to rounding; asserts that it is it."""
        start = np.zeros(self.dim) if start is None else start
        theta, nu = self._free(self.ridge, start), 0.0
        if ball and np.linalg.norm(theta) > self.radius:
            theta, nu = self._on_sphere(theta)
        gradient = self.gradient(theta)
        scale = 1.0 + np.abs(self.X.T) @ (np.abs(self.family.mean(self.X @ theta)) + abs(self.y))
        # 1e-13: rounding of the sums themselves
        assert np.linalg.norm(gradient + nu * theta) <= 1e-13 * np.linalg.norm(scale)
        assert nu >= 0.0
        if nu > 0.0:
            assert abs(np.linalg.norm(theta) - self.radius) <= 1e-15 * self.radius
        return Optimum(theta, nu, gradient)

    def gap(self, theta: np.ndarray, optimum: Optimum) -> float:
        """Φ(θ) − Φ(optimum), without cancellation where the two are close."""
        step = theta - optimum.theta
        u = self.X @ step
        if np.abs(u).max() > 0.5:
            return self.value(theta) - self.value(optimum.theta)
        z = (self.X @ optimum.theta)[:, None] + u[:, None] * _NODES
        curvature = self.family.slope(z) @ (_WEIGHTS * (1.0 - _NODES))
        second = math.fsum(u * u * curvature) + 0.5 * self.ridge * float(step @ step)
        if not optimum.active:
            return second + float(optimum.gradient @ step)
        # ∇Φ = −νθ*, and −2θ*ᵀ(θ − θ*) = ‖θ*‖² − ‖θ‖² + ‖θ − θ*‖² with ‖θ*‖ = S
        length = float(np.linalg.norm(theta))
        inward = (self.radius - length) * (self.radius + length) + float(step @ step)
        return second + 0.5 * optimum.multiplier * inward

    def rounding(self, optimum: Optimum) -> float:
        """How wrong `gap` can be: an ulp or four of ‖θ‖ against the multiplier, and dust."""
        return 1e-15 * optimum.multiplier * self.radius**2 + 1e-20 * (1.0 + self.n)

    def _free(self, ridge: float, theta: np.ndarray) -> np.ndarray:
        """Damped Newton steps on Φ with another ridge, until they no longer matter."""
        raised = Data(self.family, self.X, self.y, ridge, self.radius)
        g = raised.gradient(theta)
        for _ in range(200):
            step = np.linalg.solve(raised.hessian(theta), g)
            if np.linalg.norm(step) <= 1e-8 * (1.0 + np.linalg.norm(theta)):
                return theta - step  # the next one would be of the order of its square
            slope = float(step @ g)
            length = 1.0
            while length * np.abs(self.X @ step).max() > 20.0:  # e^z must not overflow
                length *= 0.5
            while True:
                trial = theta - length * step
                ahead = raised.gradient(trial)
                # Φ is convex: the step is too long if the derivative along it has turned
                if float(step @ ahead) >= -0.5 * slope or length < 1e-9:
                    break
                length *= 0.5
            theta, g = trial, ahead
        raise AssertionError("Newton's method did not converge")

    def _on_sphere(self, outside: np.ndarray) -> tuple[np.ndarray, float]:
        """The ridge raised until ‖θ‖ = S, then Newton steps on the optimality conditions."""
        S, d = self.radius, self.dim
        warm = outside * (S / np.linalg.norm(outside))

        def excess(nu: float) -> float:  # nearly linear in ν
            return 1.0 / S - 1.0 / float(np.linalg.norm(self._free(self.ridge + nu, warm)))

        high = 2.0 * float(np.linalg.norm(self.gradient(np.zeros(d)))) / S
        nu = float(brentq(excess, 0.0, high, xtol=1e-3 * self.ridge, rtol=1e-3))
        theta = self._free(self.ridge + nu, warm)
        for _ in range(8):
            K = np.zeros((d + 1, d + 1))
            K[:d, :d] = self.hessian(theta) + nu * np.eye(d)
            K[:d, d] = K[d, :d] = theta
            residual = np.append(self.gradient(theta) + nu * theta, 0.5 * (theta @ theta - S * S))
            step = np.linalg.solve(K, residual)
            theta, nu = theta - step[:d], nu - float(step[d])
            if np.linalg.norm(step) <= 1e-9 * (1.0 + nu):
                break
        return theta * (S / np.linalg.norm(theta)), nu


def draw(
    rng: np.random.Generator,
    family: Family,
    *,
    n: int | None = None,
    dim: int | None = None,
    ridge: float | None = None,
    radius: float | None = None,
    strength: float | None = None,
) -> Data:
    """A random problem: ‖x‖ ≤ 1, rewards of a θ* whose norm is `strength` times the radius."""
    n = int(rng.integers(1, 80)) if n is None else n
    dim = int(rng.integers(1, 7)) if dim is None else dim
    ridge = float(10.0 ** rng.uniform(-2.0, 1.0)) if ridge is None else ridge
    radius = float(rng.uniform(0.3, 2.5)) if radius is None else radius
    strength = float(rng.uniform(0.0, 1.5)) if strength is None else strength
    X = rng.standard_normal((n, dim))
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), rng.uniform(1.0, 2.0))
    truth = rng.standard_normal(dim)
    truth *= strength * radius / np.linalg.norm(truth)
    y = family.quantile(family.mean(X @ truth), rng.uniform(1e-9, 1.0, n))
    return Data(family, X, np.asarray(y, dtype=float), ridge, radius)


def point_in_ball(rng: np.random.Generator, dim: int, radius: float) -> np.ndarray:
    direction = rng.standard_normal(dim)
    return direction * (radius * rng.random() ** (1.0 / dim) / np.linalg.norm(direction))
