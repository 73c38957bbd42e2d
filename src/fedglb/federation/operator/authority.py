"""A federation's certificate authority.

Every certificate carries an identity (see `names.identity`), which is the user's name for NATS.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedglb.errors import InvalidInput
from fedglb.federation.certificates import IssuedCertificate, private_pem
from fedglb.io.atomic import atomic_write

CA_DAYS, DAYS = 3650, 730
#: The remedy for damaged files in `authority/`: there is no other copy.
RESTORE = "restore authority/ from its backup; members are not affected meanwhile"
_SKEW = timedelta(hours=1)  # a certificate must be valid at once on machines with other clocks
_LONGEST_NAME = 64  # characters of a common name that X.509 allows


@dataclass(frozen=True)
class Authority:
    """The federation's signing key and its certificate: anyone with the key can add members."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def new(cls, federation: str, days: int = CA_DAYS) -> Authority:
        """Create a federation's authority, with a self-signed certificate."""
        key = ec.generate_private_key(ec.SECP256R1())
        return cls(_self_signed(_name(f"fedglb {federation}"), key, days), key)

    @classmethod
    def read(cls, folder: Path) -> Authority:
        """Read the files of `write`."""
        name = "ca.key"
        try:
            key = serialization.load_pem_private_key((folder / name).read_bytes(), None)
            name = "ca.pem"
            certificate = x509.load_pem_x509_certificate((folder / name).read_bytes())
        except (OSError, ValueError, TypeError) as error:
            raise _broken(folder, name, str(error)) from None
        ours = isinstance(key, ec.EllipticCurvePrivateKey)
        if not ours or key.public_key() != certificate.public_key():
            raise _broken(folder, "ca.key", "not the key of its ca.pem")
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return cls(certificate, key)

    def renewed(self, days: int = CA_DAYS) -> Authority:
        """Return an authority with the same key and name, and a certificate that expires later.

        Both certificates verify everything issued under either, so members may get the new one at
        any time before the old one expires.
        """
        name = self.certificate.subject
        return Authority(_self_signed(name, self.key, days), self.key)

    def write(self, folder: Path) -> None:
        """Write ca.pem and ca.key."""
        atomic_write(folder / "ca.key", private_pem(self.key), mode=0o600)
        atomic_write(folder / "ca.pem", self.pem, mode=0o644)

    @property
    def pem(self) -> bytes:
        """The authority's certificate (PEM), by which members and server verify each other."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def issue(
        self,
        identity: str,
        hosts: Sequence[str] = (),
        days: float = DAYS,
        public_key: bytes | None = None,
    ) -> IssuedCertificate:
        """Issue a member's certificate, or with `hosts` the server's for these addresses.

        It never outlasts the authority's certificate. With a `public_key` (DER) the holder keeps
        its key.
        """
        key = ec.generate_private_key(ec.SECP256R1()) if public_key is None else None
        holds = serialization.load_der_public_key(public_key or b"") if key is None else None
        public = holds if key is None else key.public_key()
        assert isinstance(public, ec.EllipticCurvePublicKey)
        kind = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
        names = [_host(host) for host in hosts] or [x509.UniformResourceIdentifier(identity)]
        own = self.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
        above = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own.value)
        subject = _name(identity.removeprefix("fedglb://"))
        ends = min(_in(days), self.certificate.not_valid_after_utc)
        certificate = (
            _unsigned(subject, self.certificate.subject, public, ends)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([kind]), critical=False)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(above, critical=False)
            .sign(self.key, hashes.SHA256())
        )
        pem = certificate.public_bytes(serialization.Encoding.PEM)
        private = b"" if key is None else private_pem(key)
        return IssuedCertificate(pem, private, f"{certificate.serial_number:x}")


def _self_signed(name: x509.Name, key: ec.EllipticCurvePrivateKey, days: float) -> x509.Certificate:
    return (
        _unsigned(name, name, key.public_key(), _in(days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )


def _in(days: float) -> datetime:
    return datetime.now(UTC) + timedelta(days=days)


def _unsigned(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, ends: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - _SKEW)
        .not_valid_after(ends)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _broken(folder: Path, name: str, why: str) -> InvalidInput:
    allowed = f"a folder with the authority's ca.pem and ca.key, and a valid {name} ({why})"
    return InvalidInput("folder", str(folder), f"{allowed}: {RESTORE}")


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:_LONGEST_NAME])])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
