"""Logs as environments: who meets which decision, what counts, and what is refused."""

from __future__ import annotations

import dataclasses
import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import fedglb as fg
from fedglb.studies.run.reproduce import reproduce

PROBLEM = fg.Problem(3)
ARMS = np.eye(3)
CHOSEN = [0, 1, 2, 0, 1, 2, 0]
REWARDS = [1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0]


@dataclass(frozen=True)
class FirstFeature(fg.Choice):
    """Play the arm with the largest first feature, whatever was learned."""

    def score(self, arms, model, t):
        return arms[:, 0]


FIRST = fg.fedglb_auto(choice=FirstFeature())


def whole(env, seed=1):
    blocks = list(env.checked_blocks(env.horizon, seed))
    names = ("arms", "rewards", "active", "weights", "benchmark")
    return {
        name: np.concatenate([getattr(b, name) for b in blocks])
        for name in names
        if getattr(blocks[0], name) is not None
    }


def test_decisions_are_dealt_in_turn_or_by_whose_they_are():
    offers = np.arange(7)[:, None, None] / 10.0 * np.ones((7, 3, 3)) / 2.0
    in_turn = whole(fg.Replay(PROBLEM, offers, CHOSEN, REWARDS, clients=3))
    rows = in_turn["arms"][:, :, 0, 0] * 20.0
    assert_array_equal(in_turn["active"], [[1, 1, 1], [1, 1, 1], [1, 0, 0]])
    assert_array_equal(rows.round()[in_turn["active"]], range(7))
    whose = ["b", "a", "b", "b", "c", "a", "b"]
    named = whole(fg.Replay(PROBLEM, offers, CHOSEN, REWARDS, clients=whose))
    rows = (named["arms"][:, :, 0, 0] * 20.0).round()
    assert_array_equal(named["active"], [[1, 1, 1], [1, 1, 0], [0, 1, 0], [0, 1, 0]])
    assert_array_equal(rows.T[named["active"].T], [1, 5, 0, 2, 3, 6, 4])
    # the regret compares with the mean reward of the client's own part
    assert_array_equal(named["benchmark"], [[0.0, 0.5, 1.0]] * 4)


def test_later_changes_of_the_arrays_have_no_effect():
    arms, chosen = np.broadcast_to(ARMS, (7, 3, 3)).copy(), np.array(CHOSEN)
    rewards, p = np.array(REWARDS), np.full(7, 0.5)
    env = fg.Replay(PROBLEM, arms, chosen, rewards, p)
    before = whole(env)
    for each in (arms, chosen, rewards, p):
        each[:] = 0
    for name, values in whole(env).items():
        assert_array_equal(values, before[name])


def test_the_size_of_a_block_changes_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    chosen, p = rng.integers(0, 3, 50), rng.uniform(0.1, 1.0, 50)
    for method in ("rejection", "weights"):
        env = fg.Replay(PROBLEM, ARMS, chosen, chosen > 0, p, clients=4, method=method)
        expected = whole(env)
        monkeypatch.setattr("fedglb.environments.base.BLOCK_NUMBERS", 1)
        for name, values in whole(env).items():
            assert_array_equal(values, expected[name])
        monkeypatch.undo()


def test_only_matches_count():
    env = fg.Replay(PROBLEM, ARMS, CHOSEN, REWARDS, method="weights")
    for engine in ("compiled", "reference"):
        run = fg.simulate(FIRST, env, engine=engine)
        assert_array_equal(run.choices[:, 0], [0, -1, -1, 0, -1, -1, 0])
        assert run.reward == pytest.approx(3.0 * 2.0)
        expected = 3.0 * (np.mean(REWARDS) - np.array([1.0, 1.0, 0.0]))
        np.testing.assert_allclose(run.regrets[[0, 3, 6], 0], expected)
        assert run.regret == pytest.approx(expected.sum())
        assert run.table("interactions")["t"].to_list() == [1, 4, 7]
    plain = fg.simulate(FIRST, fg.Replay(PROBLEM, ARMS, CHOSEN, REWARDS))
    assert (plain.reward, plain.regret) == (2.0, pytest.approx(expected.sum() / 3.0))


def test_a_client_learns_plain_rewards_of_its_matches_alone():
    seen = {}
    env = fg.Replay(PROBLEM, ARMS, CHOSEN, REWARDS, [0.25] * 7, method="weights")
    fg.simulate(
        FIRST, env, engine="reference", observer=lambda t, i, c: seen.update({t: c.samples.y[:]})
    )
    assert [len(y) for y in seen.values()] == [0, 1, 1, 1, 2, 2, 2]
    assert_array_equal(seen[7], [1.0, 1.0])


def test_nothing_matches():
    run = fg.simulate(FIRST, fg.Replay(PROBLEM, ARMS, [2] * 30, [1.0] * 30))
    assert (run.choices == -1).all()
    assert (run.reward, run.regret, run.syncs) == (0.0, 0.0, 0)


def test_an_uneven_log_is_thinned_to_an_even_one():
    rng = np.random.default_rng(1)
    n = 20_000
    chosen = np.where(rng.random(n) < 0.7, 0, rng.integers(0, 3, n))
    p = np.where(chosen == 0, 0.8, 0.1)
    env = fg.Replay(PROBLEM, ARMS, chosen, np.zeros(n), p)
    assert env.randomised
    kept = whole(env, seed=2)["active"][:, 0]
    left = np.bincount(chosen[kept])
    assert kept[p == 0.1].all()
    assert abs(left - 0.1 * n).max() < 4.0 * np.sqrt(0.1 * n)
    assert (kept != whole(env, seed=3)["active"][:, 0]).any()
    for even in (None, [0.2] * n):
        assert not fg.Replay(PROBLEM, ARMS, chosen, np.zeros(n), even).randomised
    assert not fg.Replay(PROBLEM, ARMS, chosen, np.zeros(n), p, method="weights").randomised


def test_facts_tell_logs_apart_and_survive_a_pickle():
    one = fg.Replay(PROBLEM, ARMS, CHOSEN, REWARDS)
    again = pickle.loads(pickle.dumps(one))
    assert one.facts() == again.facts()
    assert one.facts()["decisions"] == 7
    others = [
        fg.Replay(PROBLEM, ARMS, CHOSEN, REWARDS, clients=2),
        fg.Replay(PROBLEM, ARMS[::-1], CHOSEN, REWARDS),
        fg.Replay(PROBLEM, ARMS, CHOSEN, REWARDS, [0.5] * 7),
        fg.Replay(PROBLEM, ARMS, CHOSEN, REWARDS, method="weights"),
    ]
    assert len({str(env.facts()) for env in [one, *others]}) == 5
    assert one.described() == "Replay(rejection)"


def test_a_sweep_of_logs_resumes(tmp_path):
    env = fg.Replay(PROBLEM, ARMS, CHOSEN * 9, REWARDS * 9, clients=2)
    experiment = fg.Experiment.of([fg.fedglb_auto()], env, seeds=2, name="log")
    first = fg.sweep(experiment, tmp_path / "log", jobs=1)
    assert first.runs.equals(fg.sweep(experiment, tmp_path / "log", jobs=1).runs)
    other = fg.Replay(PROBLEM, ARMS, CHOSEN * 9, REWARDS[::-1] * 9, clients=2)
    changed = fg.Experiment.of([fg.fedglb_auto()], other, seeds=2, name="log")
    with pytest.raises(fg.InvalidInput, match="with other environment"):
        fg.sweep(changed, tmp_path / "log", jobs=1)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"arms": np.ones((7, 3))}, "norm"),
        ({"arms": np.ones((6, 3, 3)) / 3}, r"arms\.shape"),
        ({"arms": np.ones(3)}, "same number K of arms"),
        ({"arms": [np.eye(3), np.eye(3)[:2]]}, "same number K of arms"),
        ({"chosen": [0, 1, 2, 0, 1, 2, 3]}, r"chosen\[6\] = 3: expected an index from 0 to 2"),
        ({"chosen": [0.0] * 7}, "whole numbers"),
        ({"rewards": [2.0] * 7}, "rewards"),
        ({"rewards": [np.nan] * 7}, "finite"),
        ({"propensities": [0.5] * 6 + [0.0]}, r"propensities\[6\] = 0.0: expected a probability"),
        ({"propensities": [0.5] * 6}, r"propensities\.shape"),
        ({"clients": 8}, "clients = 8"),
        ({"clients": 0}, "clients = 0"),
        ({"clients": [0.5] * 7}, "a whole number or a name for each of 7"),
        ({"clients": ["a", "b"]}, "a whole number or a name for each of 7"),
        ({"method": "ips"}, "one of rejection, weights"),
        ({"problem": 3}, "problem"),
    ],
)
def test_what_is_refused(change, said):
    given = {"problem": PROBLEM, "arms": ARMS, "chosen": CHOSEN, "rewards": REWARDS, **change}
    with pytest.raises(fg.InvalidInput, match=said):
        whole(fg.Replay(**given))  # norms are checked where arms are played


def test_what_needs_all_rewards_refuses_a_log_by_name(tmp_path):
    env = fg.Replay(PROBLEM, ARMS, CHOSEN, REWARDS)
    with pytest.raises(fg.InvalidInput, match="every arm has a reward, for"):
        fg.to_gymnasium(fg.Partial(env, 0.5))
    with pytest.raises(fg.InvalidInput, match="true θ"):
        fg.Heterogeneous(env, 0.3)
    experiment = fg.Experiment.of([fg.fedglb_auto()], env, seeds=2)
    with pytest.raises(
        fg.InvalidInput, match=r"Replay\(rejection\).*for searches and fixed models"
    ):
        reproduce(experiment, folder=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rewards": np.full((2, 1, 3), np.nan)}, "finite"),  # not known, without a benchmark
        ({"benchmark": np.zeros((2, 1)), "means": np.full((2, 1, 3), np.nan)}, "finite"),
        ({"benchmark": np.full((2, 1), np.nan)}, "finite"),
        ({"benchmark": np.zeros((2, 1)), "rewards": np.full((2, 1, 3), 2.0)}, r"in \[0, 1\]"),
        ({"benchmark": np.zeros((2, 1)), "rewards": np.full((2, 1, 3), np.inf)}, r"in \[0, 1\]"),
        ({"weights": np.full((2, 1), -1.0)}, ">= 0"),
        ({"weights": np.ones((2, 2))}, r"weights\.shape"),
    ],
)
def test_blocks_are_checked(change, said):
    block = {"arms": np.ones((2, 1, 3, 1)), "means": np.zeros((2, 1, 3)), "rewards": 0.0, **change}
    block["rewards"] = np.broadcast_to(block["rewards"], (2, 1, 3))
    with pytest.raises(fg.InvalidInput, match=said):
        fg.Block(1, **block).checked(fg.Problem(1), 1)


def test_weights_without_a_benchmark():
    """A block of drawn rewards may weigh interactions, too."""

    class Weighed(fg.Recorded):
        def blocks(self, horizon, seed):
            for block in super().blocks(horizon, seed):
                yield dataclasses.replace(block, weights=weights)

    rng = np.random.default_rng(4)
    arms, means, weights = (
        rng.uniform(-0.5, 0.5, (9, 2, 4, 3)),
        rng.random((9, 2, 4)),
        rng.random((9, 2)),
    )
    given = PROBLEM, arms, means, rng.random((9, 2))
    for engine in ("compiled", "reference"):
        plain = fg.simulate(FIRST, fg.Recorded(*given), engine=engine)
        run = fg.simulate(FIRST, Weighed(*given), engine=engine)
        assert_array_equal(run.choices, plain.choices)
        assert_array_equal(run.regrets, weights * plain.regrets)
        assert run.regret == pytest.approx(run.regrets.sum())
        earned = np.diff(plain.trace["reward"], prepend=0.0)
        assert 0.0 < run.reward < earned.sum()


# -- recorded rewards without means --------------------------------------------------------------


def test_without_means_the_regret_is_by_rewards():
    rng = np.random.default_rng(3)
    arms, rewards = rng.uniform(-0.5, 0.5, (20, 2, 4, 3)), rng.random((20, 2, 4))
    env = fg.Recorded(PROBLEM, arms, rewards=rewards)
    for engine in ("compiled", "reference"):
        run = fg.simulate(fg.fedglb_auto(), env, engine=engine)
        assert run.regret == pytest.approx(rewards.max(axis=2).sum() - run.reward)
    with_means = fg.Recorded(PROBLEM, arms, rewards, rewards=rewards)
    assert fg.simulate(fg.fedglb_auto(), with_means).regrets.tobytes() == run.regrets.tobytes()


def test_uniforms_need_means():
    for given in ({}, {"uniforms": np.zeros((2, 1))}):
        with pytest.raises(fg.InvalidInput, match="means = None: expected mean rewards"):
            fg.Recorded(PROBLEM, np.zeros((2, 1, 2, 3)), **given)
