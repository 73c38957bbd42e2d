"""Privacy in the file of a sweep: tables, lists of them, a column of ε, refusals by name."""

from __future__ import annotations

import math

import pytest

import fedglb as fg
from tests.studies.tiny import tables

FILE = """\
name = "private"
horizon = 12
seeds = 2
[problem]
dim = 3
[environment]
clients = 2
arms = 4
[[algorithm]]
name = "fedglb-private"
updates = 3
privacy = [
    "none", {epsilon = 1.0, delta = 1e-6},
    {epsilon = 8.0, delta = 1e-3, noise = "silo", neighbours = "replace", contributions = 2},
]
[[algorithm]]
name = "n-ons-glm"
"""


def private(privacy, **changes):
    table = {"name": "fedglb-private", "updates": 3, "privacy": privacy}
    return fg.read_experiment(
        tables(algorithm=[{"name": "n-ons-glm"}, table], defaults={}, **changes)
    )


@pytest.fixture
def experiment(tmp_path):
    (tmp_path / "private.toml").write_text(FILE)
    return fg.read_experiment(tmp_path / "private.toml")


def test_a_list_of_tables(experiment):
    made = [c.algorithm for c in experiment.configurations]
    assert [a.privacy for a in made] == [
        None, fg.GaussianMechanism(1.0, 1e-6),
        fg.GaussianMechanism(8.0, 1e-3, "silo", "replace", 2), None,
    ]  # fmt: skip
    assert made[1] == fg.fedglb_private(3, privacy=fg.GaussianMechanism(1.0, 1e-6))
    labels = [c.label for c in experiment.configurations]
    assert len(set(labels)) == 4
    assert ["epsilon=1 " in labels[1], "epsilon=8 " in labels[2]] == [True, True]
    assert all(word in labels[2] for word in ("delta=0.001", "silo", "replace"))


def test_results_have_a_column_of_epsilon_and_the_runs_are_those_of_simulate(experiment, tmp_path):
    runs = fg.sweep(experiment, tmp_path / "out", jobs=1).runs
    found = {
        (row["label"], row["seed"]): (row["epsilon"], row["privacy"], row["regret"])
        for row in runs.iter_rows(named=True)
    }
    assert len(found) == 8
    for each in experiment.configurations:
        for seed in (1, 2):
            epsilon, words, regret = found[each.label, seed]
            run = fg.simulate(each.algorithm, experiment.env, 12, seed)
            assert regret == run.regret
            privacy = each.algorithm.privacy
            assert epsilon == (None if privacy is None else privacy.epsilon)
            assert (words is not None and "delta=" in words) == (privacy is not None)


@pytest.mark.parametrize("listed", [False, True], ids=["alone", "in a list"])
@pytest.mark.parametrize(
    ("table", "named"),
    [
        ({"epsilon": 0.0, "delta": 1e-6}, ".epsilon = 0.0"),
        ({"epsilon": -1, "delta": 1e-6}, ".epsilon = -1"),
        ({"epsilon": math.nan, "delta": 1e-6}, ".epsilon = nan"),
        ({"epsilon": "large", "delta": 1e-6}, ".epsilon = 'large'"),
        ({"epsilon": 1.0, "delta": 0.0}, ".delta = 0.0"),
        ({"epsilon": 1.0, "delta": 1.0}, ".delta = 1.0"),
        ({"epsilon": 1.0, "delta": -0.5}, ".delta = -0.5"),
        ({"epsilon": 1.0}, ".delta = None"),
        ({"epsilon": 1.0, "delta": 1e-6, "sigma": 2.0}, ".sigma = 2.0"),
        ({"epsilon": 1.0, "delta": 1e-6, "noise": "central"}, ".noise = 'central'"),
        ("much", " = 'much'"),
        (1.0, " = 1.0"),
    ],
)
def test_what_is_wrong_is_named(table, named, listed):
    with pytest.raises(fg.InvalidInput) as error:
        private(["none", table] if listed else table)
    place = "algorithm[1].privacy[1]" if listed else "algorithm[1].privacy"
    assert f"{place}{named} is not allowed" in str(error.value)


def test_rewards_without_a_bound_are_refused_when_the_file_is_read():
    unbounded = {"problem": {"dim": 3, "link": "identity", "noise": 1.0}}
    with pytest.raises(fg.InvalidInput, match=r"algorithm\[1\].*reward_limit = None .* no bound"):
        private({"epsilon": 1.0, "delta": 1e-6}, **unbounded)
    made = private({"epsilon": 1.0, "delta": 1e-6, "reward_limit": 2.0}, **unbounded)
    assert made.configurations[-1].algorithm.privacy.reward_limit == 2.0


def test_only_the_private_preset_takes_it_for_something_else_than_a_refusal():
    for name, given in (("fedglb-ucb", {"threshold": 1.0}), ("fedglb-auto", {})):
        table = {"name": name, **given, "privacy": {"epsilon": 1.0, "delta": 1e-6}}
        with pytest.raises(fg.InvalidInput, match=r"algorithm\[0\]\.privacy .*fedglb_private"):
            fg.read_experiment(tables(algorithm=[table], defaults={}))
    with pytest.raises(fg.InvalidInput, match=r"algorithm\[0\]\.privacy"):
        fg.read_experiment(
            tables(algorithm=[{"name": "n-ons-glm", "privacy": "none"}], defaults={})
        )
