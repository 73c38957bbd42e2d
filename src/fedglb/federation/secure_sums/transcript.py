"""The transcript: a digest of one attempt at a sum, from which all masks are derived.

Members with different views derive different masks, which do not cancel. This module
imports no cryptography: an agent's file, which remembers its attempts, needs none.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedglb.errors import integer
from fedglb.model import SharedModel

if TYPE_CHECKING:  # a single agent needs no cryptography
    from fedglb.federation.secure_sums.roster import Roster


#: Prefix of everything hashed, signed or derived; the number is the rules' version.
_DOMAIN = b"fedglb secure sums 1"


def encoded(purpose: str, *parts: bytes | str | int) -> bytes:
    """Return an injective encoding of purpose and parts: each part follows its length."""
    every = [_DOMAIN, purpose.encode(), *(_bytes(part) for part in parts)]
    return b"".join(len(part).to_bytes(8, "big") + part for part in every)


def digest(purpose: str, *parts: bytes | str | int) -> bytes:
    """Return the SHA-256 digest of the encoded parts, 32 bytes."""
    return hashlib.sha256(encoded(purpose, *parts)).digest()


def _bytes(part: bytes | str | int) -> bytes:
    if isinstance(part, int):
        return part.to_bytes(8, "big")
    return part.encode() if isinstance(part, str) else part


@dataclass(frozen=True)
class SumRules:
    """The agreed rules of a federation's secure sums."""

    federation: str
    roster: Roster
    agreement: bytes  # a digest of every fact (`agreement_digest`)
    minimum: int  # the smallest number of members in a set
    last: int | None = None  # the last update, B: later ones have no sum

    def __post_init__(self) -> None:
        # with two members each could subtract its own numbers
        integer("minimum", self.minimum, at_least=3, at_most=max(3, len(self.roster.names)))

    def transcript(
        self, slot: int, attempt: int, members: bytes, model: bytes, keys: Sequence[bytes]
    ) -> bytes:
        """Return the digest from which the masks of an attempt are derived.

        `slot` is the number of the update, `members` the set as the roster's bitmap, `model` the
        digest of the model at which sums are taken. `keys` are the digests of the session keys of
        the set, in the roster's order. They are new in every process. So no two processes of a
        member ever derive masks from the same transcript, and a mask is used once even after a
        file was restored from a copy. Members with different keys of a restarted member notice it
        by the transcript, instead of by a sum that is noise.
        """
        return digest(
            "transcript", self.federation, self.roster.digest, self.agreement,
            slot, attempt, members, model, len(keys), *keys,
        )  # fmt: skip


@dataclass(frozen=True)
class SumState:
    """A member's stored state."""

    slot: int = 0  # the newest update for which it was ready
    attempt: int = 0  # that update's newest attempt with a masked vector
    transcript: bytes = b""  # of that attempt
    members: bytes = b""  # its set, as the roster's bitmap
    consented: bool = False  # whether it has revealed the seed of that attempt


def agreement_digest(facts: dict[str, str]) -> bytes:
    """Return a digest of all facts of an agreement, in any order."""
    return digest("agreement", *(part for name in sorted(facts) for part in (name, facts[name])))


#: The digest of the model before the first, θ = 0.
NO_MODEL = digest("model", 0)


def model_digest(update: int, model: SharedModel | None) -> bytes:
    """Return a digest of the model of an update, to the bit; None: no model yet."""
    if model is None:
        return NO_MODEL
    parts: list[bytes | str | int] = []
    for field in dataclasses.fields(model):
        value = getattr(model, field.name)
        if value is None:
            continue
        if isinstance(value, np.ndarray):
            value = np.tril(value) if value.ndim == 2 else value
            parts += [field.name, value.astype("<f8").tobytes()]
        else:
            parts += [field.name, np.float64(value).astype("<f8").tobytes()]
    return digest("model", update, *parts)
