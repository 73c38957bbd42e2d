"""A member's own key, and its request for a certificate (PKCS#10).

The member makes both; only the request leaves its machine. So nobody else ever has the key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID

from fedglb.errors import InvalidInput
from fedglb.federation.bundle import KEY
from fedglb.federation.certificates import private_pem
from fedglb.federation.names import check_client
from fedglb.io.atomic import atomic_write

REQUEST = "request.pem"
_OPENSSL = (
    "openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=NAME "
    f"-keyout {KEY} -out {REQUEST}"
)
_LARGEST = 65536  # bytes of a request


@dataclass(frozen=True)
class KeyRequest:
    """The name and the P-256 public key, in DER (SubjectPublicKeyInfo), of a request."""

    name: str
    public_key: bytes

    @classmethod
    def read(cls, path: str | Path) -> KeyRequest:
        """Read a request, by `make` or OpenSSL; only its name (CN) and its key are used."""
        try:
            with open(path, "rb") as file:
                found = x509.load_pem_x509_csr(file.read(_LARGEST))
            signed = found.is_signature_valid
            key = found.public_key()
            names = found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        except (OSError, ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm) as error:
            allowed = f"a request in PEM, by `fedglb agent key` ({_first_line(error)})"
            raise InvalidInput("request", str(path), allowed) from None
        if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name != "secp256r1":
            kind = key.curve.name if isinstance(key, ec.EllipticCurvePublicKey) else "no EC key"
            allowed = f"a request for a P-256 key ({kind}): `fedglb agent key`, or {_OPENSSL}"
            raise InvalidInput("request", str(path), allowed)
        if not signed:
            allowed = "a request signed by its own key: this file was changed, ask for it again"
            raise InvalidInput("request", str(path), allowed)
        if len(names) != 1:
            allowed = f"a request with one common name, the member's ({len(names)} found)"
            raise InvalidInput("request", str(path), allowed)
        return cls(str(names[0].value), _der(key))

    @classmethod
    def make(cls, folder: str | Path, name: str) -> KeyRequest:
        """Make a member's key and its request in a folder; a key that is there stays."""
        check_client(name)
        place = Path(folder)
        if (place / KEY).exists():
            allowed = f"a folder without {KEY}: a certificate may exist for the key in this one"
            raise InvalidInput("folder", str(place), allowed)
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        request = (
            x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
        )
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The key last: where there is one, the request is there, too.
        atomic_write(place / REQUEST, request.public_bytes(Encoding.PEM), mode=0o644)
        atomic_write(place / KEY, private_pem(key), mode=0o600)
        return cls(name, _der(key.public_key()))

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the public key, which owner and operator compare."""
        return hashlib.sha256(self.public_key).hexdigest()


def requested_keys(requests: Sequence[KeyRequest], names: Sequence[str]) -> dict[str, bytes]:
    """Return the key of each request by name; raise unless each is for another of `names`."""
    out: dict[str, bytes] = {}
    for request in requests:
        if request.name not in names:
            allowed = f"a request of one of the clients to add: {', '.join(names) or 'none'}"
            raise InvalidInput("request", request.name, allowed)
        if request.name in out:
            raise InvalidInput("request", request.name, "one request per client")
        out[request.name] = request.public_key
    return out


def _der(key: ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].partition(". ")[0] or type(error).__name__
