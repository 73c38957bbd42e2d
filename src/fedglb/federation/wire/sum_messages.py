"""Messages around a secure sum; the masked numbers are the protocol's `MaskedSum`.

`SessionKey` and `SessionKeys` bring the keys. For each update: `SumOffer`, `SumReady`, `SumCall`,
`MaskedSum`, `AllHere`, `Consent`. `federation.secure_sums` has the rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypeAlias

from msgspec import Meta

from fedglb.federation.wire.packets import Bitmap, Key, Name, SessionMessage
from fedglb.typing import Count, Signature

#: A member's name, the generation of its certificate, its session, its key, and its signature.
KeyOfMember: TypeAlias = tuple[Name, Count, Name, Key, Signature]
KeysOfMembers: TypeAlias = Annotated[list[KeyOfMember], Meta(max_length=65536)]
Signatures: TypeAlias = Annotated[list[Signature], Meta(max_length=65536)]


@dataclass(frozen=True)
class SessionKey(SessionMessage):
    """The key of an agent's process for this session; sent after every `Hello`."""

    name = "SessionKey"
    upward = True
    generation: Count  # of the agent's certificate
    key: Key  # X25519, public
    signature: Signature  # by the certificate's key (ECDSA, P-256, SHA-256, in DER)


@dataclass(frozen=True)
class SessionKeys(SessionMessage):
    """The keys of other members, as sent by them."""

    name = "SessionKeys"
    upward = False
    keys: KeysOfMembers


@dataclass(frozen=True)
class SumOffer(SessionMessage):
    """An update with a secure sum begins."""

    name = "SumOffer"
    upward = False
    update: Count
    digest: Key  # of the model at which sums are taken
    model: Count = 0  # the model's update; 0: before the first, θ = 0


@dataclass(frozen=True)
class SumReady(SessionMessage):
    """An agent has frozen its samples for an update, and waits for the call."""

    name = "SumReady"
    upward = True
    update: Count


@dataclass(frozen=True)
class SumCall(SessionMessage):
    """A call to all members of a set for their masked numbers."""

    name = "SumCall"
    upward = False
    update: Count
    attempt: Count
    members: Bitmap
    digest: Key  # of the model at which sums are taken
    transcript: Key  # derived from all this and the session keys of the set


@dataclass(frozen=True)
class AllHere(SessionMessage):
    """All members of the set have sent their masked numbers: agree to the sum."""

    name = "AllHere"
    upward = False
    update: Count
    transcript: Key
    signatures: Signatures  # of `MaskedSum`, in the order of the set


@dataclass(frozen=True)
class Consent(SessionMessage):
    """An agent agrees to the sum, and reveals the seed of its self mask."""

    name = "Consent"
    upward = True
    update: Count
    transcript: Key
    seed: Key
