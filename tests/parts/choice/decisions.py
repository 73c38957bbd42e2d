"""States to decide in, one decision as a call, and rules written down again in NumPy."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

import fedglb as fg
from fedglb.kernels.decide import decide, ellipsoid_bounds
from fedglb.kernels.layout import CENTRE, INVERSE, work_rows
from fedglb.kernels.pointers import BOUNDS, address_of
from fedglb.parts.choice import Choice, choice_params
from tests.plain_mixture import equals, one_of

DISPERSION = 1.7


class Place(NamedTuple):
    """What is on offer, as columns, and the state of the client who decides."""

    arms: Any
    vectors: Any
    matrices: Any
    counters: Any

    @property
    def means(self):
        return self.arms.T @ self.vectors[CENTRE]

    @property
    def norms(self):
        """‖x‖_{A⁻¹} of each arm."""
        return np.sqrt(np.einsum("ik,ij,jk->k", self.arms, self.matrices[INVERSE], self.arms))


def place(seed: int, d: int, K: int, samples: int | None = None) -> Place:
    """A random one; θ is short enough for the widths to matter."""
    rng = np.random.default_rng(seed)
    arms = rng.standard_normal((d, K))
    arms /= np.linalg.norm(arms, axis=0)
    B = rng.standard_normal((d, d + 3 if samples is None else samples))
    A = 0.5 * np.eye(d) + B @ B.T
    vectors, matrices = np.zeros((3, d)), np.stack([A, np.linalg.inv(A)])
    vectors[CENTRE] = 0.2 * rng.standard_normal(d)
    return Place(arms, vectors, matrices, np.zeros(3))


def learned(seed: int, d: int, K: int) -> Place:
    """The state of a client that has learned from a few samples by online Newton steps."""
    rng = np.random.default_rng(seed)
    algorithm = fg.fedglb_ucb(threshold=1e9)
    client = fg.Client(0, algorithm, algorithm.setting(fg.Problem(dim=d), 2, None))
    for t in range(1, 30):
        x = rng.standard_normal(d)
        client.observe(x / np.linalg.norm(x), float(rng.random() < 0.7), t)
    arms = rng.standard_normal((d, K)) / np.sqrt(d) / 2
    return Place(arms, client.state.vectors, client.state.matrices, client.state.counters)


class Decision(NamedTuple):
    arm: int
    propensity: float
    error: float
    charge: float
    work: Any


@functools.cache
def setting() -> Any:
    return fg.fedglb_ucb(threshold=1.0).setting(fg.Problem(dim=3), 2, None)


@functools.cache
def params(choice: Choice, *, seed: int = 0, bounds: Any = ellipsoid_bounds):
    address = address_of(bounds, BOUNDS)
    return choice_params(choice, address, np.empty(0), setting(), DISPERSION, seed)


def play(
    choice: Choice, at: Place, *, alpha=1.0, t=7, number=7, client=0, seed=0,
    bounds=ellipsoid_bounds, balance=0.0,
) -> Decision:  # fmt: skip
    d, K = at.arms.shape
    # scratch that nobody may read before it is written
    shapes = (work_rows(False, d), K), (d, d), 3
    work, factor, outcome = (np.full(shape, np.nan) for shape in shapes)
    rule, none = params(choice, seed=seed, bounds=bounds), np.empty(0)
    arm = decide(
        at.arms, none, *at[1:], none, rule, alpha, t, number, client, balance, work, factor, outcome
    )
    return Decision(arm, *map(float, outcome), work)


def plain_pick(scores, *, number, client, seed, draw=0) -> int:
    return one_of(equals(scores), seed, number, client, draw)
