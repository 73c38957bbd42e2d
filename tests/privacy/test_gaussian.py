from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import fedglb as fg
from fedglb.privacy.accounting import SMOOTHING, gdp_epsilon, gdp_mu
from fedglb.privacy.factorisation import norm, square_root_weights
from fedglb.privacy.fixed_point import BITS, UNIT, pack, quantised, size, weighted
from fedglb.privacy.sensitivity import TOLERANCE

PROBLEM = fg.Problem(dim=10)


def planned(problem=PROBLEM, clients=200, updates=30, **given):
    return fg.Gaussian(**{"epsilon": 1.0, "delta": 1e-6, **given}).plan(problem, clients, updates)


def test_noise_by_hand():
    plan = planned()
    factor, mu = norm(square_root_weights(30)), gdp_mu(1.0, 1e-6)
    mean = 1.0 / (1.0 + math.exp(-1.0))
    residual = mean - mean * (1.0 - mean)
    rounding = math.sqrt(65) * UNIT * (1.0 + math.sqrt(30) / factor)
    vector = (residual * (1.0 + TOLERANCE) + rounding) * factor / (mu * math.sqrt(0.7))
    matrix = (0.25 * (1.0 + TOLERANCE) + rounding) * factor / (mu * math.sqrt(0.3))
    assert plan.vector_noise == pytest.approx(vector, rel=2e-9)  # 2⁻³⁰: weights are rounded
    assert plan.matrix_noise == pytest.approx(matrix, rel=2e-9)
    assert plan.honest == 180
    assert plan.vector_share == pytest.approx(plan.vector_noise / math.sqrt(180))
    assert plan.matrix_share == pytest.approx(plan.matrix_noise / math.sqrt(180))
    assert (plan.mu, plan.updates, plan.dim, plan.clients) == (mu, 30, 10, 200)
    assert plan.rewards == (0.0, 1.0)
    assert (plan.residual_limit, plan.slope_limit) == (pytest.approx(residual), 0.25)


def test_noise_is_never_less_than_the_formula_says():
    for updates in (1, 30, 1000):
        plan = planned(updates=updates)
        m, factor = size(10), norm(plan.weights)
        rounding = math.sqrt(updates * m) * UNIT
        vector = factor * (plan.vector_bound + math.sqrt(m) * UNIT) + rounding
        matrix = factor * (plan.matrix_bound + math.sqrt(m) * UNIT) + rounding
        mu = math.hypot(vector / plan.vector_noise, matrix / plan.matrix_noise)
        assert mu == pytest.approx(plan.mu, rel=1e-13)
        assert plan.spent(updates) == pytest.approx(plan.mu, rel=1e-13)


def test_silo_noise_is_all_of_it_at_every_client():
    sums, silo = planned(), planned(noise="silo")
    assert silo.honest == 1
    assert silo.vector_share == silo.vector_noise == sums.vector_noise
    assert silo.total_vector(30, 200) == pytest.approx(
        math.sqrt(180) * sums.total_vector(30, 200), rel=1e-12
    )


def test_noise_in_prefix_sums():
    plan = planned()
    for b in (1, 7, 30):
        f = square_root_weights(30)[:b]
        assert plan.spread(b) == pytest.approx(math.sqrt((f * f).sum()), rel=1e-8)
        assert plan.total_vector(b, 180) == pytest.approx(plan.vector_noise * plan.spread(b))
        assert plan.total_matrix(b, 200) == pytest.approx(
            plan.matrix_noise * plan.spread(b) * math.sqrt(200 / 180)
        )


def test_replace_and_contributions():
    plan, replaced, thrice = planned(), planned(neighbours="replace"), planned(contributions=3)
    assert replaced.vector_noise == pytest.approx(2.0 * plan.vector_noise, rel=1e-6)
    assert replaced.matrix_noise == pytest.approx(math.sqrt(2.0) * plan.matrix_noise, rel=1e-6)
    assert thrice.vector_noise == pytest.approx(3.0 * plan.vector_noise, rel=1e-12)
    assert thrice.matrix_noise == pytest.approx(3.0 * plan.matrix_noise, rel=1e-12)
    # what a plan for zero-out promises under replace
    mu = math.hypot(
        plan.mu * replaced.vector_noise / plan.vector_noise * math.sqrt(0.7),
        plan.mu * replaced.matrix_noise / plan.matrix_noise * math.sqrt(0.3),
    )
    assert gdp_epsilon(mu, 1e-6) == pytest.approx(1.94, abs=0.01)


@pytest.mark.parametrize(
    ("honest", "clients", "count"), [(0.9, 20, 18), (0.55, 20, 11), (1.0, 7, 7), (0.01, 5, 1)]
)
def test_how_many_are_honest(honest, clients, count):
    assert planned(clients=clients, honest=honest).honest == count


@pytest.mark.parametrize("noise", ["sums", "silo"])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 50.0])
def test_variances_of_shares_are_rounded_up(noise, epsilon):
    plan = planned(noise=noise, epsilon=epsilon)
    for variance, sigma in zip(
        plan.share_variance(), (plan.vector_noise, plan.matrix_noise), strict=True
    ):
        exact = Fraction(sigma) ** 2 * 4**BITS / plan.honest
        assert variance >= exact + SMOOTHING
        assert variance <= exact * Fraction(1 + 1e-11) + SMOOTHING + 1
    scales = plan.scales()
    assert scales.shape == (65,)
    assert set(scales[:10]) == {math.sqrt(plan.share_variance()[0])}
    assert set(scales[10:]) == {math.sqrt(plan.share_variance()[1])}


@pytest.mark.parametrize("slots", [range(1, 31), [2, 3, 9, 30]])
def test_two_neighbouring_streams_are_as_near_as_promised(slots):
    """All releases of a client, with and without one sample of the largest vector and matrix."""
    problem = fg.Problem(dim=3)
    plan = planned(problem)
    weights = np.array(plan.weights)
    rng = np.random.default_rng(3)
    x = np.array([1.0, 0.0, 0.0])
    sample = quantised(pack(x * plan.vector_bound, np.outer(x, x) * plan.matrix_bound))
    apart = 0.0
    batches = np.zeros((30, size(3)), dtype=np.int64)
    changed = batches.copy()
    for b in slots:
        batches[b - 1] = rng.integers(-(2**58), 2**58, size=size(3))
        changed[b - 1] = batches[b - 1] + (sample if b == slots[0] else 0)
        turned = weights[:b][::-1].copy()
        shift = (weighted(turned, changed[:b]) - weighted(turned, batches[:b])) * UNIT
        apart += (shift[:3] ** 2).sum() / plan.vector_noise**2
        apart += (shift[3:] ** 2).sum() / plan.matrix_noise**2
    assert math.sqrt(apart) <= plan.mu
    if len(slots) == 30:
        assert math.sqrt(apart) >= plan.mu * (1.0 - 1e-6)
    assert math.sqrt(apart) <= plan.spent(len(slots))


def test_what_is_spent_grows_to_all_of_it():
    plan = planned()
    spent = [plan.spent(b) for b in range(31)]
    assert spent[0] == 0.0
    assert spent == sorted(spent)
    assert spent[-1] == pytest.approx(plan.mu, rel=1e-13)


def test_rewards_without_a_bound_need_a_limit():
    for problem in (fg.Problem(2, fg.Identity()), fg.Problem(2, fg.Poisson(), noise=1.0)):
        with pytest.raises(fg.InvalidInput, match="reward_limit = None") as caught:
            planned(problem)
        assert "have no bound" in str(caught.value)
    assert planned(fg.Problem(2, fg.Identity()), reward_limit=3.0).rewards == (-3.0, 3.0)
    poisson = planned(fg.Problem(2, fg.Poisson(), noise=1.0), reward_limit=5.0)
    assert poisson.rewards == (0.0, 5.0)
    assert poisson.residual_limit == pytest.approx(5.0)  # y − e + e at z = 1
    assert planned(reward_limit=7.0).rewards == (0.0, 1.0)
    assert planned(fg.Problem(2, fg.Identity()), reward_limit=3.0).residual_limit == 3.0


def test_noise_that_does_not_fit_is_refused():
    with pytest.raises(fg.InvalidInput, match=r"epsilon = 1\.0.*64 bits"):
        planned(fg.Problem(2, fg.Identity()), reward_limit=1e9)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"epsilon": 0.0}, "epsilon = 0.0"), ({"epsilon": -1.0}, "epsilon = -1.0"),
        ({"epsilon": math.inf}, "epsilon = inf"), ({"epsilon": math.nan}, "epsilon = nan"),
        ({"delta": 0.0}, "delta = 0.0"), ({"delta": 1.0}, "delta = 1.0"),
        ({"noise": "sum"}, "did you mean sums"), ({"neighbours": "add"}, "neighbours = 'add'"),
        ({"contributions": 0}, "contributions = 0"), ({"honest": 0.0}, "honest = 0.0"),
        ({"honest": 1.1}, "honest = 1.1"), ({"hessian_share": 0.0}, "hessian_share = 0.0"),
        ({"hessian_share": 1.0}, "hessian_share = 1.0"), ({"reward_limit": 0.0}, "reward_limit"),
    ],
)  # fmt: skip
def test_bad_input_is_named(given, said):
    with pytest.raises(fg.InvalidInput) as caught:
        fg.Gaussian(**{"epsilon": 1.0, "delta": 1e-6, **given})
    assert said in str(caught.value)


@pytest.mark.parametrize(("clients", "updates"), [(0, 1), (1, 0), (1, 4000)])
def test_a_plan_for_nobody_is_refused(clients, updates):
    with pytest.raises(fg.InvalidInput):
        planned(clients=clients, updates=updates)
