"""Messages around a secure sum; the masked numbers are the protocol's `MaskedSum`.

`SessionKey` and `SessionKeys` bring the keys. For each update: `SumOffer`, `SumReady`, `SumCall`,
`MaskedSum`, `AllHere`, `Consent`. `federation.secure_sums` says who may answer what.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypeAlias

from msgspec import Meta

from fedglb.federation.wire.packets import Bitmap, Key, Name, SessionMessage, Signature
from fedglb.typing import Count

#: A member's name, the generation of its certificate, its session, its key, and its signature.
KeyOfMember: TypeAlias = tuple[Name, Count, Name, Key, Signature]
KeysOfMembers: TypeAlias = Annotated[list[KeyOfMember], Meta(max_length=65536)]


@dataclass(frozen=True)
class SessionKey(SessionMessage):
    """The key that an agent's process has made for this session; it follows every `Hello`."""

    name = "SessionKey"
    upward = True
    generation: Count  # of the agent's certificate
    key: Key  # X25519, public
    signature: Signature  # by the certificate's key (ECDSA, P-256, SHA-256, in DER)


@dataclass(frozen=True)
class SessionKeys(SessionMessage):
    """The keys of other members, as these have sent them."""

    name = "SessionKeys"
    upward = False
    keys: KeysOfMembers


@dataclass(frozen=True)
class SumOffer(SessionMessage):
    """An update begins, and its sum will be a secure one."""

    name = "SumOffer"
    upward = False
    update: Count
    digest: Key  # of the model at which sums are taken
    model: Count = 0  # the update that it came from; 0: the model before the first, θ = 0


@dataclass(frozen=True)
class SumReady(SessionMessage):
    """An agent has frozen its samples for an update, and waits for the call."""

    name = "SumReady"
    upward = True
    update: Count


@dataclass(frozen=True)
class SumCall(SessionMessage):
    """All members of a set are to send their masked numbers."""

    name = "SumCall"
    upward = False
    update: Count
    attempt: Count
    members: Bitmap
    digest: Key  # of the model at which sums are taken
    transcript: Key  # follows from all this and from the session keys of the set


@dataclass(frozen=True)
class AllHere(SessionMessage):
    """All members of the set have sent their masked numbers: agree to the sum."""

    name = "AllHere"
    upward = False
    update: Count
    transcript: Key


@dataclass(frozen=True)
class Consent(SessionMessage):
    """An agent agrees to the sum, and gives away the seed of its own mask."""

    name = "Consent"
    upward = True
    update: Count
    transcript: Key
    seed: Key
