"""The ellipsoid around the ONS iterate: its proof step by step, its radius, what it holds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
import pytest
from numpy.linalg import inv, norm
from numpy.testing import assert_allclose

import fedglb as fg
from fedglb.kernels.layout import HIGH, LOW, UPPER, WIDTHS
from fedglb.model import SharedModel
from fedglb.parts.confidence import FedGLBRadius, Iterate
from fedglb.parts.confidence.iterate import iterate_bounds
from fedglb.samples import Samples
from tests import plain
from tests.parts.confidence import formulas
from tests.parts.confidence.traces import LINKS, PROVEN, Case, Moment, ellipsoid_norm, trace

DELTA = 0.05
ALGORITHMS = {
    "event": fg.fedglb_ucb(2.0, fg.Newton(), delta=DELTA),
    "event, own samples": fg.fedglb_ucb(1.0, fg.Newton(), delta=DELTA, clock="own samples"),
    "event, small ridge": fg.fedglb_ucb(2.0, fg.Newton(), ridge=0.01, delta=DELTA),
    "event, loose": fg.fedglb_ucb(2.0, fg.AGD(stop="fixed", rounds=3), delta=DELTA),
    "schedule": fg.fedglb_ucb_2(4, fg.Newton(), delta=DELTA),
    "never": fg.n_ons_glm(delta=DELTA),
}


# -- the proof, step by step -------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """What one Newton step did to ‖θ − θ*‖²_A."""

    before: float
    after: float
    square: float  # w²
    noise: float  # (2/c)ηw
    gradient: float  # ‖∇l‖²_{A_s⁻¹}/c²
    projected: bool

    @property
    def bound(self) -> float:
        return self.before - self.square + self.noise + self.gradient

    @property
    def rounding(self) -> float:
        return 1e-10 * (1.0 + self.before + self.square + abs(self.noise) + self.gradient)


def steps(link: str, seed: int, radius: float = 1.0, ridge: float = 0.3) -> list[Step]:
    """Newton steps on random samples, from a random model in the ball and from none."""
    rng = np.random.default_rng([seed, list(LINKS).index(link)])
    d = int(rng.integers(1, 5))
    noise = 0.5 if link == "poisson" else None
    problem = fg.Problem(d, LINKS[link], radius, noise)
    algorithm = fg.fedglb_ucb(np.inf, ridge=ridge)
    setting, local = algorithm.setting(problem, 3, None), algorithm.local_update
    mean, c = plain.LINKS[link].mean, problem.c_mu

    def inside() -> np.ndarray:
        v = rng.standard_normal(d)
        return v / norm(v) * radius * rng.random() ** rng.choice([0.0, 0.5])

    star, state, samples, out = inside(), local.begin(setting), Samples(d), []
    if seed % 2:
        past = rng.standard_normal((6, d))
        matrix = ridge / c * np.eye(d) + past.T @ past / 6.0
        local.adopt(setting, state, SharedModel(1, matrix, np.zeros(1), theta=inside()))
    for _ in range(25):
        x = rng.standard_normal(d)
        x *= rng.random() ** rng.choice([0.0, 0.5]) / norm(x)
        z_star = float(x @ star)
        centre = float(mean(np.float64(z_star)))
        y = float(problem.link.sample(centre, float(rng.random()), problem.R))
        A, theta = state.matrix.copy(), state.theta.copy()
        z = float(x @ theta)
        A_new = A + np.outer(x, x)
        gradient = x * float(mean(np.float64(z)) - y)
        local.observe(setting, state, samples, samples.append(x, y))
        w = z - z_star
        out.append(
            Step(
                before=ellipsoid_norm(theta - star, A) ** 2,
                after=ellipsoid_norm(state.theta - star, A_new) ** 2,
                square=w * w,
                noise=2.0 / c * (y - centre) * w,
                gradient=float(gradient @ inv(A_new) @ gradient) / c**2,
                projected=bool(norm(theta - inv(A_new) @ gradient / c) > radius),
            )
        )
    return out


@pytest.mark.parametrize("link", LINKS)
def test_a_step_goes_as_the_proof_says(link):
    seen = [s for seed in range(40) for s in steps(link, seed)]
    assert all(s.after <= s.bound + s.rounding for s in seen)
    assert sum(s.projected for s in seen) > 20
    assert sum(not s.projected for s in seen) > 20
    # every term is needed: without one of them the inequality fails somewhere
    assert any(s.after > s.bound - s.gradient + s.rounding for s in seen)
    assert any(s.after > s.bound - s.noise + s.rounding for s in seen)
    assert any(s.after > s.bound - s.square + s.rounding for s in seen)


def test_the_step_is_exact_for_squares():
    """Identity link, a ball so large that nothing is projected: nothing is left over."""
    seen = [s for seed in range(20) for s in steps("identity", seed, radius=60.0)]
    free = [s for s in seen if not s.projected]
    assert len(free) > 300
    for s in free:
        assert abs(s.after - s.bound) <= s.rounding


# -- the radius ----------------------------------------------------------------------------------


def expected(m: Moment) -> float:
    """α from the samples and from nothing that the package kept."""
    s = m.setting
    c, e = s.problem.c_mu, m.epoch
    r = sqrt(s.ridge / c) * s.problem.S
    if m.sync is not None:
        r = formulas.sync_global_radius(m, m.sync, s.delta / 2.0)
    A_last = s.ridge / c * np.eye(len(m.star)) + m.old_X.T @ m.old_X
    norms, share = formulas.gradient_norms(m, A_last), s.delta / (2.0 * s.clients * e * (e + 1))
    return plain._iterate(formulas.plain_problem(s), r, norms, len(m.y), share)


@pytest.mark.some(8)
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_radius_from_the_samples(algorithm, link):
    """On the states of real runs; which arms were played makes no difference to the formula."""
    epochs, started, grown, smaller = set(), 0, 0, 0
    for seed in (1, 4):
        for m in trace(ALGORITHMS[algorithm], Case(link, seed=seed)).moments:
            alpha = Iterate().radius(m.setting, m.state)
            assert_allclose(alpha, expected(m), rtol=1e-9)
            epochs.add(m.epoch)
            smaller += alpha < FedGLBRadius().radius(m.setting, m.state)
            if not len(m.y):  # exactly that of the model, or of the ball
                terms = Iterate().terms(m.setting, m.state.base)
                assert alpha == (m.setting.prior_width if m.sync is None else terms[0])
                started += 1
            else:
                grown += 1
            if link in PROVEN:  # fails with probability δ at most
                assert Iterate().contains(m.setting, m.state, alpha, m.star)
    assert started > 0
    assert grown > 20
    assert smaller > 0
    assert len(epochs) == 1 if algorithm == "never" else len(epochs) >= 3


@pytest.mark.parametrize(
    "preset",
    [lambda c: fg.fedglb_ucb_1(3, confidence=c), lambda c: fg.dislinucb(1.0, confidence=c)],
)
def test_others_refuse_it(preset):
    with pytest.raises(fg.InvalidInput, match="confidence"):
        preset(Iterate())


# -- its set -------------------------------------------------------------------------------------


def bounds(client: fg.Client, arms: np.ndarray, alpha: float, interval: bool) -> np.ndarray:
    """Run the kernel for arms (K, d); rows that it does not write are NaN."""
    work = np.full((5, len(arms)), np.nan)
    state = client.state
    status = iterate_bounds(
        np.ascontiguousarray(arms.T), state.vectors, state.matrices, state.counters,
        Iterate().terms(client.setting, state.base),
        np.array(Iterate().constants(client.setting)), alpha, int(interval), work,
    )  # fmt: skip
    assert status == 0
    return work


@pytest.mark.parametrize("d", [1, 2, 3, 7])
def test_bounds_are_those_of_the_ellipsoid_around_the_iterate(d):
    algorithm = fg.n_ons_glm(confidence=Iterate())
    client = fg.Client(0, algorithm, algorithm.setting(fg.Problem(d), 1, 50))
    rng = np.random.default_rng(d)
    for t in range(1, 20):
        arms = rng.standard_normal((8, d))
        arms /= 1.01 * norm(arms, axis=1, keepdims=True)
        theta, A_inv = client.state.theta, inv(client.state.matrix)
        squares = np.einsum("kd,de,ke->k", arms, A_inv, arms)
        half = 1.7 * np.sqrt(squares)
        work = bounds(client, arms, 1.7, interval=True)
        assert_allclose(work[UPPER], arms @ theta + half, rtol=1e-12, atol=1e-13)
        assert_allclose(work[WIDTHS], squares, rtol=1e-12)
        assert_allclose(work[HIGH], arms @ theta + half, rtol=1e-12, atol=1e-13)
        assert_allclose(work[LOW], arms @ theta - half, rtol=1e-12, atol=1e-13)
        without = bounds(client, arms, 1.7, interval=False)
        assert (without[UPPER] == work[UPPER]).all()
        assert np.isnan(without[[LOW, HIGH]]).all()
        client.observe(arms[0], float(rng.integers(2)), t)
    assert norm(client.state.theta - client.state.centre) > 1e-3  # another centre than A⁻¹b


def test_the_set_that_is_tested_is_the_one_around_the_iterate():
    algorithm = fg.n_ons_glm(confidence=Iterate())
    client = fg.Client(0, algorithm, algorithm.setting(fg.Problem(2), 1, 50))
    client.state.theta[:] = [0.5, 0.0]
    client.state.centre[:] = [-0.5, 0.0]
    client.state.matrix[:] = np.diag([4.0, 9.0])
    star = np.array([0.5, 0.2])
    assert Iterate().centre(client.state) is not client.state.centre

    def contains(alpha):
        return client.algorithm.confidence.contains(client.setting, client.state, alpha, star)

    assert contains(0.6001) is True
    assert contains(0.5999) is False
    client.algorithm = replace(algorithm, confidence=FedGLBRadius())
    assert contains(0.6001) is False
    assert contains(sqrt(4.0 + 0.36) * 1.0001) is True
