"""The benchmark of the untuned default: what its wrappers do to runs, its file and its table."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import fedglb as fg
from benchmarks import untuned
from benchmarks.problems import PROBLEMS, Entry, Items, Missing, unlike, wide
from benchmarks.untuned import Key, left, read, table, whole_lines

ITEMS = Items(wide(3), 20, 3, unlike((0.1, 0.2, 0.9), None))


def test_arms_are_reordered_with_their_means_by_the_seed() -> None:
    env = Entry(lambda: ITEMS, 10).environment()
    orders = set()
    for seed in range(8):
        (block,) = env.checked_blocks(10, seed)
        assert np.array_equal(block.arms @ [0.1, 0.2, 0.9], block.means)
        orders.add(tuple(block.means[0, 0]))
        assert (block.means == block.means[0, 0]).all()
    assert len(orders) > 3


def test_rewards_are_reordered_with_their_arms() -> None:
    arms, rewards = (
        np.broadcast_to(np.eye(4), (5, 20, 4, 4)),
        np.tile(np.arange(4.0) / 4, (5, 20, 1)),
    )
    env = Entry(lambda: fg.Recorded(wide(4), arms, rewards, rewards=rewards), 5).environment()
    (block,) = env.checked_blocks(5, 1)
    assert np.array_equal(block.arms @ (np.arange(4.0) / 4), block.rewards)
    assert block.means[0, 0].tolist() != rewards[0, 0].tolist()


@pytest.mark.parametrize(("delay", "missing"), [(0, 0.3), (100, 0.3), (100, 0.0)])
def test_rewards_come_late_or_never(delay: int, missing: float) -> None:
    env, T = Entry(lambda: ITEMS, 200).environment(delay, missing), 200
    learned = np.zeros(20)

    def observe(t: int, i: int, client: fg.Client) -> None:
        learned[i] = len(client.samples)

    fg.simulate(fg.n_ons_glm(), env, T, 1, "reference", observer=observe)
    steps = T - 1 - delay // 20  # before the last choice
    if missing:
        assert learned.sum() == pytest.approx((1 - missing) * 20 * steps, abs=120)  # 4 sd
    else:
        assert (learned == steps).all()


def test_both_engines_miss_the_same_rewards() -> None:
    env = Missing(ITEMS, 0.5, 50)
    one, other = (fg.simulate(fg.fedglb_auto(), env, 50, 1, e) for e in ("compiled", "reference"))
    assert np.array_equal(one.choices, other.choices)


def line(problem: str, rule: str, seed: int, regret: float) -> str:
    return json.dumps({**Key(problem, rule, seed, 0, 0.0)._asdict(), "regret": regret}) + "\n"


def test_a_line_that_was_cut_off_is_dropped(tmp_path: Path) -> None:
    path, whole = tmp_path / "runs.jsonl", line("four-random", "today", 1, 5.0)
    path.write_text(whole + line("four-random", "today", 2, 5.0)[:-9])
    assert [key.seed for key in read([path, tmp_path / "none"])] == [1]
    for _ in range(2):
        whole_lines(path)
        assert path.read_text() == whole


def test_what_is_there_is_not_run_again() -> None:
    keys = [Key("four-random", rule, seed, 0, 0.3) for seed in (1, 2) for rule in ("a", "b")]
    assert left(keys, {keys[1], keys[3]._replace(delay=100)}) == {
        ("four-random", 1, 0, 0.3): ["a"],
        ("four-random", 2, 0, 0.3): ["a", "b"],
    }


def test_table() -> None:
    names = ["magic-clusters", "four-random"]
    assert set(names) <= set(PROBLEMS)
    tuned, luckier = list(untuned.TUNED)[:2]
    runs = {}
    for problem, rule, *regrets in [
        ("magic-clusters", "today", 100.0, 499.0, 501.0),
        ("magic-clusters", tuned, 100.0, 100.0, 100.0),
        ("magic-clusters", luckier, 90.0),  # fewer seeds
        ("four-random", "today", 2000.0, 4001.0, 3999.0),  # 4 times the median of `tuned`: 4000
        ("four-random", tuned, 1000.0, 1000.0, 1000.0),
        ("four-random", luckier, 100.0, 5000.0, 5000.0),
    ]:
        for seed, regret in enumerate(regrets):
            runs[Key(problem, rule, seed, 0, 0.0)] = {"regret": regret}
    short = tuned.removeprefix("tuned-")
    text = table(runs, names, ["today"], range(3), range(3)).splitlines()
    assert text[2:] == [
        f"| magic-clusters | 100 ± 0 ({short}) | 367 ± 133 (1) |",
        f"| four-random | 1000 ± 0 ({short}) | 3333 ± 667 (1) |",
        "| **lost** | | 2 of 6 |",
        "| **geometric mean of ratios** | | 3.50 |",
        "| **worst ratio** | | 3.7, magic-clusters |",
        "| **ratio ≤ 1.3** | | 0 of 2 |",
    ]
    other = table(runs, names, ["today"], range(3), range(1)).splitlines()
    assert other[2].startswith(f"| magic-clusters | 90 ({luckier.removeprefix('tuned-')}) |")
