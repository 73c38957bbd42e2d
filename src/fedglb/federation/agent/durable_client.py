"""A client of the protocol and its file, kept in step behind one lock.

`ApplicationCalls` and `UpdateAnswers` work on it: each writes to the file first, then to memory.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Sequence

import numpy as np

from fedglb.features import Encoder
from fedglb.federation.agent.decisions import DecisionRules
from fedglb.federation.agent.records import reencoded
from fedglb.federation.agent.releases import Releases
from fedglb.federation.agent.store import AgentStore
from fedglb.federation.agent.update_store import STORED, AdoptedModel, SampleNumbers, as_bytes
from fedglb.federation.agreement import Agreement
from fedglb.federation.errors import Unavailable
from fedglb.federation.frozen import Frozen
from fedglb.privacy import PreparedNoise
from fedglb.protocol import Client
from fedglb.samples import Samples

LAST_STEP = 2**52  # steps after it still fit into a message


class DurableClient:
    """The protocol's client with its file.

    Every change takes `locked()` and then calls `ready()`. It sets `stale` before it writes to the
    file and clears it once memory has followed: if a signal's exception (Ctrl-C) comes in between,
    the next call reads the file again.
    """

    def __init__(
        self, name: str, agreement: Agreement, store: AgentStore, rules: DecisionRules
    ) -> None:
        self.name, self.rules, self.store = name, rules, store
        self._lock = threading.Lock()
        self._long = threading.Lock()  # serialises long calls; acquired before `_lock`
        self._process = os.getpid()
        self._open = True
        # Random choices are a function of the file and a decision's number: after a crash they are
        # neither repeated nor lost.
        self.seed = int.from_bytes(store.seed[:8], "little")
        self.algorithm = rules.applied_to(agreement.algorithm)
        self.use_schema(agreement)
        self.noise = PreparedNoise()
        self.number = 0  # of the newest decision
        self.written_at = -math.inf  # when a call wrote to the file (monotonic); -inf: it could not
        self._read()

    def use_schema(self, agreement: Agreement) -> None:
        """Use this agreement, and encode records by its schema."""
        self.agreement, features = agreement, agreement.features
        #: Of records that come, and of records that were taken under any schema; None: vectors.
        self.encoder = None if features is None else Encoder(features, self.rules.strict)
        self.reencoder = None if features is None else Encoder(features)

    def renewed(self, records: Sequence[bytes], rows: Sequence[bytes]) -> list[bytes]:
        """Return rows of an older schema under the present one; an arm's name stays."""
        assert self.reencoder is not None
        named = (self.agreement.setting.width - self.agreement.problem.dim) * STORED.itemsize
        X = reencoded(self.reencoder, records)
        return [as_bytes(x) + row[len(row) - named :] for x, row in zip(X, rows, strict=True)]

    def _read(self) -> None:
        """Read the state from the file: exactly the state before a crash."""
        store = self.store
        self.waiting = store.count_waiting()
        self.oldest = -math.inf  # Unix time; all waiting decisions are newer
        self.expired = store.expired()
        self.defaulted, self.replaced = store.default_counts()
        self.number = max(self.number, store.last_number())
        self.snapshots = store.updates.snapshots()
        self.releases = Releases(store.updates.releases(), self.agreement.setting)
        samples, numbers = store.samples(
            self.agreement.setting.width, self.agreement.revision, self.renewed
        )
        model = store.updates.adopted_model()
        used = [s.last_sequence for s in self.snapshots.values()]
        used += [r.last_sequence for r in self.releases.stored.values()]
        used += [numbers.last_sequence, 0 if model is None else model.last_sequence]
        self.next_sequence = 1 + max(used)
        self.hold(self.learned(samples, numbers, model), numbers)
        self.read_frozen()
        self.stale = False  # whether the file may be ahead of memory

    def learned(
        self,
        samples: Samples,
        numbers: SampleNumbers,
        model: AdoptedModel | None,
        agreement: Agreement | None = None,
    ) -> Client:
        """Return a protocol client with these samples and the last model."""
        return Client.from_samples(
            self.name, self.algorithm, (agreement or self.agreement).setting, samples,
            base=None if model is None else model.base,
            adopted=0 if model is None else model.update,
            covered=0 if model is None else numbers.up_to(model.last_sequence),
            seed=self.seed, noise=self.noise,
        )  # fmt: skip

    def hold(self, client: Client, numbers: SampleNumbers) -> None:
        """Use this protocol client from now on; set its clock and the update in progress."""
        update, snapshot = max(self.snapshots.items(), default=(0, None))
        client.update = max(update, client.adopted)
        client.frozen = 0 if snapshot is None else numbers.up_to(snapshot.last_sequence)
        client.last_t = numbers.last_step
        if client.batches is not None:
            self.releases.tell(client.batches, numbers)
        self.protocol_client, self.numbers = client, numbers

    def read_frozen(self) -> None:
        """Read with which model to choose, if not with the newest."""
        found = self.store.updates.frozen_models()
        #: By whom choices are frozen: the operator, the agent.
        self.freezes = {by: frozen for by, (frozen, _) in found.items()}
        self._chooser: Client | None = None
        if found:
            _, model = found.get("operator") or found["agent"]
            samples, numbers = Samples(self.agreement.setting.width), self.numbers
            if self.algorithm.local_update.personal:  # its base is without the client's own part
                known = self.protocol_client.samples
                samples = Samples.over(known.X, known.y, numbers.up_to(model.last_sequence))
            else:
                numbers = SampleNumbers(np.empty((2, 0), dtype=np.int64))
            self._chooser = self.learned(samples, numbers, model)

    @property
    def frozen(self) -> Frozen | None:
        """The model that the client chooses with; None: the newest."""
        return self.freezes.get("operator") or self.freezes.get("agent")

    @property
    def chooser(self) -> Client:
        """The client that chooses: with a frozen model, or this one."""
        return self._chooser or self.protocol_client

    # -- the lock --------------------------------------------------------------------------------

    def locked(self) -> threading.Lock:
        """Return the lock; raise in a forked child, where it may be locked for ever."""
        self.check()
        return self._lock

    def long_calls(self) -> threading.Lock:
        """Return the lock that serialises long calls; acquire it before `locked()`."""
        self.check()
        return self._long

    @property
    def busy(self) -> bool:
        """Whether a call holds the lock, perhaps for a while (disk, whole file)."""
        return self._lock.locked()

    def ready(self) -> None:
        """Under the lock: raise if the agent is closed; read the file again if memory is stale."""
        self.check()
        if self.stale:
            self.store.rollback()
            self._read()

    def check(self) -> None:
        """Raise `Unavailable` if the agent is closed, or was opened by another process."""
        if not self.in_own_process:
            raise Unavailable(
                "this agent belongs to the process that opened it; a forked child must open "
                "another agent, with another file and another certificate"
            )
        if not self._open:
            raise Unavailable("this agent is closed")

    @property
    def in_own_process(self) -> bool:
        """Whether this is the process that opened the file."""
        return os.getpid() == self._process

    def close(self) -> None:
        """Close the file; no effect if it is closed."""
        if not self.in_own_process:
            return  # a child has nothing to close
        with self._long, self._lock:
            if self._open:
                self._open = False
                self.store.close()

    # -- what both sides read --------------------------------------------------------------------

    @property
    def adopted(self) -> int:
        """The update whose model the client uses, 0 before the first."""
        return self.protocol_client.adopted

    @property
    def clock(self) -> int:
        """The newest step known here: the client's own or the shared model's."""
        return min(self.protocol_client.clock, LAST_STEP)

    def dated(self, now: float) -> float:
        """Return the time of a reward that comes now: not before the adopted model's.

        Clocks differ, and samples that came after a model count 1 until the next one.
        """
        model = self.protocol_client.state.base
        return now if model is None or model.now is None else max(now, float(model.now))

    @property
    def one_pass(self) -> bool:
        """Whether updates take each sample in once."""
        return self.protocol_client.batches is not None
