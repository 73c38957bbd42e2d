"""Privacy in the file of a sweep: tables, lists of them, a column of ε, refusals by name."""

from __future__ import annotations

import pytest

import fedglb as fg
from tests.studies.tiny import tables

LIST = [
    "none", {"epsilon": 1.0, "delta": 1e-6},
    {"epsilon": 8.0, "delta": 1e-3, "noise": "silo", "neighbours": "replace", "contributions": 2},
]  # fmt: skip


def private(privacy, **changes):
    table = {"name": "fedglb-private", "updates": 3, "privacy": privacy}
    return fg.read_experiment(
        tables(algorithm=[{"name": "n-ons-glm"}, table], defaults={}, **changes)
    )


def test_a_list_of_tables():
    made = private(LIST).configurations
    assert [c.algorithm.privacy for c in made] == [
        None, None, fg.GaussianMechanism(1.0, 1e-6),
        fg.GaussianMechanism(8.0, 1e-3, "silo", "replace", 2),
    ]  # fmt: skip
    assert made[2].algorithm == fg.fedglb_private(3, privacy=fg.GaussianMechanism(1.0, 1e-6))
    labels = [c.label for c in made]
    assert len(set(labels)) == 4
    for label, words in (
        (2, ["epsilon=1 "]),
        (3, ["epsilon=8 ", "delta=0.001", "silo", "replace"]),
    ):
        assert all(word in labels[label] for word in words)


def test_results_have_a_column_of_epsilon_and_the_runs_are_those_of_simulate(tmp_path):
    experiment = private(LIST, seeds=2)
    runs = fg.sweep(experiment, tmp_path / "out", jobs=1).runs
    assert runs.height == 8
    for row, each in zip(runs.to_dicts()[::2], experiment.configurations, strict=True):
        run = fg.simulate(each.algorithm, experiment.env, 12, 1)
        assert (row["label"], row["regret"]) == (each.label, run.regret)
        privacy = each.algorithm.privacy
        assert row["epsilon"] == (None if privacy is None else privacy.epsilon)
        assert ("delta=" in (row["privacy"] or "")) == (privacy is not None)


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ({"epsilon": 0.0, "delta": 1e-6}, ".epsilon = 0.0"),
        ({"epsilon": 1.0}, ".delta = None"),
        ({"epsilon": 1.0, "delta": 1e-6, "sigma": 2.0}, ".sigma = 2.0"),
        ("much", " = 'much'"),
    ],
)
def test_what_is_wrong_is_named(table, named):
    for given, place in ((table, "privacy"), (["none", table], "privacy[1]")):
        with pytest.raises(fg.InvalidInput) as error:
            private(given)
        assert f"algorithm[1].{place}{named}: expected" in str(error.value)


def test_rewards_without_a_bound_are_refused_when_the_file_is_read():
    unbounded = {"problem": {"dim": 3, "link": "identity", "noise": 1.0}}
    with pytest.raises(fg.InvalidInput, match=r"algorithm\[1\].*reward_limit = None: .* no bound"):
        private({"epsilon": 1.0, "delta": 1e-6}, **unbounded)
    made = private({"epsilon": 1.0, "delta": 1e-6, "reward_limit": 2.0}, **unbounded)
    assert made.configurations[-1].algorithm.privacy.reward_limit == 2.0
