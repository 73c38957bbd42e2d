"""MovieLens, from a small file in its layout: texts as features, liked movies among others."""

from __future__ import annotations

import itertools
import math
import re
import zipfile
from collections import Counter

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fedglb as fg
from fedglb.environments.movielens import distinct

GENRES = ["Comedy", "Drama", "War", "Western", "Sci-Fi", "Film-Noir"]
WORDS = ["funny", "dark", "the classic", '"""based on a book"""', "space, far", "slow"]


def write(folder, users=6, movies=40, seed=0):
    """Users like about two thirds of the movies they rate; numbers of movies have gaps."""
    rng = np.random.default_rng(seed)
    ids = np.sort(rng.choice(500, movies, replace=False)) + 1
    lines = ["movieId,title,genres"]
    for i, movie in enumerate(ids):
        chosen = "|".join(rng.choice(GENRES, 1 + i % 3, replace=False))
        lines.append(
            f'{movie},"Title, the {i}th (1999)",{chosen if i % 9 else "(no genres listed)"}'
        )
    (folder / "movies.csv").write_text("\n".join(lines) + "\n")
    lines = ["userId,movieId,tag,timestamp"]
    lines += [f"3,{m},{rng.choice(WORDS)},1{m}" for m in rng.choice(ids, 50)]
    lines += [f"4,{ids[0]},,12"]  # a tag may be empty
    (folder / "tags.csv").write_text("\n".join(lines) + "\n")
    lines = ["userId,movieId,rating,timestamp"]
    for user in range(1, users + 1):
        seen = np.sort(rng.choice(ids[:-3], 6 + 3 * user, replace=False))
        lines += [f"{user},{m},{rng.choice([0.5, 2.5, 3.0, 4.5, 5.0])},99{m}" for m in seen]
    (folder / "ratings.csv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path)


def table(folder, name):
    import csv

    with open(folder / name, newline="") as file:
        return list(csv.DictReader(file))


def made(folder, **given):
    return fg.movielens(folder, **{"features": 5, "arms": 4, "more_than": 5, **given})


def in_plain(folder, features):
    """Standardised features of the movies by their numbers, from formulas; signs are free."""
    texts = {row["movieId"]: [] for row in table(folder, "movies.csv")}
    for row in table(folder, "tags.csv"):
        texts[row["movieId"]].append(row["tag"])
    for row in table(folder, "movies.csv"):
        texts[row["movieId"]].append(row["genres"].replace("|", " "))
    stop = {"the", "no", "on", "far"}
    counts = [
        Counter(w for w in re.findall(r"\w\w+", " ".join(each).lower()) if w not in stop)
        for each in texts.values()
    ]
    words, n = sorted(set().union(*counts)), len(counts)
    idf = [math.log((1 + n) / (1 + sum(w in c for c in counts))) + 1 for w in words]
    weights = np.array([[c[w] for w in words] for c in counts]) * idf
    weights /= np.maximum(np.linalg.norm(weights, axis=1, keepdims=True), 1e-300)
    u, s, _ = np.linalg.svd(weights, full_matrices=False)
    reduced = u[:, :features] * s[:features]
    reduced -= reduced.mean(axis=0)
    return list(map(int, texts)), reduced / reduced.std(axis=0)


def test_features_are_the_standardised_svd_of_tags_and_genres(folder):
    ids, expected = in_plain(folder, 5)
    for constant, scale in itertools.product([True, False], ["largest", "each"]):
        env = made(folder, constant=constant, scale=scale)
        assert env.features.shape == (len(ids), 5 + constant)
        rows = np.hstack([expected, np.ones((len(ids), 1))]) if constant else expected
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        rows = rows / (norms.max() if scale == "largest" else norms)
        found = env.features.copy()
        found[:, :5] *= np.sign((found * rows).sum(axis=0)[:5])
        assert_allclose(found, rows, atol=1e-6)


def test_clients_meet_what_they_liked_in_the_order_of_the_file_among_others(folder):
    env = made(folder)
    place = {int(row["movieId"]): i for i, row in enumerate(table(folder, "movies.csv"))}
    liked = {}
    for row in table(folder, "ratings.csv"):
        if float(row["rating"]) >= 3.0:
            liked.setdefault(int(row["userId"]), []).append(place[int(row["movieId"])])
    pool = set().union(*liked.values())
    users = [user for user in sorted(liked) if len(liked[user]) > 5]
    assert (env.clients, env.horizon) == (len(users), max(len(liked[u]) for u in users))
    assert len({len(liked[u]) for u in users}) > 1
    blocks = list(env.checked_blocks(env.horizon, 3))
    arms, rewards, active = (
        np.concatenate([getattr(b, name) for b in blocks]) for name in ("arms", "rewards", "active")
    )
    assert len({row.tobytes() for row in env.features}) > 30  # nearly all movies can be told apart
    for i, user in enumerate(users):
        assert_array_equal(active[:, i], np.arange(env.horizon) < len(liked[user]))
        others = env.features[sorted(pool - set(liked[user]))]
        for t, movie in enumerate(liked[user]):
            assert rewards[t, i].sum() == 1.0
            assert_array_equal(arms[t, i, rewards[t, i] == 1.0], env.features[[movie]])
            for arm in arms[t, i, rewards[t, i] == 0.0]:
                assert (others == arm).all(axis=1).any()
    # the liked movie is at every place alike
    places = np.bincount(rewards[active].argmax(axis=1), minlength=4)
    assert abs(places - places.mean()).max() < 4.0 * np.sqrt(places.mean())


def test_a_run_and_its_regret(folder):
    env = made(folder)
    for engine in ("compiled", "reference"):
        run = fg.simulate(fg.fedglb_auto(), env, seed=1, engine=engine)
        acted = run.choices >= 0
        assert_array_equal(acted, env.liked >= 0)
        assert run.regret == acted.sum() - run.reward
    assert fg.simulate(fg.fedglb_auto(), env, seed=2).reward != run.reward


def test_the_size_of_a_block_changes_nothing(folder, monkeypatch):
    env = made(folder)
    (whole,) = env.blocks(env.horizon, 1)
    monkeypatch.setattr("fedglb.environments.base.BLOCK_NUMBERS", 1)
    parts = list(env.blocks(env.horizon, 1))
    assert len(parts) == env.horizon
    assert_array_equal(np.concatenate([part.arms for part in parts]), whole.arms)


def test_a_zip_archive_is_as_good_and_facts_tell_data_apart(folder, tmp_path):
    with zipfile.ZipFile(tmp_path / "ml-tiny.zip", "w") as archive:
        for name in ("ratings", "movies", "tags"):
            archive.write(folder / f"{name}.csv", f"ml-tiny/{name}.csv")
    env = made(folder)
    assert made(tmp_path / "ml-tiny.zip").facts() == env.facts()
    (tmp_path / "other").mkdir()
    others = [
        made(write(tmp_path / "other", seed=1)), made(folder, arms=3), made(folder, clients=2),
        made(folder, constant=False), made(folder, scale="each"),
    ]  # fmt: skip
    assert len({str(each.facts()) for each in [env, *others]}) == 6
    assert others[2].clients == 2
    assert_array_equal(others[2].liked, env.liked[: others[2].horizon, :2])


def test_a_file_of_an_experiment_names_it(folder, tmp_path):
    text = f"""
        name = "movies"
        horizon = 5
        seeds = 2
        [environment]
        name = "fedglb:movielens"
        folder = "{folder}"
        features = 5
        arms = 4
        more_than = 5
        [[algorithm]]
        name = "fedglb-auto"
    """
    (tmp_path / "movies.toml").write_text(text)
    result = fg.sweep(tmp_path / "movies.toml", tmp_path / "out", jobs=1)
    assert result.runs["dim"].to_list() == [6, 6]
    again = fg.sweep(tmp_path / "movies.toml", tmp_path / "out", jobs=1)
    assert again.runs.equals(result.runs)
    write(folder, seed=1)  # other data: another sweep
    with pytest.raises(fg.InvalidInput, match="delete this one"):
        fg.sweep(tmp_path / "movies.toml", tmp_path / "out", jobs=1)
    (tmp_path / "five.toml").write_text(text + "[problem]\ndim = 5")
    with pytest.raises(fg.InvalidInput, match=r"problem\.dim = 5: expected 6"):
        fg.read_experiment(tmp_path / "five.toml")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"more_than": 1000}, "more_than = 1000: expected less than"),
        ({"liked": 5.5}, "liked = 5.5: expected at most 5"),
        ({"clients": 40}, "clients = 40"),
        ({"arms": 40}, "arms = 40: expected at most"),
        ({"arms": 1}, "arms = 1"),
        ({"features": 30}, "features = 30: expected at most 1"),
        ({"problem": fg.Problem(5)}, r"problem\.dim = 5: expected 6"),
        ({"scale": "none"}, "scale"),
        ({"constant": 1}, "constant"),
        ({"folder": 3}, "folder"),
    ],
)
def test_what_is_refused(folder, given, said):
    with pytest.raises(fg.InvalidInput, match=said):
        made(**{"folder": folder, **given})


def test_files_that_are_missing_or_wrong(folder, tmp_path):
    for where in (tmp_path / "nowhere", tmp_path / "movies.csv"):
        with pytest.raises(fg.InvalidInput, match=r"with ratings\.csv: MovieLens \(grouplens\.org"):
            made(where)
    with zipfile.ZipFile(tmp_path / "empty.zip", "w"):
        pass
    with pytest.raises(fg.InvalidInput, match=r"with ratings\.csv"):
        made(tmp_path / "empty.zip")
    for name, old, new, said in (
        ("ratings.csv", "rating,", "stars,", "columns userId, movieId, rating"),
        ("ratings.csv", ",5.0,", ",five,", "columns userId, movieId, rating"),
        ("ratings.csv", ",5.0,", ",,", "numbers in all rows of rating"),
        ("tags.csv", "tag", "word", "columns movieId, tag"),
        ("movies.csv", "movieId", "id", "columns movieId, genres"),
    ):
        text = (folder / name).read_text()
        (folder / name).write_text(text.replace(old, new))
        with pytest.raises(fg.InvalidInput, match=said):
            made(folder)
        (folder / name).write_text(text)
    text = (folder / "movies.csv").read_text().splitlines()
    (folder / "movies.csv").write_text("\n".join(text[:-20]))
    with pytest.raises(fg.InvalidInput, match=r"movie \d+': expected movies of movies\.csv only"):
        made(folder)
    (folder / "movies.csv").write_text(text[0] + "\n")
    with pytest.raises(fg.InvalidInput, match=r"movies\.csv': expected rows"):
        made(folder)


def test_all_sets_of_different_indices_are_equally_likely():
    counts = np.full(60_000, 5)
    counts[::2] = 3
    picked = distinct(np.random.default_rng(0).random((len(counts), 3)), counts)
    assert_array_equal(np.sort(picked[::2], axis=1), [[0, 1, 2]] * 30_000)
    sets = Counter(map(tuple, np.sort(picked[1::2], axis=1).tolist()))
    assert sets.keys() == set(itertools.combinations(range(5), 3))
    assert max(abs(seen - 3000) for seen in sets.values()) < 4.0 * math.sqrt(3000 * 0.9)
