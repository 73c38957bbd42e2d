"""A client without some of its samples: forgotten ones, and default rewards that are replaced.

The state without them is computed again from all others, without the lock, so other calls go on
with the old state. Then file and memory change together, in one short moment.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedglb.federation.agent.durable_client import DurableClient
from fedglb.federation.agent.frozen import read_frozen_again
from fedglb.federation.agent.releases import Releases
from fedglb.federation.agent.update_store import AdoptedModel
from fedglb.protocol import Client
from fedglb.protocol.personal_sums import without_distance
from fedglb.samples import Samples

_ROWS = 10_000  # samples that are copied at once
_FEW = 100  # samples that are learned under the lock


class Removal:
    """The removal of the samples of these decisions; made under the lock."""

    def __init__(self, durable: DurableClient, numbers: Sequence[int]) -> None:
        self._durable, self._numbers = durable, numbers
        self._client, self._adopted = durable.protocol_client, durable.adopted
        self._released, self._sequence = durable.releases, durable.numbers
        self._gone = durable.store.sequence_numbers(numbers)
        self._kept = self._sequence.kept(self._gone)
        self._left = self._sequence.without(self._gone)
        self._model = model = durable.store.updates.adopted_model()
        self._fresh = self._client
        self.releases: Releases = durable.releases  # without them
        #: The adopted model, if it has to be written again.
        self.model: AdoptedModel | None = None
        if model is None or model.base is None or not durable.algorithm.local_update.personal:
            return
        if min(self._gone, default=math.inf) <= model.last_sequence:
            self._model = self.model = replace(model, base=without_distance(model.base))

    def compute(self) -> None:
        """Compute the state without the samples; without the lock."""
        if self._gone:
            self._fresh = self._without()
        samples = self._client.samples.so_far()
        self.releases = self._released.without(self._gone, samples, self._sequence)

    def _without(self) -> Client:
        """Return a client that never saw the samples; it may lack the newest few."""
        keep, left, samples = self._kept, self._left, self._client.samples.so_far()
        X, y, end = np.empty((len(left), samples.X.shape[1])), np.empty(len(left)), 0
        at = np.empty(len(left))
        for first in range(0, len(keep), _ROWS):  # in parts: other threads wait while one is copied
            part = slice(first, min(first + _ROWS, len(keep)))
            begin, end = end, end + int(keep[part].sum())
            X[begin:end], y[begin:end] = samples.X[part][keep[part]], samples.y[part][keep[part]]
            at[begin:end] = samples.at[part][keep[part]]
        fresh = self._durable.learned(Samples.over(X, y, len(left), at), left, self._model)
        while len(self._client.samples) - len(self._gone) - len(fresh.samples) > _FEW:
            self._catch_up(fresh)
        return fresh

    def _catch_up(self, fresh: Client) -> None:
        """Let `fresh` learn the newest samples."""
        samples, first = self._client.samples.so_far(), len(fresh.samples)
        for k in range(first + len(self._gone), len(samples)):
            fresh.samples.append(samples.X[k], float(samples.y[k]), float(samples.at[k]))
        fresh.sums.add(fresh.samples)
        fresh.algorithm.local_update.replay(fresh.setting, fresh.state, fresh.samples, first)

    def holds(self) -> bool:
        """Under the lock: return whether what was computed still fits; else begin again."""
        durable = self._durable
        changed = durable.protocol_client is not self._client or durable.adopted != self._adopted
        changed = changed or durable.releases is not self._released
        return not changed and durable.store.sequence_numbers(self._numbers) == self._gone

    @property
    def withdraws_from(self) -> int | None:
        """The update in progress that contains some of the samples, if there is one."""
        update, snapshot = self._client.update, self._durable.snapshots.get(self._client.update)
        if update <= self._durable.adopted or snapshot is None:
            return None
        return update if any(k <= snapshot.last_sequence for k in self._gone) else None

    def install(self, withdrawn: bool) -> None:
        """Under the lock, after the file was written: use the state without the samples."""
        durable = self._durable
        durable.snapshots = durable.store.updates.snapshots()
        durable.releases = self.releases.withdrawn() if withdrawn else self.releases
        if self._gone:
            self._catch_up(self._fresh)
            durable.hold(self._fresh, durable.numbers.without(self._gone))
            read_frozen_again(durable)
