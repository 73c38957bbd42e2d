"""Certificates as members hold them, and what can be read from one.

They are issued by the operator's `Authority`; whoever only holds one needs nothing of that.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cryptography import x509

from fedglb.io.atomic import atomic_write


@dataclass(frozen=True)
class IssuedCertificate:
    """A certificate and its private key, in PEM."""

    certificate: bytes
    key: bytes
    serial: str

    def write(self, certificate: Path, key: Path) -> None:
        """Write both; only the owner can read the key."""
        atomic_write(key, self.key, mode=0o600)
        atomic_write(certificate, self.certificate, mode=0o644)


def identities(certificate: bytes) -> list[str]:
    """Return the identities that a certificate (PEM) carries."""
    read = x509.load_pem_x509_certificate(certificate)
    try:
        names = read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return list(names.get_values_for_type(x509.UniformResourceIdentifier))


def expiry(certificate: bytes) -> datetime:
    """Return when a certificate (PEM) expires."""
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc
