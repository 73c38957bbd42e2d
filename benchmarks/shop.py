"""Records in, a choice out: an agent with a schema beside Vowpal Wabbit, on three made-up shops.

    python -m benchmarks.shop --seeds 0-3 [--shops toy,numbers] [--learners 'VW*'] [--cache FILE]
    python -m benchmarks.shop --http
    python -m benchmarks.shop --encode

The first prints a table per shop. The protocol:

* `toy`: clicks depend on country × category, and a little on the price. `catalogue`: 500 items, of
  which 20 are offered; brands and items have effects of their own beside country × category.
  `numbers`: clicks depend on a wave of the age per category, and on the price by device.
* Every learner gets the same records and, for the same arm, the same click: that of arm k in visit
  t is uniform_t < p_k. The agent is not tuned. Its schema is inferred from 200 visits before the
  first decision (without clicks) and the crosses that the shop names.
* *VW* is Vowpal Wabbit on the same records, all fields of the user crossed with all of the item
  (`-q UI`). *Prepared VW* has what an expert would do by hand: numbers in bins, and only the
  crosses that the shop names. The best policy of each is chosen in hindsight.
* The score is the mean click probability (not clicks) of the last third of the visits; that of all
  visits also has the price of exploration. *Best possible* plays the best arm of every visit.
* Two learners know the features that matter, and show what can be reached: Thompson sampling with a
  ridge logistic regression, and a logistic regression on the clicks of all arms offered in the
  first two thirds, which no learner sees (its score of all visits means nothing).
* Choices are made on seeds 0 to 9, and reported on seeds 100 to 109.

Each finished run is a line of `--cache`, and is not run again: start a new file when a shop or a
learner changes. Vowpal Wabbit is the package `vowpalwabbit`, which only this script needs.

`--http` measures `choose` and `observe` over HTTP with 20 arms as vectors and as records;
`--encode` the encoding of 20 arms beside scikit-learn's encoders. Both take turns within one run.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

import fedglb as fg
from benchmarks.service import Row, measure, server
from fedglb.typing import FloatArray, IntArray

Record = dict[str, Any]
LOGGED = 200  # visits before the first decision
COUNTRIES = ("AT", "BR", "CH", "DE", "ES", "FR")
CATEGORIES = ("shoes", "books", "toys", "games", "garden", "music")
DEVICES = ("mobile", "desktop", "tablet")


class Visit(NamedTuple):
    """A user, the items offered, and what would be clicked.

    `places` and `values` are features made by hand, shape (K, m): for each arm the places that are
    not 0, and their values, scaled so that weights have a standard deviation of about 1.
    """

    context: Record
    arms: list[Record]
    ids: list[str]
    p: FloatArray
    uniform: float
    places: IntArray
    values: FloatArray

    def click(self, arm: int) -> float:
        """Return the reward of an arm."""
        return float(self.uniform < self.p[arm])


@dataclass(frozen=True)
class Shop:
    """Logged visits, visits to decide, crosses that matter, and the number of features by hand."""

    logged: list[Visit]
    visits: list[Visit]
    crosses: list[tuple[str, str]]
    features: int

    @property
    def last_third(self) -> slice:
        """The visits that count."""
        return slice(len(self.visits) * 2 // 3, len(self.visits))


# -- the shops -----------------------------------------------------------------------------------


class Goods:
    """Items for sale, and users who come."""

    def __init__(self, rng: np.random.Generator, count: int, categories: int, offered: int) -> None:
        self.rng, self.offered = rng, offered
        self.category = rng.integers(categories, size=count)
        self.price = np.round(np.exp(rng.normal(3.0, 0.8, count)), 2)
        self.cheap = 3.0 - np.log(self.price)
        self.records: list[Record] = [
            {"category": CATEGORIES[category], "price": float(price)}
            for category, price in zip(self.category, self.price, strict=True)
        ]

    def user(self) -> tuple[int, int, int]:
        """Return a user's country, age and device."""
        return (
            int(self.rng.integers(len(COUNTRIES))),
            int(self.rng.integers(16, 80)),
            int(self.rng.integers(len(DEVICES))),
        )

    def offer(self) -> IntArray:
        """Return the numbers of the items offered."""
        return self.rng.choice(len(self.records), self.offered, replace=False)

    def visit(
        self, user: tuple[int, int, int], offer: IntArray, logits: FloatArray,
        by_hand: Sequence[tuple[Any, Any]], **more: str,
    ) -> Visit:  # fmt: skip
        """Return a visit; `by_hand` has a place and a value for each feature that is not 0."""
        country, age, device = user
        context = {"country": COUNTRIES[country], "age": age, "device": DEVICES[device], **more}
        places, values = np.empty((2, self.offered, len(by_hand)))
        for k, (place, value) in enumerate(by_hand):
            places[:, k], values[:, k] = place, value
        return Visit(
            context, [self.records[k] for k in offer], [f"item-{k}" for k in offer],
            sigmoid(logits), float(self.rng.random()), places.astype(np.int64), values,
        )  # fmt: skip


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def toy(seed: int, horizon: int = 3000) -> Shop:
    """Return a shop of 60 items in 6 categories; 8 are offered. Tastes depend on the country."""
    rng = np.random.default_rng([1, seed])
    taste, goods, visits = rng.normal(0.0, 1.5, (6, 6)), Goods(rng, 60, 6, 8), []
    for _ in range(LOGGED + horizon):
        user, offer = goods.user(), goods.offer()
        category, cheap = goods.category[offer], goods.cheap[offer]
        logits = -1.0 + taste[user[0], category] + 0.3 * cheap
        by_hand = [(0, 1.0), (1, 0.5 * cheap), (2 + 6 * user[0] + category, 1.5)]
        visits.append(goods.visit(user, offer, logits, by_hand))
    crosses = [("context.country", "arm.category")]
    return Shop(visits[:LOGGED], visits[LOGGED:], crosses, 2 + 36)


def catalogue(seed: int, horizon: int = 20_000) -> Shop:
    """Return a shop of 500 items of 40 brands; 20 are offered. Brands and items have effects."""
    rng = np.random.default_rng([2, seed])
    taste, goods, visits = rng.normal(0.0, 1.5, (6, 6)), Goods(rng, 500, 6, 20), []
    brands = rng.integers(40, size=500)
    effects = rng.normal(0.0, 0.8, 40)[brands] + rng.normal(0.0, 0.25, 500)
    for number, record in enumerate(goods.records):
        record["brand"], record["sku"] = f"brand-{brands[number]}", f"item-{number}"
    for _ in range(LOGGED + horizon):
        user, offer = goods.user(), goods.offer()
        category, brand = goods.category[offer], brands[offer]
        logits = -1.2 + taste[user[0], category] + effects[offer]
        by_hand = [
            (0, 1.0), (1 + 6 * user[0] + category, 1.5), (37 + brand, 0.8), (77 + offer, 0.25)
        ]  # fmt: skip
        city = f"{COUNTRIES[user[0]]}-{rng.geometric(0.05)}"  # has no effect
        visits.append(goods.visit(user, offer, logits, by_hand, city=city))
    crosses = [("context.country", "arm.category")]
    return Shop(visits[:LOGGED], visits[LOGGED:], crosses, 77 + 500)


def numbers(seed: int, horizon: int = 6000) -> Shop:
    """Return a shop of 60 items in 5 categories; 8 are offered. Ages and prices matter."""
    rng = np.random.default_rng([3, seed])
    goods, visits = Goods(rng, 60, 5, 8), []
    favourite, period = rng.uniform(16, 80, 5), rng.uniform(40, 70, 5)
    sensitivity = (1.2, 0.6, 0.0)
    for _ in range(LOGGED + horizon):
        user, offer = goods.user(), goods.offer()
        (_, age, device), category, cheap = user, goods.category[offer], goods.cheap[offer]
        wave = np.cos(2 * np.pi * (age - favourite) / period)[category]
        logits = -1.2 + 1.5 * wave + sensitivity[device] * cheap
        knot, part = divmod((age - 16) / 8, 1)  # hat functions of age: knots 16, 24, …, 80
        place = 4 + 9 * category + int(knot)
        by_hand = [(0, 1.0), (1 + device, cheap), (place, 1 - part), (place + 1, part)]
        visits.append(goods.visit(user, offer, logits, by_hand))
    crosses = [("context.age", "arm.category"), ("context.device", "arm.price")]
    return Shop(visits[:LOGGED], visits[LOGGED:], crosses, 4 + 45)


SHOPS: dict[str, Callable[[int], Shop]] = {"toy": toy, "catalogue": catalogue, "numbers": numbers}


# -- the learners: each yields its arm of every visit --------------------------------------------


def fedglb(shop: Shop, seed: int) -> Iterator[int]:
    """Play an agent with the schema that the logged records suggest."""
    del seed  # an agent draws its own
    records = [{"context": visit.context, "arms": visit.arms} for visit in shop.logged]
    features = fg.Features.infer(records, crosses=shop.crosses)
    with (
        tempfile.TemporaryDirectory() as folder,
        fg.Agent.open(f"{folder}/shop.db", features=features) as agent,
    ):
        for visit in shop.visits:
            decision = agent.choose(
                visit.arms,
                context=visit.context,
                ids=visit.ids,
            )
            agent.observe(decision.id, visit.click(decision.arm))
            yield decision.arm


def vowpal_wabbit(policy: str, encoding: Callable[[Shop], AsTheyAre | Prepared]) -> Learner:
    """Return Vowpal Wabbit with a policy and an encoding of records."""

    def play(shop: Shop, seed: int) -> Iterator[int]:
        vowpalwabbit = import_module("vowpalwabbit")
        rng, encoded = np.random.default_rng([4, seed]), encoding(shop)
        options = policy.replace("T/10", str(len(shop.visits) // 10))
        learner = vowpalwabbit.Workspace(
            f"--cb_explore_adf {encoded.crosses} {options} --random_seed {seed + 1} --quiet"
        )
        for visit in shop.visits:
            shared = f"shared {encoded.line('context', visit.context)}"
            lines = [encoded.line("arm", arm) for arm in visit.arms]
            chances = np.array(learner.predict([shared, *lines]))
            arm = int(rng.choice(len(lines), p=chances / chances.sum()))
            lines[arm] = f"0:{-visit.click(arm)}:{chances[arm]} {lines[arm]}"  # action:cost:chance
            learner.learn([shared, *lines])
            yield arm
        learner.finish()

    return play


class AsTheyAre:
    """Records in Vowpal Wabbit's format, one namespace for the user and one for the item."""

    crosses = "--interactions UI"

    def __init__(self, shop: Shop) -> None:
        pass

    def line(self, side: str, record: Record) -> str:
        """Return a record as text."""
        fields = (
            f"{name}={value}" if isinstance(value, str) else f"{name}:{value}"
            for name, value in record.items()
        )
        return f"|{'User' if side == 'context' else 'Item'} {' '.join(fields)}"


class Prepared:
    """Numbers in eight bins of equal frequency; a namespace per field, and the shop's crosses."""

    def __init__(self, shop: Shop) -> None:
        seen: dict[str, list[Any]] = {}
        for visit in shop.logged:
            for side, record in (("context", visit.context), *(("arm", x) for x in visit.arms)):
                for name, value in record.items():
                    seen.setdefault(f"{side}.{name}", []).append(value)
        self.spaces = {field: chr(ord("a") + k) for k, field in enumerate(seen)}
        self.crosses = " ".join(
            f"--interactions {self.spaces[a]}{self.spaces[b]}" for a, b in shop.crosses
        )
        self.bins = {
            field: np.quantile(values, np.arange(1, 8) / 8)
            for field, values in seen.items()
            if not isinstance(values[0], str)
        }

    def line(self, side: str, record: Record) -> str:
        """Return a record as text."""
        shown = []
        for name, value in record.items():
            field = f"{side}.{name}"
            if field in self.bins:
                value = np.searchsorted(self.bins[field], value)
            shown.append(f"|{self.spaces[field]} {name}={value}")
        return " ".join(shown)


def thompson(shop: Shop, seed: int) -> Iterator[int]:
    """Play Thompson sampling: the normal posterior of a logistic regression, one step per click."""
    rng = np.random.default_rng([5, seed])
    weights, covariance = np.zeros(shop.features), np.eye(shop.features)
    for visit in shop.visits:
        count, flat = len(visit.arms), visit.places.ravel()
        X = np.zeros((count, flat.size))
        X[np.arange(count)[:, None], np.arange(flat.size).reshape(count, -1)] = visit.values
        means, spread = X @ weights[flat], X @ covariance[np.ix_(flat, flat)] @ X.T
        root = np.linalg.cholesky(spread + 1e-9 * np.eye(count))
        arm = int(np.argmax(means + root @ rng.standard_normal(count)))
        p = sigmoid(means[arm])
        scale = 1 + p * (1 - p) * spread[arm, arm]
        gain = covariance[:, visit.places[arm]] @ visit.values[arm] / scale
        covariance -= p * (1 - p) * scale * np.outer(gain, gain)
        weights += gain * (visit.click(arm) - p)
        yield arm


def told_all(shop: Shop, seed: int) -> Iterator[int]:
    """Fit all clicks of the first two thirds, also those of arms not played; then be greedy."""
    from scipy.sparse import csr_array
    from sklearn.linear_model import LogisticRegression

    del seed
    values = np.concatenate([visit.values for visit in shop.visits])
    places = np.concatenate([visit.places for visit in shop.visits])
    clicks = np.concatenate([visit.uniform < visit.p for visit in shop.visits])
    ends = np.arange(len(values) + 1) * values.shape[1]
    X = csr_array((values.ravel(), places.ravel(), ends), shape=(len(values), shop.features))
    known = shop.last_third.start * len(shop.visits[0].arms)
    fit = LogisticRegression(fit_intercept=False, max_iter=1000).fit(X[:known], clicks[:known])
    yield from fit.decision_function(X).reshape(len(shop.visits), -1).argmax(axis=1).tolist()


Learner = Callable[[Shop, int], Iterator[int]]
OURS, VW, PREPARED = "fedglb", "VW", "prepared VW"
POLICIES = ("--epsilon 0.01", "--epsilon 0.05", "--epsilon 0.2", "--first T/10", "--cover 3",
            "--bag 5")  # fmt: skip
LEARNERS: dict[str, Learner] = {
    OURS: fedglb,
    **{f"{VW} {policy}": vowpal_wabbit(policy, AsTheyAre) for policy in POLICIES},
    **{f"{PREPARED} {policy}": vowpal_wabbit(policy, Prepared) for policy in POLICIES},
    "Thompson sampling, features by hand": thompson,
    "told all clicks, features by hand": told_all,
}


# -- running -------------------------------------------------------------------------------------

Run = dict[str, Any]
Key = tuple[str, str, int]  # shop, learner, seed


def play(name: str, learner: str, seed: int) -> Run:
    """Return the score of a learner in a shop, beside the best and the random one."""
    shop, start = SHOPS[name](seed), time.perf_counter()
    arms = list(LEARNERS[learner](shop, seed))
    seconds = time.perf_counter() - start
    visits = shop.visits[shop.last_third]
    got = [float(visit.p[arm]) for visit, arm in zip(shop.visits, arms, strict=True)]
    return {
        "shop": name, "learner": learner, "seed": seed,
        "score": statistics.mean(got[shop.last_third]), "all": statistics.mean(got),
        "best": statistics.mean(float(visit.p.max()) for visit in visits),
        "random": statistics.mean(float(visit.p.mean()) for visit in visits),
        "seconds": round(seconds, 1),
    }  # fmt: skip


def run_all(wanted: Iterable[Key], cache: Path | None) -> dict[Key, Run]:
    """Run what the cache does not have, and add it there."""
    found: dict[Key, Run] = {}
    if cache is not None and cache.exists():
        lines = cache.read_text().splitlines(keepends=True)
        lines = [line for line in lines if line.endswith("\n")]  # the last one may be cut off
        cache.write_text("".join(lines))
        for run in map(json.loads, lines):
            found[run["shop"], run["learner"], run["seed"]] = run
    for key in wanted:
        if key not in found:
            run = found[key] = play(*key)
            share = f"{run['score'] / run['best']:.1%} of best, {run['seconds']} s"
            print(f"{key[0]}, {key[1]}, seed {key[2]}: {share}", file=sys.stderr)
            if cache is not None:
                with cache.open("a") as file:
                    file.write(json.dumps(run) + "\n")
    return found


def shown(values: Sequence[float], digits: int = 4) -> str:
    """Return mean ± standard error as text."""
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else float("nan")
    return f"{statistics.mean(values):.{digits}f} ± {error:.{digits}f}"


def table(shop: str, runs: Mapping[str, Sequence[Run]]) -> None:
    """Print the scores in a shop, and what they say about ours."""
    some = next(iter(runs.values()))
    print(
        f"\n| {shop}, {len(some)} seeds | click probability, last third | % of best | all visits |"
    )
    print("|---|---|---|---|")
    for name, title in (("best", "best possible"), ("random", "random")):
        shares = shown([100 * run[name] / run["best"] for run in some], 1)
        print(f"| {title} | {shown([run[name] for run in some])} | {shares} | |")
    for name, every in runs.items():
        shares = shown([100 * run["score"] / run["best"] for run in every], 1)
        cells = [name, shown([run["score"] for run in every]), shares]
        print("| " + " | ".join([*cells, shown([run["all"] for run in every])]) + " |")
    if OURS not in runs:
        return
    scores = {name: [run["score"] for run in every] for name, every in runs.items()}
    share = statistics.mean(scores[OURS]) / statistics.mean(run["best"] for run in some)
    print(f"\nshare of best: {share:.1%}  ")
    for kind in (VW, PREPARED):
        others = [values for name, values in scores.items() if name.startswith(f"{kind} ")]
        if others:
            best = max(others, key=statistics.mean)
            above = [a - b for a, b in zip(scores[OURS], best, strict=True)]
            verdict = "yes" if statistics.mean(above) > 0 else "no"
            print(f"above the best {kind}: {verdict}, by {shown(above)} (pairs of one seed)  ")


# -- speed ---------------------------------------------------------------------------------------

SCHEMA = """
version = 1
[context.device]
kind = "category"
levels = ["mobile", "desktop"]
[context.member]
kind = "category"
levels = ["true"]
[arm.category]
kind = "category"
levels = ["shoes", "books", "toys"]
[arm.brand]
kind = "category"
buckets = 8
[arm.price]
kind = "number"
knots = [5, 20, 60, 200]
[arm.rating]
kind = "number"
knots = [1, 3, 5]
[arm.new]
kind = "category"
levels = ["true"]
[arm.tags]
kind = "set"
buckets = 7
[crosses]
pairs = [["context.device", "arm.category"], ["context.member", "arm.new"]]
"""  # d = 64


def requests(count: int) -> list[tuple[Record, list[Record]]]:
    """Return some contexts, each with 20 arms of 6 fields."""
    rng = np.random.default_rng(0)
    tags = ("sale", "gift", "eco", "local", "limited")

    def arm() -> Record:
        return {
            "category": CATEGORIES[rng.integers(3)],
            "brand": f"brand-{rng.integers(40)}",
            "price": round(float(np.exp(rng.normal(3.0, 0.8))), 2),
            "rating": round(float(rng.uniform(1, 5)), 1),
            "new": bool(rng.integers(2)),
            "tags": [tag for tag in tags if rng.random() < 0.4],
        }

    return [
        (
            {"device": DEVICES[rng.integers(2)], "member": bool(rng.integers(2))},
            [arm() for _ in range(20)],
        )
        for _ in range(count)
    ]


def over_http(pairs: int, turns: int) -> None:
    """Print the cost of a choice and its reward over HTTP, with vectors and with records."""
    features = fg.Features.from_toml(SCHEMA)
    some = requests(64)
    bodies = {
        "vectors": [{"arms": features.encode(arms, context).tolist()} for context, arms in some],
        "records": [{"context": context, "arms": arms} for context, arms in some],
    }
    encoded = {
        name: [msgspec.json.encode(body) for body in every] for name, every in bodies.items()
    }
    with tempfile.TemporaryDirectory() as folder:
        schema = Path(folder, "features.toml")
        schema.write_text(SCHEMA)
        agent = ("fedglb", "agent", "serve", f"{folder}/shop.db", "--features", str(schema))
        with server(*agent, "--http", "127.0.0.1:0") as running:
            kinds = {
                name: (running, lambda k, every=every: every[k % len(every)])
                for name, every in encoded.items()
            }
            rows = measure(kinds, pairs, turns)
    sizes = ", ".join(f"{name} {len(every[0]):,}" for name, every in encoded.items())
    print(f"20 arms, d={features.dim}; bytes per request to choose: {sizes}\n")
    print(
        "| medians | connections | vectors | records | records / vectors |\n|---|---|---|---|---|"
    )
    measured: dict[str, Callable[[Row], float]] = {
        "choose, µs": lambda row: 1e6 * statistics.median(row.choose),
        "choose and observe, µs": Row.p50,
        "processor, µs per pair": lambda row: 1e6 * statistics.median(row.processor),
    }
    for title, value in measured.items():
        for connections in sorted({n for _, n in rows}):
            a, b = (value(rows[name, connections]) for name in ("vectors", "records"))
            print(f"| {title} | {connections} | {a:,.0f} | {b:,.0f} | {b / a:.2f} |")


def flat(context: Record, arm: Record) -> Record:
    """Return a record as scikit-learn's encoders take it: numbers and strings, crosses joined."""
    return {
        "category": arm["category"],
        "brand": arm["brand"],
        "price": arm["price"],
        "rating": arm["rating"],
        "new": str(arm["new"]),
        **{f"tags={tag}": 1 for tag in arm["tags"]},
        "device*category": f"{context['device']}*{arm['category']}",
        "member*new": f"{context['member']}*{arm['new']}",
    }


def encoding(turns: int) -> None:
    """Print the time of encoding the arms of a request, by encoder."""
    from sklearn.feature_extraction import DictVectorizer, FeatureHasher

    features = fg.Features.from_toml(SCHEMA)
    some = requests(64)
    ready = [[flat(context, arm) for arm in arms] for context, arms in some]
    hasher = FeatureHasher(features.dim)
    vectorizer = DictVectorizer(sparse=False).fit([row for rows in ready for row in rows])
    kinds: dict[str, Callable[[int], Any]] = {
        "features.encode": lambda k: features.encode(some[k][1], some[k][0]),
        "FeatureHasher": lambda k: hasher.transform(
            [flat(some[k][0], arm) for arm in some[k][1]]
        ).toarray(),
        "FeatureHasher, flattened before": lambda k: hasher.transform(ready[k]).toarray(),
        "DictVectorizer": lambda k: vectorizer.transform(
            [flat(some[k][0], arm) for arm in some[k][1]]
        ),
        "DictVectorizer, flattened before": lambda k: vectorizer.transform(ready[k]),
    }
    seen: dict[str, list[float]] = {name: [] for name in kinds}
    for turn in range(turns):
        for name, encode in kinds.items():
            start = time.perf_counter()
            encode(turn % len(some))
            seen[name].append(time.perf_counter() - start)
    ours = statistics.median(seen["features.encode"])
    print(f"| 20 arms, d={features.dim} | µs, median | / features.encode |\n|---|---|---|")
    for name, times in seen.items():
        median = statistics.median(times)
        print(f"| {name} | {1e6 * median:,.0f} | {median / ours:.2f} |")


def seeds(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=seeds, default=range(4), help="as 0-3")
    parser.add_argument("--shops", default=",".join(SHOPS))
    parser.add_argument("--learners", default="*", help="patterns, separated by commas")
    parser.add_argument("--cache", type=Path, help="a file of finished runs, JSON lines")
    parser.add_argument("--http", action="store_true", help="time over HTTP")
    parser.add_argument("--encode", action="store_true", help="time of encoding")
    given = parser.parse_args()
    if given.http:
        over_http(pairs=2000, turns=5)
        return
    if given.encode:
        encoding(turns=2000)
        return
    shops = given.shops.split(",")
    if unknown := set(shops) - set(SHOPS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(SHOPS)}")
    patterns = given.learners.split(",")
    learners = [name for name in LEARNERS if any(fnmatchcase(name, one) for one in patterns)]
    wanted = [(shop, name, seed) for shop in shops for seed in given.seeds for name in learners]
    runs = run_all(wanted, given.cache)
    for shop in shops:
        table(shop, {name: [runs[shop, name, seed] for seed in given.seeds] for name in learners})


if __name__ == "__main__":
    main()
