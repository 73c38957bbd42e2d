"""Clusters of labelled rows as arms: what is offered, what it pays, what regret means."""

from __future__ import annotations

import copy
import io
import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fedglb as fg
from fedglb.environments import base, clusters
from fedglb.environments.datasets.conversion import Conversion

MODES, SCALES = ["centroid", "member"], ["largest", "each"]


def table(n=300, seed=0):
    """Seven clouds on half a circle, each with its own rate of label 1; few have a colour."""
    rng = np.random.default_rng(seed)
    cloud = np.sort(rng.integers(0, 7, n))
    angles = np.pi * cloud / 6
    points = np.stack([-np.cos(angles), np.sin(angles)]) + 0.01 * rng.standard_normal((2, n))
    colour = np.where(rng.random(n) < 0.02, "red", "none")
    labels = (rng.random(n) < cloud / 6).astype(float)
    return fg.Table({"x": points[0], "y": points[1], "colour": colour}, labels, "clouds")


def environment(mode="centroid", offered=None, clients=3, link=None, scale="largest", K=7):
    data = fg.clustered(table(), K, mode, scale=scale)
    problem = fg.Problem(data.dim, link or fg.Logistic(), noise=1.0)
    return fg.Classification(problem, clients, data, offered)


def whole(env, horizon, seed):
    blocks = list(env.checked_blocks(horizon, seed))
    parts = [np.concatenate([getattr(b, k) for b in blocks]) for k in ("arms", "means", "rewards")]
    return (*parts, len(blocks))


@pytest.fixture(autouse=True)
def _own(own_cache):
    """Nothing is read from or written to the user's cache."""


# -- clusters ----------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("constant", [True, False])
def test_centroids_are_means_of_rows_and_rates_of_labels(scale, constant):
    own = table()
    data = fg.clustered(own, 7, "centroid", constant, scale, 3)
    members = fg.clustered(own, 7, "member", constant, scale, 3)
    assert_array_equal(data.rates, members.rates)
    assert_array_equal(data.sizes, members.sizes)
    assert data.sizes.sum() == 300
    assert (data.clusters, data.dim) == (7, 4 + constant)
    rows = Conversion.fit(own, constant).encode(own)
    # Which row is where: by its arm, which is like no other's.
    place = {arm.tobytes(): i for i, arm in enumerate(members.feature_map.place(rows))}
    order = [place[arm.tobytes()] for arm in members.members]
    assert sorted(order) == list(range(300))
    assert_array_equal(members.labels, own.labels[order])
    centroids = np.empty((7, rows.shape[1]))
    for k in range(7):
        mine = order[members.offsets[k] : members.offsets[k + 1]]
        assert len(mine) == data.sizes[k]
        centroids[k] = rows[mine].mean(axis=0)
        assert_allclose(data.rates[k], own.labels[mine].mean(), rtol=1e-12)
    distances = np.linalg.norm(rows[order][:, None] - centroids, axis=-1)
    assert_array_equal(distances.argmin(axis=1), np.repeat(np.arange(7), data.sizes))
    assert_allclose(data.arms, data.feature_map.place(centroids), rtol=1e-9, atol=1e-12)
    longest = np.linalg.norm(np.hstack([centroids, np.ones((7, int(constant)))]), axis=1).max()
    if scale == "largest":
        assert_allclose(data.feature_map.largest, longest, rtol=1e-9)
        longest = np.linalg.norm(np.hstack([rows, np.ones((300, int(constant)))]), axis=1).max()
        assert_allclose(members.feature_map.largest, longest, rtol=1e-12)
    for arms in (data.arms, members.members):
        assert_allclose(np.linalg.norm(arms, axis=1).max(), 1.0, rtol=1e-12)


@pytest.mark.parametrize("mode", MODES)
def test_labels_are_no_feature(mode):
    own = table()
    flipped = fg.Table(own.columns, 1.0 - own.labels, "clouds")
    one, other = (fg.clustered(t, 7, mode) for t in (own, flipped))
    assert one.feature_map.digest == other.feature_map.digest
    assert_allclose(one.rates, 1.0 - other.rates, rtol=1e-12)
    assert one.digest != other.digest
    if mode == "centroid":
        assert_array_equal(one.arms, other.arms)
    else:
        assert_array_equal(one.members, other.members)
        assert_array_equal(one.labels, 1.0 - other.labels)
        assert not any(np.array_equal(f > f.min(), one.labels) for f in one.members.T)


def test_the_digest_is_of_everything():
    own, other = table(), table()
    labels = own.labels.copy()
    labels[0] = 1.0 - labels[0]
    made = [
        fg.clustered(own, 7), fg.clustered(own, 6), fg.clustered(own, 7, "member"),
        fg.clustered(own, 7, constant=False), fg.clustered(own, 7, scale="each"),
        fg.clustered(own, 7, seed=1), fg.clustered(fg.Table(own.columns, labels, "clouds"), 7),
    ]  # fmt: skip
    assert len({data.digest for data in made}) == len(set(made)) == len(made)
    assert fg.clustered(other, 7) == made[0]
    assert hash(fg.clustered(other, 7)) == hash(made[0])
    assert pickle.loads(pickle.dumps(made[2])) == made[2]
    assert made[0] != "clouds"
    for name, data in (("arms", made[0]), ("members", made[2]), ("labels", made[2])):
        assert replace(data, **{name: getattr(data, name)[::-1].copy()}) != data
    with pytest.raises(ValueError, match="read-only"):
        made[0].arms[0, 0] = 3.0


def test_facts_are_json():
    data = fg.clustered(table(), 7, "member", seed=4)
    facts = json.loads(json.dumps(environment("member", 3).facts(), allow_nan=False))
    assert facts["offered"] == 3
    facts = json.loads(json.dumps(data.facts(), allow_nan=False))
    assert (facts["dataset"], facts["sha256"], facts["mode"]) == ("clouds", None, "member")
    assert (facts["clusters"], facts["seed"], facts["digest"]) == (7, 4, data.digest)
    assert facts["feature_map"] == data.feature_map.plain()
    assert facts["feature_map_digest"] == data.feature_map.digest
    assert facts["rates"] == data.rates.tolist()
    assert sum(facts["sizes"]) == 300
    assert fg.Synthetic(fg.Problem(2), 1, 2).facts() == {}


SCHEMA = fg.Features(
    arm={"y": fg.Number([0, 0.5, 1]), "colour": fg.Category(["red", "none"])},
    crosses=[("arm.y", "arm.colour")],
)


@pytest.mark.parametrize("mode", MODES)
def test_a_schema_makes_the_arms(mode):
    own = table()
    columns = zip(own.columns["y"].tolist(), own.columns["colour"].tolist(), strict=True)
    rows = SCHEMA.encode([{"y": y, "colour": colour} for y, colour in columns])
    members = fg.clustered(own, 5, "member", features=SCHEMA)
    data = fg.clustered(own, 5, mode, features=SCHEMA)
    assert data.dim == SCHEMA.dim
    order = np.lexsort(rows.T)
    found = np.lexsort(members.members.T)
    assert_array_equal(members.members[found], rows[order])
    if mode == "centroid":
        bounds = zip(members.offsets[:-1], members.offsets[1:], strict=True)
        means = [members.members[a:b].mean(axis=0) for a, b in bounds]
        assert_allclose(data.arms, means, rtol=1e-12, atol=1e-15)
    facts = json.loads(json.dumps(data.facts(), allow_nan=False))
    assert facts["feature_map_digest"] == SCHEMA.digest
    assert fg.Features.from_plain(facts["feature_map"]) == SCHEMA
    env = fg.Classification(SCHEMA.problem(), 2, data)
    assert fg.simulate(fg.fedglb_ucb(1.0), env, horizon=5).choices.shape == (5, 2)


def test_another_schema_makes_other_arms():
    own = table()
    other = fg.Features(arm={"y": fg.Number([0, 0.6, 1]), "colour": fg.Category(["red", "none"])})
    made = [fg.clustered(own, 5, features=f) for f in (SCHEMA, other, None)]
    assert len({each.digest for each in made}) == 3
    assert fg.clustered(own, 5, features=SCHEMA) is made[0]


def test_a_schema_proposed_from_a_table():
    own = table()
    features = fg.Features.infer(own.columns)
    assert set(features.arm) == set(own.columns)
    assert features.arm["colour"] == fg.Category(["none", "red"])
    assert fg.clustered(own, 5, features=features).dim == features.dim


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"scale": "largest"}, "scale = 'largest': expected None with a schema"),
        ({"constant": True}, "constant = True: expected None with a schema"),
        ({"features": {"x": 1}}, "features = .*expected a Features"),
        (
            {"features": fg.Features(arm={"z": fg.Number([0, 1])})},
            "features.arm = 'z': expected one of x, y, colour",
        ),
        (
            {"features": fg.Features({"x": fg.Number([0, 1])}, {"u": fg.Category()})},
            "features.context = 'u': expected a schema without fields of the context",
        ),
        (
            {"features": fg.Features(arm={"y": fg.Category()})},
            r"columns\['y'\]\[0\] = .*expected a text",
        ),
        (
            {"features": SCHEMA, "columns": "numeric"},
            "features.arm = 'colour': expected one of x, y",
        ),
    ],
    ids=str,
)
def test_a_schema_that_does_not_fit(given, said):
    with pytest.raises(fg.InvalidInput, match=said):
        fg.clustered(table(), 5, **{"features": SCHEMA, **given})


def count_k_means(monkeypatch):
    calls = []
    real = clusters._k_means
    monkeypatch.setattr(clusters, "_k_means", lambda *a: calls.append(1) or real(*a))
    return calls


def test_k_means_runs_once(own_cache, monkeypatch):
    calls = count_k_means(monkeypatch)
    own, lines = table(), []
    first = fg.clustered(own, 7, progress=lines.append)
    assert fg.clustered(own, 7) is first
    assert lines == ["grouping the 300 rows of clouds into 7 clusters"]
    clusters._kept.clear()
    assert fg.clustered(own, 7) == first
    fg.clustered(own, 7, "member", scale="each", constant=False)  # the same clusters
    assert len(calls) == 1
    assert len(list((own_cache / "clusters").iterdir())) == 1
    fg.clustered(own, 6)
    fg.clustered(own, 7, seed=1)
    fg.clustered(table(seed=1), 7)
    assert len(calls) == 4
    assert len(clusters._kept) <= clusters.KEPT


def saved(**arrays):
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


@pytest.mark.parametrize(
    "damage",
    [
        lambda c: c[: len(c) // 2],
        lambda c: b"",
        lambda c: c[:80] + bytes([c[80] ^ 255]) + c[81:],
        lambda c: b"no archive",
        lambda c: saved(other=np.zeros(3)),
        lambda c: saved(assigned=np.zeros(300, np.int32)),
        lambda c: saved(assigned=np.arange(299, dtype=np.int32) % 7),
        lambda c: saved(assigned=np.arange(300, dtype=np.int32) % 7 - 1),
        lambda c: saved(assigned=np.arange(300.0) % 7),
        lambda c: saved(assigned=np.array([None] * 300)),
    ],
)
def test_damaged_clusters_on_disk_are_made_again(own_cache, monkeypatch, damage):
    calls = count_k_means(monkeypatch)
    first = fg.clustered(table(), 7)
    (path,) = (own_cache / "clusters").iterdir()
    good = path.read_bytes()
    path.write_bytes(damage(good))
    clusters._kept.clear()
    assert fg.clustered(table(), 7) == first
    assert len(calls) == 2
    clusters._kept.clear()
    assert fg.clustered(table(), 7) == first
    assert len(calls) == 2


def test_no_place_to_keep_clusters_is_no_obstacle(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert fg.clustered(table(), 7).clusters == 7


def test_a_large_table_is_sampled_and_every_row_assigned(monkeypatch):
    everything = fg.clustered(table(), 7)
    monkeypatch.setattr(clusters, "SAMPLE", 100)
    sampled = fg.clustered(table(), 7)
    assert sampled.sizes.sum() == 300
    assert sorted(sampled.sizes) == sorted(everything.sizes)  # clouds are easy to tell apart


def test_numeric_columns_alone_are_a_table_without_the_others():
    colours = np.where(np.arange(6) % 2 == 0, "red", "blue")
    numbers = {"x": [0.0, 0.1, 5.0, 5.1, 9.0, 9.2], "z": np.arange(6.0)}
    labels = [0, 0, 1, 1, 0, 1]
    both = fg.Table({"x": numbers["x"], "colour": colours, "z": numbers["z"]}, labels)
    alone = fg.clustered(both, 3, columns="numeric")
    assert alone == fg.clustered(fg.Table(numbers, labels), 3)
    assert alone.dim == 3
    assert fg.clustered(both, 3).dim == 5


@pytest.mark.parametrize("mode", MODES)
def test_axes_of_the_arms_keep_every_inner_product_with_fewer_coordinates(mode):
    """The levels of a categorical column add up to the constant feature: members have a span."""
    rng = np.random.default_rng(3)
    columns = {f"c{j}": rng.choice(["a", "b", "c"], 300) for j in range(3)}
    columns |= {f"x{j}": rng.normal(size=300) for j in range(2)}
    rows = fg.Table(columns, rng.integers(2, size=300))
    wide, narrow = (fg.clustered(rows, 5, mode, axes=axes) for axes in ("features", "arms"))
    assert (wide.dim, narrow.dim) == (12, 5 if mode == "centroid" else 9)
    arms = [data.arms if mode == "centroid" else data.members for data in (wide, narrow)]
    assert_allclose(*(each @ each.T for each in arms), atol=1e-14)
    assert np.linalg.norm(arms[1], axis=1).max() <= 1.0
    assert_array_equal(narrow.rates, wide.rates)
    assert_array_equal(narrow.labels, wide.labels)
    assert narrow != wide
    twice = fg.Table({"x": columns["x0"], "again": columns["x0"]}, rows.labels)  # rank 2 of 3
    assert fg.clustered(twice, 4, mode, axes="arms").dim == 2


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: fg.clustered(table(), axes="arm"), "axes = 'arm': .*features, arms"),
        (lambda: fg.clustered(table(), 301), "clusters = 301: .*at most 300"),
        (lambda: fg.clustered(table(), 0), "clusters = 0"),
        (lambda: fg.clustered(table(), 2.0), "clusters = 2.0"),
        (lambda: fg.clustered(table(), mode="centroids"), "mode = 'centroids': .*centroid"),
        (lambda: fg.clustered(table(), scale="none"), "scale = 'none': .*largest, each"),
        (lambda: fg.clustered(table(), constant=1), "constant = 1"),
        (lambda: fg.clustered(table(), seed=-1), "seed = -1"),
        (lambda: fg.clustered(table(), columns="some"), "columns = 'some': .*all, numeric"),
        (
            lambda: fg.clustered(fg.Table({"x": ["a", "b"]}, [0, 1]), 2, columns="numeric"),
            "columns = 'numeric': .*has no column of numbers",
        ),
        (lambda: fg.clustered("magik"), "name = 'magik': .*did you mean magic"),
        (lambda: fg.clustered([[1.0]]), r"source = \[\[1.0\]\]: .*fg.Table"),
        (
            lambda: fg.clustered(fg.Table({"x": [1.0, 2.0, 2.0]}, [0, 1, 1]), 3),
            "clusters = 3: .*at most 2: the rows differ too little",
        ),
    ],
)
def test_bad_clusters(call, said):
    with pytest.raises(fg.InvalidInput, match=said):
        call()


# -- the environment ---------------------------------------------------------------------------


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("mode", MODES)
def test_all_clusters_are_offered_in_every_step(mode, scale):
    env = environment(mode, scale=scale)
    arms, means, rewards, _ = whole(env, 40, seed=1)
    data = env.data
    assert env.arms == 7
    assert arms.shape == (40, 3, 7, data.dim)
    expected = np.broadcast_to(data.rates, means.shape) if mode == "centroid" else rewards
    assert_array_equal(means, expected)
    assert set(np.unique(rewards)) == {0.0, 1.0}
    assert np.linalg.norm(arms, axis=-1).max() <= 1.0 + 1e-12
    if mode == "centroid":
        assert_array_equal(arms, np.broadcast_to(data.arms, arms.shape))
    else:
        assert len(np.unique(arms.reshape(-1, data.dim), axis=0)) > 200
    assert env.parameter(1) is None
    assert env.horizon is None


def offered_clusters(data, arms):
    """Which cluster each arm on offer is of, by its features."""
    if data.arms is None:
        of_row = np.repeat(np.arange(data.clusters), data.sizes)
        place = {row.tobytes(): k for row, k in zip(data.members, of_row, strict=True)}
    else:
        place = {arm.tobytes(): k for k, arm in enumerate(data.arms)}
    flat = arms.reshape(-1, data.dim)
    return np.array([place[arm.tobytes()] for arm in flat]).reshape(arms.shape[:-1])


@pytest.mark.parametrize("mode", MODES)
def test_subsets_are_drawn_uniformly_without_replacement(mode):
    env = environment(mode, offered=3, clients=20)
    arms, means, _, _ = whole(env, 500, seed=1)
    assert env.arms == 3
    assert arms.shape == (500, 20, 3, env.data.dim)
    chosen = offered_clusters(env.data, arms).reshape(-1, 3)
    assert (np.diff(chosen, axis=1) > 0).all()
    counts = np.unique(chosen, axis=0, return_counts=True)[1]
    assert len(counts) == 35
    expected = 10_000 / 35
    assert ((counts - expected) ** 2 / expected).sum() < 80  # χ² with 34: p about 1e-5
    assert_array_equal(whole(env, 500, seed=1)[1], means)
    assert (whole(env, 500, seed=2)[1] != means).any()


@pytest.mark.parametrize(("mode", "offered"), [("centroid", None), ("centroid", 4), ("member", 4)])
def test_rewards_are_as_frequent_as_labels(mode, offered):
    env = environment(mode, offered, clients=20)
    arms, _, rewards, _ = whole(env, 1000, seed=3)
    clusters = offered_clusters(env.data, arms)
    for k, rate in enumerate(env.data.rates):
        mine = rewards[clusters == k]
        assert len(mine) >= 9_000
        assert abs(mine.mean() - rate) <= 5 * np.sqrt(rate * (1 - rate) / len(mine))


def test_members_pay_their_own_label_and_come_equally_often():
    env = environment("member", clients=30)
    arms, _, rewards, _ = whole(env, 200, seed=3)
    data = env.data
    place = {arm.tobytes(): i for i, arm in enumerate(data.members)}
    for k in range(7):
        rows = np.array([place[a.tobytes()] for a in arms[:, :, k].reshape(-1, data.dim)])
        assert rows.min() == data.offsets[k]  # the first and the last one are drawn too
        assert rows.max() == data.offsets[k + 1] - 1
        assert_array_equal(rewards[:, :, k].reshape(-1), data.labels[rows])
        counts = np.bincount(rows - data.offsets[k])
        expected = len(rows) / data.sizes[k]
        statistic = ((counts - expected) ** 2 / expected).sum()
        spread = np.sqrt(2 * (data.sizes[k] - 1))
        assert abs(statistic - (data.sizes[k] - 1)) < 5 * spread


def test_the_largest_uniform_stays_in_its_cluster():
    env = environment("member")
    top = np.full((1, 1, 7), np.nextafter(1.0, 0.0))
    chosen = np.arange(7).reshape(1, 1, 7)
    assert_array_equal(env._rows(top, chosen)[0, 0], env.data.offsets[1:] - 1)
    assert_array_equal(env._rows(0.0 * top, chosen)[0, 0], env.data.offsets[:-1])


@pytest.mark.parametrize("offered", [None, 3])
@pytest.mark.parametrize("mode", MODES)
def test_blocks_do_not_change_the_stream(mode, offered, monkeypatch):
    env = environment(mode, offered)
    one = whole(env, 50, seed=7)
    assert one[3] == 1
    monkeypatch.setattr(base, "BLOCK_NUMBERS", 3 * env.arms * env.data.dim * 7)
    other = whole(env, 50, seed=7)
    assert other[3] == 8
    for a, b in zip(one[:3], other[:3], strict=True):
        assert_array_equal(a, b)


@pytest.mark.parametrize("offered", [None, 3])
@pytest.mark.parametrize("mode", MODES)
def test_regret_is_the_best_offered_rate_less_the_chosen_one(mode, offered):
    env = environment(mode, offered)
    run = fg.simulate(fg.n_ons_glm(), env, 60, seed=2)
    _, means, rewards, _ = whole(env, 60, seed=2)
    played = [np.take_along_axis(x, run.choices[..., None], 2)[..., 0] for x in (means, rewards)]
    assert_allclose(run.regret, (means.max(axis=2) - played[0]).sum())
    assert run.regret > 1.0
    assert run.reward == played[1].sum()
    if mode == "member":  # so regret and reward say the same
        assert run.regret == rewards.max(axis=2).sum() - run.reward


class Percent(fg.Logistic):
    support = (0.0, 0.5)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"problem": fg.Problem(3)}, r"problem.dim = 3: .*5, .*fg.Problem\(dim=data.dim\)"),
        ({"problem": 5}, "problem = 5"),
        ({"clients": 0}, "clients = 0"),
        ({"data": "magic"}, "data = 'magic': .*fg.clustered"),
        ({"offered": 8}, "offered = 8: .*<= 7"),
        ({"offered": 0}, "offered = 0"),
        ({"problem": fg.Problem(5, Percent())}, "problem.link = .* 0 and 1"),
    ],
)
def test_bad_environments(change, said):
    data = fg.clustered(table(), 7)
    good = {"problem": fg.Problem(5), "clients": 2, "data": data}
    assert fg.Classification(**good) == fg.Classification(**copy.deepcopy(good))
    with pytest.raises(fg.InvalidInput, match=said):
        fg.Classification(**{**good, **change})


# -- clients that differ -----------------------------------------------------------------------


def split(mode="centroid", by="shop", clients=8, offered=None, **more):
    """The clouds; a "shop" (of rising frequency) and "age" flip labels in some groups."""
    rng, own = np.random.default_rng(1), table(4000)
    shop = np.array(["a", "b", "c", "d", "e"])[np.minimum(rng.integers(0, 15, 4000), 14) // 3]
    shop = np.where(rng.random(4000) < 0.3, "e", np.where(rng.random(4000) < 0.2, "d", shop))
    age = rng.random(4000).round(3)
    flipped = (shop == "d") if by == "shop" else (age >= 0.75)
    columns = {"x": own.columns["x"], "y": own.columns["y"], "shop": shop, "age": age}
    labelled = fg.Table(columns, np.where(flipped, 1.0 - own.labels, own.labels), "shops")
    data = fg.clustered(labelled, 7, mode, clients_by=by, **more)
    return labelled, fg.Classification(fg.Problem(data.dim), clients, data, offered)


@pytest.mark.parametrize(
    ("by", "groups"),
    [("shop", 4), ("shop", 2), ("shop", 9), ("age", 4), ("age", 2)],
)
def test_groups_are_levels_or_quantiles(by, groups):
    own, env = split(by=by, client_groups=groups)
    data, values = env.data, own.columns[by]
    if by == "shop":
        levels, counts = np.unique(values, return_counts=True)
        by_count = levels[np.argsort(-counts)].tolist()
        assert by_count[:2] == ["e", "d"]
        group = np.array([min(by_count.index(v), groups - 1) for v in values])
    else:
        group = np.searchsorted(np.quantile(values, np.arange(1, groups) / groups), values, "right")
    assert data.clients_by == by
    assert data.group_sizes.shape == (7, len(np.unique(group)))
    assert_allclose(data.group_sizes.sum(axis=0), np.bincount(group), atol=4000 / 500)
    assert_array_equal(data.group_sizes.sum(axis=1), data.sizes)
    assert_allclose((data.group_rates * data.group_sizes).sum(axis=1), data.rates * data.sizes)
    others = [name for name in own.columns if name != by]
    rest = fg.Table({name: own.columns[name] for name in others}, own.labels, "shops")
    plain = fg.clustered(rest, 7)  # the column is no feature
    assert_array_equal(data.arms, plain.arms)
    assert_array_equal(data.rates, plain.rates)
    assert data.facts()["clients_by"] == by
    assert "clients_by" not in plain.facts()
    assert plain.group_sizes.shape == (7, 1)
    assert data != plain
    assert pickle.loads(pickle.dumps(data)) == data


@pytest.mark.parametrize("offered", [None, 4])
@pytest.mark.parametrize("mode", MODES)
def test_clients_have_the_rates_of_their_group(mode, offered):
    _, env = split(mode, offered=offered)
    arms, means, rewards, _ = whole(env, 2000, seed=1)
    clusters, data = offered_clusters(env.data, arms), env.data
    assert data.group_sizes.shape == (7, 4)
    if mode == "centroid":
        groups = np.arange(8)[:, None] % 4
        assert_array_equal(means, data.group_rates[clusters, groups])
    for k in range(7):
        for i in range(8):
            mine, rate = rewards[:, i][clusters[:, i] == k], data.group_rates[k, i % 4]
            assert abs(mine.mean() - rate) <= 5 * np.sqrt(rate * (1 - rate) / len(mine)) + 1e-12
    assert np.abs(data.group_rates[:, 1] - data.group_rates[:, 0]).max() > 0.5


def test_members_are_rows_of_the_group():
    own, env = split("member", by="age")
    data = env.data
    rest = fg.Table({name: own.columns[name] for name in ("x", "y", "shop")}, own.labels)
    placed = data.feature_map.place(Conversion.fit(rest, True).encode(rest))
    age = {arm.tobytes(): v for arm, v in zip(placed, own.columns["age"], strict=True)}
    arms, *_ = whole(env, 100, seed=1)
    ages = np.array([age[arm.tobytes()] for arm in arms.reshape(-1, data.dim)])
    ages = ages.reshape(arms.shape[:-1])
    for i in range(8):
        low, high = 0.25 * (i % 4), 0.25 * (i % 4) + 0.25
        assert low - 0.03 <= ages[:, i].min() < low + 0.03
        assert high - 0.03 <= ages[:, i].max() < high + 0.03


@pytest.mark.parametrize("mode", MODES)
def test_a_client_is_offered_only_clusters_with_rows_of_its_group(mode):
    x = np.repeat([0.0, 1.0, 2.0, 3.0], 30)
    low = (np.arange(120) % 2 == 0) & (x != 3.0)  # one cluster has rows of "high" only
    own = fg.Table({"x": x, "half": np.where(low, "low", "high")}, x % 2, "halves")
    data = fg.clustered(own, 4, mode, clients_by="half")
    assert sorted((data.group_sizes > 0).sum(axis=0).tolist()) == [3, 4]
    problem = fg.Problem(data.dim)
    arms, *_ = whole(fg.Classification(problem, 2, data, 2), 300, seed=1)
    clusters = offered_clusters(data, arms)
    seen = sorted(len(np.unique(clusters[:, i])) for i in range(2))
    assert seen == [3, 4]
    with pytest.raises(fg.InvalidInput, match="offered = 4: expected at most 3: some group"):
        fg.Classification(problem, 2, data, 4)
    with pytest.raises(fg.InvalidInput, match="at most 3"):
        fg.Classification(problem, 2, data)


def test_the_engines_agree_where_clients_differ():
    _, env = split(offered=4)
    one, two = (
        fg.simulate(fg.fedglb_auto(), env, 40, seed=1, engine=engine)
        for engine in ("compiled", "reference")
    )
    assert_array_equal(one.choices, two.choices)
    assert_array_equal(one.client_regret, two.client_regret)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"clients_by": "colr"}, "clients_by = 'colr'.*did you mean colour"),
        ({"clients_by": "same"}, "clients_by = 'same'.*two values"),
        ({"clients_by": "colour", "client_groups": 1}, "client_groups = 1"),
    ],
)
def test_bad_groups(given, said):
    own = table()
    columns = {**own.columns, "same": np.ones(own.rows)}
    with pytest.raises(fg.InvalidInput, match=said):
        fg.clustered(fg.Table(columns, own.labels), 7, **given)
    with pytest.raises(fg.InvalidInput, match="arms need another"):
        fg.clustered(fg.Table({"x": own.columns["x"]}, own.labels), 7, clients_by="x")


@pytest.mark.parametrize("name", ["magic", "mushroom"])
@pytest.mark.parametrize("mode", MODES)
def test_real_data(raw_files, name, mode):
    data = fg.clustered(name, mode=mode)
    assert data.clusters == 32
    assert data.facts()["sha256"] == fg.load_table(name).sha256
    assert 0.0 <= data.rates.min() < 0.2 < 0.8 < data.rates.max() <= 1.0
    env = fg.Classification(fg.Problem(data.dim), 4, data, offered=16)
    arms, *_ = whole(env, 20, seed=1)
    assert arms.shape == (20, 4, 16, data.dim)
    assert np.linalg.norm(arms, axis=-1).max() <= 1.0 + 1e-12
