"""What one attempt at a sum is about, in 32 bytes: all masks are derived from it.

Members that were told different things derive different masks, which do not cancel. There is no
cryptography here: an agent's file, which remembers its attempts, needs none.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedglb.errors import integer
from fedglb.federation.secure_sums.encoding import digest
from fedglb.model import SharedModel

if TYPE_CHECKING:  # an agent that is alone needs no cryptography
    from fedglb.federation.secure_sums.roster import Roster


@dataclass(frozen=True)
class SumRules:
    """What all members of a federation have agreed on about its sums.

    Parameters
    ----------
    federation
        Its name.
    roster
        Its members.
    agreement
        A digest of every fact of the agreement (`agreement_digest`).
    minimum
        How many members a set has at least.
    last
        The number of the last update, B: there is no sum for a later one. None: no limit.
    """

    federation: str
    roster: Roster
    agreement: bytes
    minimum: int
    last: int | None = None

    def __post_init__(self) -> None:
        # of two members each could subtract its own
        integer("minimum", self.minimum, at_least=3, at_most=max(3, len(self.roster.names)))

    def transcript(
        self, slot: int, attempt: int, members: bytes, model: bytes, keys: Sequence[bytes]
    ) -> bytes:
        """Return the digest from which the masks of an attempt are derived.

        Parameters
        ----------
        slot
            The number of the update.
        attempt
            Which attempt of it this is.
        members
            The set, as the roster's bitmap.
        model
            The digest of the model at which the sums are taken.
        keys
            The digests of the session keys of all members of the set, in the roster's order. They
            are new in every process. So no two processes of a member ever derive masks from the
            same transcript, and a mask is used once even where a file was restored from a copy;
            and members that hold different keys of somebody who was restarted notice it by the
            transcript, instead of by a sum that is noise.
        """
        return digest(
            "transcript", self.federation, self.roster.digest, self.agreement,
            slot, attempt, members, model, len(keys), *keys,
        )  # fmt: skip


@dataclass(frozen=True)
class SumState:
    """What a member must not forget.

    Parameters
    ----------
    slot
        The newest update that it was ready for; 0 before the first.
    attempt, transcript
        The newest attempt of it for which it made a masked vector; 0 and empty before.
    consented
        Whether it has given away the seed of that attempt.
    """

    slot: int = 0
    attempt: int = 0
    transcript: bytes = b""
    consented: bool = False


def agreement_digest(facts: dict[str, str]) -> bytes:
    """Return a digest of all facts of an agreement.

    Examples
    --------
    >>> agreement_digest({"a": "1", "b": "2"}) == agreement_digest({"b": "2", "a": "1"})
    True
    """
    return digest("agreement", *(part for name in sorted(facts) for part in (name, facts[name])))


#: The digest of the model before the first, θ = 0.
NO_MODEL = digest("model", 0)


def model_digest(update: int, model: SharedModel | None) -> bytes:
    """Return a digest of the model of an update, to the bit; None: there is none yet."""
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
