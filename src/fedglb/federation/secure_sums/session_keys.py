"""Session keys: the X25519 key of a process, signed by its member, and the others' keys.

A key lives in memory only and is new in every process. The member's certificate key signs it, and
receivers verify the signature with the roster: the coordinator, which passes keys on, can neither
forge nor exchange them. It can replay an old one, perhaps with a stolen private key. So members
also sign each attempt at a sum: its transcript binds the keys of all processes in the set, which
are new, so that no earlier signature fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from fedglb.errors import InvalidInput
from fedglb.federation.secure_sums.roster import Roster
from fedglb.federation.secure_sums.transcript import digest, encoded

_SHA256 = hashes.SHA256()
_ECDSA = ec.ECDSA(_SHA256)
KEY_SIZE = 32  # bytes


class MissingKeys(InvalidInput):
    """No verified keys of these members are known here: the coordinator must send them again."""

    def __init__(self, names: Iterable[str]) -> None:
        text = ", ".join(names)
        super().__init__("session keys", text, "calls after the keys of all members of the set")


@dataclass(frozen=True)
class SignedKey:
    """A member's session key, as sent."""

    name: str
    generation: int  # of the member's certificate
    session: str
    key: bytes  # X25519, public, 32 bytes
    signature: bytes  # of all these, by the certificate's key (ECDSA, P-256, SHA-256, in DER)

    @cached_property
    def digest(self) -> bytes:
        """A digest without the signature, of which one key can have many."""
        return digest("session key", self.name, self.generation, self.session, self.key)


class KeyRing:
    """The key of this process and the verified keys of the others, with the secret of each pair.

    `signing_key` is the private key (PEM) of this member's certificate.
    """

    def __init__(
        self,
        federation: str,
        roster: Roster,
        name: str,
        generation: int,
        session: str,
        signing_key: bytes,
    ) -> None:
        signer = load_pem_private_key(signing_key, None)
        assert isinstance(signer, ec.EllipticCurvePrivateKey)
        if signer.public_key() != roster.public_key(name):
            allowed = "this member's key in the roster: get the current roster"
            raise InvalidInput(("roster", name), "another key than the certificate's", allowed)
        self.federation, self.roster, self.name = federation, roster, name
        self._signer, self._private = signer, X25519PrivateKey.generate()
        key = self._private.public_key().public_bytes_raw()
        signed = _signed(federation, roster, name, generation, session, key)
        signature = signer.sign(signed, _ECDSA)
        #: This process's own key, to be sent.
        self.own = SignedKey(name, generation, session, key, signature)
        self._others: dict[str, SignedKey] = {}
        self._secrets: dict[str, bytes] = {}

    def add(self, given: SignedKey) -> None:
        """Replace another member's key, if that member has signed the new one."""
        if given.name == self.name:
            return  # the own key is known
        known = self._others.get(given.name)
        if known is not None and known.digest == given.digest:
            return  # verified before
        verify(self.federation, self.roster, given)
        self._others[given.name] = given
        self._secrets.pop(given.name, None)

    def sign(self, transcript: bytes) -> bytes:
        """Return this member's signature of an attempt in which it takes part."""
        return self._signer.sign(_part(transcript), _ECDSA)

    def digests(self, names: Iterable[str]) -> list[bytes]:
        """Return the digests of these members' keys, its own included; raises `MissingKeys`."""
        every = {**self._others, self.name: self.own}
        wanted = list(names)
        missing = [name for name in wanted if name not in every]
        if missing:
            raise MissingKeys(missing)
        return [every[name].digest for name in wanted]

    def secret(self, name: str) -> bytes:
        """Return the secret shared with another member: unique to this pair of processes."""
        found = self._secrets.get(name)
        if found is None:
            other = self._others.get(name)
            if other is None:
                raise MissingKeys([name])
            shared = self._private.exchange(X25519PublicKey.from_public_bytes(other.key))
            pair = sorted((self.own.digest, other.digest))
            info = encoded("pair", self.federation, self.roster.digest, *pair)
            found = self._secrets[name] = HKDF(_SHA256, KEY_SIZE, None, info).derive(shared)
        return found


def verify(federation: str, roster: Roster, given: SignedKey) -> None:
    """Raise `InvalidInput` unless the named member of the roster has signed a key."""
    signed = _signed(federation, roster, given.name, given.generation, given.session, given.key)
    signer = roster.public_key(given.name)
    try:
        signer.verify(given.signature, signed, _ECDSA)
        _check_point(given.key)
    except (InvalidSignature, ValueError):
        allowed = f"a key signed by {given.name}"
        raise InvalidInput(("session key", given.name), given.key.hex()[:16], allowed) from None


def verify_parts(
    roster: Roster, names: Sequence[str], signatures: Sequence[bytes], transcript: bytes
) -> None:
    """Raise `InvalidInput` unless each of these members has signed this attempt."""
    if len(names) != len(signatures):
        raise InvalidInput("signatures", len(signatures), f"{len(names)}, one per member")
    for name, signature in zip(names, signatures, strict=True):
        try:
            roster.public_key(name).verify(signature, _part(transcript), _ECDSA)
        except InvalidSignature:
            allowed = f"{name}'s signature of the attempt {transcript.hex()[:16]}"
            raise InvalidInput(("signature", name), signature.hex()[:16], allowed) from None


def _check_point(key: bytes) -> None:
    """Raise `ValueError` for a key that gives everybody the same secret."""
    X25519PrivateKey.generate().exchange(X25519PublicKey.from_public_bytes(key))


def _part(transcript: bytes) -> bytes:
    return encoded("signed attempt", transcript)


def _signed(
    federation: str, roster: Roster, name: str, generation: int, session: str, key: bytes
) -> bytes:
    return encoded("signed key", federation, roster.digest, name, generation, session, key)
