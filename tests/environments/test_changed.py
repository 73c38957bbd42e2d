"""Environments that change another one: their laws, and that blocks, order and seeds are right."""

from __future__ import annotations

import pickle
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fedglb as fg
from fedglb.environments.partial import stretches, unequal

D, N, K = 3, 6, 4
PROBLEM = fg.Problem(D, radius=1.5)
PLAIN = fg.Synthetic(PROBLEM, N, K)
TABLE = np.random.default_rng(0).random((20, N)) < 0.5


def by_turns(seed, t):
    return np.arange(N) == (t + seed) % N


CHANGES = {
    "heterogeneous": partial(fg.Heterogeneous, spread=0.4),
    "heterogeneous in two directions": partial(fg.Heterogeneous, spread=0.4, directions=2),
    "grouped": partial(fg.Grouped, groups=3, spread=0.7),
    "outliers": partial(fg.Outliers, count=2),
    "drifting": partial(fg.Drifting, speed=0.03),
    "walking": partial(fg.Drifting, speed=0.03, kind="walk"),
    "jump": partial(fg.Jump, at=6),
    "delayed": partial(fg.Delayed, steps=3),
    "delays that are drawn": partial(fg.Delayed, steps=(0, 4)),
    "partial": partial(fg.Partial, participation=0.4),
    "partial by client": partial(fg.Partial, participation=[1.0, 0.5, 0.5, 0.1, 0.1, 0.01]),
    "coming and going": partial(stretches, length=4),
    "partial by a table": partial(fg.Partial, participation=TABLE),
    "partial by a function": partial(fg.Partial, participation=by_turns),
}

#: Those that change parameters.
MOVED = [
    "heterogeneous", "heterogeneous in two directions", "grouped", "outliers", "drifting",
    "walking", "jump",
]  # fmt: skip


def whole(env, horizon=20, seed=1):
    """All fields of all blocks, put together."""
    blocks = list(env.checked_blocks(horizon, seed))
    names = ("arms", "means", "uniforms", "active", "delays")
    return {
        name: np.concatenate([getattr(b, name) for b in blocks])
        for name in names
        if getattr(blocks[0], name) is not None
    }


def same(one, two):
    assert one.keys() == two.keys()
    for name in one:
        assert one[name].tobytes() == two[name].tobytes(), name


# -- laws ------------------------------------------------------------------------------------------


def test_clients_have_parameters_around_the_common_one():
    n, spread = 20_000, 0.6
    env = fg.Heterogeneous(fg.Synthetic(PROBLEM, n, 1), spread)
    theta, own = env.parameter(1), env.parameters(1)[0]
    assert_array_equal(theta, env.env.parameter(1))
    assert_allclose(np.linalg.norm(own, axis=1), 1.5)
    cosines = own @ theta / 1.5**2
    assert np.sqrt(1 - cosines**2).max() <= spread + 1e-9
    # In three dimensions the cosine c of gᵢ with θ is uniform on [-1, 1], and
    # E (1 + s c)/√(1 + 2 s c + s²) = 1 - s²/3 for s ≤ 1.
    assert abs(cosines.mean() - (1 - spread**2 / 3)) < 5 * cosines.std() / np.sqrt(n)
    u = theta / 1.5  # nothing points elsewhere on average: what is left is symmetric about θ
    sideways = own - np.outer(own @ u, u)
    assert np.abs(sideways.mean(axis=0)).max() < 5 * 1.5 / np.sqrt(n)
    second = sideways.T @ sideways / n
    variance = np.trace(second) / 2
    assert_allclose(second, variance * (np.eye(3) - np.outer(u, u)), atol=5 * 1.5**2 / np.sqrt(n))


def test_clients_differ_in_some_directions_only():
    env = fg.Heterogeneous(PLAIN, 0.6, directions=2)
    theta, own = env.parameter(1), env.parameters(1)[0]
    assert_allclose(np.linalg.norm(own, axis=1), 1.5)
    away = own / own[:, 2:] * theta[2] - theta  # the length that the last coordinate had
    assert_allclose(np.linalg.norm(away, axis=1), 0.6 * 1.5)
    assert len({theta.tobytes() for theta in own}) == N
    everywhere = fg.Heterogeneous(PLAIN, 0.6)
    same(whole(fg.Heterogeneous(PLAIN, 0.6, directions=D)), whole(everywhere))


@pytest.mark.parametrize("groups", [2, 3])
def test_groups_lie_around_the_common_parameter(groups):
    spread, moment = 0.7, np.zeros((D, D))
    for seed in range(400):
        env = fg.Grouped(PLAIN, groups, spread)
        theta, own = env.parameter(seed), env.parameters(seed)[0]
        assert_array_equal(own, own[np.arange(N) % groups])
        assert_allclose(np.linalg.norm(own, axis=1), 1.5)
        # θ_g = c_g·(θ + a_g): of the two c_g with ‖a_g‖ = spread·‖θ‖, one set has sum 0
        u, cosine = theta / 1.5, own[:groups] @ theta / 1.5**2
        root = np.sqrt(np.maximum(spread**2 - (1 - cosine**2), 0))
        choices = np.stack([cosine + root, cosine - root])
        away = np.stack([k[:, None] * own[:groups] / 1.5 - u for k in choices])
        assert_allclose(np.linalg.norm(away, axis=2), spread)
        sets = [away[list(pick), range(groups)] for pick in np.ndindex(*[2] * groups)]
        corners = min(sets, key=lambda corners: np.linalg.norm(corners.sum(axis=0))) / spread
        assert_allclose(corners.sum(axis=0), 0, atol=1e-7)
        apart = corners @ corners.T
        assert_allclose(apart[~np.eye(groups, dtype=bool)], -1 / (groups - 1), atol=1e-7)
        moment += np.outer(corners[0], corners[0]) / 400
    assert_allclose(moment, np.eye(3) / 3, atol=5 * 0.3 / np.sqrt(400))


def test_outliers_have_independent_parameters():
    n, count = 20_000, 15_000
    env = fg.Outliers(fg.Synthetic(PROBLEM, n, 1), count)
    theta, own = env.parameter(1), env.parameters(1)[0]
    assert_array_equal(own[count:], np.broadcast_to(theta, (n - count, D)))
    assert_allclose(np.linalg.norm(own, axis=1), 1.5)
    strangers = own[:count] / 1.5
    assert np.abs(strangers.mean(axis=0)).max() < 5 / np.sqrt(count)
    assert_allclose(strangers.T @ strangers / count, np.eye(3) / 3, atol=5 * 0.3 / np.sqrt(count))
    fewer = fg.Outliers(env.env, 10).parameters(1)[0]
    assert_array_equal(fewer[:10], own[:10])
    assert_array_equal(fewer[10], theta)


def test_the_parameter_jumps_once():
    env = fg.Jump(fg.Heterogeneous(PLAIN, 0.4), at=6)
    before, path = env.env.parameters(1)[0], env.parameters(1, 1, 20)
    assert_array_equal(path[:5], np.broadcast_to(before, (5, N, D)))
    assert_array_equal(path[5:], np.broadcast_to(-before, (15, N, D)))
    assert_array_equal(env.parameters(1, 4, 6), path[3:9])
    assert env.parameter(1) is None


def test_a_walk_takes_independent_steps():
    speed, ends = 0.02, []
    for seed in range(400):
        path = fg.Drifting(PLAIN, speed, "walk").parameters(seed, 1, 101)[:, 0] / 1.5
        assert_allclose(path[0] * 1.5, PLAIN.parameter(seed))
        assert_allclose(np.linalg.norm(path, axis=1), 1.0)
        ends.append(path[-1] @ path[0])
    # w is normal with covariance (100/3) I: simulated, not by a formula
    w = np.random.default_rng(0).standard_normal((100_000, 3)) * speed * np.sqrt(100 / 3)
    w[:, 0] += 1.0
    expected = w[:, 0] / np.linalg.norm(w, axis=1)
    assert abs(np.mean(ends) - expected.mean()) < 5 * expected.std() / np.sqrt(400)
    env = fg.Drifting(PLAIN, speed, "walk")
    assert_array_equal(env.parameters(3, 51, 10), env.parameters(3, 1, 101)[50:60])
    assert np.linalg.matrix_rank(path, tol=1e-9) == 3
    assert env.parameter(3) is None


@pytest.mark.parametrize("name", MOVED)
def test_means_follow_each_clients_parameter(name):
    env = CHANGES[name](PLAIN)
    made, plain = whole(env), whole(PLAIN)
    z = np.einsum("snkd,snd->snk", made["arms"], env.parameters(1, 1, 20))
    assert_allclose(made["means"], 1 / (1 + np.exp(-z)), rtol=1e-12)
    assert_array_equal(made["arms"], plain["arms"])
    assert_array_equal(made["uniforms"], plain["uniforms"])
    assert not np.array_equal(env.parameters(1), env.parameters(2))
    each = {theta.tobytes() for theta in env.parameters(1)[0]}
    differing = {"heterogeneous": N, "grouped": 3, "outliers": 3}
    assert len(each) == differing.get(name.split(" ")[0], 1)


def test_the_parameter_turns_at_a_constant_speed():
    speed = 0.02
    env = fg.Drifting(PLAIN, speed)
    path = env.parameters(3, 1, 101)[:, 0]
    assert_array_equal(path[0], PLAIN.parameter(3))
    assert_allclose(np.linalg.norm(path, axis=1), 1.5)
    steps = np.linalg.norm(np.diff(path, axis=0), axis=1)
    assert_allclose(steps, 2 * 1.5 * np.sin(speed / 2))
    assert_allclose(path[-1] @ path[0], 1.5**2 * np.cos(100 * speed))
    assert np.linalg.matrix_rank(path, tol=1e-9) == 2  # a great circle
    assert_array_equal(env.parameters(3, 51, 10)[:, 0], path[50:60])
    assert env.parameter(3) is None
    made = whole(env)
    z = np.einsum("snkd,sd->snk", made["arms"], env.parameters(1, 1, 20)[:, 0])
    assert_allclose(made["means"], 1 / (1 + np.exp(-z)), rtol=1e-12)


def test_the_direction_of_the_drift_is_uniform():
    directions = []
    for seed in range(400):
        first, second = fg.Drifting(PLAIN, np.pi / 2).parameters(seed, 1, 2)[:, 0] / 1.5
        assert abs(first @ second) < 1e-9
        directions.append(second)
    moment = np.mean([np.outer(v, v) for v in directions], axis=0)
    assert_allclose(moment, np.eye(3) / 3, atol=5 * 0.3 / np.sqrt(400))


def test_everybody_turns_alike():
    env = fg.Drifting(fg.Heterogeneous(PLAIN, 0.5), 0.1)
    begin, later = env.parameters(1)[0], env.parameters(1, 30)[0]
    assert_allclose(begin @ begin.T, later @ later.T)  # a rotation
    assert np.abs(begin - later).max() > 0.1


def test_delays_are_uniform_and_independent():
    env = fg.Delayed(PLAIN, (2, 6))
    delays = whole(env, 4000)["delays"]
    counts = np.bincount(delays.ravel(), minlength=7)
    expected = delays.size / 5
    assert counts[:2].sum() == 0
    assert np.abs(counts[2:] - expected).max() < 5 * np.sqrt(expected)
    assert abs(np.corrcoef(delays[:, 0], delays[:, 1])[0, 1]) < 5 / np.sqrt(4000)
    assert set(whole(fg.Delayed(PLAIN, 3))["delays"].ravel()) == {3}
    assert (env.longest_delay, fg.Delayed(PLAIN, 3).longest_delay) == (6, 3)


def test_clients_act_with_the_probability():
    active = whole(fg.Partial(PLAIN, 0.3), 4000)["active"]
    assert abs(active.mean() - 0.3) < 5 * np.sqrt(0.21 / active.size)
    assert abs(np.corrcoef(active[:, 0], active[:, 1])[0, 1]) < 5 / np.sqrt(4000)
    assert whole(fg.Partial(PLAIN, 1.0))["active"].all()


def test_each_client_acts_with_its_probability():
    env = unequal(fg.Synthetic(PROBLEM, 4, 1), 1000.0)
    assert_allclose(env.participation, np.logspace(0, -3, 4))
    assert env == fg.Partial(env.env, np.array(env.participation))
    active = whole(env, 20_000)["active"]
    expected = 20_000 * np.logspace(0, -3, 4)
    assert active[:, 0].all()
    assert (np.abs(active.sum(axis=0) - expected) <= 5 * np.sqrt(expected)).all()
    assert env.described() == "Partial(Synthetic, participation=0.001 to 1, by client)"
    assert unequal(fg.Synthetic(PROBLEM, 1, 1), 10.0).participation == (1.0,)
    same(whole(unequal(PLAIN, 1.0)), whole(fg.Partial(PLAIN, 1.0)))


def test_clients_come_and_go():
    active = whole(stretches(fg.Synthetic(PROBLEM, 2000, 1), 5), 40)["active"]
    assert_array_equal(active[:30], ~active[5:35])
    assert_array_equal(active[:30], active[10:])
    changes = (active[1:] != active[:-1]).sum(axis=0)
    assert set(changes) <= {7, 8}
    assert abs(active.mean(axis=1) - 0.5).max() < 5 * 0.5 / np.sqrt(2000)


def test_a_schedule_says_who_acts():
    run = fg.simulate(fg.n_ons_glm(), fg.Partial(PLAIN, TABLE))
    assert_array_equal(run.choices >= 0, TABLE)
    run = fg.simulate(fg.n_ons_glm(), fg.Partial(PLAIN, by_turns), 12, seed=2)
    assert_array_equal(run.choices >= 0, [by_turns(2, t) for t in range(1, 13)])
    both = fg.Partial(recorded(active=TABLE), by_turns)
    run = fg.simulate(fg.n_ons_glm(), both, seed=2)
    assert_array_equal(run.choices >= 0, TABLE & [by_turns(2, t) for t in range(1, 21)])


# -- what holds for all of them --------------------------------------------------------------------


@pytest.mark.parametrize("name", CHANGES)
def test_draws_depend_on_the_seed_and_not_on_the_size_of_a_block(name, monkeypatch):
    env = CHANGES[name](PLAIN)
    at_once = whole(env)
    same(whole(CHANGES[name](fg.Synthetic(PROBLEM, N, K))), at_once)
    assert not np.array_equal(at_once["means"], whole(env, seed=2)["means"])
    assert_array_equal(at_once["arms"], whole(PLAIN)["arms"])
    monkeypatch.setattr("fedglb.environments.base.BLOCK_NUMBERS", 7 * N * K * D)
    assert len(list(env.blocks(20, 1))) == 3
    same(whole(env), at_once)


@pytest.mark.parametrize("name", CHANGES)
def test_equal_ones_are_equal_and_travel(name):
    env = CHANGES[name](PLAIN)
    assert env == CHANGES[name](fg.Synthetic(PROBLEM, N, K))
    assert pickle.loads(pickle.dumps(env)) == env
    assert env != PLAIN
    assert (env.problem, env.clients, env.arms, env.facts()) == (PROBLEM, N, K, {})
    assert env.block_steps() == PLAIN.block_steps()


@pytest.mark.parametrize(
    "nothing",
    [
        partial(fg.Heterogeneous, spread=0.0), partial(fg.Drifting, speed=0.0),
        partial(fg.Delayed, steps=0), partial(fg.Delayed, steps=(0, 0)),
        partial(fg.Grouped, spread=0.0), partial(fg.Outliers, count=0),
        partial(fg.Drifting, speed=0.0, kind="walk"),
    ],
)  # fmt: skip
def test_no_change_changes_no_bit(nothing):
    same(whole(nothing(PLAIN)), whole(PLAIN))
    assert_array_equal(nothing(PLAIN).parameter(1), PLAIN.parameter(1))


def test_they_compose_in_any_order():
    one = fg.Delayed(fg.Partial(fg.Heterogeneous(PLAIN, 0.3), 0.5), (0, 5))
    two = fg.Heterogeneous(fg.Partial(fg.Delayed(PLAIN, (0, 5)), 0.5), 0.3)
    same(whole(one), whole(two))
    assert one.longest_delay == two.longest_delay == 5
    assert_array_equal(one.parameters(4), two.parameters(4))
    for env in (one, two):
        run = fg.simulate(fg.fedglb_auto(), env, 20)
        assert 0 < (run.choices >= 0).sum() < 20 * N
    described = "Delayed(Partial(Heterogeneous(Synthetic, spread=0.3), participation=0.5)"
    assert run.parameters["environment"].startswith("Heterogeneous(Partial(Delayed(Synthetic")
    assert one.described() == described + ", steps=(0, 5))"
    assert fg.Heterogeneous(PLAIN, 0.3, 2).described() == (
        "Heterogeneous(Synthetic, spread=0.3, directions=2)"
    )
    moving = fg.Heterogeneous(fg.Drifting(PLAIN, 0.1), 0.3)
    assert moving.parameter(1) is None
    assert_allclose(np.linalg.norm(moving.parameters(1, 5, 3), axis=2), 1.5)
    assert fg.simulate(fg.fedglb_auto(), moving, 20).regret > 0


def recorded(rewards=False, follow=False, **given):
    made = whole(PLAIN)
    means = made["means"] if follow else np.random.default_rng(1).random((20, N, K))
    given |= {"rewards": np.ones((20, N, K))} if rewards else {"uniforms": made["uniforms"]}
    return fg.Recorded(PROBLEM, made["arms"], means, parameter=PLAIN.parameter(1), **given)


@pytest.mark.parametrize("name", MOVED)
def test_recorded_arms_take_another_parameter_where_means_follow_one(name):
    same(whole(CHANGES[name](recorded(follow=True))), whole(CHANGES[name](PLAIN)))


def differ(one, two):
    return any(one[name].tobytes() != two[name].tobytes() for name in one)


@pytest.mark.parametrize(
    "change",
    [
        *CHANGES.values(), lambda env: env, partial(fg.Heterogeneous, spread=0.0),
        partial(fg.Drifting, speed=0.0), partial(fg.Delayed, steps=(2, 2)),
        partial(fg.Partial, participation=1.0), partial(fg.Grouped, spread=0.0),
        partial(fg.Partial, participation=[1.0] * N),
        partial(fg.Outliers, count=0),
    ],
)  # fmt: skip
def test_it_is_randomised_where_another_seed_gives_other_blocks(change):
    env = change(recorded(follow=True))
    assert env.randomised == differ(whole(env, seed=1), whole(env, seed=2))
    assert change(PLAIN).randomised


def test_a_subclass_of_recorded_may_draw():
    class Shuffled(fg.Recorded):
        def blocks(self, horizon, seed):
            yield from super().blocks(horizon, seed)

    made = whole(PLAIN)
    assert Shuffled(PROBLEM, made["arms"], made["means"], made["uniforms"]).randomised


# -- what is refused -------------------------------------------------------------------------------


def data():
    table = fg.Table({"x": [0.0, 0.1, 5.0, 5.1, 9.0]}, labels=[0, 0, 1, 1, 0])
    found = fg.clustered(table, clusters=3, mode="centroid")
    return fg.Classification(fg.Problem(found.dim), N, found)


@pytest.mark.parametrize("name", MOVED)
def test_rewards_from_data_have_no_parameter(name):
    with pytest.raises(fg.InvalidInput, match=r"Classification.*true θ"):
        CHANGES[name](data())
    with pytest.raises(fg.InvalidInput, match=r"fixed rewards.*μ\(xᵀθ\)"):
        fg.simulate(fg.n_ons_glm(), CHANGES[name](recorded(rewards=True)))
    with pytest.raises(fg.InvalidInput, match=r"means are not μ\(xᵀθ\)"):
        fg.simulate(fg.n_ons_glm(), CHANGES[name](recorded()))


@pytest.mark.parametrize("name", ["delayed", "partial"])
def test_rewards_from_data_come_late_and_to_some(name):
    assert fg.simulate(fg.n_ons_glm(), CHANGES[name](data()), 20).choices.shape == (20, N)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: fg.Heterogeneous(PLAIN, -0.1), "spread = -0.1"),
        (lambda: fg.Heterogeneous(PLAIN, np.nan), "spread = nan"),
        (lambda: fg.Heterogeneous("env", 0.1), "env = 'env'"),
        (lambda: fg.Heterogeneous(fg.Heterogeneous(PLAIN, 0.1), 0.1), "no Heterogeneous"),
        (lambda: fg.Heterogeneous(PLAIN, 0.1, directions=0), "directions = 0"),
        (lambda: fg.Heterogeneous(PLAIN, 0.1, directions=D + 1), "directions = 4"),
        (lambda: fg.Grouped(PLAIN, 1), "groups = 1"),
        (lambda: fg.Grouped(PLAIN, D + 1), "groups = 4"),
        (lambda: fg.Grouped(PLAIN, 2, -1.0), "spread = -1.0"),
        (lambda: fg.Outliers(PLAIN, -1), "count = -1"),
        (lambda: fg.Outliers(PLAIN, N + 1), "count = 7"),
        (lambda: fg.Jump(PLAIN, 1), "at = 1"),
        (lambda: fg.Drifting(PLAIN, 0.1, "run"), "kind = 'run'"),
        (lambda: fg.Drifting(PLAIN, "fast"), "speed = 'fast'"),
        (lambda: fg.Drifting(fg.Synthetic(fg.Problem(1), 2, 2), 0.1), r"problem\.dim = 1"),
        (lambda: fg.Drifting(fg.Delayed(fg.Drifting(PLAIN, 0.1), 2), 0.1), "no Drifting"),
        (lambda: fg.Delayed(PLAIN, -1), "steps = -1"),
        (lambda: fg.Delayed(PLAIN, 2.5), "steps = 2.5"),
        (lambda: fg.Delayed(PLAIN, (3, 2)), r"steps\[1\] = 2: .*>= 3"),
        (lambda: fg.Delayed(PLAIN, (1, 2, 3)), "a pair"),
        (lambda: fg.Partial(PLAIN, 0.0), "participation = 0.0"),
        (lambda: fg.Partial(PLAIN, 1.1), "participation = 1.1"),
        (lambda: fg.Partial(PLAIN, [0.5] * (N + 1)), "7 of them.*6 probabilities"),
        (lambda: fg.Partial(PLAIN, [0.5] * (N - 1) + [0.0]), r"participation\[5\] = 0.0"),
        (lambda: fg.Partial(PLAIN, "half"), "participation = 'half'"),
        (lambda: unequal(PLAIN, 0.5), "ratio = 0.5"),
        (lambda: stretches(PLAIN, 0), "length = 0"),
        (lambda: fg.Partial(PLAIN, np.ones((3, N + 1), bool)), rf"\(T, {N}\)"),
        (lambda: fg.Partial(PLAIN, np.ones((3, N))), "float64 array"),
        (lambda: fg.Partial(PLAIN, np.ones((0, N), bool)), "rows of participation"),
    ],
)
def test_bad_input(make, words):
    with pytest.raises(fg.InvalidInput, match=words):
        make()


def test_what_a_schedule_returns_is_checked():
    with pytest.raises(fg.InvalidInput, match=rf"returns {N} booleans"):
        fg.simulate(fg.n_ons_glm(), fg.Partial(PLAIN, lambda seed, t: [True]), 3)
    with pytest.raises(fg.InvalidInput, match="at most 20, the recorded"):
        fg.simulate(fg.n_ons_glm(), fg.Partial(PLAIN, TABLE), 21)


class Scattered(fg.Synthetic):
    """A user's own: everybody has a parameter, and there is no common one."""

    def parameter(self, seed):
        return None

    def parameters(self, seed, first=1, steps=1):
        return np.ones((steps, self.clients, D))


def test_a_drift_needs_a_common_parameter():
    with pytest.raises(fg.InvalidInput, match="common θ"):
        fg.Drifting(Scattered(PROBLEM, N, K), 0.1)


class Late(fg.Environment):
    """A user's own environment with delays."""

    problem, clients, arms = PROBLEM, N, K
    longest_delay = 2
    delays = np.full((5, N), 2)

    def parameter(self, seed):
        return None

    def blocks(self, horizon, seed):
        for block in PLAIN.blocks(horizon, seed):
            yield fg.Block(block.first, block.arms, block.means, block.uniforms, delays=self.delays)


@pytest.mark.parametrize("engine", ["compiled", "reference"])
def test_delays_of_a_users_own(engine):
    env = Late()
    assert fg.simulate(fg.n_ons_glm(), env, 5, engine=engine).regret > 0
    for wrong, words in [
        (np.full((5, N), 3), "longest_delay = 2"), (np.full((5, N), -1), "from 0"),
        (np.full((5, N), 1.0), "whole numbers"), (np.full((4, N), 1), "whole numbers"),
    ]:  # fmt: skip
        env.delays = wrong
        with pytest.raises(fg.InvalidInput, match=words):
            fg.simulate(fg.n_ons_glm(), env, 5, engine=engine)
