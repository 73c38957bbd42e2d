"""`OneExchange` and `Refit` in whole solves: what they claim of a point that nobody evaluated."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fedglb as fg
from fedglb.model import SharedModel
from fedglb.parts.global_update import (
    LBFGS,
    Newton,
    Objective,
    OneExchange,
    Query,
    Refit,
    Sums,
)
from fedglb.parts.local_update import Anchored, Ons
from fedglb.parts.ridge import Evidence
from fedglb.setting import Setting
from tests.links.families import FAMILIES
from tests.parts.global_update import driving
from tests.parts.global_update.reference import Data, draw, point_in_ball

FREE = OneExchange(within="deviation")


def objective(data, start, *, at_model=True):
    """As an update makes it: all clients hold `start`, and have sent their sums there."""
    d = data.dim
    previous = SharedModel(1, np.eye(d), np.zeros(0), theta=np.array(start, dtype=float))
    if not at_model:
        return data.objective(previous)
    sums = data.answer(Query(previous.theta, hessian=True))
    fitted = replace(data.objective(previous), covariance=sums.hessian, at_model=sums)
    return replace(fitted, matrix=data.ridge * np.eye(d) + sums.hessian)


def drive(solver, data, start):
    at_model = getattr(solver, "solver", solver).starts_at_model  # of a `Refit`, its solver's
    return driving.drive(solver, data, objective(data, start, at_model=at_model))


def problem(rng, name, S, *, active=None):
    """A problem with more samples than features, so that H is regular."""
    while True:
        d = int(rng.integers(1, 6))
        n = int(rng.integers(3 * d, 200))
        data = draw(rng, FAMILIES[name], n=n, dim=d, radius=S, strength=float(rng.uniform(0.2, 1)))
        if active:
            data = replace(
                data, radius=0.5 * float(np.linalg.norm(data.minimise(ball=False).theta))
            )
            if data.radius < 1e-3:  # nothing to shrink
                continue
        return data


def starts(rng, data, optimum):
    """Zero, near the minimum as between updates, and anywhere in the ball."""
    close = optimum.theta + 0.1 * data.radius * rng.standard_normal(data.dim) / math.sqrt(data.dim)
    length = float(np.linalg.norm(close))
    close *= min(1.0, data.radius / length) if length > 0.0 else 1.0
    return [np.zeros(data.dim), close, point_in_ball(rng, data.dim, data.radius)]


@dataclass(frozen=True)
class Claim:
    """What a solution says of itself, beside what is true."""

    residual: float  # ‖∇Φ + νθ‖ in the norm of Ĥ⁻¹
    bound: float
    smallest: float  # eigenvalues of the Hessian at θ relative to Ĥ
    largest: float
    drift: float
    rounding: float


def claim(data, solution):
    L = np.linalg.cholesky(solution.hessian)
    error = data.gradient(solution.theta) + solution.multiplier * solution.theta
    there = data.hessian(solution.theta) - data.ridge * np.eye(data.dim)
    relative = np.linalg.eigvalsh(np.linalg.solve(L, np.linalg.solve(L, there).T))
    # rounding of sums of n terms, seen through Ĥ⁻¹
    size = np.abs(data.X.T) @ (np.abs(data.family.mean(data.X @ solution.theta)) + abs(data.y))
    scale = float(np.linalg.norm(size)) + (data.ridge + solution.multiplier) * data.radius
    rounding = 1e-13 * scale / math.sqrt(float(np.linalg.eigvalsh(solution.hessian)[0]))
    return Claim(
        float(np.linalg.norm(np.linalg.solve(L, error))), solution.residual_bound,
        float(relative[0]), float(relative[-1]), solution.drift, rounding,
    )  # fmt: skip


CASES = [
    (solver, name, S, active)
    for solver in (OneExchange(), FREE)
    for name in ("logistic", "poisson")
    for S in (1.0, 3.0, 10.0)
    for active in (False, True)
    if name == "logistic" or S <= 3.0  # e^10 rewards per sample are beyond what H can hold
    if not (active and solver is FREE)  # it has no ball
]


@pytest.mark.parametrize(("solver", "name", "S", "active"), CASES)
def test_the_accepted_model_is_what_it_claims(solver, name, S, active):
    """24 problems with three starts each, for 15 cases: the residual, the Hessian, the distance."""
    rng = np.random.default_rng([len(name), int(S), active])
    rounds, used, projected = [], [], 0
    for _ in range(24):
        data = problem(rng, name, S, active=active)
        optimum = data.minimise(ball=solver is not FREE)
        for start in starts(rng, data, optimum):
            solution, queries = drive(solver, data, start)
            made = claim(data, solution)
            assert made.residual <= made.bound * (1.0 + 1e-9) + made.rounding
            low, high = math.exp(-made.drift), math.exp(made.drift)
            assert made.smallest >= low * (1.0 - 1e-9)
            assert made.largest <= high * (1.0 + 1e-9)
            close_to(data, solution, optimum, made)
            assert solution.multiplier >= 0.0
            assert np.linalg.norm(solution.theta) <= data.radius * (1.0 + 1e-12) or solver is FREE
            assert solution.projected == (solution.multiplier > 0.0)
            rounds.append(1 + len(queries))
            projected += solution.projected
            if made.bound > 1e-9:
                used.append(made.residual / made.bound)
    assert (projected > 36) == active  # as the case says, in most of its solves
    assert max(rounds) <= 20
    assert min(rounds) == 1
    assert max(used) > 0.02  # the bound is no dead letter


def close_to(data, solution, optimum, made):
    """The distance to the exact minimum is what the residual implies, by monotone gradients.

    With D the difference, (∇Φ(θ) − ∇Φ(θ̂))ᵀD ≤ eᵀD (both solve a variational inequality), and the
    Hessian between them is at least (1 − e^{−r})/r·e^{−q}Ĥ with r = s‖D‖, s ≤ 1.
    """
    D = solution.theta - optimum.theta
    length = math.sqrt(float(D @ solution.hessian @ D))
    r = float(np.linalg.norm(D))
    kept = -math.expm1(-r) / r if r > 1e-9 else 1.0
    kept *= math.exp(-made.drift)
    known = kept * length**2 + data.ridge * r**2
    assert known <= (made.bound + made.rounding) * length * (1.0 + 1e-6) + 1e-20


@pytest.mark.parametrize("name", ["logistic", "poisson"])
def test_further_rounds_where_the_step_is_long_and_none_where_it_is_short(name):
    rng = np.random.default_rng(7)
    for _ in range(20):
        data = problem(rng, name, 3.0)
        optimum = data.minimise(ball=True)
        solution, queries = drive(OneExchange(), data, optimum.theta)
        assert queries == []
        assert_allclose(solution.theta, optimum.theta, atol=1e-9)
        solution, queries = drive(OneExchange(slack=1e-12), data, np.zeros(data.dim))
        assert len(queries) > 0 or np.linalg.norm(optimum.theta) < 0.01
        assert claim(data, solution).residual <= 1e-4
        for query in queries:
            assert query.hessian
            assert not query.loss


@pytest.mark.parametrize("solver", [OneExchange(), FREE], ids=["radius", "deviation"])
def test_the_identity_link_needs_one_round_and_is_exact(solver):
    rng = np.random.default_rng(9)
    for k in range(40):
        data = problem(rng, "identity", 1.0, active=k % 2 == 1)
        optimum = data.minimise(ball=solver is not FREE)
        for start in starts(rng, data, optimum):
            solution, queries = drive(solver, data, start)
            assert queries == []
            assert (solution.residual_bound, solution.drift) == (0.0, 0.0)
            assert_allclose(solution.theta, optimum.theta, rtol=1e-9, atol=1e-10)
            assert solution.multiplier == pytest.approx(optimum.multiplier, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("solver", [OneExchange(), FREE], ids=["radius", "deviation"])
@pytest.mark.parametrize("active", [False, True])
def test_a_link_of_unknown_self_concordance(solver, active):
    """The model is a point that clients have evaluated, and its residual is small."""
    rng = np.random.default_rng(10)
    for _ in range(20):
        data = problem(rng, "hyperbolic", 1.5, active=active)
        optimum = data.minimise(ball=solver is not FREE)
        for start in starts(rng, data, optimum):
            solution, queries = drive(solver, data, start)
            evaluated = [start, *(query.theta for query in queries)]
            assert any(np.array_equal(solution.theta, theta) for theta in evaluated)
            assert (solution.residual_bound, solution.drift) == (0.0, 0.0)
            there = data.hessian(solution.theta)
            assert_allclose(solution.hessian, there - data.ridge * np.eye(data.dim), atol=1e-9)
            error = data.gradient(solution.theta) + solution.multiplier * solution.theta
            H = there + solution.multiplier * np.eye(data.dim)
            assert math.sqrt(error @ np.linalg.solve(H, error)) <= 0.1 + 1e-9
            assert len(queries) <= 10


def test_probit_has_a_bound_too():
    """|μ″/μ′| = |z|: the longer of the two ends of the step bounds it."""
    rng = np.random.default_rng(11)
    for _ in range(40):
        data = problem(rng, "probit", 1.5)
        optimum = data.minimise(ball=False)
        for start in starts(rng, data, optimum):
            made = claim(data, drive(FREE, data, start)[0])
            assert made.residual <= made.bound * (1.0 + 1e-9) + made.rounding
            assert made.bound <= 0.1
            assert math.exp(-made.drift) * (1.0 - 1e-9) <= made.smallest
            assert made.largest <= math.exp(made.drift) * (1.0 + 1e-9)


# -- with the ridge's rule ------------------------------------------------------------------------


def next_ridge(hessian, theta, ridge, start, dispersion=1.0):
    """λ′ = (γ + 1)/(‖θ‖² + 1/λ₀) in units of the likelihood, and back."""
    h = np.linalg.eigvalsh(hessian / dispersion)
    gamma = float(np.sum(h / (h + ridge / dispersion)))
    return dispersion * (gamma + 1.0) / (float(theta @ theta) + dispersion / start)


SOLVERS = {
    "one exchange": FREE, "one exchange in the ball": OneExchange(), "newton": Newton(),
    "lbfgs": LBFGS(), "agd": fg.AGD(tolerance=1e-6),
}  # fmt: skip


@pytest.mark.parametrize("name", ["logistic", "poisson", "identity"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_a_second_fit_with_the_chosen_ridge(solver, name):
    rng = np.random.default_rng(13)
    refit = Refit(SOLVERS[solver], Evidence(start=0.25), Anchored().prior, with_hessian=True)
    again = 0
    for _ in range(12):
        data = problem(rng, name, 1.5)
        start = 0.5 * point_in_ball(rng, data.dim, 1.5)
        first, asked = drive(replace(refit, rule=None), data, start)
        solution, queries = drive(refit, data, start)
        dispersion = data.objective().setting.problem.dispersion
        ridge = next_ridge(first.hessian, first.theta, data.ridge, 0.25, dispersion)
        assert solution.ridge == pytest.approx(ridge, rel=1e-9)
        # the second fit is the one of the new λ
        other, begin = replace(data, ridge=solution.ridge), first.theta
        if "exchange" in solver:  # it goes on from the last sums
            begin = asked[-1].theta if asked else start
        end, _ = drive(replace(refit, rule=None), other, begin)
        assert_array_equal(solution.theta, end.theta)
        assert_array_equal(solution.hessian, end.hessian)
        # nothing is asked twice
        points = [query.theta.tobytes() for query in queries]
        if "exchange" in solver or solver == "newton":  # (others ask for less at first)
            assert len(set(points)) == len(points)
        kinds = [(q.theta.tobytes(), q.hessian, q.loss) for q in queries]
        assert len(set(kinds)) == len(kinds)
        assert points[: len(asked)] == [query.theta.tobytes() for query in asked]
        again += len(queries) > len(asked)
    if "exchange" in solver and name == "identity":
        assert again == 0


def test_the_dispersion_is_the_unit_of_the_ridge():
    """R enters for the identity link; λ′ as if all had been divided by R²."""
    rng = np.random.default_rng(15)
    X = rng.standard_normal((30, 2)) / 2.0
    wide = replace(FAMILIES["identity"], noise=3.0)
    data = Data(wide, X, X @ [0.4, -0.2] + 3.0 * rng.standard_normal(30), 0.7, 2.0)
    solution, _ = drive(Refit(FREE, Evidence(0.5), Anchored().prior, True), data, np.zeros(2))
    first, _ = drive(FREE, data, np.zeros(2))
    assert solution.ridge == pytest.approx(
        next_ridge(X.T @ X, first.theta, 0.7, 0.5, dispersion=9.0), rel=1e-12
    )
    assert solution.ridge != pytest.approx(next_ridge(X.T @ X, first.theta, 0.7, 0.5), rel=0.1)


def test_the_matrix_of_another_local_update_gets_its_own_prior():
    """With online Newton steps A starts from λ/c_μ, so A changes by (λ′ − λ)/c_μ."""
    rng = np.random.default_rng(16)
    data = problem(rng, "logistic", 1.0)
    given, refit = data.objective(), Refit(fg.Newton(), Evidence(), Ons().prior, False)
    solution, _ = drive(refit, data, np.zeros(data.dim))
    fitted = solution.fitted
    assert fitted.setting.ridge != data.ridge
    change = (fitted.setting.ridge - data.ridge) / given.setting.problem.c_mu
    assert_allclose(fitted.matrix, given.matrix + change * np.eye(data.dim), rtol=1e-12)


# -- exactly one exchange per update, and a step that decreases the loss ------------------------

ALWAYS = fg.OneExchange(math.inf, "deviation")


@pytest.mark.parametrize("link", [fg.Logistic(), fg.Poisson()])
@pytest.mark.parametrize("seed", range(20))
def test_step_from_zero_decreases_the_loss_and_asks_nobody(link, seed):
    rng = np.random.default_rng(seed)
    d, n, ridge = 4, int(rng.integers(1, 12)), 10.0 ** rng.uniform(-4, 0)
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = rng.integers(0, 2, n) * (20.0 if link.name == "poisson" else 1.0)

    def loss(theta):
        z = X @ theta
        convex = np.exp(z) if link.name == "poisson" else np.logaddexp(0.0, z)
        return float(np.sum(convex - y * z) + 0.5 * ridge * theta @ theta)

    mean, slope = (1.0, 1.0) if link.name == "poisson" else (0.5, 0.25)
    sums = Sums(X.T @ (mean - y), slope * X.T @ X)
    problem = fg.Problem(d, link, noise=1.0)
    setting = Setting(problem, 2, None, ridge, 0.01)
    regular = sums.hessian + ridge * np.eye(d)
    with pytest.raises(StopIteration) as ended:
        next(ALWAYS.solve(Objective(setting, n, None, regular, np.zeros(d), at_model=sums)))
    solution = ended.value.value
    full = np.linalg.solve(regular, -sums.gradient)
    shortened = float(np.linalg.norm(solution.theta)) < 0.999 * float(np.linalg.norm(full))
    # nothing is known of the residual where the step was shortened
    assert shortened == math.isinf(solution.residual_bound)
    assert loss(solution.theta) < loss(np.zeros(d))
