"""The engines agree on environments that are changed; late rewards, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import fedglb as fg
from tests.simulation.test_engines_agree import ALGORITHMS, EVERY, LINKS, D, K, N, T, agree, play

PLAIN = fg.Synthetic(LINKS["logistic"], N, K)
ENVIRONMENTS = {
    "heterogeneous": fg.Heterogeneous(PLAIN, 0.5),
    "grouped": fg.Grouped(PLAIN, 2, 1.0),
    "outliers": fg.Outliers(PLAIN, 1),
    "drifting": fg.Drifting(PLAIN, 0.05),
    "walking": fg.Drifting(PLAIN, 0.05, "walk"),
    "jump": fg.Jump(PLAIN, T // 2),
    "delayed": fg.Delayed(PLAIN, 3),
    "delays that are drawn": fg.Delayed(PLAIN, (0, 6)),
    "partial": fg.Partial(PLAIN, 0.5),
    "all at once": fg.Delayed(
        fg.Partial(fg.Drifting(fg.Heterogeneous(PLAIN, 0.5), 0.02), 0.6), (1, 9)
    ),
}
SOME = [name for name in ALGORITHMS if name not in ("FedGLB-UCB, proven radius", "always")]
SOME += ["FedGLB-Auto, Thompson", "FedGLB-Auto, EpsilonGreedy"]  # whose choices are random


@pytest.mark.some(20)
@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("kind", ENVIRONMENTS)
def test_the_engines_agree(kind, name, monkeypatch):
    # blocks of 5 steps: rewards come in a later block than the choices
    monkeypatch.setattr("fedglb.environments.base.BLOCK_NUMBERS", 5 * N * K * D)
    agree(*play(EVERY[name], ENVIRONMENTS[kind]))


@pytest.mark.parametrize("clients", [N, 1])
def test_a_reward_that_comes_after_the_end_is_never_learned(clients):
    env = fg.Delayed(fg.Synthetic(LINKS["logistic"], clients, K), T)
    for name in ("FedGLB-UCB, D=0", "N-ONS-GLM", "One-UCB-GLM"):
        run = agree(*play(ALGORITHMS[name], env))
        assert run.updates.height == 0
        assert not run.choices.any()  # all arms look alike, to the end


def test_late_rewards_by_hand():
    """Every step of every client, with `Client` and nothing of the engines."""
    env = fg.Delayed(fg.Partial(PLAIN, 0.7), (0, 4))
    algorithm, seed = fg.fedglb_ucb(0.3, fg.Newton(), 0.2), 3
    (block,) = env.blocks(T, seed)
    setting = algorithm.setting(env.problem, N, T)
    clients = [fg.Client(i, algorithm, setting) for i in range(N)]
    coordinator = fg.Coordinator(algorithm, setting, range(N))
    known = {}  # (step, client) → the samples that become known there, in the order of choices
    choices = np.full((T, N), -1)
    asked, regret = [], 0.0
    for t in range(1, T + 1):
        for i, client in enumerate(clients):
            if block.active[t - 1, i]:
                arms, means = block.arms[t - 1, i], block.means[t - 1, i]
                arm = choices[t - 1, i] = client.choose(arms, t)
                reward = float(block.uniforms[t - 1, i] < means[arm])
                regret += means.max() - means[arm]
                due = t + int(block.delays[t - 1, i])
                known.setdefault((due, i), []).append((arms[arm], reward))
            messages = []
            for x, reward in known.get((t, i), []):
                messages = client.observe(x, reward, t)
            asked += [(t, i)] * len(messages)
            while messages:
                message = messages.pop(0)
                to = coordinator if message.upward else clients[message.client]
                messages += to.receive(message)
    run = fg.simulate(algorithm, env, T, seed)
    assert_array_equal(run.choices, choices)
    assert run.regret == pytest.approx(regret, rel=1e-12)
    assert asked == list(zip(run.updates["t"], run.updates["client"], strict=True))
    assert any(not block.active[t - 1, i] for t, i in asked)  # asked without having acted
    lost = sum(len(samples) for (t, _), samples in known.items() if t > T)
    assert lost > 0
    assert sum(len(client.samples) for client in clients) == block.active.sum() - lost


def test_an_agents_choices_with_late_rewards(tmp_path):
    """An agent that observes each reward three decisions later chooses as the simulator does."""
    from fedglb.federation import Agent

    env = fg.Delayed(fg.Synthetic(LINKS["logistic"], 1, K), 3)
    run = fg.simulate(fg.n_ons_glm(0.2), env, T, 3)
    (block,) = env.blocks(T, 3)
    waiting, choices = [], []
    with Agent.open(tmp_path / "agent.db", env.problem, algorithm=fg.n_ons_glm(0.2)) as agent:
        for t in range(T):
            decision = agent.choose(block.arms[t, 0])
            choices.append(decision.arm)
            reward = float(block.uniforms[t, 0] < block.means[t, 0, decision.arm])
            waiting.append((decision.id, reward))
            if t >= 3:
                agent.observe(*waiting.pop(0))
    assert choices == run.choices[:, 0].tolist()
