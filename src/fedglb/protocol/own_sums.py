"""The sums over a client's own samples with which it answers the request for an update."""

from __future__ import annotations

import numpy as np

from fedglb.algorithms import Algorithm
from fedglb.kernels.ageing import add_weighted_model_sums, add_weighted_moments, weigh
from fedglb.kernels.merge import Merged
from fedglb.kernels.sums import add_all_moments, add_model_sums
from fedglb.model import SharedModel, shared_theta
from fedglb.parts.effects import sum_tables, to_send
from fedglb.protocol.messages import ClientId, Covariance, ModelSums
from fedglb.samples import Samples
from fedglb.setting import Setting
from fedglb.typing import FloatArray


class OwnSums:
    """Sums over the first samples of a client, which grow as samples come.

    They are Σ x xᵀ and Σ x y or, if the algorithm's solver starts at the last model, Hessian and
    gradient there: then each adopted model needs new ones, one pass over the samples. So the reply
    to a request is cached. A sample costs O(d²). `model` is the client's, `covered` the number of
    its oldest samples in the model; these are summed in one pass, the others one by one.

    Where old samples count less, nothing is cached: all are summed at the request.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        setting: Setting,
        model: SharedModel | None = None,
        covered: int = 0,
    ) -> None:
        d, solver = setting.problem.dim, algorithm.global_update
        self.algorithm, self.setting, self.covered = algorithm, setting, covered
        self.model = model
        self.at_model = solver is not None and solver.starts_at_model
        self._merged = Merged.empty(1, setting.width)  # of the samples that the model covers
        # `Batches` and `PersonalSums` do that elsewhere
        self._used = solver is None or not solver.one_pass
        self._used = self._used and not algorithm.local_update.personal
        self.memory = algorithm.memory.in_force(model)
        self.theta = shared_theta(model, d)
        self.count = 0  # how many samples are in the sums
        self.matrix = np.zeros((d, d))
        self.vector = np.zeros(d)
        #: per arm with an effect, where arms have effects; and the number of buckets
        self.tables, self.buckets = sum_tables(1, setting, algorithm.local_update.effects, model)

    def add(self, samples: Samples) -> None:
        """Add the samples that are not in the sums yet."""
        X, y, link = samples.X, samples.y, self.setting.problem.link
        first, self.count = self.count, len(samples)
        if not self._used or self.memory is not None:
            return
        if not self.at_model:
            # the kernel of all clients, for one: saves compiling another
            none, every = np.array([0]), np.array([self.count - first])
            add_all_moments(
                X[None, first:], y[None, first:], none, every, self.matrix[None], self.vector[None]
            )
            return
        add_model_sums(
            X[first:], y[first:], max(min(self.covered, self.count) - first, 0), self.theta,
            link.compiled_functions, self.vector, self.matrix, self._merged, 0,
            self.tables[0], self.buckets, self.setting.mean_at_zero,
        )  # fmt: skip

    def of_first(
        self, samples: Samples, n: int, theta: FloatArray | None = None, now: int = 0
    ) -> OwnSums:
        """Return the sums over the first n samples; at another model θ if not None.

        Where old samples count less, their ages are those at time `now`.
        """
        if n == self.count and theta is None and self.memory is None:
            return self
        model = self.model if theta is None else None
        made = OwnSums(self.algorithm, self.setting, model, self.covered)
        made.theta = self.theta if theta is None else theta
        made.add(Samples.over(samples.X, samples.y, n))
        if made.memory is not None:
            made._weigh(samples, n, now)
        return made

    def weights(self, samples: Samples, n: int, now: int) -> FloatArray:
        """Return the weights of the first n samples at time `now`; none if all count 1."""
        if self.memory is None:
            return np.empty(0)
        weights = weigh(self.memory, samples.at[None, :n], np.array([n]), float(now))
        return np.asarray(weights[0])

    def _weigh(self, samples: Samples, n: int, now: int) -> None:
        """Add the first n samples with their weights, by the kernels of all clients."""
        weights, last = self.weights(samples, n, now), np.array([n])
        rows = samples.X[None, :n], (samples.y[:n] * weights)[None], weights[None], last
        if not self.at_model:
            add_weighted_moments(*rows, self.matrix[None], self.vector[None])
            return
        add_weighted_model_sums(
            *rows, self.theta, self.setting.problem.link.compiled_functions, self.vector[None],
            self.matrix[None], self.tables, self.buckets, self.setting.mean_at_zero,
        )  # fmt: skip

    def answer(self, client: ClientId, update: int) -> Covariance | ModelSums:
        """Return the answer to the request for an update, with copies of the sums."""
        matrix, vector = self.matrix.copy(), self.vector.copy()
        if self.at_model:
            (effects,) = to_send(self.tables, matrix.shape[0])
            return ModelSums(client, update, self.count, vector, matrix, effects)
        b = vector if self.algorithm.local_update.shares_moment else None
        return Covariance(client, update, self.count, matrix, b)
