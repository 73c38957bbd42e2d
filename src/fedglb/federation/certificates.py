"""Certificates as members hold them; the operator's `Authority` issues them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from fedglb.io.atomic import atomic_write


@dataclass(frozen=True)
class IssuedCertificate:
    """A certificate and its private key, in PEM; the key is empty if the holder already has it."""

    certificate: bytes
    key: bytes
    serial: str

    def write(self, certificate: Path, key: Path) -> None:
        """Write both, if there is a key; only the owner can read the key."""
        if self.key:
            atomic_write(key, self.key, mode=0o600)
        atomic_write(certificate, self.certificate, mode=0o644)


@dataclass(frozen=True)
class Certificate:
    """A certificate (PEM) and its contents."""

    content: bytes

    @cached_property
    def _read(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(self.content)

    @property
    def identities(self) -> list[str]:
        """Its identities."""
        try:
            names = self._read.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        except x509.ExtensionNotFound:
            return []
        return list(names.value.get_values_for_type(x509.UniformResourceIdentifier))

    @property
    def hosts(self) -> list[str]:
        """The host names and addresses of a server's certificate."""
        names = self._read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        addresses = [str(a) for a in names.get_values_for_type(x509.IPAddress)]
        return [*names.get_values_for_type(x509.DNSName), *addresses]

    @property
    def serial(self) -> str:
        """Its number, as the registry has it."""
        return f"{self._read.serial_number:x}"

    @property
    def begins(self) -> datetime:
        """The start of its validity."""
        return self._read.not_valid_before_utc

    @property
    def ends(self) -> datetime:
        """When it expires."""
        return self._read.not_valid_after_utc

    @property
    def public_key(self) -> bytes:
        """Its public key, in DER (SubjectPublicKeyInfo)."""
        key = self._read.public_key()
        return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)

    def has_key(self, key: bytes) -> bool:
        """Return whether a private key (PEM) belongs to it; `ValueError`: not a key."""
        try:
            return load_pem_private_key(key, None).public_key() == self._read.public_key()
        except TypeError as error:  # it is encrypted
            raise ValueError(str(error)) from None

    def is_issued_by(self, authority: bytes) -> bool:
        """Return whether the authority with this certificate (PEM) issued it."""
        above = x509.load_pem_x509_certificate(authority)
        try:
            self._read.verify_directly_issued_by(above)
        except (ValueError, TypeError, InvalidSignature):
            return False
        return True


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a private key in PEM."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
