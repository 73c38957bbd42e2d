"""The messages between clients and coordinator. None carries a raw sample.

A message is defined here and nowhere else: `federation.wire` derives its bytes from the types of
its fields. `client` is the sender of a message that goes up, the addressee of one that goes down.
Every message knows its direction and how many scalars it carries; ids, counts and clocks are not
counted as scalars.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from fedglb.model import SharedModel, triangle_size
from fedglb.typing import Count, Integers, Symmetric, Vector

ClientId: TypeAlias = int | str


@dataclass(frozen=True)
class Message:
    """Base of all messages.

    `name` identifies the message on the wire and in ledgers: a change breaks both.
    """

    name: ClassVar[str]
    upward: ClassVar[bool]
    client: ClientId

    def scalars(self) -> int:
        """Return how many numbers the message carries; a symmetric matrix is its triangle."""
        return 0


@dataclass(frozen=True)
class SyncRequest(Message):
    """A client asks for a global update: its trigger fired in step t.

    `update` is the one whose model it holds: the coordinator ignores a request if there is a newer.
    """

    name = "SyncRequest"
    upward = True
    t: Count
    update: Count


@dataclass(frozen=True)
class SumsRequest(Message):
    """The coordinator begins update `update` and asks a client for its sums.

    The algorithm's solver says which: `Covariance`, `ModelSums` or `BatchSums`. `model` is the
    update at whose model they are taken; 0 is the model before the first, θ = 0.
    """

    name = "SumsRequest"
    upward = False
    update: Count
    model: Count = 0


@dataclass(frozen=True)
class Covariance(Message):
    """A client's Σ x xᵀ over all of its samples, and their number; b = Σ x y where shared.

    From now on, until the model comes, the client answers on exactly these samples.
    """

    name = "Covariance"
    upward = True
    update: Count
    samples: Count
    matrix: Symmetric
    b: Vector | None = None

    def scalars(self) -> int:
        """Return d(d+1)/2, + d with b."""
        return triangle_size(self.matrix.shape[0]) + (0 if self.b is None else self.b.size)


@dataclass(frozen=True)
class ModelSums(Message):
    """A client's gradient and Hessian at the model of the request, over all of its samples.

    From now on, until the next model comes, the client answers on exactly these samples.
    """

    name = "ModelSums"
    upward = True
    update: Count
    samples: Count
    gradient: Vector
    hessian: Symmetric

    def scalars(self) -> int:
        """Return d + d(d+1)/2."""
        return self.gradient.size + triangle_size(self.hessian.shape[0])


@dataclass(frozen=True)
class BatchSums(Message):
    """What a client releases in a one-pass update: weighted sums of its batches, and its noise.

    `numbers` has v and the triangle of H as whole numbers (`privacy.fixed_point`). The number of
    samples is omitted for privacy.
    """

    name = "BatchSums"
    upward = True
    update: Count
    numbers: Integers

    def scalars(self) -> int:
        """Return d + d(d+1)/2."""
        return self.numbers.size


@dataclass(frozen=True)
class MaskedSum(Message):
    """The numbers of `BatchSums` under masks that cancel in the sum over a set of clients.

    They are numbers mod 2⁶⁴, sent as signed ones. `attempt` says which attempt at the update's
    sum they are for.
    """

    name = "MaskedSum"
    upward = True
    update: Count
    attempt: Count
    numbers: Integers

    def scalars(self) -> int:
        """Return d + d(d+1)/2."""
        return self.numbers.size


@dataclass(frozen=True)
class Evaluate(Message):
    """Send the sums of round `round` at θ: always the gradient.

    The sums leave out the client's first `since` samples, which are in the model already (0
    if every update fits all samples again).
    """

    name = "Evaluate"
    upward = False
    update: Count
    round: Count
    since: Count
    theta: Vector
    hessian: bool
    loss: bool

    def scalars(self) -> int:
        """Return d."""
        return self.theta.size


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

    def scalars(self) -> int:
        """Return d, + d(d+1)/2 with the Hessian, + 1 with the loss."""
        extra = 0 if self.hessian is None else triangle_size(self.hessian.shape[0])
        return self.gradient.size + extra + (0 if self.loss is None else 1)


@dataclass(frozen=True)
class NewModel(Message):
    """The model of a finished update.

    `covered` says how many of this client's samples it covers, the oldest ones: 0 for a client
    that was excluded, whose samples are all local again.
    """

    name = "NewModel"
    upward = False
    update: Count
    covered: Count
    model: SharedModel

    def scalars(self) -> int:
        """Return what the model carries."""
        return self.model.scalars()


MESSAGES: tuple[type[Message], ...] = (
    SyncRequest, SumsRequest, Covariance, ModelSums, BatchSums, MaskedSum, Evaluate,
    Derivatives, NewModel,
)  # fmt: skip
