"""Each sample once: sums at the model in force, added up over all updates."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedglb.kernels.ball import minimise_quadratic
from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import MEAN, VARIANCE
from fedglb.kernels.linalg import dot
from fedglb.kernels.pointers import call1
from fedglb.parts.global_update.base import GlobalUpdate, Objective, Solution, Steps
from fedglb.problem import Problem
from fedglb.typing import FloatArray, IntArray

#: In `limits`: S, the smallest and the largest reward, the most that |y − μ + μ′z| and μ′ can be
#: then, the unit 2^BITS, and what they may be, so that no sum overflows.
BALL, LEAST, MOST, RESIDUAL, SLOPE, UNIT, LARGEST = range(7)
_ROOT_TWO = math.sqrt(2.0)


@kernel
def add_release(
    x: FloatArray,
    y: float,
    theta: FloatArray,
    functions: IntArray,
    limits: FloatArray,
    numbers: IntArray,
) -> int:
    """Add one sample's v = x(y − μ(z) + μ′(z)z) and μ′(z) x xᵀ; return 1 if they are too large.

    z = xᵀθ, y and what follows from them are clipped to `limits`, and ‖x‖ to 1. Each entry is
    rounded to a whole number of units before it is added. First v, then the lower triangle of the
    matrix, row by row, times √2 off the diagonal: the length of the numbers is then the Frobenius
    norm of the matrix.
    """
    d, unit, square = x.shape[0], limits[UNIT], dot(x, x)
    shorter = 1.0 if square <= 1.0 else 1.0 / math.sqrt(square)
    z = min(max(shorter * dot(x, theta), -limits[BALL]), limits[BALL])
    reward = min(max(y, limits[LEAST]), limits[MOST])
    weight = min(call1(functions[VARIANCE], z), limits[SLOPE])
    pull = reward - call1(functions[MEAN], z) + weight * z
    if not abs(pull) + weight <= limits[LARGEST]:
        return 1
    pull = shorter * min(max(pull, -limits[RESIDUAL]), limits[RESIDUAL])
    weight *= shorter * shorter
    for j in range(d):
        numbers[j] += math.floor(pull * x[j] * unit + 0.5)
    place = d
    for i in range(d):
        scaled = weight * x[i]
        for j in range(i):
            numbers[place] += math.floor(scaled * x[j] * _ROOT_TWO * unit + 0.5)
            place += 1
        numbers[place] += math.floor(scaled * x[i] * unit + 0.5)
        place += 1
    return 0


@kernel
def add_all_releases(
    X: FloatArray,
    y: FloatArray,
    first: IntArray,
    last: IntArray,
    theta: FloatArray,
    functions: IntArray,
    limits: FloatArray,
    numbers: IntArray,
) -> int:
    """Do as `add_release` does for each client i, over its rows first[i] … last[i] − 1.

    `numbers` has a row per client. Returns the number of samples that were too large, and left out.
    """
    refused = 0
    for i in range(X.shape[0]):
        for s in range(first[i], last[i]):
            refused += add_release(X[i, s], y[i, s], theta, functions, limits, numbers[i])
    return refused


#: Eigenvalues that the noise made too small are raised to this part of their mean.
_FLOOR = 0.1


@dataclass(frozen=True)
class OnePass(GlobalUpdate):
    """A ridge regression on samples that are linearised once, each at the model in force.

    A sample adds v = x(y − μ(z) + μ′(z)z) and H = μ′(z) x xᵀ, z = xᵀθ at the model that its client
    holds when an update takes it in, and is never evaluated again. The model is the minimum of
    ½θᵀ(H + λI)θ − vᵀθ over the ball, with sums over all samples so far. One message goes up and
    one model comes down per client and update. With the identity link it is exact ridge regression.

    With the noise of privacy in the sums, H is drawn towards a multiple of the identity, as far as
    the noise explains what it differs by, and θ is the posterior mean given that v = Hθ has the
    noise of both sums in it. (That looks at nothing but the noisy sums, so it costs no privacy.)

    docs/theory.md, section 10; docs/privacy.md.
    """

    stored_name = "OnePass"

    refits = False
    one_pass = True

    def solve(self, objective: Objective) -> Steps:
        """Return the solution without any query."""
        sums, problem = objective.one_pass, objective.setting.problem
        assert sums is not None
        ridge, d = objective.setting.ridge, problem.dim
        H = denoised(sums.H, sums.noise[1])
        quadratic, target = posterior(H, sums.v, noise_variance(problem, *sums.noise), ridge)
        theta = np.empty(d)
        multiplier = minimise_quadratic(quadratic, target, problem.S, theta)
        if math.isnan(multiplier):
            raise FloatingPointError("the sums are not positive definite in double precision")
        return Solution(
            theta=theta,
            gradient=np.full(d, math.nan),
            projected=multiplier > 0.0,
            hessian=H,
        )
        yield  # a generator without queries


def denoised(hessian: FloatArray, sigma: float) -> FloatArray:
    """Return an estimate of H, given that its entries have noise of σ (σ/√2 off the diagonal).

    The part of H that is no multiple of the identity has about σ²d(d + 1)/2 of noise in its squared
    norm; where it has not more than that, it is all noise and left out (James and Stein 1961). The
    multiple is taken for one standard deviation of its noise at least, and no eigenvalue for less
    than a tenth of it.
    """
    if sigma == 0.0:
        return hessian
    d = len(hessian)
    mean = max(float(hessian.trace()) / d, sigma / math.sqrt(d))
    rest = hessian - mean * np.eye(d)
    of_noise, found = 0.5 * sigma**2 * d * (d + 1), float((rest * rest).sum())
    kept = 1.0 - of_noise / found if found > of_noise else 0.0  # in one dimension nothing is found
    return _at_least(mean * np.eye(d) + kept * rest, _FLOOR * mean)


def noise_variance(problem: Problem, vector: float, matrix: float) -> float:
    """Return s², the variance of the noise in v − Hθ per coordinate: σ_v² + σ_H²S²(1 + 1/d)/2.

    (Nθ has the covariance σ_H²(‖θ‖²I + θθᵀ)/2 for the noise N of H.) It is in units of the
    dispersion: rewards alone give v − Hθ the covariance H in these units.
    """
    both = vector**2 + 0.5 * (matrix * problem.S) ** 2 * (1.0 + 1.0 / problem.dim)
    return both / problem.dispersion


def posterior(
    H: FloatArray, v: FloatArray, variance: float, ridge: float
) -> tuple[FloatArray, FloatArray]:
    """Return Q and w such that the posterior mean minimises ½θᵀQθ − wᵀθ.

    v = Hθ + noise of covariance H + s²I, and θ has the prior N(0, I/λ): Q = H(H + s²I)⁻¹H + λI and
    w = H(H + s²I)⁻¹v. Without noise that is H + λI and v.
    """
    if variance == 0.0:
        return H + ridge * np.eye(len(H)), v
    values, vectors = np.linalg.eigh(H)
    trust = values / (values + variance)
    Q = (vectors * (values * trust + ridge)) @ vectors.T
    return np.asarray(0.5 * (Q + Q.T)), np.asarray(vectors @ (trust * (vectors.T @ v)))


def _at_least(A: FloatArray, least: float) -> FloatArray:
    """Return A with eigenvalues below `least` raised to it."""
    values, vectors = np.linalg.eigh(A)
    if values[0] >= least:
        return A
    raised = (vectors * np.maximum(values, least)) @ vectors.T
    return np.asarray(0.5 * (raised + raised.T))
