"""What an agent has released in one-pass updates."""

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
    """What an agent has spent of its privacy budget: part of `AgentStatus`.

    Parameters
    ----------
    epsilon, delta
        ε of what the agent has released so far, at most, at the δ that was agreed on.
    budget
        ε of all releases together, if none is left out.
    releases, last, updates
        How many releases there were, the number of the last one's update, and for how many updates
        the budget is: one with a higher number is refused.
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
    """All that an agent has released, by update, as its file has it; never changed in place."""

    stored: Mapping[int, StoredRelease]
    setting: Setting

    @property
    def keep_batches(self) -> bool:
        """Whether later releases contain older batches: they do with noise."""
        return self.setting.noise is not None

    @property
    def last(self) -> StoredRelease | None:
        """The newest release."""
        return self.stored[max(self.stored)] if self.stored else None

    def numbers(self, update: int) -> IntArray | None:
        """Return what was sent for an update, if it may be asked for again."""
        found = self.stored.get(update)
        return None if found is None or found.numbers is None else found.numbers.copy()

    def tell(self, batches: Batches, numbers: SampleNumbers) -> None:
        """Give a new protocol client the batches that were released."""
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
        """Return after which sample the next batch begins, given the update of the model held.

        Without noise it also has the samples of an update that led to no model.
        """
        last = self.last
        if last is None:
            return 0
        carried = not self.keep_batches and adopted < last.update
        return last.first_sequence if carried else last.last_sequence

    def last_sequence(self, numbers: SampleNumbers) -> int:
        """Return up to which sample the next batch goes: the newest, forgotten or not."""
        before = 0 if self.last is None else self.last.last_sequence
        return max(before, numbers.last_sequence)

    # -- changes ---------------------------------------------------------------------------------

    def with_one(self, release: StoredRelease) -> Releases:
        """Return these and one more; numbers sent before are dropped."""
        older = {u: self._shortened(each) for u, each in self.stored.items()}
        return replace(self, stored={**older, release.update: release})

    def adopted(self, update: int) -> Releases:
        """Return what is kept once the model of an update is adopted: no request repeats it."""
        kept = {
            u: self._shortened(each) if u <= update else each for u, each in self.stored.items()
        }
        return replace(self, stored=kept)

    def _shortened(self, release: StoredRelease) -> StoredRelease:
        batch = release.batch if self.keep_batches else None
        return replace(release, numbers=None, batch=batch)

    def without(self, gone: Collection[int], samples: Samples, numbers: SampleNumbers) -> Releases:
        """Return these without some samples, given by sequence numbers, in the batches kept.

        Sums are of whole numbers, each sample rounded by itself: what is left is, to the bit, what
        it would be without them. So they are in no later release; of what was sent they cannot be
        taken out.
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
        """Return these without the numbers that were sent: none is sent again."""
        kept = {u: replace(each, numbers=None) for u, each in self.stored.items()}
        return replace(self, stored=kept)

    def batches(self) -> dict[int, IntArray]:
        """Return the batches that are kept."""
        return {u: each.batch for u, each in self.stored.items() if each.batch is not None}

    def spent(
        self, privacy: GaussianMechanism | None, plan: NoisePlan | None, refused: str | None
    ) -> PrivacySpent | None:
        """Return what was spent; None: there is no privacy, and no budget.

        It counts all updates up to the last one; updates without this client make it less.
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
