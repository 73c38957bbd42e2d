"""MovieLens as an environment: one of 25 movies is one that the user liked."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import numpy as np

from fedglb.environments.base import Block, Environment, digest_of, generator
from fedglb.environments.datasets.conversion import Conversion, Scale
from fedglb.environments.datasets.csv_files import read_csv
from fedglb.errors import InvalidInput, instance, integer, number, one_of
from fedglb.problem import Problem
from fedglb.typing import FloatArray, IntArray

_ORIGIN = "MovieLens (grouplens.org/datasets/movielens): ratings.csv, movies.csv and tags.csv"


class MovieLens(Environment):
    """Users are clients; in each step a user is offered a movie it liked among others.

    `movielens` makes one; there it says what is what.
    """

    def __init__(
        self, problem: Problem, arms: int, features: FloatArray, liked: list[IntArray],
        pool: IntArray, sources: dict[str, Any],
    ) -> None:  # fmt: skip
        self.problem, self.arms, self.clients = problem, arms, len(liked)
        self.features, self.sources = features, sources
        others = [np.setdiff1d(pool, own) for own in liked]
        #: The movies that a user liked, step by step, shape (T, N), −1 after the last; and those of
        #: the pool that it did not, shape (N, longest), with their number.
        self.liked = _padded(liked).T
        self._others, self._counts = _padded(others), np.array([len(each) for each in others])
        if self._counts.min() < arms - 1:
            allowed = f"at most {self._counts.min() + 1}: a user liked all other movies"
            raise InvalidInput("arms", arms, allowed)

    @property
    def horizon(self) -> int:
        """T, the number of movies of the user with the most."""
        return len(self.liked)

    def parameter(self, seed: int) -> FloatArray | None:
        """Return None: real data has no true parameter."""
        return None

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the movies' features and of the users' movies."""
        return digest_of([self.features, self.liked, self._others])

    def facts(self) -> dict[str, Any]:
        """Return the origin of the data, as JSON values."""
        return {**self.sources, "arms": self.arms, "digest": self.digest}

    def blocks(self, horizon: int, seed: int) -> Iterator[Block]:
        """Yield the steps 1 … horizon."""
        draw, size, K = generator(seed, "arms"), self.block_steps(), self.arms
        for start in range(0, horizon, size):
            liked = self.liked[start : min(start + size, horizon)]
            uniforms = draw.random((*liked.shape, K))
            picked = distinct(uniforms[..., 1:], np.broadcast_to(self._counts, liked.shape))
            place = np.minimum((uniforms[..., :1] * K).astype(np.int64), K - 1)
            movies = np.empty((*liked.shape, K), dtype=np.int64)
            movies[..., 1:] = self._others[np.arange(self.clients)[:, None], picked]
            movies[..., :1] = np.take_along_axis(movies, place, axis=2)
            np.put_along_axis(movies, place, liked[..., None], axis=2)
            rewards = (np.arange(K) == place).astype(np.float64)
            yield Block(
                start + 1, self.features[movies], rewards, rewards=rewards, active=liked >= 0
            )


def movielens(
    folder: str | Path,
    problem: Problem | None = None,
    *,
    clients: int | None = None,
    arms: int = 25,
    features: int = 25,
    constant: bool = True,
    scale: Scale = "largest",
    liked: float = 3.0,
    more_than: int = 2500,
) -> MovieLens:
    r"""Return MovieLens as an environment, made as by the program of the authors of FedGLB-UCB.

    1. A movie's text: its tags in the order of tags.csv, then its genres.
    2. TF-IDF of these texts over all movies, without English stop words, is reduced to 25 numbers
       by a truncated SVD (scikit-learn's, not centred), and each of these is standardised over all
       movies. A feature that is always 1 comes last.
    3. A rating of at least 3 counts as liked. Users who liked more than 2,500 movies are the
       clients: 37 in ml-20m, with 121,934 liked movies, by the authors' count.
    4. A client meets its liked movies in the order of ratings.csv, which is the order of movies'
       numbers and not of time. Each comes with 24 others, drawn anew without replacement from all
       movies that some user liked and this one did not.
    5. The reward is 1 for the liked movie and 0 for the others. So the regret is 1 − reward.

    For `fg.async_linucb`'s paper their program took ``liked=1.0, more_than=3000, constant=False``:
    54 users and 214,729 movies of ml-20m, by their count.

    Where this is not their program: in each step all clients that have movies left play one, not
    one client drawn at random; the place of the liked movie among the arms is drawn, theirs is the
    first one; arms are scaled to norm ≤ 1; the last user of the file is not left out; the SVD has a
    fixed seed.

    Parameters
    ----------
    folder
        The folder with ratings.csv, movies.csv and tags.csv, or the zip archive, of ml-20m, ml-25m,
        ml-32m or ml-latest-small.
    problem
        The problem; its dim must be features + 1 (features, without a constant). None: logistic.
    clients
        N: the first N of these users. None: all.
    arms
        K, the number of movies in each step.
    features
        The number of features from the texts.
    constant
        Whether there is a feature that is always 1.
    scale
        "largest": all arms are divided by the largest norm; "each": each by its own.
    liked
        The least rating that counts as liked.
    more_than
        A client liked more movies than this. With ml-latest-small take a few hundred.

    Returns
    -------
    MovieLens
        The environment; T is the number of movies of the client with the most.

    Raises
    ------
    InvalidInput
        If an argument is invalid, a file or column is missing, or too few users are left.

    References
    ----------
    Li and Wang (2022), *Communication Efficient Federated Learning for Generalized Linear Bandits*,
    Section 5, and the program of that paper; Harper and Konstan (2015), *The MovieLens Datasets*.

    Examples
    --------
    >>> import fedglb as fg
    >>> folder = getfixture("tmp_path")
    >>> _ = (folder / "movies.csv").write_text(
    ...     "movieId,title,genres\n1,A,Comedy\n2,B,Drama|War\n3,C,Comedy|War\n4,D,Western\n"
    ... )
    >>> _ = (folder / "tags.csv").write_text("userId,movieId,tag,timestamp\n7,2,dark,0\n")
    >>> _ = (folder / "ratings.csv").write_text(
    ...     "userId,movieId,rating,timestamp\n7,1,5,0\n7,3,4,0\n8,2,3.5,0\n8,4,4.5,0\n"
    ... )
    >>> env = fg.movielens(folder, arms=2, features=2, more_than=1)
    >>> env.clients, env.arms, env.problem.dim, env.horizon
    (2, 2, 3, 2)
    """
    integer("arms", arms, at_least=2)
    integer("features", features)
    instance("constant", constant, bool, "True")
    one_of("scale", scale, get_args(Scale))
    number("liked", liked)
    integer("more_than", more_than, at_least=0)
    problem = Problem(features + constant) if problem is None else problem
    instance("problem", problem, Problem, "fg.Problem(dim=26)")
    if problem.dim != features + constant:
        allowed = f"{features + constant}, features and the constant one"
        raise InvalidInput("problem.dim", problem.dim, allowed)
    ratings, of_ratings = read_csv(
        folder, "ratings.csv", {"userId": int, "movieId": int, "rating": float}, _ORIGIN
    )
    movies, of_movies = read_csv(folder, "movies.csv", {"movieId": int, "genres": str}, _ORIGIN)
    tags, of_tags = read_csv(folder, "tags.csv", {"movieId": int, "tag": str}, _ORIGIN)

    texts: dict[int, list[str]] = {movie: [] for movie in movies["movieId"]}
    for movie, tag in tags.iter_rows():
        if movie in texts:
            texts[movie].append(tag)
    for movie, genres in movies.iter_rows():
        texts[movie].append(genres.replace("|", " "))
    reduced = _reduced([" ".join(each) for each in texts.values()], features)
    placed = Conversion((), constant).scaled(reduced, scale).place(reduced)

    of_user, ids, rating = (ratings[name].to_numpy() for name in ratings.columns)
    known = np.array(list(texts))
    order = np.argsort(known)
    at = order[np.minimum(np.searchsorted(known, ids, sorter=order), len(known) - 1)]
    if (known[at] != ids).any():
        unknown = int(ids[np.argmax(known[at] != ids)])
        raise InvalidInput("folder", f"{folder}: movie {unknown}", "movies of movies.csv only")
    good = rating >= liked
    if not good.any():
        raise InvalidInput("liked", liked, f"at most {rating.max():g}, the highest rating")
    of_user, at = of_user[good], at[good]
    users, counts = np.unique(of_user, return_counts=True)
    enough = users[counts > more_than]
    if len(enough) == 0:
        allowed = f"less than {counts.max()}, the most movies that a user liked"
        raise InvalidInput("more_than", more_than, allowed)
    if clients is not None:
        integer("clients", clients, at_most=len(enough))
    sources = {
        "dataset": "MovieLens", "constant": constant, "scale": scale, "liked": liked,
        "more_than": more_than,
        "sha256": {"ratings": of_ratings, "movies": of_movies, "tags": of_tags},
    }  # fmt: skip
    own = [at[of_user == user] for user in enough[:clients]]
    return MovieLens(problem, arms, placed, own, np.unique(at), sources)


def _reduced(texts: list[str], features: int) -> FloatArray:
    """Return the standardised SVD of the texts' TF-IDF, shape (movies, features)."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from threadpoolctl import threadpool_limits

    words = TfidfVectorizer(stop_words="english").fit_transform(texts)
    if words.shape[1] < features:
        allowed = f"at most {words.shape[1]}, the different words of all tags and genres"
        raise InvalidInput("features", features, allowed)
    with threadpool_limits(1):  # several threads would sum in another order every time
        reduced = TruncatedSVD(features, random_state=0).fit_transform(words)
    spread = reduced.std(axis=0)
    standardised: FloatArray = (reduced - reduced.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return standardised


def _padded(rows: list[IntArray]) -> IntArray:
    """Return rows of different lengths as one array, with −1 after the end of each."""
    made = np.full((len(rows), max(len(row) for row in rows)), -1)
    for i, row in enumerate(rows):
        made[i, : len(row)] = row
    return made


def distinct(uniforms: FloatArray, counts: IntArray) -> IntArray:
    """Return m different indices below each of some counts, from uniforms (…, m).

    All sets are equally likely: Floyd's algorithm (Bentley and Floyd, 1987, *A Sample of
    Brilliance*). Index j is drawn from the first count − m + j + 1 ones, and if it is taken, it is
    the last of these.
    """
    m = uniforms.shape[-1]
    picked = np.empty(uniforms.shape, dtype=np.int64)
    for j in range(m):
        last = counts - m + j
        drawn = np.minimum((uniforms[..., j] * (last + 1)).astype(np.int64), last)
        taken = (picked[..., :j] == drawn[..., None]).any(axis=-1)
        picked[..., j] = np.where(taken, last, drawn)
    return picked
