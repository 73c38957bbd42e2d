"""An agent's releases in one-pass updates."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np

from fedglb.federation.agent.update_store import SampleNumbers, StoredRelease
from fedglb.privacy import GaussianMechanism, NoisePlan
from fedglb.privacy.accounting import gdp_epsilon
from fedglb.privacy.fixed_point import size
from fedglb.protocol.one_pass import Batches, Release, sums_of
from fedglb.samples import Samples
from fedglb.setting import Setting
from fedglb.typing import IntArray


@dataclass(frozen=True)
class PrivacySpent:
    """The privacy budget that an agent has spent: part of `AgentStatus`.

    Parameters
    ----------
    epsilon, delta
        An upper bound on ε of the agent's releases so far, at the agreed δ.
    budget
        ε of all releases together, with a release in every update.
    releases, last, updates
        Number of releases, number of the last one's update, and the number of updates that the
        budget covers: later ones are refused.
    refused
        Why the agent did not answer the last request for a release; None: it did.
    """

    epsilon: float
    delta: float
    budget: float
    releases: int
    last: int
    updates: int
    refused: str | None = None


@dataclass(frozen=True)
class Releases:
    """All releases of an agent by update, as in its file; never changed in place."""

    stored: Mapping[int, StoredRelease]
    setting: Setting

    @property
    def keep_batches(self) -> bool:
        """Whether later releases contain older batches (with noise they do)."""
        return self.setting.noise is not None

    @property
    def last(self) -> StoredRelease | None:
        """The newest release."""
        return self.stored[max(self.stored)] if self.stored else None

    def numbers(self, update: int) -> IntArray | None:
        """Return the numbers sent for an update, if they may be requested again."""
        found = self.stored.get(update)
        return None if found is None or found.numbers is None else found.numbers.copy()

    def tell(self, batches: Batches, numbers: SampleNumbers) -> None:
        """Add the released batches to a new protocol client."""
        last = self.last
        if last is None:
            return
        batches.taken = numbers.up_to(last.last_sequence)
        if self.keep_batches:
            batches.closed = self.batches()
        nothing = np.zeros(size(self.setting.problem.dim), dtype=np.int64)
        batch, sent = (nothing if a is None else a for a in (last.batch, last.numbers))
        batches.last = Release(last.update, batches.taken, batch, sent)

    def first_sequence(self, adopted: int) -> int:
        """Return the last sample before the next batch, for a client with this update's model.

        Without noise the batch also has the samples of an update without a model.
        """
        last = self.last
        if last is None:
            return 0
        carried = not self.keep_batches and adopted < last.update
        return last.first_sequence if carried else last.last_sequence

    def last_sequence(self, numbers: SampleNumbers) -> int:
        """Return the last sample of the next batch: the newest, forgotten or not."""
        before = 0 if self.last is None else self.last.last_sequence
        return max(before, numbers.last_sequence)

    # -- changes ---------------------------------------------------------------------------------

    def with_one(self, release: StoredRelease) -> Releases:
        """Return these releases and one more; drops the numbers of earlier ones."""
        older = {u: self._shortened(each) for u, each in self.stored.items()}
        return replace(self, stored={**older, release.update: release})

    def adopted(self, update: int) -> Releases:
        """Return the releases to keep after adopting an update's model: no request repeats it."""
        kept = {
            u: self._shortened(each) if u <= update else each for u, each in self.stored.items()
        }
        return replace(self, stored=kept)

    def _shortened(self, release: StoredRelease) -> StoredRelease:
        batch = release.batch if self.keep_batches else None
        return replace(release, numbers=None, batch=batch)

    def without(self, gone: Collection[int], samples: Samples, numbers: SampleNumbers) -> Releases:
        """Return the releases with some samples (sequence numbers) taken out of kept batches.

        Sums are integers, and each sample is rounded separately: the result is, to the bit, as if
        the samples had never been there. So no later release contains them; sums that were sent
        still do.
        """
        changed = dict(self.stored)
        for update, each in self.stored.items():
            if each.batch is None:
                continue
            inside = [k for k in gone if each.first_sequence < k <= each.last_sequence]
            if not inside:
                continue
            rows = np.searchsorted(numbers.sequence, sorted(inside))
            X, y = samples.X[rows][None], samples.y[rows][None]
            every = np.array([0]), np.array([len(rows)])
            own = sums_of(self.setting, each.theta, X, y, *every)[0]
            changed[update] = replace(each, batch=each.batch - own)
        return replace(self, stored=changed)

    def withdrawn(self) -> Releases:
        """Return the releases without the numbers sent: none is sent again."""
        kept = {u: replace(each, numbers=None) for u, each in self.stored.items()}
        return replace(self, stored=kept)

    def batches(self) -> dict[int, IntArray]:
        """Return the kept batches."""
        return {u: each.batch for u, each in self.stored.items() if each.batch is not None}

    def spent(
        self, privacy: GaussianMechanism | None, plan: NoisePlan | None, refused: str | None
    ) -> PrivacySpent | None:
        """Return the budget spent; None without privacy.

        It counts all updates up to the last one; updates without this client spend less.
        """
        if privacy is None or plan is None:
            return None
        last = 0 if self.last is None else self.last.update
        return PrivacySpent(
            epsilon=gdp_epsilon(plan.spent(last), privacy.delta) if last else 0.0,
            delta=float(privacy.delta),
            budget=float(privacy.epsilon),
            releases=len(self.stored),
            last=last,
            updates=plan.updates,
            refused=refused,
        )
