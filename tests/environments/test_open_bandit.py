"""The Open Bandit Dataset, from small files in its layout."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fedglb as fg

K, ROWS = 5, 300
CLICKS = [0.1, 0.2, 0.3, 0.4, 0.8]


def write(root, behaviour="random", campaign="men", seed=0):
    """Rows are not in the order of time; bts prefers item 0."""
    folder, rng = root / behaviour / campaign, np.random.default_rng(seed)
    folder.mkdir(parents=True)
    items = [
        ",item_id,item_feature_0,item_feature_1,item_feature_2,item_feature_3",
        *(f"{k},{k},{k / 2 - 1},{'ab'[k % 2]}1,c{k // 2},d" for k in range(K)),
    ]
    (folder / "item_context.csv").write_text("\n".join(items) + "\n")
    p = np.full(K, 1 / K) if behaviour == "random" else np.array([0.6, 0.1, 0.1, 0.1, 0.1])
    lines = [
        ",timestamp,item_id,position,click,propensity_score,"
        + ",".join([f"user_feature_{i}" for i in range(4)])
        + ","
        + ",".join(f"user-item_affinity_{k}" for k in range(K))
    ]
    for row, second in enumerate(rng.permutation(ROWS)):
        item = rng.choice(K, p=p)
        click = int(rng.random() < CLICKS[item])
        affinity = ",".join(str(x) for x in (rng.random(K) < 0.2) * 3.0)
        time = f"2019-11-24 {second // 60:02}:{second % 60:02}:00.000001+00:00"
        lines.append(
            f"{row},{time},{item},{1 + row % 3},{click},{p[item]},"
            f"u{row % 2},v,w{row % 3},x{row % 4},{affinity}"
        )
    (folder / f"{campaign}.csv").write_text("\n".join(lines) + "\n")
    return root


def rows_of(root, behaviour="random"):
    import csv

    with open(root / behaviour / "men" / "men.csv", newline="") as file:
        return sorted(csv.DictReader(file), key=lambda row: row["timestamp"])


def test_arms_clicks_and_propensities(tmp_path):
    rows = rows_of(write(tmp_path))
    env = fg.open_bandit(tmp_path, campaign="men", clients=1)
    assert (env.arms, env.problem.dim, env.clients, env.horizon) == (K, 9, 1, ROWS)
    assert env.problem.link == fg.Logistic()
    assert_array_equal(env.chosen, [int(row["item_id"]) for row in rows])
    assert_array_equal(env.rewards, [float(row["click"]) for row in rows])
    assert_array_equal(env.propensities, 1 / K)
    (block,) = env.checked_blocks(env.horizon, 1)
    arms = block.arms[:, 0]
    number = np.arange(K) / 2 - 1
    plain = np.zeros((ROWS, K, 9))
    plain[..., 0] = number / number.std()
    plain[:, range(K), [1 + k % 2 for k in range(K)]] = 1.0  # a1, b1
    plain[:, range(K), [3 + k // 2 for k in range(K)]] = 1.0  # c0, c1, c2
    plain[..., 6] = plain[..., 8] = 1.0  # d, and the constant
    seen = [[float(row[f"user-item_affinity_{k}"]) > 0 for k in range(K)] for row in rows]
    plain[..., 7] = seen
    largest = np.sqrt(number[0] ** 2 / number.var() + 5.0)
    assert_allclose(arms, plain / largest, rtol=1e-14)
    assert 0.1 < np.mean(seen) < 0.3


def test_clients_are_levels_of_a_column_of_users_or_take_turns(tmp_path):
    rows = rows_of(write(tmp_path))
    env = fg.open_bandit(tmp_path, campaign="men", clients="user_feature_2")
    (block,) = env.checked_blocks(env.horizon, 1)
    for i, level in enumerate(("w0", "w1", "w2")):
        own = [row for row in rows if row["user_feature_2"] == level]
        assert block.active[:, i].sum() == len(own)
        clicks = [float(row["click"]) for row in own]
        chosen = [int(row["item_id"]) for row in own]
        assert_array_equal(block.rewards[range(len(own)), i, chosen], clicks)
    assert fg.open_bandit(tmp_path, campaign="men").clients == 10


def test_a_log_of_either_policy_tells_the_same_value(tmp_path):
    """Of a policy that always plays item 4, whose rate of clicks is 0.8."""

    class Last(fg.Choice):
        def score(self, arms, model, t):
            return arms[:, 0]  # item_feature_0 grows with the item

    for behaviour in ("random", "bts"):
        write(tmp_path, behaviour)
        for method in ("rejection", "weights"):
            env = fg.open_bandit(
                tmp_path, behaviour=behaviour, campaign="men", clients=2, method=method
            )
            assert env.randomised == (behaviour == "bts" and method == "rejection")
            run = fg.simulate(fg.fedglb_auto(choice=Last()), env, seed=1)
            assert set(np.unique(run.choices)) == {-1, 4}
            found = fg.replayed(run, env)
            assert abs(found.value - 0.8) < 4.0 * found.standard_error


def test_a_zip_archive_is_as_good_and_facts_tell_data_apart(tmp_path):
    write(tmp_path)
    with zipfile.ZipFile(tmp_path / "obd.zip", "w") as archive:
        for name in ("men.csv", "item_context.csv"):
            path = f"random/men/{name}"
            archive.write(tmp_path / path, f"open_bandit_dataset/{path}")
    env = fg.open_bandit(tmp_path, campaign="men")
    assert fg.open_bandit(tmp_path / "obd.zip", campaign="men").facts() == env.facts()
    other = write(tmp_path / "other", seed=1)
    others = [
        fg.open_bandit(other, campaign="men"),
        fg.open_bandit(tmp_path, campaign="men", clients=3),
        fg.open_bandit(tmp_path, campaign="men", method="weights"),
    ]
    assert len({each.digest + each.method for each in [env, *others]}) == 4


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"behaviour": "ts"}, "one of random, bts"),
        ({"campaign": "kids"}, "one of all, men, women"),
        ({"campaign": "all"}, r"with random/all/item_context\.csv: the Open Bandit Dataset"),
        ({"behaviour": "bts"}, r"with bts/men/item_context\.csv"),
        ({"clients": "position"}, "one of user_feature_0"),
        ({"clients": 0}, "clients = 0"),
        ({"problem": fg.Problem(3)}, r"problem\.dim = 3: expected 9"),
        ({"method": "ips"}, "one of rejection, weights"),
    ],
)
def test_what_is_refused(tmp_path, given, said):
    write(tmp_path)
    with pytest.raises(fg.InvalidInput, match=said):
        fg.open_bandit(tmp_path, **{"campaign": "men", **given})


def test_files_that_are_wrong(tmp_path):
    folder = write(tmp_path) / "random" / "men"
    for name, old, new, said in (
        ("item_context.csv", "\n4,4,", "\n4,7,", "item_ids 0 to 4, each once"),
        ("men.csv", "user-item_affinity_4", "affinity", "columns timestamp, item_id"),
        ("men.csv", "propensity_score", "p", "columns timestamp, item_id"),
        ("men.csv", ",0.2,u0", ",0.0,u0", r"propensities\[\d+\] = 0.0"),
    ):
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new))
        with pytest.raises(fg.InvalidInput, match=said):
            fg.open_bandit(tmp_path, campaign="men")
        (folder / name).write_text(text)
