"""An agent's answers in a global update: frozen samples, sums, releases, adopted model.

It runs in another thread than the application's calls and does its long work (a pass over the
samples, their replay on a new model) without the lock: the application does not wait.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace

import numpy as np

from fedglb.errors import InvalidInput
from fedglb.federation.agent.durable_client import DurableClient
from fedglb.federation.agent.releases import PrivacySpent, Releases
from fedglb.federation.agent.update_store import AdoptedModel, Snapshot, StoredRelease
from fedglb.federation.secure_sums.transcript import NO_MODEL, SumState, model_digest
from fedglb.privacy.fixed_point import size
from fedglb.protocol import Client
from fedglb.protocol.messages import (
    BatchSums,
    Covariance,
    Derivatives,
    Evaluate,
    ModelSums,
    NewModel,
    SumsRequest,
)
from fedglb.protocol.one_pass import Batches
from fedglb.typing import IntArray

log = logging.getLogger(__name__)
_QUICK = 500_000  # products: a pass takes under a millisecond, a replay of all samples a few


class UpdateAnswers:
    """The answers of a `DurableClient` to the coordinator's requests."""

    def __init__(self, durable: DurableClient) -> None:
        self._durable = durable
        self._prepared: tuple[Client, Releases, StoredRelease] | None = None  # for a secure sum
        self._withheld: str | None = None  # why the last request got no release

    def is_quick(self) -> bool:
        """Return whether an answer takes about a millisecond.

        A call of the application may wait for the disk (`observe` with durable="power") or read
        the whole file. A release always waits for the disk.
        """
        durable = self._durable
        if durable.one_pass:
            return False
        n, d = len(durable.protocol_client.samples), durable.agreement.problem.dim
        return (n + d) * d * d <= _QUICK and not durable.busy

    # -- updates in rounds -----------------------------------------------------------------------

    def freeze(self, request: SumsRequest) -> Covariance | ModelSums | None:
        """Fix which samples belong to an update, and answer.

        None: this client is left out, because the update is over, samples were forgotten, or the
        request is for sums at another model than this client's.
        """
        durable = self._durable
        with durable.locked():
            durable.ready()
            client = durable.protocol_client
            snapshot = durable.snapshots.get(request.update)
            if snapshot is not None and snapshot.withdrawn:
                return None
            if request.model not in (0, client.adopted):
                return None
            if request.update > max(client.update, client.adopted):
                snapshot = Snapshot(durable.numbers.last_sequence)
                durable.stale = True
                durable.store.updates.freeze(request.update, snapshot)
                durable.snapshots[request.update] = snapshot
                client.freeze(request.update)
                durable.stale = False
            answer = client.receive(request) if client.has_ready(request) else None
        if answer is None:  # repeated after a restart, or at θ = 0: a pass, without the lock
            answer = client.receive(request)
            if not self.takes_part(request.update):
                return None  # something was forgotten meanwhile
        return answer[0] if answer else None  # type: ignore[return-value]

    def evaluate(self, request: Evaluate) -> Derivatives | None:
        """Answer a round on the samples of its update; None: this client is left out.

        One-pass updates have no rounds: such a request gets no answer.
        """
        client = self._durable.protocol_client
        if self._durable.one_pass:
            log.warning(
                "no answer to a round of update %d: one-pass updates have no rounds",
                request.update,
            )
            return None
        if not self.takes_part(request.update):
            return None
        answer = client.receive(request)  # samples are only appended: no lock
        if not self.takes_part(request.update):
            return None  # something was forgotten meanwhile
        return answer[0] if answer else None  # type: ignore[return-value]

    def takes_part(self, update: int) -> bool:
        """Return whether samples are frozen for this update, and none of them was forgotten."""
        with self._durable.locked():
            self._durable.ready()
            snapshot = self._durable.snapshots.get(update)
            return snapshot is not None and not snapshot.withdrawn

    # -- one-pass updates ------------------------------------------------------------------------

    def release(self, request: SumsRequest) -> BatchSums | None:
        """Release sums for a one-pass update: written before they are sent, and once per update.

        A repeated request gets the same numbers, also after a crash: the same sums with other
        noise would be a second release. None: this client is left out, because the update is over
        or beyond the budget, samples were forgotten, or the request is for sums at another model
        than this client's.
        """
        durable, update = self._durable, request.update
        while True:
            with durable.locked():
                durable.ready()
                client, released = durable.protocol_client, durable.releases
                assert client.batches is not None
                snapshot, adopted = durable.snapshots.get(update), client.adopted
                if snapshot is not None and snapshot.withdrawn:
                    return None
                if request.model not in (0, adopted):
                    return None
                if (numbers := released.numbers(update)) is not None:
                    return BatchSums(durable.name, update, numbers)
                if not self._may_release(client.batches, update):
                    return None
                first = released.first_sequence(adopted)
                last = released.last_sequence(durable.numbers)
                frozen, theta = len(durable.numbers), client.shared_theta
            try:  # a pass over the samples, perhaps noise: without the lock
                made = client.batches.prepare(update, client.samples, frozen, theta, adopted)
            except InvalidInput as error:  # sums that may overflow
                self._withhold(str(error))
                return None
            with durable.locked():
                durable.ready()
                same = durable.protocol_client is client and durable.releases is released
                if not same or client.adopted != adopted:
                    continue  # discard the prepared sums: they were not sent
                stored = StoredRelease(
                    update, time.time(), first, last, theta, made.batch, made.numbers
                )
                durable.stale = True
                durable.store.updates.release(stored, released.keep_batches)
                durable.snapshots[update] = Snapshot(stored.last_sequence)
                durable.releases = released.with_one(stored)
                client.update, client.frozen = update, frozen
                client.batches.commit(made)
                durable.stale = False
            return BatchSums(durable.name, update, made.numbers.copy())

    def _may_release(self, batches: Batches, update: int) -> bool:
        """Return whether this client may release sums for an update; if not, log the reason."""
        client = self._durable.protocol_client
        why = batches.refusal(update)
        if why is None and update <= max(client.update, client.adopted):
            why = f"update {update}: it is over"
        self._withhold(why)
        return why is None

    def _withhold(self, why: str | None) -> None:
        if why is not None and why != self._withheld:
            log.warning("no release: %s", why)
        self._withheld = why

    def prepare_noise(self) -> None:
        """Draw the noise of the next release now: the time of its answer then does not show it."""
        plan = self._durable.agreement.setting.noise
        assert plan is not None
        self._durable.noise.prepare(plan)

    def note_released(self, update: int) -> None:
        """Note that the coordinator has this client's release for an update.

        If the file lacks that release, the file is an old copy: any of its samples without a batch
        may be in that release or an earlier one. They are left out of all later ones: a sample sent
        twice would reveal more than agreed.
        """
        durable = self._durable
        with durable.locked():
            durable.ready()
            client, released = durable.protocol_client, durable.releases
            assert client.batches is not None
            last = released.last
            if update <= (0 if last is None else last.update):
                return
            end, theta = released.last_sequence(durable.numbers), client.shared_theta
            nothing = np.zeros(size(durable.agreement.problem.dim), dtype=np.int64)
            stored = StoredRelease(update, time.time(), end, end, theta, nothing, None)
            durable.stale = True
            durable.store.updates.release(stored, released.keep_batches)
            durable.snapshots[update] = Snapshot(end)
            durable.releases = released.with_one(stored)
            client.update, client.frozen = max(client.update, update), len(durable.numbers)
            durable.releases.tell(client.batches, durable.numbers)
            durable.stale = False
        log.warning(
            "the file is an old copy: it lacks the release for update %d. Its samples without a "
            "release are left out of all later ones",
            update,
        )

    def privacy(self) -> PrivacySpent | None:
        """Return the privacy budget spent; None without a budget."""
        agreement = self._durable.agreement
        privacy, plan = agreement.algorithm.privacy, agreement.setting.noise
        return self._durable.releases.spent(privacy, plan, self._withheld)

    # -- secure sums: this is a `SumLog` ---------------------------------------------------------

    def sum_secret(self) -> bytes:
        """Return the file's secret, from which seeds of masks are derived."""
        with self._durable.locked():
            self._durable.ready()
            return self._durable.store.updates.sum_secret()

    def model_digest(self) -> bytes:
        """Return the digest of this client's model."""
        with self._durable.locked():
            self._durable.ready()
            return self._durable.store.updates.model_digest() or NO_MODEL

    def to_release(self, update: int, digest: bytes) -> IntArray:
        """Return the numbers to be masked, with fresh noise.

        `digest` identifies the model at which sums are taken: this client's, or `NO_MODEL` after
        the coordinator has lost its file; then sums are taken at θ = 0.

        The batch has all samples so far. It counts as released once `write_sum_state` records
        this client's consent; before that it is hidden, and each attempt has another batch.

        A batch with consent is in no later one, even if its update led to no model: without noise,
        the sums over two sets that share a batch could be subtracted.
        """
        durable = self._durable
        with durable.locked():
            durable.ready()
            client, released = durable.protocol_client, durable.releases
            assert client.batches is not None
            if not self._may_release(client.batches, update):
                allowed = f"an update with a release ({self._withheld})"
                raise InvalidInput("update", update, allowed)
            last = released.last
            first = 0 if last is None else last.last_sequence
            end, frozen = released.last_sequence(durable.numbers), len(durable.numbers)
            theta = client.shared_theta.copy()
        if digest == NO_MODEL:
            theta[:] = 0.0
        made = client.batches.prepare(update, client.samples, frozen, theta, update)
        stored = StoredRelease(update, time.time(), first, end, theta, made.batch, None)
        with durable.locked():
            self._prepared = (client, released, stored)
        return made.numbers

    def sum_state(self) -> SumState:
        """Return this client's state in secure sums."""
        with self._durable.locked():
            self._durable.ready()
            return self._durable.store.updates.sum_state()

    def write_sum_state(self, state: SumState) -> None:
        """Write the state; with consent, the batch counts as released.

        Both are written together: a batch whose sum has this client's consent is in no other sum.
        """
        durable = self._durable
        with durable.locked():
            durable.ready()
            client, prepared = durable.protocol_client, self._prepared
            self._prepared = None
            if state.attempt and not state.consented:
                same = prepared is not None and prepared[0] is client
                if prepared is None or not same or prepared[1] is not durable.releases:
                    allowed = "a sum without forgotten samples: some were forgotten just now"
                    raise InvalidInput("update", state.slot, allowed)
                durable.store.updates.write_sum_state(state, prepared[2])
                return
            durable.stale = True
            if state.consented:
                stored = durable.store.updates.consent(state, durable.releases.keep_batches)
                durable.releases = durable.releases.with_one(stored)
                assert client.batches is not None
                durable.releases.tell(client.batches, durable.numbers)
                client.update = state.slot
            else:
                durable.store.updates.write_sum_state(state, None)
            durable.stale = False

    # -- the new model ---------------------------------------------------------------------------

    def adopt(self, message: NewModel) -> bool:
        """Adopt a new model, with later own samples on top; False: adopted before."""
        durable = self._durable
        while True:
            with durable.locked():
                durable.ready()
                client, last = durable.protocol_client, self._last_covered(message)
                covered = durable.numbers.up_to(last)
            adoption = client.prepare(replace(message, covered=covered))
            if adoption is None:
                return False
            digest = b""
            if durable.agreement.minimum is not None:
                digest = model_digest(message.update, message.model)
            model = AdoptedModel(adoption.update, last, adoption.base, digest)
            _ = model.packed  # slow: not under the lock
            with durable.locked():
                durable.ready()
                if durable.protocol_client is not client:
                    continue  # a sample was forgotten meanwhile: compute it again
                durable.stale = True
                keep = durable.releases.keep_batches if durable.one_pass else None
                durable.store.updates.adopt(model, keep)
                client.install(adoption)
                later = {k: v for k, v in durable.snapshots.items() if k > adoption.update}
                durable.snapshots = later
                durable.releases = durable.releases.adopted(adoption.update)
                durable.stale = False
                return True

    def _last_covered(self, message: NewModel) -> int:
        """Return the sequence number of the last sample that a model covers."""
        durable = self._durable
        if durable.one_pass:  # messages count no samples: the model covers all that was released
            return 0 if durable.releases.last is None else durable.releases.last.last_sequence
        snapshot = durable.snapshots.get(message.update)
        if message.covered == 0 or not len(durable.numbers):
            return 0
        if snapshot is not None:  # even if withdrawn too late to be left out of the model
            return snapshot.last_sequence
        # The snapshot is lost (a power cut, an older copy of the file): take the oldest samples, as
        # many as the message counts and the file has.
        return int(durable.numbers.sequence[min(message.covered, len(durable.numbers)) - 1])

    # -- when to ask for an update ---------------------------------------------------------------

    def triggered_at(self) -> int:
        """Return the last step if the trigger fires with the samples so far, or 0."""
        with self._durable.locked():
            self._durable.ready()
            client = self._durable.protocol_client
            fires = len(client.samples) > client.covered and client.triggered(client.last_t)
            return client.last_t if fires else 0

    def newest(self) -> tuple[int, int]:
        """Return the last update known here, and the sequence number of the newest sample."""
        durable = self._durable
        with durable.locked():
            durable.ready()
            last = max(durable.protocol_client.update, durable.adopted)
            return last, durable.numbers.last_sequence

    def covers(self, sequence: int) -> bool:
        """Return whether the adopted model covers the samples up to this sequence number."""
        durable = self._durable
        with durable.locked():
            durable.ready()
            return durable.numbers.up_to(sequence) <= durable.protocol_client.covered
