"""A classification data set as a bandit problem: the arms are clusters of its rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedglb.environments.base import Block, Environment, generator
from fedglb.environments.clusters import Clustered
from fedglb.errors import InvalidInput, instance, integer
from fedglb.problem import Problem
from fedglb.typing import FloatArray, IntArray


@dataclass(frozen=True)
class Classification(Environment):
    """Clusters of labelled rows: an arm is a cluster, the reward is a label, 0 or 1.

    In centroid mode an arm is the centroid of a cluster, and its reward is Bernoulli with the
    cluster's rate of label 1, whatever the link. In member mode an arm is a row of a cluster,
    drawn uniformly for each step and client, and its reward is the label of that row. The regret
    of a choice is the highest mean reward on offer minus the chosen one: of rates in
    centroid mode, of labels in member mode, where a learner that sees the rows can tell rows of
    one cluster apart.

    With data that has groups (`fg.clustered(…, clients_by=…)`), client i has the rates, or the
    rows, of group i mod G, and is offered only clusters in which its group has rows.

    Parameters
    ----------
    problem
        The problem; its `dim` must be `data.dim`.
    clients
        N, the number of clients.
    data
        The clusters, from `fg.clustered`.
    offered
        Number of clusters offered to each client in each step, drawn without replacement; None:
        all of them. At most those in which every group has rows.

    Attributes
    ----------
    arms
        K, the number of arms offered to each client in each step.

    Raises
    ------
    InvalidInput
        If the problem does not fit the data.

    References
    ----------
    Centroid mode is from Filippi et al. (2010), *Parametric Bandits: The Generalized Linear
    Case*, whom Li and Wang (2022), Section 5, follow.

    Examples
    --------
    >>> import fedglb as fg
    >>> table = fg.Table({"x": [0.0, 0.1, 5.0, 5.1, 9.0]}, labels=[0, 0, 1, 1, 0])
    >>> data = fg.clustered(table, clusters=3, mode="member")
    >>> env = fg.Classification(fg.Problem(dim=data.dim), clients=2, data=data, offered=2)
    >>> next(env.blocks(horizon=4, seed=1)).arms.shape
    (4, 2, 2, 2)
    """

    problem: Problem
    clients: int
    data: Clustered
    offered: int | None = None
    arms: int = field(init=False)

    def __post_init__(self) -> None:
        instance("problem", self.problem, Problem, "fg.Problem(dim=10)")
        integer("clients", self.clients)
        instance("data", self.data, Clustered, "fg.clustered('magic')")
        if self.problem.dim != self.data.dim:
            allowed = f"{self.data.dim}, the dim of the data: fg.Problem(dim=data.dim)"
            raise InvalidInput("problem.dim", self.problem.dim, allowed)
        link = self.problem.link
        if not (link.support[0] <= 0.0 and link.support[1] >= 1.0):
            allowed = "a link whose rewards can be 0 and 1, e.g. fg.Logistic()"
            raise InvalidInput("problem.link", link.name, allowed)
        K = self.data.clusters
        if self.offered is not None:
            integer("offered", self.offered, at_most=K)
        object.__setattr__(self, "arms", K if self.offered is None else self.offered)
        most = int((self.data.group_sizes > 0).sum(axis=0).min())
        if self.arms > most:
            allowed = f"at most {most}: some group of clients has rows in no more clusters"
            raise InvalidInput("offered", self.offered, allowed)

    @property
    def _groups(self) -> IntArray:
        """The group of each client, shape (N, 1)."""
        groups: IntArray = np.arange(self.clients)[:, None] % self.data.group_sizes.shape[1]
        return groups

    def parameter(self, seed: int) -> FloatArray | None:
        """Return None: real data has no true parameter."""
        return None

    def facts(self) -> dict[str, Any]:
        """Return the origin of the data and of the arms, as JSON values."""
        return {**self.data.facts(), "offered": self.arms}

    def blocks(self, horizon: int, seed: int) -> Iterator[Block]:
        """Yield the steps 1 … horizon."""
        draw_arms, draw_noise = generator(seed, "arms"), generator(seed, "noise")
        size, N = self.block_steps(), self.clients
        for first in range(1, horizon + 1, size):
            steps = min(size, horizon - first + 1)
            chosen = self._clusters(draw_arms, (steps, N))
            if self.data.arms is not None:
                means = self.data.group_rates[chosen, self._groups]
                rewards = (draw_noise.random((steps, N, 1)) < means).astype(np.float64)
                yield Block(first, self.data.arms[chosen], means, rewards=rewards)
            else:
                assert self.data.members is not None
                assert self.data.labels is not None
                rows = self._rows(draw_noise.random(chosen.shape), chosen)
                arms, labels = self.data.members[rows], self.data.labels[rows]
                yield Block(first, arms, labels, rewards=labels)

    def _clusters(self, draw: np.random.Generator, shape: tuple[int, int]) -> IntArray:
        """Return which clusters are offered, in ascending order, shape (*shape, arms)."""
        K = self.data.clusters
        if self.arms == K:
            return np.broadcast_to(np.arange(K), (*shape, K))
        # The indices of the smallest of K uniforms are a subset drawn without replacement.
        # Clusters without rows of the client's group come last.
        empty = self.data.group_sizes.T[self._groups[:, 0]] == 0
        uniforms = draw.random((*shape, K)) + empty
        order = np.argpartition(uniforms, self.arms - 1, axis=-1)
        return np.sort(order[..., : self.arms], axis=-1)

    def _rows(self, uniforms: FloatArray, chosen: IntArray) -> IntArray:
        """Return a row of each chosen cluster; chosen by numbers in [0, 1)."""
        assert self.data.offsets is not None
        every, at = self.data.group_sizes, (chosen, self._groups)
        before, sizes = (every.cumsum(axis=1) - every)[at], every[at]
        # A product that rounds up to the size would be the next cluster's first row.
        within = np.minimum((uniforms * sizes).astype(np.int64), sizes - 1)
        rows: IntArray = self.data.offsets[chosen] + before + within
        return rows
