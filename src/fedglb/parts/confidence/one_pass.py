"""The proven ellipsoid of a one-pass fit, with the noise of privacy in it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedglb.errors import InvalidInput
from fedglb.kernels.compile import kernel
from fedglb.kernels.decide import bounds_around
from fedglb.kernels.layout import HIGH, LOW, UPPER, in_order
from fedglb.kernels.linalg import invert, quadratic
from fedglb.model import SharedModel, triangle_size
from fedglb.parts.confidence.base import INDEPENDENT, Confidence, check_likelihood
from fedglb.parts.confidence.one_pass_set import Expansion, smallest_set
from fedglb.parts.global_update import Objective, Passed, Solution
from fedglb.parts.local_update import FrozenHessianState
from fedglb.parts.self_concordance import taylor_excess
from fedglb.privacy.fixed_point import UNIT
from fedglb.privacy.gaussian import NoisePlan
from fedglb.problem import Problem
from fedglb.setting import Setting
from fedglb.typing import FloatArray

#: Places in the radius terms: ρ, then the centre, then W (sent as a triangle) or W⁻¹ (at clients).
RADIUS, SET_CENTRE = 0, 1
#: The only place in the constants: S.
BALL = 0
#: Window sizes tried: sets are made of all batches, and of these numbers of the last ones.
WINDOWS = (4, 6, 8, 12, 16, 24, 32, 48, 64)
#: A set replaces another if it is smaller by this factor: where all are about the ball, the
#: one of all batches separates arms best.
_SMALLER = 0.999


@kernel
def one_pass_radius(
    vectors: FloatArray, counters: FloatArray, radius_terms: FloatArray, constants: FloatArray
) -> float:
    """ρ; 1, in the norm of the ball, before the first model."""
    return float(radius_terms[RADIUS])


@kernel
def one_pass_bounds(
    arms: FloatArray,
    vectors: FloatArray,
    matrices: FloatArray,
    counters: FloatArray,
    radius_terms: FloatArray,
    constants: FloatArray,
    alpha: float,
    with_interval: int,
    work: FloatArray,
) -> int:
    """Write the bounds of the set around its own centre; with an interval, within ±S‖x‖ too."""
    d, K = arms.shape
    first = SET_CENTRE + d
    inverse = radius_terms[first : first + d * d].reshape((d, d))
    bounds_around(arms, radius_terms[SET_CENTRE:first], inverse, alpha, with_interval, work)
    if with_interval != 0:
        for k in range(K):
            square = 0.0
            for j in range(d):
                square += arms[j, k] * arms[j, k]
            most = constants[BALL] * math.sqrt(square)
            work[HIGH, k] = min(work[UPPER, k], most)
            work[LOW, k] = max(work[LOW, k], -most)
    return 0


@dataclass(frozen=True)
class OnePassRadius(Confidence[FrozenHessianState]):
    """The proven set of the one-pass update: likelihood-ratio mixtures, the noise among them.

    An ellipsoid with its own centre and matrix, which the coordinator works out at each
    update from what was released, and sends with the model: 1 + d + d(d+1)/2 numbers. It
    holds θ* at all updates with probability 1 − δ. Neither c_μ nor R enters it (R does for the
    identity link).

    Raises
    ------
    InvalidInput
        From `check`, if the link's loss is not a likelihood (probit). From `constants`, if the
        noise is so small that its whole numbers are not like normal ones (ε above 10⁶ or more).

    References
    ----------
    docs/theory.md, section 10 (Theorem 36).

    Examples
    --------
    >>> import fedglb as fg
    >>> env = fg.Synthetic(fg.Problem(dim=2), clients=50, arms=5)
    >>> proven = fg.fedglb_private(updates=8, confidence=fg.OnePassRadius())
    >>> run = fg.simulate(proven, env, horizon=100, seed=1)
    >>> run.updates["theta_star_inside"].all()
    True
    """

    stored_name = "OnePassRadius"

    state_type = FrozenHessianState
    formula = staticmethod(one_pass_radius)
    bounds = staticmethod(one_pass_bounds)
    scalable = False
    needs_ball = True
    needs_path = True
    sub_gaussian = False
    federation_caveats = (f"without privacy {INDEPENDENT}",)

    def check(self, problem: Problem) -> None:
        """Raise `InvalidInput` if the link's loss is not a likelihood."""
        otherwise = "; without a proven set, fg.Fixed(alpha) or the default of fg.fedglb_private"
        check_likelihood(problem, otherwise)

    def caveats(self, problem: Problem) -> tuple[str, ...]:
        """Return for which updates and rewards the set is proven."""
        everybody = "the set is proven where every client takes part in every update"
        if math.isfinite(problem.link.support[1] - problem.link.support[0]):
            return (everybody,)
        clipped = (
            "with privacy rewards are clipped to reward_limit: the set is proven for rewards that "
            "this leaves as they are"
        )
        return (everybody, clipped)

    def radius_terms(
        self, setting: Setting, objective: Objective, solution: Solution
    ) -> tuple[float, ...]:
        """Return ρ, the centre, and the lower triangle of W of the smallest set."""
        problem, d = setting.problem, setting.problem.dim
        assert objective.one_pass is not None
        fit = _Fit(setting, objective.one_pass.path, solution.theta)
        windows = [(fit.share(start), *fit.expansion(start)) for start in fit.starts()]
        length, radius = float(np.linalg.norm(solution.theta)), 1.0
        reach = fit.s * (problem.S + min(length, problem.S))
        centre, W = np.zeros(d), np.eye(d) / problem.S**2
        # all windows hold at once: what one of them knows of ‖θ* − θ‖ makes all others smaller
        for last_round in (False, True):
            width = math.inf
            for share, at, basis in windows:
                ell = setting.ridge / problem.dispersion + at.error
                found = smallest_set(at, problem.S, fit.s, share, ell, reach)
                reach = min(reach, found.reach)
                if last_round and found.width < _SMALLER * width:
                    width, radius = found.width, found.radius
                    values = found.curvature * at.low + found.shift
                    move = (at.slope + found.ell * at.theta) / values
                    centre, W = solution.theta - basis @ move, (basis * values) @ basis.T
        return (radius, *centre.tolist(), *W[np.tril_indices(d)].tolist())

    def terms(self, setting: Setting, model: SharedModel | None) -> FloatArray:
        """Return ρ, the centre and W⁻¹; before the first model those of the ball."""
        d = setting.problem.dim
        if model is None:
            inverse = setting.problem.S**2 * np.eye(d)
            return np.concatenate([np.array([1.0]), np.zeros(d), inverse.ravel()])
        inverse = np.empty((d, d))
        if not invert(_matrix(model, d), inverse):
            allowed = "ρ, a centre and the triangle of a positive definite matrix"
            raise InvalidInput("radius_terms", model.radius_terms, allowed)
        return np.concatenate([model.radius_terms[: SET_CENTRE + d], inverse.ravel()])

    def constants(self, setting: Setting) -> tuple[float, ...]:
        """Return S; raise `InvalidInput` if the noise is too small for the proof."""
        _check_noise(setting)
        return in_order({BALL: setting.problem.S})

    def centre(self, state: FrozenHessianState) -> FloatArray:
        """Return the set's own centre; 0 before the first model."""
        if state.base is None:
            return np.zeros_like(state.theta)
        return state.base.radius_terms[SET_CENTRE : SET_CENTRE + len(state.theta)]

    def contains(
        self, setting: Setting, state: FrozenHessianState, alpha: float, parameter: FloatArray
    ) -> bool:
        """Return whether the set contains a parameter."""
        d, base = setting.problem.dim, state.base
        W = np.eye(d) / setting.problem.S**2 if base is None else _matrix(base, d)
        error = parameter - self.centre(state)
        return math.sqrt(max(quadratic(W, error), 0.0)) <= alpha * (1.0 + 1e-9)


def _matrix(model: SharedModel, d: int) -> FloatArray:
    """Return W of a model's radius terms."""
    numbers = model.radius_terms
    if numbers.size != SET_CENTRE + d + triangle_size(d):
        allowed = f"{SET_CENTRE + d + triangle_size(d)} numbers: ρ, a centre, a triangle"
        raise InvalidInput("radius_terms", f"{numbers.size} numbers", allowed)
    W = np.empty((d, d))
    rows, columns = np.tril_indices(d)
    W[rows, columns] = W[columns, rows] = numbers[SET_CENTRE + d :]
    return W


class _Fit:
    """All batches of a one-pass fit, looked at from its last model, in units of the likelihood."""

    def __init__(self, setting: Setting, path: tuple[Passed, ...], theta: FloatArray) -> None:
        problem, unit, d = setting.problem, setting.problem.dispersion, setting.problem.dim
        s = problem.link.self_concordance(problem.S)
        assert s is not None  # checked by `check`
        self.s, self._setting, self._theta, self._last = s, setting, theta, len(path)
        zeros = np.zeros((1, d, d))
        self._P = np.concatenate([zeros, np.stack([each.H for each in path])]) / unit
        self._U = np.concatenate([zeros[:, 0], np.stack([each.v for each in path])]) / unit
        moves = theta - np.stack([each.theta for each in path])
        lengths = np.sqrt((moves * moves).sum(axis=1))
        turns = s * lengths
        # w_j and their inverses as monotone bounds: sums by parts then have terms of one sign
        self._weights = np.exp(-np.maximum.accumulate(turns[::-1])[::-1])
        batches = np.diff(self._P, axis=0)
        self._low = _sums_from(self._weights[:, None, None] * batches)
        self._high = _sums_from(batches / self._weights[:, None, None])
        self._noise = _Noise(setting, path)
        along = np.einsum("ki,kij,kj->k", moves, batches, moves)
        steps = np.array([self._noise.matrix(j, j + 1) for j in range(len(path))])
        factors = np.array([taylor_excess(q) for q in turns.tolist()]) ** 2 / self._weights
        self._remainders = _sums_from(factors * np.maximum(along + steps * lengths**2, 0.0))

    def starts(self) -> list[int]:
        """Return the starts of the windows, in batches; 0: all of them."""
        return [0, *(self._last - size for size in WINDOWS if size < self._last)]

    def share(self, start: int) -> float:
        """Return the probability with which the set of this window may fail."""
        half = 0.5 * self._setting.delta
        if (plan := self._setting.noise) is not None:  # an event for each update and window
            return half / plan.updates * (0.5 if start == 0 else 0.5 / len(WINDOWS))
        return half if start == 0 else half / (start * (start + 1.0))

    def expansion(self, start: int) -> tuple[Expansion, FloatArray]:
        """Return the sums of the batches after the first `start`, and their eigenvectors."""
        last, weights = self._last, self._weights[start:]
        errors = np.array([self._noise.matrix(start, j) for j in range(start + 1, last + 1)])
        low, basis = np.linalg.eigh(self._low[start])
        # Σ_j g_jP_j by parts, for g_j = w_j and for g_j = 1/w_j
        drift = float(np.diff(weights) @ errors[:-1])
        excess = float(errors[-1] / weights[-1] - np.diff(1.0 / weights) @ errors[:-1])
        high = np.maximum(np.linalg.eigvalsh(self._high[start]) + excess, 0.0)
        P, U = self._P[last] - self._P[start], self._U[last] - self._U[start]
        expansion = Expansion(
            low=low,
            high=high,
            slope=basis.T @ (P @ self._theta - U),
            theta=basis.T @ self._theta,
            remainder=math.sqrt(self._remainders[start]),
            weight=float(weights[-1]),
            error=float(errors[-1]),
            drift=drift,
            noise=self._noise.vector(start, last),
        )
        return expansion, basis


class _Noise:
    """How large the noise of privacy is between two prefix sums; 0 without privacy."""

    def __init__(self, setting: Setting, path: tuple[Passed, ...]) -> None:
        self._plan: NoisePlan | None = setting.noise
        if self._plan is None:
            return
        problem, d = setting.problem, setting.problem.dim
        scales = self._plan.scales() * (UNIT / problem.dispersion)
        self._vector, self._matrix = float(scales[0]), float(scales[-1])
        # ‖N‖ ≤ σ(√(2d) + t) for all pairs of prefix sums, but with probability δ/2
        self._tail = math.sqrt(2.0 * d) + _deviations(self._plan, setting)
        self._both = self._vector**2 + (self._matrix * problem.S) ** 2
        numbers = [each.number for each in path]
        self._factors = np.zeros((len(path) + 1, len(path)))  # of releases in prefix sums
        for j, last in enumerate(numbers):
            for k in range(j + 1):
                self._factors[j + 1, k] = self._plan.factors.decoder[last - 1, numbers[k] - 1]
        self._clients = np.array([float(each.clients) for each in path])

    def _variance(self, first: int, last: int) -> float:
        """Return the factor of a share's variance between two prefix sums."""
        return float(((self._factors[last] - self._factors[first]) ** 2 * self._clients).sum())

    def matrix(self, first: int, last: int) -> float:
        """Return κ: a bound on the noise in the difference of two prefix sums of matrices."""
        if self._plan is None:
            return 0.0
        return self._matrix * math.sqrt(self._variance(first, last)) * self._tail

    def vector(self, first: int, last: int) -> float:
        """Return c̄: how large a variance n − Nθ* has, n and N being the noise in Ũ and P̃."""
        return 0.0 if self._plan is None else self._both * self._variance(first, last)


def _deviations(plan: NoisePlan, setting: Setting) -> float:
    """Return t of Lemma 34: √(2 log(2B(B+1)/δ))."""
    return math.sqrt(2.0 * math.log(2.0 * plan.updates * (plan.updates + 1) / setting.delta))


def _check_noise(setting: Setting) -> None:
    """Raise unless Lemma 34 holds for the whole numbers that agents draw: (10.0) of the theory."""
    plan, d = setting.noise, setting.problem.dim
    if plan is None:
        return
    sigma = math.sqrt(plan.share_variance()[1] * setting.clients)
    least = 36.0 * math.sqrt(2.0 * d) * (_deviations(plan, setting) + math.sqrt(5.0 * d + 20.0))
    if not sigma >= least:
        allowed = (
            f"a smaller epsilon, or another radius: noise of {sigma:.3g} units of 2⁻³⁰ in the sums "
            f"is below {least:.3g}, from which on the set is proven"
        )
        raise InvalidInput("confidence", "OnePassRadius()", allowed)


def _sums_from(terms: FloatArray) -> FloatArray:
    """Return the sums of terms k, k + 1, … for each k."""
    return np.asarray(terms[::-1].cumsum(axis=0)[::-1])
