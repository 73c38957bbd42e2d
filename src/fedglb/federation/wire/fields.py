"""What messages beside the protocol's are made of: their base, and the bounds of their fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, TypeAlias

from msgspec import Meta

Name: TypeAlias = Annotated[str, Meta(max_length=64)]
Text: TypeAlias = Annotated[str, Meta(max_length=200)]
Reason: TypeAlias = Annotated[str, Meta(max_length=1000)]
Facts: TypeAlias = Annotated[dict[Text, Text], Meta(max_length=200)]
#: 32 bytes: a digest, a key or a seed.
Key: TypeAlias = Annotated[bytes, Meta(min_length=32, max_length=32)]
Signature: TypeAlias = Annotated[bytes, Meta(max_length=80)]
#: A set of members, a bit for each place in the roster.
Bitmap: TypeAlias = Annotated[bytes, Meta(max_length=8192)]


@dataclass(frozen=True)
class SessionMessage:
    """Base of the messages beside the protocol's; `name` is what one is called on the wire."""

    name: ClassVar[str]
    upward: ClassVar[bool]
