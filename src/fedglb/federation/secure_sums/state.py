"""What a member of secure sums must not forget: an agent's file has it, without cryptography."""

from __future__ import annotations

from dataclasses import dataclass


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
