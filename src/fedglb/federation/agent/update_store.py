"""The part of an agent's file that belongs to global updates.

Samples frozen for each update, releases, the state in secure sums, the adopted model. All of them
name samples by their sequence numbers.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedglb.federation.frozen import KEPT, Frozen
from fedglb.federation.secure_sums.transcript import SumState
from fedglb.federation.sqlite import fact, on_disk, pack, set_fact, transaction, unpack
from fedglb.protocol.persistence import Arrays
from fedglb.typing import BoolArray, FloatArray, IntArray

STORED = np.dtype("<f8")  # of arms and of θ
_SUM_SECRET = "sum_secret"  # from which the seeds of masks are derived
_MODEL_DIGEST = "model_digest"  # of the adopted model, with secure sums
_WHOLE = np.dtype("<i8")  # of whole numbers


@dataclass(frozen=True)
class Snapshot:
    """Which samples belong to an update: those up to the sequence number `last_sequence`.

    `withdrawn`: some of them were forgotten since, so the agent has left the update.
    """

    last_sequence: int
    withdrawn: bool = False


@dataclass(frozen=True)
class AdoptedModel:
    """The last shared model that the agent adopted.

    It covers the samples up to the sequence number `last_sequence`; `base` is the client's state
    with the model and without own samples, None after a change of the schema: models up to that
    update are of another one. `digest` is the model's, with secure sums.
    """

    update: int
    last_sequence: int
    base: Arrays | None
    digest: bytes = b""

    @cached_property
    def packed(self) -> bytes | None:
        """The base as bytes."""
        return None if self.base is None else pack(self.base)


@dataclass(frozen=True)
class StoredRelease:
    """A release in a one-pass update: its slot is used, even if the update failed.

    The batch has the samples after `first_sequence`, up to `last_sequence`.
    """

    update: int
    at: float  # a Unix time
    first_sequence: int
    last_sequence: int
    theta: FloatArray  # the model at which the batch was taken
    batch: IntArray | None  # its sums, while later releases need them
    numbers: IntArray | None  # what was sent, while it may be requested again


class SampleNumbers:
    """The sequence numbers, which rise, and the steps of an agent's samples; parallel to them.

    `table` has shape (2, n) and is not copied.
    """

    def __init__(self, table: IntArray) -> None:
        self._table: IntArray = table
        self._n = int(table.shape[1])

    def __len__(self) -> int:
        return self._n

    @property
    def sequence(self) -> IntArray:
        """The sequence numbers, in order; shape (n,)."""
        return self._table[0, : self._n]

    @property
    def last_sequence(self) -> int:
        """The highest sequence number, 0 without samples."""
        return int(self.sequence[-1]) if self._n else 0

    @property
    def last_step(self) -> int:
        """The newest step, 0 without samples."""
        return int(self._table[1, : self._n].max(initial=0))

    def up_to(self, sequence: int) -> int:
        """Return the number of samples up to this sequence number."""
        return int(np.searchsorted(self.sequence, sequence, side="right"))

    def append(self, sequence: int, step: int) -> None:
        """Append a sample."""
        if self._n == self._table.shape[1]:
            more = np.empty((2, max(self._n, 16)), dtype=np.int64)
            self._table = np.concatenate([self._table, more], axis=1)
        self._table[:, self._n] = sequence, step
        self._n += 1

    def kept(self, gone: Collection[int]) -> BoolArray:
        """Return a mask of the samples whose sequence numbers are not in `gone`."""
        keep = np.ones(self._n, dtype=bool)
        keep[np.searchsorted(self.sequence, sorted(gone))] = False
        return keep

    def without(self, gone: Collection[int]) -> SampleNumbers:
        """Return the numbers of the other samples; each number in `gone` must be a sample's."""
        return SampleNumbers(self._table[:, : self._n][:, self.kept(gone)])


class UpdateStore:
    """Reads and writes the tables of updates in a file that `AgentStore` has opened."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db

    def freeze(self, update: int, snapshot: Snapshot) -> None:
        """Write which samples belong to an update."""
        row = (update, snapshot.last_sequence, snapshot.withdrawn)
        self.db.execute("INSERT INTO snapshots VALUES (?, ?, ?)", row)

    def release(self, release: StoredRelease, keep_batches: bool) -> None:
        """Write a release before it is sent: from here on its slot is used.

        It waits for the disk, even if rewards do not: after a power cut a second release with
        other noise would reveal more than the first. Without `keep_batches` the batches of earlier
        releases are deleted: nothing needs them.
        """
        with on_disk(self.db), transaction(self.db):
            self._insert_release(release, keep_batches)

    def _insert_release(self, release: StoredRelease, keep_batches: bool) -> None:
        batch, numbers = (
            None if a is None else _whole(a) for a in (release.batch, release.numbers)
        )
        row = (
            release.update, release.at, release.first_sequence, release.last_sequence,
            as_bytes(release.theta), batch, numbers,
        )  # fmt: skip
        self.freeze(release.update, Snapshot(release.last_sequence))
        gone = "numbers = NULL" if keep_batches else "numbers = NULL, batch = NULL"
        self.db.execute(f"UPDATE releases SET {gone}")
        self.db.execute("INSERT INTO releases VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def releases(self) -> dict[int, StoredRelease]:
        """Return the releases by update."""
        rows = self.db.execute("SELECT * FROM releases ORDER BY number")
        return {
            number: StoredRelease(
                number, at, first, last, as_floats(theta), _integers(batch), _integers(numbers)
            )
            for number, at, first, last, theta, batch, numbers in rows
        }  # fmt: skip

    # -- secure sums --------------------------------------------------------------------------

    def sum_secret(self) -> bytes:
        """Return the secret from which the seeds of masks follow; created at first use."""
        found = fact(self.db, _SUM_SECRET)
        if found is None:
            with on_disk(self.db):
                secret = secrets.token_bytes(32)
                set_fact(self.db, _SUM_SECRET, secret)
            return secret
        return bytes(found)

    def model_digest(self) -> bytes | None:
        """Return the digest of the adopted model, None before the first."""
        found = fact(self.db, _MODEL_DIGEST)
        return None if found is None else bytes(found)

    def sum_state(self) -> SumState:
        """Return the agent's state in secure sums."""
        row = self.db.execute(
            "SELECT slot, attempt, transcript, members, consented FROM secure_sum"
        ).fetchone()
        if row is None:
            return SumState()
        slot, attempt, transcript, members, consented = row
        return SumState(slot, attempt, transcript, members, bool(consented))

    def write_sum_state(self, state: SumState, release: StoredRelease | None) -> None:
        """Write the state, with the masked release if there is one."""
        what: tuple[object, ...] = (None,) * 5
        if release is not None:
            assert release.batch is not None
            what = (
                release.at, release.first_sequence, release.last_sequence,
                as_bytes(release.theta), _whole(release.batch),
            )  # fmt: skip
        row = (
            state.slot, state.attempt, state.transcript, state.members, state.consented, *what
        )  # fmt: skip
        self.db.execute("REPLACE INTO secure_sum VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)

    def consent(self, state: SumState, keep_batches: bool) -> StoredRelease:
        """Write the consent to the sum with the masked release: its slot is used.

        It waits for the disk: after a power cut another sum of the same update would reveal more.
        """
        at, first, last, theta, batch = self.db.execute(
            "SELECT at, first_sequence, last_sequence, theta, batch FROM secure_sum"
        ).fetchone()
        release = StoredRelease(
            state.slot, at, first, last, as_floats(theta), _integers(batch), None
        )
        with on_disk(self.db), transaction(self.db):
            self._insert_release(release, keep_batches)
            self.db.execute("UPDATE secure_sum SET consented = 1, theta = NULL, batch = NULL")
        return release

    def withdraw(
        self,
        update: int | None,
        batches: Mapping[int, IntArray] | None,
        model: AdoptedModel | None = None,
    ) -> None:
        """Inside a transaction that deletes samples: withdraw from an update that contains some.

        A masked release without consent is given up.

        `batches` are the reduced batches of releases that had some of the samples, `model` is the
        adopted one without what they say.
        """
        if model is not None:
            row = (model.packed, model.update)
            self.db.execute("UPDATE models SET base = ? WHERE number = ?", row)
        for number, batch in (batches or {}).items():
            row = (_whole(batch), number)
            self.db.execute("UPDATE releases SET batch = ? WHERE number = ?", row)
        if update is not None:
            self.db.execute("UPDATE snapshots SET withdrawn = 1 WHERE number = ?", (update,))
            if batches is not None:
                self.db.execute("UPDATE releases SET numbers = NULL")
        self.db.execute(
            "UPDATE secure_sum SET transcript = x'', theta = NULL, batch = NULL WHERE NOT consented"
        )

    def adopt(self, model: AdoptedModel, keep_batches: bool | None = None) -> None:
        """Write the model that the agent adopts; deletes the snapshots up to its update.

        Also deletes the numbers released for it and, without `keep_batches`, their batches (None:
        nothing is ever released).
        """
        with transaction(self.db):
            if keep_batches is not None:
                gone = "numbers = NULL" if keep_batches else "numbers = NULL, batch = NULL"
                self.db.execute(f"UPDATE releases SET {gone} WHERE number <= ?", (model.update,))
            row = (model.update, model.last_sequence, model.packed)
            self.db.execute("INSERT INTO models VALUES (?, ?, ?, 1)", row)
            self._drop_models()
            if model.digest:
                set_fact(self.db, _MODEL_DIGEST, model.digest)
            self.db.execute("DELETE FROM snapshots WHERE number <= ?", (model.update,))

    def snapshots(self) -> dict[int, Snapshot]:
        """Return the snapshot of each update since the adopted model."""
        rows = self.db.execute("SELECT number, last_sequence, withdrawn FROM snapshots")
        return {number: Snapshot(last, bool(withdrawn)) for number, last, withdrawn in rows}

    def adopted_model(self) -> AdoptedModel | None:
        """Return the last shared model, None before the first."""
        row = self.db.execute(
            "SELECT number, last_sequence, base FROM models ORDER BY number DESC LIMIT 1"
        ).fetchone()
        return None if row is None else _model(*row)

    # -- models of earlier updates ---------------------------------------------------------------

    def kept_models(self) -> list[int]:
        """Return the updates whose models are kept."""
        rows = self.db.execute("SELECT number FROM models WHERE kept ORDER BY number")
        return [number for (number,) in rows]

    def kept_model(self, update: int) -> AdoptedModel:
        """Return a model that is kept."""
        return _model(
            *self.db.execute(
                "SELECT number, last_sequence, base FROM models WHERE kept AND number = ?",
                (update,),
            ).fetchone()
        )

    def _drop_models(self) -> None:
        """Inside a transaction: delete the models that are not kept, but the newest."""
        self.db.execute(
            "DELETE FROM models WHERE number < (SELECT max(number) FROM models) AND number NOT IN "
            "(SELECT number FROM models WHERE kept ORDER BY number DESC LIMIT ?)",
            (KEPT,),
        )

    def forget_models(self, first: int) -> None:
        """Inside a transaction that deletes samples, the first with this sequence number.

        Nobody can go back to a model that was fitted with them. The adopted one stays until the
        next update.
        """
        self.db.execute("UPDATE models SET kept = 0 WHERE last_sequence >= ?", (first,))
        self.db.execute("DELETE FROM frozen WHERE last_sequence >= ?", (first,))
        self._drop_models()

    def freeze_model(self, frozen: Frozen, model: AdoptedModel) -> None:
        """Write with which model to choose."""
        row = (frozen.by, frozen.since, model.update, model.last_sequence, model.packed)
        self.db.execute("REPLACE INTO frozen VALUES (?, ?, ?, ?, ?)", row)

    def unfreeze_model(self, by: str) -> None:
        """Choose with the newest model again, as far as `by` is concerned."""
        self.db.execute("DELETE FROM frozen WHERE by = ?", (by,))

    def frozen_models(self) -> dict[str, tuple[Frozen, AdoptedModel]]:
        """Return the models to choose with in place of the newest, by who said so."""
        rows = self.db.execute("SELECT by, since, number, last_sequence, base FROM frozen")
        return {by: (Frozen(row[0], since, by), _model(*row)) for by, since, *row in rows}


def _model(update: int, last_sequence: int, base: bytes | None) -> AdoptedModel:
    return AdoptedModel(update, last_sequence, None if base is None else unpack(base))


def as_bytes(numbers: FloatArray) -> bytes:
    """Return arms or θ as stored bytes."""
    return numbers.astype(STORED, copy=False).tobytes()


def as_floats(data: bytes) -> FloatArray:
    """Return a new array from the bytes of `as_bytes`."""
    return np.frombuffer(data, STORED).astype(np.float64)


def _whole(numbers: IntArray) -> bytes:
    return numbers.astype(_WHOLE, copy=False).tobytes()


def _integers(data: bytes | None) -> IntArray | None:
    return None if data is None else np.frombuffer(data, _WHOLE).astype(np.int64)
