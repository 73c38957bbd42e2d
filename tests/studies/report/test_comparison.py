"""Settings of a sweep against one of them: which pairs, how corrected, the table."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
import pytest

import fedglb as fg
from fedglb.errors import InvalidInput
from fedglb.studies.report.comparison import compare
from fedglb.studies.report.page import PageTable
from fedglb.studies.report.typeset import to_latex, to_markdown
from tests.studies.report.made_study import config, study

BASE = [30.0, 7.0, 100.0, 55.0, 2.0, 80.0, 41.0, 12.0]


def near(*, seeds=8):
    """Three settings close to each other, one far away."""
    rng = np.random.default_rng(2)
    made = {"a": (0.0, 1.0), "b": (0.1, 1.0), "c": (0.2, 1.0), "far": (50.0, 2.0)}
    return [
        config(name, 10, (np.array(BASE[:seeds]) + rng.normal(gap, spread, seeds)).tolist(),
               label=name)
        for name, (gap, spread) in made.items()
    ]  # fmt: skip


def result(*configs):
    return study(*configs).result


def verdicts(made):
    return dict(made.frame["setting", "verdict"].rows())


def test_all_against_the_best_are_corrected_for_all_pairs():
    made = result(*near()).compare()
    best = made.frame["setting"][0]
    assert made.frame["mean"].is_sorted()
    assert made.frame["against"].to_list() == [None, best, best, best]
    assert verdicts(made) == {best: None, **dict.fromkeys({"a", "b", "c"} - {best}, "undecided"),
                              "far": "higher"}  # fmt: skip
    assert made.bold == (0, 1, 2)
    far = made.frame.row(3, named=True)
    assert far["adjusted_p"] == pytest.approx(6 * far["p"])
    assert far["difference"] == pytest.approx(far["mean"] - made.frame["mean"][0])
    text = " ".join(made.notes)
    assert "Paired t, two-sided, 8 seeds." in text
    assert "Corrected for 6 comparisons: intervals hold together (Bonferroni)" in text
    assert f"{best} was chosen as the best of 4 on these seeds" in text


def test_a_setting_given_in_advance_is_corrected_for_those_shown():
    sweep = result(*near())
    given = sweep.compare(against="far")
    assert verdicts(given) == {"far": None, "a": "lower", "b": "lower", "c": "lower"}
    assert given.bold == ()
    assert "Corrected for 3 comparisons" in " ".join(given.notes)
    assert "chosen" not in " ".join(given.notes)
    pair = sweep.compare("a", "far")
    row, same = pair.frame.row(1, named=True), given.frame.filter(setting="a").row(0, named=True)
    assert row["adjusted_p"] == row["p"] == same["p"]
    assert (row["low"], row["high"]) > (same["low"], row["difference"])
    assert "Corrected" not in " ".join(pair.notes)
    back = sweep.compare("far", "a").frame.row(1, named=True)
    assert (back["difference"], back["verdict"]) == (pytest.approx(-row["difference"]), "higher")


def test_one_against_the_best_of_the_others():
    made = result(*near()).compare("far")
    assert made.frame.height == 2
    assert made.frame["setting"][0] in ("a", "b", "c")
    assert "Corrected for 3 comparisons" in " ".join(made.notes)
    assert "chosen as the best of 3" in " ".join(made.notes)


def test_the_chance_of_a_wrong_verdict_is_at_most_that_of_the_level():
    """Against the best of ten equal settings, which is known only from the same seeds."""
    rng = np.random.default_rng(4)
    labels = [f"setting {i}" for i in range(10)]
    index = {"label": np.repeat(labels, 15), "seed": np.tile(np.arange(15), 10)}
    wrong = 0
    for _ in range(150):
        regret = rng.gamma(2.0, 50.0, 15) + rng.normal(0.0, 3.0, (10, 15))
        runs = pl.DataFrame({**index, "regret": regret.ravel(), "randomised": True})
        wrong += "higher" in compare(runs).frame["verdict"].to_list()
    assert 1 <= wrong <= 0.07 * 150  # 14 % with a correction for nine comparisons


def test_the_largest_reward_is_the_best():
    best = result(*near()).compare(column="reward")
    assert best.frame["mean"].is_sorted(descending=True)
    assert verdicts(best)["far"] == "lower"
    assert best.bold == (0, 1, 2)


def test_only_seeds_that_both_have_count():
    runs = result(*near()).runs.filter((pl.col("label") != "a") | (pl.col("seed") > 2))
    made = compare(runs, "a", "b")
    assert made.frame["seeds"].to_list() == [8, 6]
    kept = runs.filter(pl.col("seed") > 2)
    mean = {k: kept.filter(label=k)["regret"].mean() for k in ("a", "b")}
    assert made.frame["difference"][1] == pytest.approx(mean["a"] - mean["b"])
    assert "two-sided, 6 seeds" in " ".join(made.notes)


def test_few_seeds_have_no_verdict_and_no_bold():
    made = result(*near(seeds=4)).compare()
    assert set(made.frame["verdict"][1:]) == {"too few seeds"}
    assert made.frame["low"].null_count() == made.frame["error"].null_count() == 4
    assert made.bold == ()
    text = str(made)
    assert "Fewer than 5 seeds that both have give no interval and no verdict." in text
    assert "Corrected" not in text
    assert "±" not in text.replace("regret ± s.e.", "")


def test_what_has_the_same_run_at_every_seed_counts_once():
    first, *others = near()
    made = result({**first, "randomised": False}, *others).compare("b", "a")
    assert made.frame["seeds"].to_list() == [1, 1]
    assert verdicts(made)["b"] == "too few seeds"
    assert "No replicates" in str(made)


def test_equal_settings_tie():
    first, second, *_ = near()
    made = result({**second, "regrets": first["regrets"]}, first).compare()
    assert made.frame["verdict"].to_list() == [None, "equal"]
    assert made.bold == (0, 1)


def test_the_same_difference_at_every_seed_has_no_interval_and_the_p_of_flipped_signs():
    first, *_ = near()
    higher = config("higher", 10, [regret + 2.0 for regret in first["regrets"]], label="higher")
    made = result(first, higher).compare()
    assert made.frame.row(1, named=True)["p"] == 2 / 2**8
    assert "its p is 2/2ⁿ" in str(made)
    assert "2/2ⁿ" not in str(result(*near()).compare())


def test_seconds_per_update_are_compared_where_updates_have_them():
    runs = result(*near()).runs
    late = pl.when(pl.col("label") == "a").then(3.0).when(pl.col("label") == "b").then(1.0)
    made = compare(runs.with_columns(late.alias("update_seconds")), column="update_seconds")
    assert verdicts(made) == {"b": None, "a": "higher"}  # the others have no update
    with pytest.raises(InvalidInput, match="over a network"):
        compare(runs.with_columns(update_seconds=None), column="update_seconds")


def test_a_regret_that_is_nan_is_never_the_best():
    runs = result(config("x", 1, [4.0]), config("y", 1, [5.0, 6.0])).runs
    nan = pl.when(pl.col("label") == "x").then(float("nan")).otherwise(pl.col("regret"))
    made = compare(runs.with_columns(nan.alias("regret")))
    assert made.frame["setting"].to_list() == ["y", "x"]
    assert made.frame["verdict"][1] == "undecided"
    assert re.search(r"\| x +\| +6 \| +– ± – \| +– \|", str(made))


def test_one_setting_is_a_table_of_one_row():
    made = result(near()[0]).compare()
    assert made.frame.height == 1
    assert (made.notes, made.bold) == ((), ())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"setting": "fa"}, "setting = 'fa': expected one of a, b, c, far; did you mean far"),
        ({"setting": "a", "against": "d"}, "against = 'd': expected one of a, b, c, far"),
        ({"setting": "a", "against": "a"}, "another label than that of `setting`"),
        ({"column": "regrets"}, "did you mean regret"),
        ({"interval": "z"}, "interval = 'z': expected one of t, bootstrap"),
        ({"level": 95}, "level = 95: expected a finite number > 0 and < 1"),
    ],
)
def test_mistakes_are_refused(given, said):
    with pytest.raises(InvalidInput, match=re.escape(said)):
        result(*near()).compare(**given)


def test_one_setting_has_no_other():
    with pytest.raises(InvalidInput, match="at least two"):
        result(near()[0]).compare("a")


def test_equal_sweeps_give_equal_bytes():
    first, second = (result(*near()).compare(interval="bootstrap") for _ in range(2))
    assert first.frame.equals(second.frame)
    assert first.to_latex() == second.to_latex()
    assert "BCa, 9,999 resamples), 8 seeds; p: two-sided permutation test" in str(first)
    assert fg.Comparison is type(first)


def test_tables_are_escaped():
    rows = [[r"a_b & 5 % | $x$ {~^\#} <b> *", "−1"], ["[θ₁] “é”", ""], ["plain", ("2", "small")]]
    table = PageTable("A_title", ["name", "n ± s.e."], rows, bold=(1,))
    latex = to_latex([table], ["p < 0.1"])
    assert latex.splitlines() == [
        r"% \usepackage{booktabs}", r"% p \textless{} 0.1", r"% A\_title",
        r"\begin{tabular}{@{}lr@{}}", r"\toprule", r"name & n $\pm$ s.e. \\", r"\midrule",
        r"a\_b \& 5 \% \textbar{} \$x\$ \{\textasciitilde{}\textasciicircum{}"
        r"\textbackslash{}\#\} \textless{}b\textgreater{} * & $-$1 \\",
        r"\textbf{[$\theta$$_1$] ``é''} &  \\", r"plain & 2 (small) \\",
        r"\bottomrule", r"\end{tabular}",
    ]  # fmt: skip
    lines = to_markdown([table], ["p < 0.1"]).splitlines()
    assert lines[0] == "**A_title**"
    assert len({len(line) for line in lines[2:7]}) == 1  # columns are padded
    assert lines[4].startswith(r"| a_b & 5 % \| $x$ {~^\\#} \<b> \* ")
    assert re.fullmatch(r"\| \*\*\[θ₁\] “é”\*\* +\| +\|", lines[5])
    assert lines[-1] == "p < 0.1"


def test_a_bracket_after_the_end_of_a_row_is_no_length():
    table = PageTable("", ["a", "b"], [["x", "1"], ["[2pt]", "2"], ["*", "3"]])
    assert r"{}[2pt] & 2 \\" in to_latex([table], [])
    assert r"{}* & 3 \\" in to_latex([table], [])
