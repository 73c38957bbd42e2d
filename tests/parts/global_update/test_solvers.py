"""AGD, Newton and L-BFGS against exact minimisers, and the rounds they take."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fedglb.model import SharedModel
from fedglb.parts.global_update import AGD, LBFGS, Newton, Solve
from fedglb.parts.global_update.agd import paper_rounds
from tests.links.families import FAMILIES
from tests.parts.global_update.driving import drive
from tests.parts.global_update.reference import draw, point_in_ball

SOLVERS = {"agd": AGD, "newton": Newton, "lbfgs": LBFGS}
PROBLEMS = 24
# the twin with nothing known searches for its constants at every certificate
SEARCHED = "hyperbolic"


def problems(name, seed, count=PROBLEMS, few=2, **given):
    """Random problems, `few` of them for the link that is slow."""
    rng = np.random.default_rng([seed, len(name)])
    for _ in range(few if name == SEARCHED else count):
        yield draw(rng, FAMILIES[name], **given), rng


def warm(theta: np.ndarray) -> SharedModel:
    """A last model to start from."""
    d = theta.size
    return SharedModel(t=1, matrix=np.eye(d), radius_terms=np.zeros(0), theta=theta)


def check_gradient(data, solution):
    expected = data.gradient(solution.theta)
    scale = 1.0 + np.abs(data.X.T) @ (1.0 + np.abs(data.y))
    assert_allclose(solution.gradient, expected, rtol=0.0, atol=1e-13 * scale.max())


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", FAMILIES)
def test_minimum_over_the_ball(name, solver):
    active = inactive = 0
    for k, (data, rng) in enumerate(problems(name, 1, few=8)):
        optimum = data.minimise(ball=True)
        floor = data.rounding(optimum) / data.n
        objective = data.objective()
        if k % 2:
            objective = data.objective(warm(point_in_ball(rng, data.dim, data.radius)))
        for tolerance in (None, 1e-11, 1e-14):  # the last: 1e-12 in the sum of all losses
            solution, queries = drive(SOLVERS[solver](tolerance), data, objective)
            epsilon = 1.0 / data.n**2 if tolerance is None else tolerance
            true = data.gap(solution.theta, optimum) / data.n
            assert_array_equal(queries[0].theta, objective.start)
            assert np.linalg.norm(solution.theta) <= data.radius * (1.0 + 1e-15)
            assert solution.gap <= epsilon
            # for the identity link the bound is the gap itself, up to rounding
            assert true <= solution.gap * (1.0 + 1e-10) + floor
            check_gradient(data, solution)
            assert solution.multiplier >= 0.0
            assert solution.projected is (solution.multiplier > 0.0)
            if tolerance is not None:
                assert solution.projected is optimum.active
                # the residual g + νθ is at most √(2 k n ε): F is k-smooth on the ball
                k_mu = objective.setting.problem.k_mu
                smooth = k_mu * np.linalg.norm(data.covariance, 2) + data.ridge
                residual = math.sqrt(2.0 * smooth * data.n * tolerance)
                assert_allclose(
                    solution.multiplier, optimum.multiplier, rtol=0.0,
                    atol=(4.0 * residual * (1.0 + smooth / data.ridge)) / data.radius,
                )  # fmt: skip
        active += optimum.active
        inactive += not optimum.active
    assert active > 0
    assert inactive > 0


# ---------------------------------------------------------------------------------- stopping


@pytest.mark.pairs
@pytest.mark.parametrize("rounds", [1, 2, 3, 25])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", FAMILIES)
def test_fixed_rounds(name, solver, rounds):
    """Exactly J + 1, also when nothing is left to gain; the last is for the result's gradient."""
    for data, _ in problems(name, 5, count=4, n=60, dim=4, radius=3.0, strength=0.2, ridge=1.0):
        optimum = data.minimise(ball=True)
        assert np.linalg.norm(optimum.theta) < 0.9 * data.radius
        fixed = SOLVERS[solver](stop="fixed", rounds=rounds)
        solution, queries = drive(fixed, data)
        assert len(queries) == rounds + 1
        assert_array_equal(queries[-1].theta, solution.theta)
        check_gradient(data, solution)
        assert solution.gap >= 0.0


def plain_agd(data, k_mu, rounds):
    """Algorithm 3 as printed, except that ϑ is returned and iterates are projected."""
    step = 1.0 / (k_mu + data.ridge / data.n)

    def project(v):
        length = np.linalg.norm(v)
        return v * (data.radius / length) if length > data.radius else v

    theta = vartheta = np.zeros(data.dim)
    upsilon = 1.0  # υ_1, from υ_0 = 0
    for _ in range(rounds):
        following = project(theta - step * data.gradient(theta) / data.n)
        next_upsilon = (1.0 + math.sqrt(1.0 + 4.0 * upsilon**2)) / 2.0
        gamma = (1.0 - upsilon) / next_upsilon
        theta = project((1.0 - gamma) * following + gamma * vartheta)
        vartheta, upsilon = following, next_upsilon
    return vartheta


@pytest.mark.parametrize("name", ["logistic", "identity", "probit", "known hyperbolic"])
def test_agd_is_algorithm_3(name):
    for data, _ in problems(name, 8, count=6):
        k_mu = data.objective().setting.problem.k_mu
        for J in (1, 2, 7, 20):
            expected = plain_agd(data, k_mu, J)
            solution, _ = drive(AGD(stop="fixed", rounds=J), data)
            assert_allclose(solution.theta, expected, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("name", FAMILIES)
def test_agd_paper_bound(name):
    """The paper's J_t rounds and one more, and the result is ε-optimal."""
    for data, _ in problems(name, 9, count=10, n=50):
        objective = data.objective()
        optimum = data.minimise(ball=True)
        k_mu, n, ridge = objective.setting.problem.k_mu, data.n, data.ridge
        for tolerance in (None, 1e-8):
            epsilon = n**-2.0 if tolerance is None else tolerance
            distance = np.linalg.norm(data.gradient(np.zeros(data.dim))) / ridge
            assert np.linalg.norm(optimum.theta) <= distance * (1.0 + 1e-12)
            ratio = (k_mu + 2.0 * ridge / n) * distance**2 / (2.0 * epsilon)
            J = 1.0 + math.sqrt(k_mu * n / ridge + 1.0) * math.log(ratio)
            solution, queries = drive(AGD(tolerance, stop="bound"), data)
            assert len(queries) == math.ceil(J) + 1
            true = data.gap(solution.theta, optimum) / n
            assert true <= epsilon + data.rounding(optimum)
            assert_array_equal(queries[-1].theta, solution.theta)
            check_gradient(data, solution)


def test_paper_bound_of_an_optimal_start_is_one_round():
    data = draw(np.random.default_rng(3), FAMILIES["logistic"], n=30, radius=3.0, strength=0.1)
    optimum = data.minimise(ball=True)
    assert not optimum.active
    objective = data.objective(warm(optimum.theta))
    assert paper_rounds(objective, data.gradient(optimum.theta), 1e-6) == 1
    _, queries = drive(AGD(stop="bound"), data, objective)
    assert len(queries) == 2


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", FAMILIES)
def test_certified_start_takes_one_round(name, solver):
    for data, _ in problems(name, 10, count=8):
        optimum = data.minimise(ball=True)
        objective = data.objective(warm(optimum.theta))
        solution, queries = drive(SOLVERS[solver](1e-8), data, objective)
        if solver == "lbfgs" and optimum.active:
            continue  # its certificates are for the minimum over everything
        assert len(queries) == 1
        assert_array_equal(solution.theta, optimum.theta)


@pytest.mark.parametrize("name", FAMILIES)
def test_what_each_solver_asks_for(name):
    link = FAMILIES[name].link
    for data, _ in problems(name, 11, count=8, n=40, strength=1.2):
        free = data.minimise(ball=False)
        outside = np.linalg.norm(free.theta) > data.radius
        _, queries = drive(AGD(), data)
        assert not any(q.hessian or q.loss for q in queries)
        _, queries = drive(Newton(), data)
        assert all(q.hessian for q in queries)
        assert all(q.loss is (link.self_concordance(1.0) is None) for q in queries)
        _, queries = drive(LBFGS(1e-10), data)
        assert any(q.hessian for q in queries) is bool(outside)
        assert not queries[0].hessian


@pytest.mark.parametrize("name", FAMILIES)
def test_newton_takes_a_few_rounds(name):
    """Quadratic convergence: 1e-14 from 1e-6 is two rounds more at most."""
    for data, _ in problems(name, 12, count=12):
        short = len(drive(Newton(1e-6), data)[1])
        long = len(drive(Newton(1e-14), data)[1])
        assert short <= long <= short + 2
        assert long <= 12


# ------------------------------------------------------------------------------- transcripts


@pytest.mark.some(12)
@pytest.mark.parametrize(
    "solver",
    [
        AGD(), AGD(stop="bound"), AGD(stop="fixed", rounds=7),
        Newton(), LBFGS(1e-12), LBFGS(1e-12, memory=2),
    ],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize("name", FAMILIES)
def test_a_transcript_is_the_whole_state(name, solver):
    """Told the same sums again, a solve stands at the same query, bit for bit."""
    for data, _ in problems(name, 13, count=4, few=1, n=25, dim=3, strength=1.3):
        objective = data.objective()
        solve = Solve(solver, objective)
        limit = 8 if name == SEARCHED else 40
        while solve.query is not None and len(solve.transcript) < limit:
            again = Solve(solver, objective, list(solve.transcript))
            assert len(again.transcript) == len(solve.transcript)
            assert again.solution is None
            assert again.query is not None
            assert_array_equal(again.query.theta, solve.query.theta)
            assert again.query.hessian is solve.query.hessian
            assert again.query.loss is solve.query.loss
            solve.tell(data.answer(solve.query))
        while solve.query is not None:
            solve.tell(data.answer(solve.query))
        again = Solve(solver, objective, list(solve.transcript))
        assert again.query is None
        one, other = solve.solution, again.solution
        assert_array_equal(one.theta, other.theta)
        assert_array_equal(one.gradient, other.gradient)
        assert one.multiplier == other.multiplier
        assert one.projected is other.projected
        assert one.gap == other.gap or math.isnan(one.gap)


def test_a_query_can_be_kept():
    """θ of a query is a copy: what happens later does not change it."""
    data = draw(np.random.default_rng(14), FAMILIES["logistic"], n=30, dim=3)
    for solver in (AGD(1e-10), Newton(1e-10), LBFGS(1e-10)):
        solve = Solve(solver, data.objective())
        kept = []
        while solve.query is not None:
            kept.append((solve.query.theta, solve.query.theta.copy()))
            solve.tell(data.answer(solve.query))
        for theta, before in kept:
            assert_array_equal(theta, before)
        assert len(kept) > 1


# ----------------------------------------------------------------------------------- options
