"""The messages between clients and coordinator, and the ledger that counts them.

No message carries a raw sample, but where arms have effects, the sums of an arm with few samples
give these away (docs/privacy.md). A message is defined here and nowhere else: `federation.wire`
derives its bytes from the types of its fields.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import numpy as np

from fedglb.model import SharedModel, triangle_size
from fedglb.typing import Count, Integers, Numbers, Rows, Signature, Symmetric, Vector

if TYPE_CHECKING:
    import polars as pl

ClientId: TypeAlias = int | str
#: The bits of a number in the package's messages: doubles, and whole numbers of 64 bits.
BITS = 64


@dataclass(frozen=True)
class Message:
    """Base of all messages.

    `name` identifies the message on the wire and in ledgers: a change breaks both. `client` is
    the sender of a message up, the addressee of a message down.
    """

    name: ClassVar[str]
    upward: ClassVar[bool]
    client: ClientId

    def scalars(self) -> int:
        """Return the count of numbers in the message, without ids, counts, clocks and flags."""
        return _scalars(self)


def _scalars(value: object) -> int:
    """Return the count of numbers; a symmetric matrix counts as its triangle."""
    if isinstance(value, np.ndarray):
        return triangle_size(len(value)) if value.ndim == 2 else value.size
    if dataclasses.is_dataclass(value):
        return sum(map(_scalars, vars(value).values()))
    return 1 if isinstance(value, float) else 0


@dataclass(frozen=True)
class SyncRequest(Message):
    """A client requests a global update: its trigger fired in step t.

    `update` is its model's: the coordinator ignores the request if there is a newer one.
    """

    name = "SyncRequest"
    upward = True
    t: Count
    update: Count


@dataclass(frozen=True)
class SumsRequest(Message):
    """The coordinator begins update `update` and asks a client for its sums.

    The algorithm's solver decides which: `Covariance`, `ModelSums` or `BatchSums`. They are taken
    at the model of update `model`; 0 is the model before the first, θ = 0. Where old samples count
    less, their ages are those at time `now`.
    """

    name = "SumsRequest"
    upward = False
    update: Count
    model: Count = 0
    now: Count = 0


@dataclass(frozen=True)
class Covariance(Message):
    """A client's Σ x xᵀ over all of its samples, and their number; b = Σ x y if shared.

    From now on, until the model comes, the client answers on exactly these samples.
    """

    name = "Covariance"
    upward = True
    update: Count
    samples: Count
    matrix: Symmetric
    b: Vector | None = None


@dataclass(frozen=True)
class ModelSums(Message):
    """A client's gradient and Hessian at the model of the request, over all of its samples.

    `effects` has, for each arm with an effect, its key, Σμ′, Σ(μ − y) and Σμ′x, by keys. Where
    clients have models of their own, these are the sums less what their differences account for;
    `spread` says how well T fits (`kernels.personal`), as do rrᵀ and V where T has directions.

    From now on, until the next model comes, the client answers on exactly these samples.
    """

    name = "ModelSums"
    upward = True
    update: Count
    samples: Count
    gradient: Vector
    hessian: Symmetric
    effects: Rows | None = None
    spread: Numbers | None = None
    residuals: Symmetric | None = None
    information: Symmetric | None = None

    @property
    def alone(self) -> list[float]:
        """1 if the client learns alone, else 0, of θ and of effects; no numbers in one model."""
        return [] if self.spread is None else self.spread[2::3].tolist()


@dataclass(frozen=True)
class BatchSums(Message):
    """A client's release in a one-pass update: weighted sums of its batches, with its noise.

    `numbers` has v and the triangle of H as whole numbers (`privacy.fixed_point`). The number of
    samples is omitted for privacy.
    """

    name = "BatchSums"
    upward = True
    update: Count
    numbers: Integers


@dataclass(frozen=True)
class MaskedSum(Message):
    """The numbers of `BatchSums` under masks that cancel in the sum over a set of clients.

    They are numbers mod 2⁶⁴, sent as signed ones, for attempt number `attempt` at the update's
    sum. `signature` is the client's, of that attempt.
    """

    name = "MaskedSum"
    upward = True
    update: Count
    attempt: Count
    numbers: Integers
    signature: Signature


@dataclass(frozen=True)
class Evaluate(Message):
    """Send the sums of round `round` at θ: always the gradient.

    The sums leave out the client's first `since` samples, which are already in the model (0
    if every update fits all samples again); `now` is that of the request.
    """

    name = "Evaluate"
    upward = False
    update: Count
    round: Count
    since: Count
    theta: Vector
    hessian: bool
    loss: bool
    now: Count = 0


@dataclass(frozen=True)
class Derivatives(Message):
    """A client's sums at the θ of a round."""

    name = "Derivatives"
    upward = True
    update: Count
    round: Count
    gradient: Vector
    hessian: Symmetric | None = None
    loss: float | None = None


@dataclass(frozen=True)
class NewModel(Message):
    """The model of a finished update.

    `covered` is the number of this client's samples in it, the oldest ones: 0 for an excluded
    client, whose samples are all local again. `models` is the number of the federation's models so
    far, with this one and with those that the client missed.
    """

    name = "NewModel"
    upward = False
    update: Count
    covered: Count
    model: SharedModel
    models: Count = 0


MESSAGES: tuple[type[Message], ...] = (
    SyncRequest, SumsRequest, Covariance, ModelSums, BatchSums, MaskedSum, Evaluate,
    Derivatives, NewModel,
)  # fmt: skip


@dataclass
class Entry:
    """Totals of one kind of message in one direction."""

    messages: int = 0
    transfers: int = 0
    scalars: int = 0
    bits: int = 0


@dataclass
class Ledger:
    """Messages, transfers, scalars and bits, by the name of the message and its direction.

    A transfer is a message that carries numbers (the paper's C_T counts these). Bits are those of
    the numbers: `BITS` each in the package's own messages.
    """

    entries: dict[tuple[str, str], Entry] = field(default_factory=dict)

    def count(self, message: Message, times: int = 1, more: int = 0) -> None:
        """Count a message, or `times` messages of its kind and size, or with `more` numbers."""
        direction, scalars = "up" if message.upward else "down", message.scalars()
        total = times * scalars + more
        self.add(message.name, direction, times, times if scalars > 0 else 0, total, BITS * total)

    def add(
        self, name: str, direction: str, messages: int, transfers: int, scalars: int, bits: int
    ) -> None:
        """Add to the totals of one kind of message."""
        entry = self.entries.setdefault((name, direction), Entry())
        entry.messages += messages
        entry.transfers += transfers
        entry.scalars += scalars
        entry.bits += bits

    @property
    def messages(self) -> int:
        """All messages."""
        return sum(e.messages for e in self.entries.values())

    @property
    def transfers(self) -> int:
        """Messages that carry numbers."""
        return sum(e.transfers for e in self.entries.values())

    @property
    def scalars(self) -> int:
        """Numbers carried."""
        return sum(e.scalars for e in self.entries.values())

    @property
    def bits(self) -> int:
        """Bits of these numbers."""
        return sum(e.bits for e in self.entries.values())

    def frame(self) -> pl.DataFrame:
        """Return one row per message type: message, direction, messages, transfers, scalars, bits.

        Without messages, no rows.
        """
        import polars as pl

        rows = [
            (kind, direction, *dataclasses.astuple(e))
            for (kind, direction), e in self.entries.items()
        ]
        names = [column.name for column in dataclasses.fields(Entry)]
        schema = {"message": pl.String, "direction": pl.String, **dict.fromkeys(names, pl.Int64)}
        return pl.DataFrame(rows, schema=schema, orient="row")
