"""`fedglb_personal`: both engines against `tests.plain_personal`, and single formulas."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fedglb as fg
from fedglb.kernels import effects
from fedglb.simulation.compiled import CompiledEngine, block_arrays
from fedglb.simulation.reference import ReferenceEngine
from tests import plain_personal
from tests.plain_personal import evidence, scores_of_theta, spread
from tests.simulation.test_effects import LONGEST, SEED, Given, unit
from tests.test_against_plain import LINKS

RULES = {
    "Bayes": fg.Bayes(),
    "Thompson": fg.Thompson(draws=0),
    "OptimisticThompson": fg.OptimisticThompson(),
}
NOISE = {"logistic": None, "poisson": 1.0, "identity": 0.4}
#: how far clients are apart: means of Poisson rewards must stay small
APART = {"logistic": 1.0, "poisson": 0.4, "identity": 1.0}


@dataclass(frozen=True)
class Case:
    """A recorded problem; everything in it follows from these numbers."""

    link: str
    arms: str  # "new" in each step, the "same" in each, or with "ids" and other features
    clients: str  # "alike", "differ", "outlier" or "groups"
    rule: str = "OptimisticThompson"
    seed: int = 1
    N: int = 4
    d: int = 3
    K: int = 5
    T: int = 60
    blocks: tuple[int, ...] | None = None
    spikes: bool = False
    absent: bool = False  # clients do not always act, and rewards come late
    happens: frozenset[str] = field(default_factory=frozenset)  # what the run must show

    def environment(self) -> Given:
        rng = np.random.default_rng([self.seed, self.N, self.d])
        problem = fg.Problem(self.d, LINKS[self.link](), noise=NOISE[self.link], blocks=self.blocks)
        T, N, K, d, apart = self.T, self.N, self.K, self.d, APART[self.link]
        theta = rng.standard_normal(d)
        thetas = np.tile(theta, (N, 1))
        if self.clients == "differ":
            thetas += apart * rng.standard_normal((N, d))
        elif self.clients == "outlier":
            thetas[-1] = -3 * apart * theta
        elif self.clients == "groups":
            thetas += 2 * apart * np.where(np.arange(N) % 2, 1, -1)[:, None] * np.eye(d)[0]
        which, ids = np.broadcast_to(np.arange(K), (T, N, K)), None
        arms = unit(rng.standard_normal((T, N, K, d)))
        if self.arms == "same":
            arms = np.broadcast_to(arms[0, 0], arms.shape).copy()
        elif self.arms == "ids":
            which = ids = rng.integers(K + 3, size=(T, N, K))
        u = rng.standard_normal(K + 3) * np.ones((N, 1))
        if self.clients != "alike":
            u += 0.7 * rng.standard_normal(u.shape)
        means = np.einsum("tnkd,nd->tnk", arms, thetas)
        if self.arms != "new":
            means = means + u[np.arange(N)[:, None], which]
        means = np.asarray(problem.link.mean(means))
        chance = np.broadcast_to(rng.random((T, N, 1)), means.shape)
        rewards = np.asarray(problem.link.sample(means, chance, problem.R))
        more = {}
        if self.absent:
            more["delays"] = rng.integers(LONGEST + 1, size=(T, N))
            more["active"] = rng.random((T, N)) < 0.8
        return Given(problem, arms, means, rewards, ids=ids, **more)


def keys_of(env: Given) -> np.ndarray:
    if env.ids is not None:
        return env.ids % 2**32
    columns = np.ascontiguousarray(env.offered.reshape(-1, env.problem.dim).T)
    keys = np.empty(columns.shape[1])
    effects.keys_of(columns, keys)
    return keys.astype(int).reshape(env.offered.shape[:3])


def played(case: Case, env: Given):
    """The run, in which both engines agree, and all its models."""
    algorithm = fg.fedglb_personal(choice=RULES[case.rule], spikes=case.spikes)
    reference, models = ReferenceEngine(algorithm, env, case.T, SEED), []
    finish = reference.coordinator.finish_update

    def finished():
        model, recipients = finish()
        models.append(model)
        return model, recipients

    reference.coordinator.finish_update = finished
    reference.run()
    compiled = CompiledEngine(algorithm, env, case.T, SEED)
    for block in env.checked_blocks(case.T, SEED):
        compiled.play(block_arrays(block))
    one, two = reference.result(), compiled.result()
    assert_array_equal(one.choices, two.choices)
    assert one.updates.equals(two.updates)
    last, other = models[-1], compiled.coordinator.model
    for name in ("theta", "matrix", "effects", "spread", "directions"):
        assert_array_equal(getattr(last, name), getattr(other, name))
    return one, models


def outcome(case: Case, env: Given) -> plain_personal.Outcome:
    problem = env.problem
    return plain_personal.fedglb_personal(
        case.link, problem.dispersion, env.offered, env.rewards, keys_of(env), env.ids is not None,
        env.delays, env.active, SEED, case.rule, blocks=case.blocks, spikes=case.spikes,
    )  # fmt: skip


def seen(out: plain_personal.Outcome) -> set[str]:
    """What happened in a run."""
    found = {
        "alone": any(each for model in out.alone for each in model),
        "flat": any(0.1 < each < 0.9 for model in out.kappas for each in model),  # κ
        "early spread": any(x < 1 + 1.5 * first for x, first in out.accepted),
        "spread": any(each.tau2 > 0 for each in out.spreads),
        "effects' spread": any(each.effects > 0 for each in out.spreads),
        "direction": any(np.any(each.directions) for each in out.spreads),
        "effects' guard": any(g > 0 for model in out.wider_effects for g in model),
        "shortened": not all(fit.full for fit in out.fits),
    }
    return {name for name, happened in found.items() if happened}


def agree(case: Case) -> None:
    env = case.environment()
    run, models = played(case, env)
    expected = outcome(case, env)
    assert min(expected.margins) > 1e-6  # else rounding may decide otherwise: take another seed
    assert seen(expected) >= case.happens
    assert_array_equal(run.choices, expected.choices)
    assert list(zip(run.updates["t"], run.updates["client"], strict=True)) == expected.updates
    assert len(models) > 3
    d = case.d
    for found, fit, beside in zip(models, expected.fits, expected.spreads, strict=True):
        scale = {"rtol": 1e-8, "atol": 1e-8}
        assert_allclose(found.theta, fit.anchor[:d], **scale)
        ridges = [found.ridge] if case.blocks is None else found.ridges
        assert_allclose(ridges, fit.ridges, **scale)
        assert_allclose(found.effects[0], fit.second, **scale)
        rows = found.effects[2:].reshape(-1, 3 + d)
        assert len(rows) == sum(fit.known(a) for a in range(d, len(fit.anchor)))
        assert_allclose(found.spread[:2], [beside.tau2, beside.effects], **scale)
        assert bool(found.spread[2]) == fit.full
        if case.spikes:
            directions = np.zeros((d, d)) + beside.directions
            largest = 1.0 + np.abs(directions).max()
            assert_allclose(found.directions, directions, rtol=0, atol=1e-8 * largest)
        else:
            assert found.directions is None


def case(link: str, arms: str, clients: str, *happens: str, **more) -> Case:
    return Case(link, arms, clients, happens=frozenset(happens), **more)


CASES = {
    "new arms, alike": case("logistic", "new", "alike", "alone", "shortened", rule="Bayes"),
    "new arms, differ": case(
        "identity", "new", "differ", "early spread", "flat", "spread", rule="Thompson"
    ),
    "alone, identity": case("identity", "new", "outlier", "alone", "spread", N=6, d=2, seed=0),
    "alone, poisson": case(
        "poisson", "new", "outlier", "alone", "shortened", "spread", N=5, d=2, rule="Thompson"
    ),
    "alone, ids": case(
        "logistic", "ids", "outlier", "alone", "effects' spread", "spread",
        N=5, T=100, seed=1, rule="Bayes",
    ),
    "the same arms, differ": case(
        "identity", "same", "differ", "effects' guard", "effects' spread", "flat", N=5, d=2, seed=3
    ),
    "ids, alike": case("logistic", "ids", "alike"),
    "ids, differ": case(
        "poisson", "ids", "differ", "effects' spread", "shortened", N=5, rule="Thompson", seed=2
    ),
    "blocks": case(
        "poisson", "same", "differ", "effects' guard", "effects' spread", N=3, d=4, blocks=(1, 3)
    ),
    "blocks, ids, absent clients": case(
        "identity", "ids", "differ", "effects' spread", "spread",
        blocks=(1, 2), absent=True, T=80, rule="Bayes",
    ),
    "the same arms, absent clients": case(
        "logistic", "same", "differ", "effects' spread", "shortened",
        d=2, absent=True, T=100, rule="Thompson",
    ),
    "groups": case(
        "logistic", "new", "groups", "direction", N=6, T=100, spikes=True, seed=3, rule="Bayes"
    ),
    "groups, identity": case(
        "identity", "new", "groups", "alone", "direction", "flat",
        N=6, d=2, T=100, spikes=True, seed=0,
    ),
    "groups, poisson": case(
        "poisson", "new", "groups", "direction", "spread",
        N=6, d=2, T=100, spikes=True, seed=8, rule="Thompson",
    ),
    "groups, ids": case(
        "logistic", "ids", "groups", "direction", "effects' spread",
        N=6, d=4, T=100, spikes=True, seed=32, rule="Thompson",
    ),
}  # fmt: skip


@pytest.mark.some(8)
@pytest.mark.parametrize("name", CASES)
def test_the_same_as_a_plain_program(name):
    agree(CASES[name])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_random_problems(seed):
    rng = np.random.default_rng(seed)
    link, arms = rng.choice(list(NOISE)), rng.choice(["new", "same", "ids"])
    clients, rule = rng.choice(["alike", "differ", "outlier"]), rng.choice(list(RULES))
    N, d, K = rng.integers(3, 7), rng.integers(2, 5), rng.integers(4, 7)
    agree(
        Case(
            str(link), str(arms), str(clients), str(rule), seed, int(N), int(d), int(K),
            int(rng.integers(40, 121)), (1, int(d) - 1) if rng.random() < 0.3 else None,
            absent=rng.random() < 0.3,
        )
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_random_groups(seed):
    rng = np.random.default_rng([7, seed])
    link, rule = rng.choice(list(NOISE)), rng.choice(list(RULES))
    clients = rng.choice(["groups", "groups", "differ", "outlier"])
    N, d, K = rng.integers(3, 7), rng.integers(2, 5), rng.integers(4, 7)
    T = int(rng.integers(40, 121))
    agree(
        Case(
            str(link), "new", str(clients), str(rule), seed, int(N), int(d), int(K), T, spikes=True
        )
    )


# ------------------------------------------------------------------------------ single formulas


def spd(rng, d: int, scale: float = 1.0) -> np.ndarray:
    X = rng.standard_normal((d, d + 2))
    return scale * X @ X.T / d


@pytest.mark.parametrize("spikes", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_lemma_t_has_the_law_of_each_pair(seed, spikes):
    """Against the covariance of all of (θ, u), and the lemma's formulas as they are printed."""
    rng, d, arms, tau2, tau2_e = np.random.default_rng(seed), 3, 4, 0.7, 0.4
    m = d + arms
    D, B = rng.uniform(0.5, 5.0, arms), rng.standard_normal((arms, d))
    S, right = spd(rng, d), rng.standard_normal(m)
    M = np.block([[S + B.T @ (B / D[:, None]), B.T], [B, np.diag(D)]])
    T = tau2 * np.eye(d) + (np.outer(B[0], B[0]) if spikes else 0)
    joint, mean = np.linalg.inv(M), np.linalg.solve(M, right)
    joint[:d, :d] += T
    joint[d:, d:] += tau2_e * np.eye(arms)

    found, found_right = spread(M, right, T, tau2_e)
    cov, found_mean = np.linalg.inv(found), np.linalg.solve(found, found_right)
    assert_allclose(found_mean, mean)
    for a in range(d, m):
        pair = np.ix_([*range(d), a], [*range(d), a])
        assert_allclose(cov[pair], joint[pair], atol=1e-12)
    off = cov[d:, d:] - joint[d:, d:]
    assert np.abs(off).max() > 1e-3  # the dependence that is neglected

    R, f, x = np.linalg.inv(np.eye(d) + S @ T), right[d:], B / D[:, None]
    q = right[:d] - B.T @ (f / D)
    x_new, t_new = x @ R.T, f / D - x @ T @ R @ q
    D_new = 1 / (1 / D + tau2_e + np.einsum("ai,ij,aj->a", x, T @ R, x))
    assert_allclose(found[d:, d:], np.diag(D_new), atol=1e-12)
    assert_allclose(found[d:, :d], D_new[:, None] * x_new)
    assert_allclose(found_right[d:], D_new * t_new)
    assert_allclose(found[:d, :d], R @ S + x_new.T @ (D_new[:, None] * x_new))
    assert_allclose(found_right[:d], R @ q + x_new.T @ (D_new * t_new))


def test_lemma_t_without_information_on_theta():
    """One sample: S = 0 but for rounding, and no prior."""
    x, T = np.array([0.6, -0.3]), np.array([[0.5, 0.1], [0.1, 0.8]])
    row = np.r_[x, 1.0]
    M, right = spread(2.0 * np.outer(row, row), 3.0 * row, T, 0.25)
    D = 1 / (1 / 2.0 + 0.25 + x @ T @ x)
    assert_allclose(M, D * np.outer(row, row), atol=1e-12)
    assert_allclose(right, 1.5 * D * row, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_expected_score_is_the_error_of_tau2_times_the_information(seed):
    rng, d, phi, n = np.random.default_rng(seed), 3, 0.6, 100_000
    X = rng.standard_normal((8, d))
    S, C0, tau2, true = X.T @ X, spd(rng, d), 0.5, 1.3
    mean = rng.standard_normal(d)  # of the others' model; θ is it plus an error
    theta = mean + rng.standard_normal((n, d)) @ np.linalg.cholesky(phi * C0).T
    own = theta + np.sqrt(phi * true) * rng.standard_normal((n, d))
    y = own @ X.T + np.sqrt(phi) * rng.standard_normal((n, len(X)))
    C = C0 + tau2 * np.eye(d)
    _, f, _, V = scores_of_theta(S, X.T @ y[0], C, mean, phi)
    r = np.linalg.solve(np.eye(d) + S @ C, (y @ X - S @ mean).T).T
    s = np.sum(r**2, axis=1) / phi - np.trace(V)
    assert scores_of_theta(S, X.T @ y[0], C, mean, phi)[0] == pytest.approx(s[0])
    assert s.mean() == pytest.approx((true - tau2) * f, abs=4 * s.std() / np.sqrt(n))
    covariance = r.T @ r / n
    assert_allclose(covariance, phi * (V + (true - tau2) * V @ V), rtol=0.05, atol=0.02 * phi)


@pytest.mark.parametrize("seed", range(3))
def test_score_is_the_derivative_of_the_evidence(seed):
    rng, d, phi, step = np.random.default_rng(seed), 3, 0.6, 1e-4
    S, q, C, mean = spd(rng, d, 3.0), rng.standard_normal(d), spd(rng, d), rng.standard_normal(d)
    e = [evidence(S, q, C + x * np.eye(d), mean, phi) for x in (-step, step)]
    s = scores_of_theta(S, q, C, mean, phi)[0]
    assert s / 2 == pytest.approx((e[1] - e[0]) / (2 * step), rel=1e-6)


def test_evidence_is_that_of_the_samples():
    """Up to what does not depend on the prior: against the density of y itself."""
    rng, d, phi = np.random.default_rng(1), 3, 0.6
    X, y = rng.standard_normal((7, d)), rng.standard_normal(7)
    found, expected = [], []
    for _ in range(3):
        C, mean = spd(rng, d), rng.standard_normal(d)
        found.append(evidence(X.T @ X, X.T @ y, C, mean, phi))
        cov, error = phi * (np.eye(7) + X @ C @ X.T), y - X @ mean
        expected.append(
            -0.5 * error @ np.linalg.solve(cov, error) - 0.5 * np.linalg.slogdet(cov)[1]
        )
    assert_allclose(np.diff(found), np.diff(expected))
