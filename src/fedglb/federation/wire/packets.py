"""The messages as they lie on the wire: one struct a type, every field typed and bounded.

A packet has the name and the fields of its message (see `sessions` and `protocol.messages`), with
arrays as bytes, without the client, and with a session.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

Count: TypeAlias = Annotated[int, Meta(ge=0, lt=2**53)]  # exact in every language's numbers
Name: TypeAlias = Annotated[str, Meta(max_length=64)]
Text: TypeAlias = Annotated[str, Meta(max_length=200)]
Reason: TypeAlias = Annotated[str, Meta(max_length=1000)]
Facts: TypeAlias = Annotated[dict[Text, Text], Meta(max_length=200)]


class Packet(
    Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag=True, tag_field="type"
):
    """Base of all packets; the field `type` is the name of the class."""

    session: Name


# -- up ------------------------------------------------------------------------------------------


class Hello(Packet, frozen=True):
    """An agent begins to speak."""

    instance: Name
    update: Count
    software: Text
    agreement: Facts


class Heartbeat(Packet, frozen=True):
    """An agent is there."""

    update: Count
    wants: Count


class Goodbye(Packet, frozen=True):
    """An agent leaves."""


class Withdrawal(Packet, frozen=True):
    """An agent takes no part in an update."""

    update: Count


class SyncRequest(Packet, frozen=True):
    """A client's trigger fired."""

    t: Count
    update: Count


class Covariance(Packet, frozen=True):
    """A client's Σ x xᵀ."""

    update: Count
    samples: Count
    matrix: bytes
    b: bytes | None = None


class Derivatives(Packet, frozen=True):
    """A client's sums at a point."""

    update: Count
    round: Count
    gradient: bytes
    hessian: bytes | None = None
    loss: float | None = None


# -- down ----------------------------------------------------------------------------------------


class Welcome(Packet, frozen=True):
    """The coordinator takes an agent in."""

    update: Count


class Rejected(Packet, frozen=True):
    """The coordinator does not, or leaves it out of an update."""

    reason: Reason
    member: bool


class HelloRequest(Packet, frozen=True):
    """The coordinator wants a hello."""


class CovarianceRequest(Packet, frozen=True):
    """An update begins."""

    update: Count


class Evaluate(Packet, frozen=True):
    """A round of an update."""

    update: Count
    round: Count
    since: Count
    theta: bytes
    hessian: bool
    loss: bool


class NewModel(Packet, frozen=True):
    """An update's model; the fields of `SharedModel` lie in the same map."""

    update: Count
    covered: Count
    t: Count
    matrix: bytes
    numbers: bytes
    theta: bytes | None = None
    b: bytes | None = None
    gradient_matrix: bytes | None = None


UpPacket: TypeAlias = (
    Hello | Heartbeat | Goodbye | Withdrawal | SyncRequest | Covariance | Derivatives
)
DownPacket: TypeAlias = Welcome | Rejected | HelloRequest | CovarianceRequest | Evaluate | NewModel
