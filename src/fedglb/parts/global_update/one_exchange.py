"""One exchange per update: a Newton step whose residual is bounded, not evaluated."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

import numpy as np

from fedglb.errors import number, one_of
from fedglb.kernels.ball import minimise_quadratic
from fedglb.kernels.linalg import inverse_quadratic, solve
from fedglb.parts.global_update.base import GlobalUpdate, Objective, Query, Solution, Steps, Sums
from fedglb.parts.mixture import Fit, GlobalSet, global_set
from fedglb.parts.self_concordance import safe_step, taylor_excess
from fedglb.setting import Setting
from fedglb.typing import FloatArray

#: What the residual of an accepted model is measured by.
Within: TypeAlias = Literal["radius", "deviation"]

MAX_ROUNDS = 100


@dataclass(frozen=True)
class OneExchange(GlobalUpdate):
    """One Newton step from the model that all clients hold, further rounds only where needed.

    Clients answer the request for an update with gradient and Hessian at the last model: no
    covariance is gathered and no θ is sent to them. The residual of the step's end is bounded
    without another round; if the bound is too large, clients are asked for their sums there.

    Parameters
    ----------
    slack
        How much an unevaluated residual may cost. With within="radius" the share by which it may
        widen the proven confidence set; with "deviation" the number of posterior standard
        deviations that it may be. None: 0.2 and 0.1. Infinity with "deviation": exactly one
        exchange per update, and a step that is too long is shortened to one that is proven to
        decrease the loss.
    within
        "radius" (default): minimise over the ball ‖θ‖ ≤ S, for `Mixture`. "deviation": minimise
        over all θ, whatever S.

    Raises
    ------
    InvalidInput
        If an argument is invalid.

    Notes
    -----
    Where the link's self-concordance is not known there is no bound: then clients are asked for
    their sums at the step's end, until the residual there is small.

    References
    ----------
    docs/theory.md, section 7.4 (Proposition 19).

    Examples
    --------
    >>> import fedglb as fg
    >>> env = fg.Synthetic(fg.Problem(dim=3), clients=5, arms=4)
    >>> run = fg.simulate(fg.fedglb_mix(threshold=1.0), env, horizon=50, seed=1)
    >>> run.rounds / run.syncs < 2.0
    True
    """

    stored_name = "OneExchange"

    starts_at_model = True
    slack: float | None = None
    within: Within = "radius"

    def __post_init__(self) -> None:
        if self.slack is not None:
            number("slack", self.slack, above=0.0, allow_infinite=True)
        one_of("within", self.within, get_args(Within))

    @property
    def in_ball(self) -> bool:  # type: ignore[override]
        """Whether its models lie in the ball."""
        return self.within == "radius"

    @property
    def always_one(self) -> bool:
        """Whether every update is exactly one exchange."""
        return self.within == "deviation" and self.slack == math.inf

    def solve(self, objective: Objective) -> Steps:
        """Yield queries, receive sums, return the solution."""
        setting, theta = objective.setting, objective.start
        sums = objective.at_model
        known = setting.problem.link.self_concordance(math.inf) is not None
        if sums is None:
            sums = yield Query(theta.copy(), hessian=True)
        for _ in range(MAX_ROUNDS):
            step = self._step(setting, theta, sums)
            if self._accepts(setting, step):
                return step
            nu = step.multiplier
            if not known and _evaluated(setting, theta, sums, nu) <= self._deviation(setting):
                return _unevaluated(theta, nu, sums.hessian, 0.0, 0.0)
            moved, length = step.theta - theta, safe_step(step.drift) if known else 1.0
            slope = _slope(setting, theta, sums, moved)
            end = theta + length * moved
            if known and self.always_one:
                # the next update starts from here, with the exact gradient
                short = _unevaluated(end, 0.0, step.hessian, length * step.drift, math.inf)
                if sums.arms is None or step.effects is None:
                    return short
                u = sums.arms.u
                return replace(short, effects=u + length * (step.effects - u))
            sums = yield Query(end.copy(), hessian=True)
            # A step is too long if the loss, which is convex, rises at its end by more than half
            # of what it fell at its beginning.
            while not known and _slope(setting, end, sums, moved) > -0.5 * slope:
                length *= 0.5
                end = theta + length * moved
                sums = yield Query(end.copy(), hessian=True)
            theta = end
        raise FloatingPointError(f"no model was found in {MAX_ROUNDS} rounds")

    def _step(self, setting: Setting, theta: FloatArray, sums: Sums) -> Solution:
        """Return the end θ₁ of a Newton step from θ₀, and what is known of it without a round.

        The Hessian is H₀, that at θ₀. q = s‖θ₁ − θ₀‖, infinite where s is not known, and
        φ(q)‖θ₁ − θ₀‖ in the norm of H₀ bounds ‖∇L(θ₁) + (λ + ν)θ₁‖ in that of H₀⁻¹.
        """
        H, problem = sums.hessian, setting.problem
        assert H is not None
        pull = H @ theta - sums.gradient
        if sums.arms is not None:
            H, pull = sums.arms.reduced(setting, H, pull)
        regular = H + np.diag(setting.penalty)
        multiplier = 0.0
        if self.within == "radius":
            end = np.empty_like(theta)
            multiplier = minimise_quadratic(regular, pull, problem.S, end)
        else:
            end = solve(regular, pull)
        if not np.isfinite(end).all() or math.isnan(multiplier):
            raise FloatingPointError("the Hessian is not positive definite in double precision")
        moved, effects = end - theta, None
        # |xᵀθ| is at most the longer of the two all along the step
        reach, moves = max(float(np.linalg.norm(v)) for v in (theta, end)), np.linalg.norm(moved)
        if sums.arms is not None:
            effects, u = sums.arms.effects(setting, end), sums.arms.u
            reach += float(np.max(np.maximum(np.abs(u), np.abs(effects)), initial=0.0))
            moves += np.max(np.abs(effects - u), initial=0.0)
        s = problem.link.self_concordance(reach)
        drift = math.inf if s is None else s * float(moves)
        length = math.sqrt(max(float(moved @ H @ moved), 0.0))
        excess = taylor_excess(drift) if drift <= 700.0 else math.inf
        residual = excess * length if length > 0.0 else 0.0
        return replace(_unevaluated(end, multiplier, H, drift, residual), effects=effects)

    def _accepts(self, setting: Setting, step: Solution) -> bool:
        """Return whether the step's end needs no evaluation."""
        if not step.drift <= 1.79:  # then only part of the step would be taken
            return False
        if self.within == "deviation":
            return step.residual_bound <= self._deviation(setting)
        slack = 0.2 if self.slack is None else self.slack
        found = fit_set(setting, step)
        return found.width <= (1.0 + slack) * found.exact_width

    def _deviation(self, setting: Setting) -> float:
        """How large a residual may be, in the norm of the inverse Hessian."""
        given = self.slack if self.within == "deviation" else None
        slack = 0.1 if given is None else given
        if setting.problem.link.self_concordance(math.inf) is None:
            slack = min(slack, 0.1)  # only evaluated points end a solve
        return slack * math.sqrt(setting.problem.dispersion)


def fit_set(setting: Setting, step: Solution) -> GlobalSet:
    """Return the proven set around a step's end (`fedglb.parts.mixture`)."""
    problem = setting.problem
    assert step.hessian is not None
    d, unit = problem.dim, problem.dispersion
    s = problem.link.self_concordance(problem.S)
    assert s is not None
    h = np.maximum(np.linalg.eigvalsh(step.hessian) / unit, 0.0)
    fit = Fit(
        h, (setting.ridge + step.multiplier) / unit, step.drift,
        step.residual_bound / math.sqrt(unit), np.zeros(d), float(step.theta @ step.theta),
    )  # fmt: skip
    return global_set(fit, problem.S, s, 0.5 * setting.delta)


def _evaluated(setting: Setting, theta: FloatArray, sums: Sums, multiplier: float) -> float:
    """‖∇L + ℓθ‖ at an evaluated point, in the norm of (H + ℓI)⁻¹; ℓ = λ + ν."""
    assert sums.hessian is not None
    ell = setting.ridge + multiplier
    gradient = sums.gradient + ell * theta
    return math.sqrt(max(inverse_quadratic(sums.hessian, gradient, ell), 0.0))


def _slope(setting: Setting, theta: FloatArray, sums: Sums, moved: FloatArray) -> float:
    """The derivative of the regularised loss at an evaluated point, along a step."""
    return float((sums.gradient + setting.penalty * theta) @ moved)


def _unevaluated(
    theta: FloatArray, multiplier: float, hessian: FloatArray | None, drift: float, residual: float
) -> Solution:
    return Solution(
        theta=theta,
        gradient=np.full(theta.size, math.nan),
        multiplier=multiplier,
        projected=multiplier > 0.0,
        hessian=hessian,
        residual_bound=residual,
        drift=drift,
    )
