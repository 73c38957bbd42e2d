"""Arms from a labelled table: clusters of its rows, each with its rate of label 1."""

from __future__ import annotations

import hashlib
import io
import json
import warnings
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from fedglb.environments.datasets import Table, load
from fedglb.environments.datasets.conversion import Conversion, Scale
from fedglb.environments.datasets.fetch import Progress
from fedglb.errors import InvalidInput, Place, instance, integer, names_near, one_of, relocated
from fedglb.features import Features
from fedglb.io.atomic import atomic_write, user_cache
from fedglb.typing import FloatArray, IntArray

#: An arm is the centroid of a cluster, or one of its rows.
Mode: TypeAlias = Literal["centroid", "member"]
#: Which columns of a table are features: all of them, or those that hold numbers.
Columns: TypeAlias = Literal["all", "numeric"]
#: An arm's coordinates: features, or coordinates within the span of all arms.
Axes: TypeAlias = Literal["features", "arms"]

SAMPLE = 50_000  # maximum number of rows for k-means
STARTS = 4  # of k-means; the best one is taken
KEPT = 4  # maximum results in a process's memory
_kept: dict[tuple[Any, ...], Clustered] = {}


@dataclass(frozen=True, eq=False, repr=False)
class Clustered:
    """Clusters of a table's rows, as arms. `fg.clustered` makes them.

    Two are equal if their digests are. The arrays cannot be written to.

    Attributes
    ----------
    dataset
        Name of the table.
    sha256
        Hash of the table's file; None for your own data.
    mode
        "centroid" or "member".
    seed
        Seed of k-means and of the sample it was fitted on.
    feature_map
        How columns became arms: the schema, or else the studies' conversion. Both have a `digest`.
    rates
        Mean label of each cluster, shape (K,).
    sizes
        Number of rows of each cluster, shape (K,).
    group_rates
        `rates` of each group of clients, shape (K, G), 0 without rows; one group, if clients are
        alike.
    group_sizes
        `sizes` of each group of clients, shape (K, G).
    arms
        Centroids as arms, one row per cluster, shape (K, d); None in member mode.
    members
        The table's rows as arms, ordered by cluster, shape (n, d); None in centroid mode.
    labels
        The labels of `members`, shape (n,); None in centroid mode.
    offsets
        The rows of `members` in cluster k are offsets[k] … offsets[k + 1] − 1, shape (K + 1,);
        None in centroid mode. Within a cluster they are ordered by group.
    clients_by
        The column by which clients differ; None: they do not.

    Examples
    --------
    >>> import fedglb as fg
    >>> table = fg.Table({"x": [0.0, 0.1, 5.0, 5.1]}, labels=[0, 0, 1, 0])
    >>> fg.clustered(table, clusters=2)
    Clustered('own', centroid mode, K=2, d=2, rates 0.000 to 0.500)
    """

    dataset: str
    sha256: str | None
    mode: Mode
    seed: int
    feature_map: Features | Conversion
    rates: FloatArray
    sizes: IntArray
    group_rates: FloatArray
    group_sizes: IntArray
    arms: FloatArray | None = None
    members: FloatArray | None = None
    labels: FloatArray | None = None
    offsets: IntArray | None = None
    clients_by: str | None = None

    def __post_init__(self) -> None:
        for part in (*self._arrays(), self.group_rates, self.group_sizes):
            part.setflags(write=False)

    def _arrays(self) -> list[FloatArray | IntArray]:
        parts = (self.rates, self.sizes, self.arms, self.members, self.labels, self.offsets)
        return [part for part in parts if part is not None]

    @property
    def clusters(self) -> int:
        """Number K of clusters."""
        return len(self.rates)

    @property
    def dim(self) -> int:
        """Number d of coordinates of an arm: features, or the dimension of the arms' span."""
        placed = self.members if self.arms is None else self.arms
        assert placed is not None
        return int(placed.shape[1])

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all attributes: equal for equal arms, rates and labels."""
        digest = hashlib.sha256(json.dumps(self._plain(), sort_keys=True).encode())
        for part in self._arrays():
            digest.update(f"{part.dtype.str} {part.shape}".encode())
            digest.update(np.ascontiguousarray(part).data)
        return digest.hexdigest()

    def _plain(self) -> dict[str, Any]:
        return {
            "dataset": self.dataset, "sha256": self.sha256, "mode": self.mode,
            "clusters": self.clusters, "seed": self.seed,
            "feature_map_digest": self.feature_map.digest, "feature_map": self.feature_map.plain(),
            "rates": self.rates.tolist(), "sizes": self.sizes.tolist(),
            **({} if self.clients_by is None else {
                "clients_by": self.clients_by, "group_rates": self.group_rates.tolist(),
                "group_sizes": self.group_sizes.tolist(),
            }),
        }  # fmt: skip

    def facts(self) -> dict[str, Any]:
        """Return the facts about the data for results, as JSON values."""
        return {**self._plain(), "digest": self.digest}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Clustered) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return (
            f"Clustered({self.dataset!r}, {self.mode} mode, K={self.clusters}, d={self.dim}, "
            f"rates {self.rates.min():.3f} to {self.rates.max():.3f})"
        )


def clustered(
    source: str | Table,
    clusters: int = 32,
    mode: Mode = "centroid",
    constant: bool | None = None,
    scale: Scale | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    columns: Columns = "all",
    axes: Axes = "features",
    features: Features | None = None,
    clients_by: str | None = None,
    client_groups: int = 4,
) -> Clustered:
    """Group a table's rows into clusters by k-means on their features, and make arms of them.

    K-means never sees the labels. It is fitted on a sample of at most 50,000 rows; then every
    row joins the nearest cluster. The cluster of each row is kept on disk for the next call.

    Parameters
    ----------
    source
        "covertype", "magic" or "mushroom", or an `fg.Table`.
    clusters
        K, the number of clusters.
    mode
        "centroid": a cluster is one arm, the mean of its rows; its reward is Bernoulli with the
        rate of its labels. "member": a cluster offers one of its rows, drawn each time; the reward
        is the label of that row.
    constant
        Whether arms have a constant feature (an intercept) besides those of the columns. None:
        True. A schema always has one.
    scale
        "largest": all arms are divided by the largest norm; "each": each by its own. The choice
        changes how well a linear or a logistic model fits, so report it. None: "largest". Arms of
        a schema have a norm ≤ 1 without it.
    seed
        Seed of k-means and of the sample it is fitted on.
    progress
        Called with a line of text before long work, and when a file is refused.
    columns
        "all", or "numeric": without the categorical ones. For CoverType that leaves 10 continuous
        features, which other bandit papers use.
    axes
        "features", or "arms": coordinates within the span of all arms, so that d ≤ K in centroid
        mode and at most the rank of the rows in member mode. All inner products stay the same, and
        so do all choices of an algorithm that starts at 0 with a multiple of the identity, with two
        exceptions: a radius that grows with d gets smaller, and messages get smaller. Much faster
        with many features: Mushroom has 31 coordinates instead of 118, and 86 in member mode.
    features
        A schema whose fields of the arm are columns of the table; other columns are left out.
        None: numbers are standardised, and each level of a category becomes a feature of 0 or 1.
    clients_by
        A column of the table by which clients differ: it is no feature of the arms, and a client
        has the rates, or the rows, of its group only. Groups are quantiles of numbers; or the most
        frequent levels, of which the last group has all others. Client i of `fg.Classification` is
        in group i mod G. None: clients are alike.
    client_groups
        G, the number of groups, at least 2; fewer, if the column has fewer values.

    Returns
    -------
    Clustered
        Arms and rates, for `fg.Classification`.

    Raises
    ------
    InvalidInput
        If an argument is invalid, a column does not fit the schema, or the rows differ too little
        for this number of clusters.
    DataUnavailable
        If the data set is not on this machine and cannot be downloaded.

    References
    ----------
    Filippi et al. (2010), *Parametric Bandits: The Generalized Linear Case*, turn data into arms
    as centroid mode does; Li and Wang (2022), Section 5, follow them.

    Examples
    --------
    >>> import fedglb as fg
    >>> table = fg.Table({"x": [0.0, 0.1, 5.0, 5.1]}, labels=[0, 0, 1, 0])
    >>> data = fg.clustered(table, clusters=2)
    >>> sorted(data.rates.tolist()), data.dim
    ([0.0, 0.5], 2)
    >>> env = fg.Classification(fg.Problem(dim=data.dim), clients=3, data=data)
    >>> fg.simulate(fg.fedglb_ucb(1.0), env, horizon=20).choices.shape
    (20, 3)

    With a schema, as an application has:

    >>> schema = fg.Features(arm={"x": fg.Number([0, 5])})
    >>> data = fg.clustered(table, clusters=2, features=schema)
    >>> data.dim == schema.dim == 4, data.feature_map == schema
    (True, True)
    """
    if not isinstance(source, Table | str):
        raise InvalidInput("source", source, 'a name, e.g. "magic", or an fg.Table')
    clusters, seed = integer("clusters", clusters), integer("seed", seed, at_least=0)
    one_of("mode", mode, get_args(Mode))
    if features is not None:
        instance("features", features, Features, "fg.Features.infer(table.columns)")
        for name, given in (("constant", constant), ("scale", scale)):
            if given is not None:
                raise InvalidInput(name, given, "None with a schema, which has its own")
    constant = True if constant is None else constant
    scale = "largest" if scale is None else scale
    instance("constant", constant, bool, "True")
    one_of("scale", scale, get_args(Scale))
    one_of("columns", columns, get_args(Columns))
    one_of("axes", axes, get_args(Axes))
    integer("client_groups", client_groups, at_least=2)
    by = None if clients_by is None else (clients_by, client_groups)
    key = (source, clusters, mode, constant, scale, seed, columns, axes, features, by)
    made = _kept.get(key)
    if made is None:
        table = load(source, progress) if isinstance(source, str) else source
        of_row = np.zeros(table.rows, dtype=np.int64)
        if clients_by is not None:
            of_row = _groups(table, clients_by, client_groups)
            table = _with_columns(table, [name for name in table.columns if name != clients_by])
        if columns == "numeric":
            table = _numeric(table)
        made = _build(table, clusters, mode, features, constant, scale, seed, of_row, progress)
        made = replace(made, clients_by=clients_by)
        if axes == "arms" and made.arms is not None:
            made = replace(made, arms=_in_their_span(made.arms))
        elif axes == "arms" and made.members is not None:
            made = replace(made, members=_in_their_span(made.members))
        while len(_kept) >= KEPT:
            _kept.pop(next(iter(_kept)), None)
        _kept[key] = made
    return made


def _numeric(table: Table) -> Table:
    """Return a table without its categorical columns."""
    kept = [name for name, values in table.columns.items() if values.dtype.kind == "f"]
    if not kept:
        allowed = f'"all": {table.name} has no column of numbers'
        raise InvalidInput("columns", "numeric", allowed)
    return _with_columns(table, kept)


def _with_columns(table: Table, names: Sequence[str]) -> Table:
    """Return a table with some of its columns."""
    columns = {name: table.columns[name] for name in names}
    return Table(columns, table.labels, table.name, table.sha256)


def _groups(table: Table, column: str, groups: int) -> IntArray:
    """Return the group of each row, from 0 on, by a column of the table."""
    if column not in table.columns:
        raise InvalidInput("clients_by", column, names_near(column, table.columns))
    if len(table.columns) == 1:
        raise InvalidInput("clients_by", column, "one of two columns or more: arms need another")
    values = table.columns[column]
    if values.dtype.kind == "f":
        cuts = np.sort(values)[np.arange(1, groups) * len(values) // groups]
        found = np.searchsorted(np.unique(cuts), values, side="right")
    else:
        _, level, counts = np.unique(values, return_inverse=True, return_counts=True)
        rank = np.argsort(np.argsort(-counts, kind="stable"))  # of each level
        found = np.minimum(rank[level], groups - 1)
    made: IntArray = np.unique(found, return_inverse=True)[1].astype(np.int64)
    if made.max() == 0:
        raise InvalidInput("clients_by", column, "a column with two values or more")
    return made


def _in_their_span(arms: FloatArray) -> FloatArray:
    """Return the arms in an orthonormal basis of their span, by Gram-Schmidt from the first arm on.

    Two passes: the second removes what rounding leaves of the earlier directions. An arm that adds
    less than 1e-9 of its length adds no direction.
    """
    basis = np.empty((0, arms.shape[1]))
    for arm in arms:
        rest = arm
        for _ in range(2):
            rest = rest - ((basis * rest).sum(axis=1)[:, None] * basis).sum(axis=0)
        length = np.sqrt((rest * rest).sum())
        if length > 1e-9 * np.sqrt((arm * arm).sum()):
            basis = np.vstack([basis, rest / length])
        if basis.shape[0] == basis.shape[1]:
            break
    placed = np.stack([(basis * arm).sum(axis=1) for arm in arms])
    # Rounding may have made an arm longer than 1.
    longest = np.maximum(1.0, np.sqrt((placed * placed).sum(axis=1, keepdims=True)))
    return np.asarray(placed / longest)


def _build(
    table: Table, clusters: int, mode: Mode, features: Features | None, constant: bool,
    scale: Scale, seed: int, of_row: IntArray, progress: Progress | None,
) -> Clustered:  # fmt: skip
    if clusters > table.rows:
        raise InvalidInput("clusters", clusters, f"at most {table.rows}, the number of rows")
    fitted: Features | Conversion
    if features is None:
        fitted = Conversion.fit(table, constant)
        encoded = fitted.encode(table)
    else:
        fitted, encoded = features, _encoded(table, features)
    assigned = _assignment(encoded, clusters, seed, table.name, progress)
    sizes = np.bincount(assigned, minlength=clusters)
    rates = np.bincount(assigned, weights=table.labels, minlength=clusters) / sizes
    shape = (clusters, int(of_row.max()) + 1)
    cell = assigned * shape[1] + of_row  # cluster by cluster, group by group
    counts = np.bincount(cell, minlength=shape[0] * shape[1])
    labels = np.bincount(cell, weights=table.labels, minlength=len(counts))
    group_rates = (labels / np.maximum(counts, 1)).reshape(shape)
    group_sizes = counts.reshape(shape)
    if mode == "centroid":
        columns = (np.bincount(assigned, weights=x, minlength=clusters) for x in encoded.T)
        arms = np.stack([total / sizes for total in columns], axis=1)
    else:
        order = np.argsort(cell, kind="stable")
        arms = encoded[order]
    if isinstance(fitted, Conversion):
        fitted = fitted.scaled(arms, scale)
        arms = fitted.place(arms)
    found = (table.name, table.sha256, mode, seed, fitted, rates, sizes, group_rates, group_sizes)
    if mode == "centroid":
        return Clustered(*found, arms=arms)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return Clustered(*found, members=arms, labels=table.labels[order], offsets=offsets)


def _encoded(table: Table, features: Features) -> FloatArray:
    """Return the table's rows as arms of a schema."""
    if features.context:
        allowed = "a schema without fields of the context: a table has columns of arms only"
        raise InvalidInput("features.context", ", ".join(features.context), allowed)
    for name in features.arm:
        if name not in table.columns:
            raise InvalidInput("features.arm", name, names_near(name, table.columns))
    columns = [table.columns[name].tolist() for name in features.arm]
    rows = [dict(zip(features.arm, row, strict=True)) for row in zip(*columns, strict=True)]
    with relocated(_in_table):
        return features.encode_rows(rows, [None] * len(rows))


def _in_table(path: Place) -> Place:
    _, row, name = path  # ("arms", row, name)
    return f"columns[{name!r}]", row


def _assignment(
    encoded: FloatArray, clusters: int, seed: int, name: str, progress: Progress | None
) -> IntArray:
    """Return the cluster of each row, read from disk if an earlier call has stored it."""
    method = f"{SAMPLE} {STARTS} {version('scikit-learn')}"
    key = hashlib.sha256(f"{encoded.shape} {clusters} {seed} {method}".encode())
    key.update(encoded.data)
    path = user_cache() / "clusters" / f"{key.hexdigest()[:32]}.npz"
    assigned = _read(path, len(encoded), clusters)
    if assigned is None:
        if progress is not None:
            progress(f"grouping the {len(encoded):,} rows of {name} into {clusters} clusters")
        assigned = _k_means(encoded, clusters, seed)
        _write(path, assigned)
    return assigned


def _k_means(encoded: FloatArray, clusters: int, seed: int) -> IntArray:
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    sample = encoded
    if len(encoded) > SAMPLE:
        drawn = np.random.default_rng(seed).choice(len(encoded), SAMPLE, replace=False)
        sample = encoded[np.sort(drawn)]
    model = KMeans(clusters, n_init=STARTS, random_state=seed % 2**32)
    # One thread: several would sum in another order, and round differently, every time.
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # empty clusters: an error, below
        assigned = model.fit(sample).predict(encoded).astype(np.int64)
    filled = len(np.unique(assigned))
    if filled < clusters:
        allowed = f"at most {filled}: the rows differ too little for more clusters"
        raise InvalidInput("clusters", clusters, allowed)
    return np.asarray(assigned)


def _read(path: Path, rows: int, clusters: int) -> IntArray | None:
    """Return the stored clusters, or None if missing, damaged or for other data."""
    try:
        # From memory, because np.load does not close a damaged file.
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as kept:
            assigned = kept["assigned"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    if assigned.shape != (rows,) or assigned.dtype.kind != "i" or assigned.min() < 0:
        return None
    counts = np.bincount(assigned)
    whole = len(counts) == clusters and counts.min() > 0
    return assigned.astype(np.int64) if whole else None


def _write(path: Path, assigned: IntArray) -> None:
    content = io.BytesIO()
    np.savez_compressed(content, assigned=assigned.astype(np.int32))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, content.getvalue())
    except OSError:  # a read-only home: every process computes it again
        return
