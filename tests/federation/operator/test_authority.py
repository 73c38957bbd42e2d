"""Certificates: who they name, for how long, and who can read the keys."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

import fedglb as fg
from fedglb.federation.certificates import Certificate, expiry
from fedglb.federation.operator.authority import Authority

IDENTITY = "fedglb://demo/shop-1/3"


@pytest.fixture(scope="module")
def authority():
    return Authority.new("demo")


def read(issued):
    return x509.load_pem_x509_certificate(issued.certificate)


def extension(certificate, kind):
    return certificate.extensions.get_extension_for_class(kind).value


def test_a_members_certificate(authority):
    issued = authority.issue(IDENTITY)
    certificate = read(issued)
    assert Certificate(issued.certificate).identities == [IDENTITY]
    certificate.verify_directly_issued_by(authority.certificate)
    assert list(extension(certificate, x509.ExtendedKeyUsage)) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert not extension(certificate, x509.BasicConstraints).ca
    assert isinstance(certificate.public_key().curve, ec.SECP256R1)
    assert f"{certificate.serial_number:x}" == issued.serial
    lasts = expiry(issued.certificate) - datetime.now(UTC)
    assert timedelta(days=729) < lasts <= timedelta(days=730)
    assert certificate.not_valid_before_utc < datetime.now(UTC)


def test_the_servers_certificate_names_its_addresses_and_no_member(authority):
    issued = authority.issue("demo/server", ["nats.example.org", "10.0.0.7", "::1"], days=5)
    certificate = read(issued)
    names = extension(certificate, x509.SubjectAlternativeName)
    assert names.get_values_for_type(x509.DNSName) == ["nats.example.org"]
    assert [str(a) for a in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.7", "::1"]
    assert Certificate(issued.certificate).identities == []
    assert list(extension(certificate, x509.ExtendedKeyUsage)) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert expiry(issued.certificate) - datetime.now(UTC) <= timedelta(days=5)


def test_the_authority_signs_members_but_no_other_authority(authority):
    constraints = extension(authority.certificate, x509.BasicConstraints)
    assert (constraints.ca, constraints.path_length) == (True, 0)
    lasts = authority.certificate.not_valid_after_utc - datetime.now(UTC)
    assert timedelta(days=3649) < lasts <= timedelta(days=3650)


def test_every_certificate_has_its_own_key_and_number(authority):
    one, two = authority.issue(IDENTITY), authority.issue(IDENTITY)
    assert one.serial != two.serial
    assert one.key != two.key


def test_a_name_longer_than_a_common_name_is_whole_in_the_identity(authority):
    identity = f"fedglb://{'f' * 64}/{'c' * 64}/1"
    assert Certificate(authority.issue(identity).certificate).identities == [identity]


def test_keys_are_for_the_owner_only(authority, tmp_path):
    authority.write(tmp_path)
    authority.issue(IDENTITY).write(tmp_path / "cert.pem", tmp_path / "key.pem")
    for name in ("ca.key", "key.pem"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


def test_it_is_read_as_it_was_written(authority, tmp_path):
    authority.write(tmp_path)
    again = Authority.read(tmp_path)
    assert again.certificate == authority.certificate
    read(again.issue(IDENTITY)).verify_directly_issued_by(authority.certificate)


def test_what_is_not_an_authority_is_refused(authority, tmp_path):
    with pytest.raises(fg.InvalidInput, match=r"ca\.pem and ca\.key"):
        Authority.read(tmp_path)
    authority.write(tmp_path)
    (tmp_path / "ca.key").write_text("nonsense")
    with pytest.raises(fg.InvalidInput, match=r"ca\.pem and ca\.key"):
        Authority.read(tmp_path)
    Authority.new("other").write(tmp_path)
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    with pytest.raises(fg.InvalidInput, match=r"the key of its ca\.pem"):
        Authority.read(tmp_path)
