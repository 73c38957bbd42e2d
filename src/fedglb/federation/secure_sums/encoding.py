"""Digests of several parts that no other parts have."""

from __future__ import annotations

import hashlib

#: Before everything that is hashed, signed or derived here; the number is that of the rules.
_DOMAIN = b"fedglb secure sums 1"


def encoded(purpose: str, *parts: bytes | str | int) -> bytes:
    """Return the parts as bytes that no other purpose and no other parts give.

    Every part comes after its length, so that what belongs to one part cannot be read as
    belonging to the next.

    Examples
    --------
    >>> encoded("roster", "ab", "c") == encoded("roster", "a", "bc")
    False
    """
    every = [_DOMAIN, purpose.encode(), *(_bytes(part) for part in parts)]
    return b"".join(len(part).to_bytes(8, "big") + part for part in every)


def digest(purpose: str, *parts: bytes | str | int) -> bytes:
    """Return the SHA-256 digest of the encoded parts, 32 bytes.

    Examples
    --------
    >>> len(digest("roster", "ab", 3))
    32
    """
    return hashlib.sha256(encoded(purpose, *parts)).digest()


def _bytes(part: bytes | str | int) -> bytes:
    if isinstance(part, int):
        return part.to_bytes(8, "big")
    return part.encode() if isinstance(part, str) else part
