"""The sums of clients with models of their own: what they send, and what they adopt with it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedglb.algorithms import Algorithm
from fedglb.kernels.effects import CROSS, ROWS
from fedglb.kernels.merge import Merged
from fedglb.kernels.personal import (
    INFORMATION,
    RESIDUAL,
    SENT,
    STATISTICS,
    adopt_all,
    complete,
    sum_own,
)
from fedglb.model import SharedModel, shared_theta
from fedglb.parts.effects import effects_of, to_send
from fedglb.parts.local_update import LocalState, Personal
from fedglb.parts.spread import covariance, gain_matrix, penalty
from fedglb.protocol.messages import ClientId, ModelSums
from fedglb.protocol.persistence import Arrays
from fedglb.samples import Samples
from fedglb.setting import Setting
from fedglb.typing import FloatArray, IntArray


def without_distance(prior: Arrays) -> Arrays:
    """Return a prior that says nothing of its client's distance from the others.

    That was taken from samples, of which some are forgotten: the next update does without it.
    """
    found = {name: value.copy() for name, value in prior.items()}
    found["vectors"][RESIDUAL] = found["matrices"][INFORMATION] = 0.0
    found["counters"][STATISTICS : STATISTICS + SENT] = 0.0
    return found


def distance(model: SharedModel, sent: FloatArray) -> float | None:
    """Return how many times as far from the others a client is as clients are on average.

    √(E[‖δ‖² + Σv²]/(d τ² + A τ_e²)), with A the arms of the model, by its samples: where it has
    none, 1. `sent` are s and f of θ and effects, as taken at the adoption of this model. None:
    clients do not differ, or nothing was taken.
    """
    d = len(model.matrix)
    if model.spread is None or not sent[1::3].any():
        return None
    theta, effects = model.spread[:2].tolist()
    if model.directions is not None:
        theta += float(np.trace(model.directions)) / d
    arms = 0 if model.effects is None else (model.effects.size - 2) // (d + 3)
    whole = d * theta + arms * effects
    if whole == 0.0:
        return None
    s = sent[::3].tolist()
    more = theta**2 * s[0] + (effects**2 * s[1] if arms else 0.0)
    return math.sqrt(max(0.0, 1.0 + more / whole))


@dataclass(frozen=True)
class Learners:
    """The states of L clients, stacked."""

    vectors: FloatArray  # (L, ·, d)
    matrices: FloatArray  # (L, ·, d, d)
    counters: FloatArray  # (L, ·)


class PersonalSums:
    """The sums of L clients, each at a model of its own, and what they sent in an update.

    Both engines use it: the compiled one for all clients at once, `Client` for itself.
    """

    def __init__(self, local: Personal, setting: Setting, clients: int, directions: bool) -> None:
        d, rows = setting.problem.dim, local.effects if setting.effect_ridge else 0
        size = rows and ROWS + rows * (d + CROSS)
        self.local, self.setting, self.directions = local, setting, directions
        self.counts = np.zeros(clients, dtype=np.int64)  # samples in the sums
        self.anchors = np.zeros((clients, d))  # where they were linearised
        self.gradients, self.hessians = np.zeros((clients, d)), np.zeros((clients, d, d))
        self.tables = np.zeros((clients, size))
        # the same at the model that clients would have if they did not learn alone
        self.tests = (
            np.zeros((clients, d, d)), np.zeros((clients, d)), np.zeros((clients, size)),
        )  # fmt: skip
        # what was sent: at θ, and with the effects, of the model before
        self.sent_gradients, self.sent_hessians = np.zeros((clients, d)), np.zeros((clients, d, d))
        self.sent_tables = np.zeros((clients, size))
        self.theta, self.known = np.zeros(d), np.empty(0)
        self._merged = Merged.empty(clients, setting.width)

    @classmethod
    def of(cls, algorithm: Algorithm, setting: Setting, clients: int) -> PersonalSums | None:
        """Return the sums of clients that have no samples; None without models of their own."""
        local, rule = algorithm.local_update, algorithm.spread
        if rule is None or not isinstance(local, Personal):
            return None
        return cls(local, setting, clients, rule.spikes)

    def take(
        self,
        learners: Learners,
        X: FloatArray,
        y: FloatArray,
        weights: FloatArray,
        counts: IntArray,
        model: SharedModel | None,
    ) -> None:
        """Sum the first samples of each client at its own model, for an update from `model`.

        `weights` (L, ·) are theirs, which y has already; empty where all count 1.
        """
        setting = self.setting
        self.counts[:] = counts
        self.theta, (self.known, _) = shared_theta(model, setting.problem.dim), effects_of(model)
        self.tables[:, :ROWS] = self.sent_tables[:, :ROWS] = 0.0
        sum_own(
            X, y, weights, self.counts, learners.vectors, learners.matrices, learners.counters,
            setting.problem.link.compiled_functions, self._merged, setting.mean_at_zero,
            self.theta, self.known, self.sent_gradients, self.sent_hessians, self.sent_tables,
            self.anchors, self.hessians, self.gradients, self.tables, *self.tests,
        )  # fmt: skip

    def answers(
        self, learners: Learners, clients: Sequence[ClientId], update: int
    ) -> dict[ClientId, ModelSums]:
        """Return what the clients send in an update, with copies of the sums."""
        setting, every = self.setting, learners.counters
        effects = to_send(self.sent_tables, setting.problem.dim)
        r, V = learners.vectors[:, RESIDUAL], learners.matrices[:, INFORMATION]
        unit = setting.problem.dispersion
        return {
            client: ModelSums(
                client, update, int(self.counts[i]), self.sent_gradients[i].copy(),
                self.sent_hessians[i].copy(), effects[i],
                self.local.statistics(setting, every[i]),
                np.outer(r[i], r[i]) / unit if self.directions else None,
                V[i].copy() if self.directions else None,
            )
            for i, client in enumerate(clients)
        }  # fmt: skip

    def complete(
        self, state: LocalState, samples: Samples, weights: FloatArray, covered: int
    ) -> None:
        """Add the first `covered` samples of one client to the prior that it adopted."""
        setting, at_hand = self.setting, covered == self.counts[0]
        self.counts[0] = covered
        X, y = samples.X[:covered], weighted(samples.y[:covered], weights)
        complete(
            X, y, weights, covered, state.vectors, state.matrices, state.counters,
            setting.problem.link.compiled_functions, Merged.empty(1, setting.width),
            setting.mean_at_zero, self.hessians[0], self.gradients[0], self.tables[0], at_hand,
            self.local.concordance(setting),
        )  # fmt: skip

    def adopt(
        self, learners: Learners, model: SharedModel, counts: IntArray, prior_only: bool = False
    ) -> None:
        """Let clients adopt a model, with their first `counts` samples: 0 if it has none of them.

        Their states become those of the prior only, which `Client` keeps, or with own samples.
        """
        setting = self.setting.in_force(model)
        d, phi = setting.problem.dim, setting.problem.dispersion
        assert model.theta is not None
        assert model.spread is not None
        T = covariance(model, d)
        _, width, counted = model.spread.tolist()
        effects = np.empty(0) if model.effects is None else model.effects
        adopt_all(
            learners.vectors, learners.matrices, learners.counters, model.matrix, model.theta,
            effects, T, gain_matrix(model.matrix, T),
            np.array([width, counted, phi, penalty(setting.clients)]),
            np.asarray(counts, dtype=np.int64), self.sent_gradients, self.sent_hessians,
            self.sent_tables, self.theta, self.known, self.anchors, self.hessians, self.gradients,
            self.tables, *self.tests, prior_only, self.local.concordance(setting),
        )  # fmt: skip


def weighted(y: FloatArray, weights: FloatArray) -> FloatArray:
    """Return rewards times their weights; without weights, the rewards."""
    return y * weights if weights.size else y
