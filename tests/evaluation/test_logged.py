"""Logs from runs and from agents: the same rewards and propensities, the arms that were offered."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

import fedglb as fg

PROBLEM = fg.Problem(dim=3)
ENV = fg.Synthetic(PROBLEM, clients=4, arms=5)


def run_on(env, choice, horizon=30, seed=2):
    return fg.simulate(fg.fedglb_auto(choice=choice), env, horizon, seed=seed)


def test_a_run_has_one_row_per_interaction():
    run = run_on(ENV, fg.EpsilonGreedy(0.3))
    log = fg.Logged.from_run(run, ENV)
    assert len(log) == 120
    np.testing.assert_array_equal(log.chosen, run.choices.ravel())
    np.testing.assert_array_equal(log.propensities, run.propensities.ravel())
    assert log.rewards.sum() == run.reward
    block = next(ENV.blocks(30, 2))
    np.testing.assert_array_equal(log.arms[7], block.arms[1, 3])
    np.testing.assert_array_equal(log.played[7], block.arms[1, 3, run.choices[1, 3]])
    # the policy itself on its own log
    assert fg.evaluate(log, fg.UniformPolicy(), "ips").samples == 120


@pytest.mark.parametrize("link", [fg.Identity(), fg.Poisson()], ids=lambda link: link.name)
def test_rewards_of_other_links_are_drawn_again(link):
    env = fg.Synthetic(fg.Problem(dim=2, link=link, noise=0.7), clients=2, arms=3)
    run = run_on(env, fg.EpsilonGreedy(0.3))
    assert fg.Logged.from_run(run, env).rewards.sum() == pytest.approx(run.reward)


def test_recorded_rewards_and_clients_that_do_not_act():
    rng = np.random.default_rng(1)
    arms = rng.normal(size=(30, 2, 3, 3)) / 4.0
    arms /= np.maximum(np.linalg.norm(arms, axis=3, keepdims=True), 1.0)
    rewards = (rng.random((30, 2, 3)) < 0.5).astype(float)
    active = rng.random((30, 2)) < 0.6
    env = fg.Recorded(PROBLEM, arms, rewards, rewards=rewards, active=active)
    run = fg.simulate(fg.fedglb_auto(choice=fg.EpsilonGreedy(0.5)), env)
    log = fg.Logged.from_run(run, env)
    assert len(log) == active.sum()
    np.testing.assert_array_equal(log.arms, arms[active])
    assert log.rewards.sum() == run.reward


def test_another_environment_is_refused():
    run = run_on(ENV, fg.EpsilonGreedy(0.3))
    for other in (
        fg.Synthetic(PROBLEM, clients=4, arms=7),
        fg.Synthetic(PROBLEM, clients=4, arms=2),
        fg.Synthetic(PROBLEM, clients=3, arms=5),
        fg.Synthetic(fg.Problem(dim=3, radius=5.0), clients=4, arms=5),
    ):
        with pytest.raises(fg.InvalidInput, match="run"):
            fg.Logged.from_run(run, other)


def test_unknown_propensities_are_refused_with_what_to_do():
    run = run_on(ENV, fg.Thompson(draws=0))
    with pytest.raises(fg.InvalidInput, match=r"propensities\[0\] = nan.*Thompson\(draws=100\)"):
        fg.Logged.from_run(run, ENV)


OFFER = np.eye(3)
BAD = {
    "p = 0": (lambda: fg.Logged(PROBLEM, [OFFER], [0], [1.0], [0.0]), ["propensities[0] = 0.0"]),
    "p > 1": (lambda: fg.Logged(PROBLEM, [OFFER], [0], [1.0], [1.1]), ["propensities[0] = 1.1"]),
    "arm": (lambda: fg.Logged(PROBLEM, [OFFER], [3], [1.0], [0.5]), ["chosen[0] = 3", "0 to 2"]),
    "arm no index": (lambda: fg.Logged(PROBLEM, [OFFER], [0.5], [1.0], [0.5]), ["whole numbers"]),
    "reward": (lambda: fg.Logged(PROBLEM, [OFFER], [0], [2.0], [0.5]), ["rewards[0] = 2.0"]),
    "reward nan": (lambda: fg.Logged(PROBLEM, [OFFER], [0], [math.nan], [0.5]), ["rewards[0]"]),
    "no rows": (lambda: fg.Logged(PROBLEM, [], [], [], []), ["arms = []"]),
    "features": (lambda: fg.Logged(PROBLEM, [np.eye(2)], [0], [1.0], [0.5]), ["arms[0].shape"]),
    "rows": (lambda: fg.Logged(PROBLEM, [OFFER], [0], [1.0], [0.5])[0], ["rows = 0", "slice"]),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_rows_are_refused(case):
    call, said = BAD[case]
    with pytest.raises(fg.InvalidInput) as caught:
        call()
    for words in said:
        assert words in str(caught.value)


# -- agents -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Two agents' logs, and the arms by decision; the last decision of each has no reward."""
    rng, arms, frames = np.random.default_rng(3), {}, []
    for name in ("one", "two"):
        path = tmp_path_factory.mktemp("agents") / f"{name}.db"
        with fg.Agent.open(path, PROBLEM, explore=0.4) as agent:
            for number in range(40):
                offer = rng.normal(size=(3 + number % 2, 3)) / 4.0
                offer /= np.maximum(np.linalg.norm(offer, axis=1, keepdims=True), 1.0)
                decision = agent.choose(offer)
                arms[decision.id] = offer
                if number < 39:
                    agent.observe(decision.id, float(rng.random() < 0.5 + 0.4 * offer[0, 0]))
            frames.append(agent.export())
    return pl.concat(frames), arms


def test_agents_logs_can_be_evaluated(exported):
    frame, arms = exported
    log = fg.Logged.from_export(frame, PROBLEM, arms)
    assert len(log) == 78
    assert log.caveats[0].startswith("2 of 80 decisions have no reward")
    observed = frame.filter(pl.col("outcome") == "observed").sort("made")
    np.testing.assert_array_equal(log.rewards, observed["reward"].to_numpy())
    np.testing.assert_array_equal(log.played, np.stack(observed["x"].to_list()))
    found = fg.evaluate(log, fg.UniformPolicy(), "ips")
    counts = observed["arms"].to_numpy()
    by_hand = (log.rewards / counts / observed["propensity"].to_numpy()).mean()
    assert found.value == pytest.approx(by_hand)
    assert log.caveats[0] in found.caveats
    in_order = fg.Logged.from_export(frame, PROBLEM, [arms[id_] for id_ in frame["id"]])
    assert fg.evaluate(in_order, fg.UniformPolicy()) == fg.evaluate(log, fg.UniformPolicy())


def test_arms_that_do_not_belong_to_the_log_are_refused(exported):
    frame, arms = exported
    first = frame["id"][0]
    for changed, said in (
        ({k: v for k, v in arms.items() if k != first}, "the arms that this decision was among"),
        ({**arms, first: arms[first] + 0.1}, "the arm played"),
        ({**arms, first: arms[first][:2]}, "shape"),
    ):
        with pytest.raises(fg.InvalidInput, match=said):
            fg.Logged.from_export(frame, PROBLEM, changed)
    with pytest.raises(fg.InvalidInput, match="one entry per row"):
        fg.Logged.from_export(frame, PROBLEM, [arms[first]])
    with pytest.raises(fg.InvalidInput, match="no decision with a reward"):
        fg.Logged.from_export(frame.head(0), PROBLEM, arms)


def test_the_arms_that_an_agent_has_kept_are_those_that_were_offered(tmp_path):
    """Also beside decisions without a reward, expired ones, and samples that were no decisions."""
    rng, given = np.random.default_rng(5), {}
    path = tmp_path / "agent.db"
    with fg.Agent.open(path, PROBLEM, explore=0.4, log="offered", max_pending=2) as agent:
        agent.absorb(np.eye(PROBLEM.dim), np.ones(PROBLEM.dim))
        for k in range(40):
            offer = rng.uniform(-0.5, 0.5, (int(rng.integers(1, 6)), PROBLEM.dim))
            decision = agent.choose(offer)
            given[decision.id] = offer
            if k % 7:
                agent.observe(decision.id, float(rng.random() < 0.5))
        frame = agent.export()
    kept = dict(zip(frame["id"], frame["offered"].to_list(), strict=True))
    for id_, outcome in zip(frame["id"], frame["outcome"], strict=True):
        if outcome in ("observed", "pending"):
            assert np.array_equal(kept[id_], given[id_])
        else:
            assert kept[id_] is None
    own, theirs = (
        fg.Logged.from_export(frame, PROBLEM),
        fg.Logged.from_export(frame, PROBLEM, given),
    )
    assert own.caveats == theirs.caveats
    assert "6 of 40 decisions" in own.caveats[0]
    policy = fg.UniformPolicy()
    assert fg.evaluate(own, policy).value == fg.evaluate(theirs, policy).value


def test_a_log_without_all_arms_offered_says_what_to_do(tmp_path):
    with fg.Agent.open(tmp_path / "agent.db", PROBLEM, explore=0.4) as agent:
        agent.observe(agent.choose(np.eye(PROBLEM.dim)).id, 1.0)
        with pytest.raises(fg.InvalidInput, match='log="offered"'):
            fg.Logged.from_export(agent.export(), PROBLEM)
        with pytest.raises(fg.InvalidInput, match='log="offered"'):
            fg.Logged.from_export(agent.export().drop("offered"), PROBLEM)
