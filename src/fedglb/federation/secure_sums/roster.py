"""The members of secure sums: each member's name and public key.

Each agent's owner accepts the roster. Sets contain only members of the roster: an operator, who can
issue certificates, cannot add members unnoticed.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_der_public_key,
)

from fedglb.errors import InvalidInput, under
from fedglb.federation.names import VERSION, check_client, check_version
from fedglb.federation.secure_sums.transcript import digest
from fedglb.io.atomic import atomic_write

#: The roster's file, in a member's and in the operator's folder.
FILE = "roster.json"


class _RosterFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    members: dict[str, str]  # by name, the key in base64
    version: int = VERSION


@dataclass(frozen=True)
class Roster:
    """By name, the P-256 public key of a member's certificate, in DER (SubjectPublicKeyInfo)."""

    keys: Mapping[str, bytes]

    def __post_init__(self) -> None:
        for name, key in self.keys.items():
            check_client(name, "roster")
            _p256(name, key)
        users: dict[bytes, str] = {}
        for name, key in self.keys.items():
            if (other := users.setdefault(key, name)) != name:
                raise InvalidInput("roster", [other, name], "a different key for each member")

    @classmethod
    def read(cls, path: Path) -> Roster:
        """Read the file of `write`."""
        with under(source=str(path)):
            try:
                return cls.parse(path.read_bytes(), path)
            except OSError as error:
                raise _changed(path, error) from None

    @classmethod
    def parse(cls, content: bytes, path: Path) -> Roster:
        """Return the roster with this content, found at `path`."""
        try:
            raw = json.loads(content)
            check_version(raw, path)
            document = msgspec.convert(raw, _RosterFile)
            keys = {n: base64.b64decode(k, validate=True) for n, k in document.members.items()}
        except InvalidInput:
            raise
        except (ValueError, AttributeError, RecursionError) as error:
            raise _changed(path, error) from None
        return cls(keys)

    def write(self, path: Path) -> None:
        """Write the roster into a file."""
        atomic_write(path, self.content, mode=0o644)

    @property
    def content(self) -> bytes:
        """The content of its file."""
        members = {name: base64.b64encode(self.keys[name]).decode() for name in self.names}
        return json.dumps(msgspec.to_builtins(_RosterFile(members)), indent=1).encode()

    def is_part_of(self, other: Roster) -> bool:
        """Return whether all members are in the other roster, with the same keys."""
        return self.keys.items() <= other.keys.items()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names, sorted by code point: the order of members everywhere."""
        return tuple(sorted(self.keys))

    @cached_property
    def index(self) -> Mapping[str, int]:
        """The place of each name in that order."""
        return {name: k for k, name in enumerate(self.names)}

    @cached_property
    def digest(self) -> bytes:
        """A digest of all names and keys, which owners compare."""
        parts = [part for name in self.names for part in (name, self.keys[name])]
        return digest("roster", len(self.names), *parts)

    def public_key(self, name: str) -> ec.EllipticCurvePublicKey:
        """Return the key by which a member's signatures are verified."""
        if name not in self.keys:
            raise InvalidInput("member", name, "a member in the roster")
        return self._public_keys[name]

    @cached_property
    def _public_keys(self) -> Mapping[str, ec.EllipticCurvePublicKey]:
        return {name: _p256(name, key) for name, key in self.keys.items()}

    def bitmap(self, names: Iterable[str]) -> bytes:
        """Return a set of members as bits: place k is bit k mod 8 of byte k // 8."""
        bits = bytearray((len(self.names) + 7) // 8)
        for name in names:
            if name not in self.index:
                raise InvalidInput("members", name, "members in the roster")
            place = self.index[name]
            bits[place // 8] |= 1 << place % 8
        return bytes(bits)

    def members_of(self, bitmap: bytes) -> tuple[str, ...]:
        """Return the members of a set, in the roster's order."""
        size = (len(self.names) + 7) // 8
        if len(bitmap) != size:
            raise InvalidInput("members", f"{len(bitmap)} bytes", f"{size} bytes, for the roster")
        bits = int.from_bytes(bitmap, "little")
        if bits >> len(self.names):
            raise InvalidInput("members", bitmap.hex(), "no members beyond the roster's")
        return tuple(name for k, name in enumerate(self.names) if bits >> k & 1)


def _changed(path: Path, error: Exception) -> InvalidInput:
    return InvalidInput("roster", str(path), f"the operator's unchanged file ({error})")


def _p256(name: str, key: bytes) -> ec.EllipticCurvePublicKey:
    try:
        found = load_der_public_key(key)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        found = None
    if (
        not isinstance(found, ec.EllipticCurvePublicKey)
        or found.curve.name != "secp256r1"
        # in one encoding only: equal keys are equal bytes
        or found.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo) != key
    ):
        raise InvalidInput(("roster", name), key.hex()[:40], "a P-256 public key in DER")
    return found
