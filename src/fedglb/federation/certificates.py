"""Certificates as members hold them, and what can be read from one.

They are issued by the operator's `Authority`; whoever only holds one needs nothing of that.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)

from fedglb.io.atomic import atomic_write


@dataclass(frozen=True)
class IssuedCertificate:
    """A certificate and its private key, in PEM; the key is empty if its holder has it already."""

    certificate: bytes
    key: bytes
    serial: str

    def write(self, certificate: Path, key: Path) -> None:
        """Write both, if there is a key; only the owner can read that."""
        if self.key:
            atomic_write(key, self.key, mode=0o600)
        atomic_write(certificate, self.certificate, mode=0o644)


@dataclass(frozen=True)
class Certificate:
    """A certificate (PEM), with what there is to know of it.

    Examples
    --------
    >>> from fedglb.federation.operator.authority import Authority
    >>> authority = Authority.new("demo")
    >>> issued = authority.issue("fedglb://demo/shop-1/1")
    >>> found = Certificate(issued.certificate)
    >>> found.identities, found.serial == issued.serial, found.has_key(issued.key)
    (['fedglb://demo/shop-1/1'], True, True)
    >>> found.is_issued_by(authority.pem), found.is_issued_by(Authority.new("demo").pem)
    (True, False)
    """

    content: bytes

    @cached_property
    def _read(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(self.content)

    @property
    def identities(self) -> list[str]:
        """The identities that it carries."""
        try:
            names = self._read.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        except x509.ExtensionNotFound:
            return []
        return list(names.value.get_values_for_type(x509.UniformResourceIdentifier))

    @property
    def hosts(self) -> list[str]:
        """The addresses that it is for, if it is a server's."""
        names = self._read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        addresses = [str(a) for a in names.get_values_for_type(x509.IPAddress)]
        return [*names.get_values_for_type(x509.DNSName), *addresses]

    @property
    def serial(self) -> str:
        """Its number, as the registry has it."""
        return f"{self._read.serial_number:x}"

    @property
    def begins(self) -> datetime:
        """From when on it is valid."""
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
        """Return whether this private key (PEM) is its own; `ValueError`: it is no key."""
        try:
            return load_pem_private_key(key, None).public_key() == self._read.public_key()
        except TypeError as error:  # it is encrypted
            raise ValueError(str(error)) from None

    def is_issued_by(self, authority: bytes) -> bool:
        """Return whether the authority with this certificate (PEM) has signed it."""
        above = x509.load_pem_x509_certificate(authority)
        try:
            self._read.verify_directly_issued_by(above)
        except (ValueError, TypeError, InvalidSignature):
            return False
        return True


def expiry(certificate: bytes) -> datetime:
    """Return when a certificate (PEM) expires."""
    return Certificate(certificate).ends
