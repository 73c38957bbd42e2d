"""Members that make their own keys: requests, and what the operator does with them."""

from __future__ import annotations

import base64
import shutil
import stat
import subprocess
from dataclasses import replace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

import fedglb as fg
from fedglb.federation.bundle import Bundle
from fedglb.federation.key_request import REQUEST, KeyRequest
from fedglb.federation.operator import operator, renewal
from fedglb.federation.operator.doctor import operator as doctor
from fedglb.federation.operator.registry import Registry
from tests.federation.helpers.nats_federation import federation, table
from tests.federation.operator.test_operator import files


@pytest.fixture
def still(tmp_path):
    """A federation whose server does not run."""
    return federation(tmp_path, ["a"], table(max_clients=4))


def csr(path, name="b", key=None, more=()):
    """Write a request that somebody else's software made."""
    names = [x509.NameAttribute(NameOID.COMMON_NAME, n) for n in (name, *more) if n is not None]
    signer = key or ec.generate_private_key(ec.SECP256R1())
    made = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names))
    path.write_bytes(made.sign(signer, hashes.SHA256()).public_bytes(Encoding.PEM))
    return path


def test_what_a_member_makes(tmp_path):
    made = KeyRequest.make(tmp_path / "b", "b")
    assert {p.name for p in (tmp_path / "b").iterdir()} == {"key.pem", REQUEST}
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "b" / "key.pem").stat().st_mode) == 0o600
    assert KeyRequest.read(tmp_path / "b" / REQUEST) == made
    before = files(tmp_path)
    with pytest.raises(fg.InvalidInput, match=r"a folder without key\.pem"):
        KeyRequest.make(tmp_path / "b", "b")
    assert files(tmp_path) == before
    for name in ("x.y", "coordinator", "server", "authority", ""):
        with pytest.raises(fg.InvalidInput, match="client = "):
            KeyRequest.make(tmp_path / "c", name)
    assert not (tmp_path / "c").exists()


def test_a_death_between_its_two_files_leaves_no_key_without_a_request(tmp_path, monkeypatch):
    from fedglb.federation import key_request

    def full(path, content, mode):
        if path.name == "key.pem":
            raise OSError(28, "No space left on device")
        path.write_bytes(content)

    with monkeypatch.context() as patch:
        patch.setattr(key_request, "atomic_write", full)
        with pytest.raises(OSError, match="No space"):
            KeyRequest.make(tmp_path / "b", "b")
    made = KeyRequest.make(tmp_path / "b", "b")
    assert KeyRequest.read(tmp_path / "b" / REQUEST) == made


def test_the_operator_never_has_the_key(still, tmp_path):
    """From the request to a folder that works, and through two renewals."""
    made = KeyRequest.make(tmp_path / "mine", "b")
    key = (tmp_path / "mine" / "key.pem").read_bytes()
    operator.add(still.folder, ["b"], requests=[KeyRequest.read(tmp_path / "mine" / REQUEST)])
    theirs = still.folder / "clients" / "b"
    assert {p.name for p in theirs.iterdir()} == {"federation.toml", "ca.pem", "cert.pem"}
    with pytest.raises(fg.InvalidInput, match=r"key\.pem is missing .*fedglb agent key"):
        Bundle.read(theirs)
    for renewed in (False, True, True):
        if renewed:
            renewal.renew(still.folder, ["a", "b"])
        faults = {f.check for f in doctor(still.folder) if f.grade == "fault"}
        assert faults == {"server"}  # which does not run
        for path in theirs.iterdir():
            shutil.copy(path, tmp_path / "mine")
        bundle = Bundle.read(tmp_path / "mine")
        bundle.tls()
        assert (bundle.client, bundle.generation) == ("b", 1)
        assert bundle.certificate().public_key == made.public_key
        if renewed:  # a folder that was moved away comes back, again without the key
            shutil.rmtree(theirs)
    assert not [p for p in still.folder.rglob("*") if p.is_file() and key in p.read_bytes()]
    found = Registry.read(still.folder / "authority").members
    assert {name: member.own_key for name, member in found.items()} == {
        "coordinator": False, "a": False, "b": True,
    }  # fmt: skip


def test_the_others_keys_are_made_anew_as_before(still):
    before = still.bundle("a").certificate().public_key
    renewal.renew(still.folder, ["a"])
    assert still.bundle("a").certificate().public_key != before


def test_a_federation_begins_with_requests(tmp_path):
    requests = [KeyRequest.make(tmp_path / name, name) for name in ("a", "b")]
    place = operator.init(
        tmp_path / "new", "demo", table(), ["a", "b", "c"], ["127.0.0.1"], requests=requests
    )
    has = {p.parent.name for p in (place / "clients").glob("*/key.pem")}
    assert has == {"c"}


def test_requests_of_openssl(still, tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here")
    folder = tmp_path / "theirs"
    folder.mkdir()
    subprocess.run(
        ["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-subj", "/O=Shops/CN=b", "-keyout", "key.pem", "-out", REQUEST],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    operator.add(still.folder, ["b"], requests=[KeyRequest.read(folder / REQUEST)])
    for path in (still.folder / "clients" / "b").iterdir():
        shutil.copy(path, folder)
    Bundle.read(folder).tls()


def flipped(path):
    """Change the request's signature."""
    raw = bytearray(x509.load_pem_x509_csr(csr(path).read_bytes()).public_bytes(Encoding.DER))
    raw[-1] ^= 1
    write_pem(path, raw)


def write_pem(path, raw):
    text = base64.encodebytes(raw).decode()
    path.write_text(
        f"-----BEGIN CERTIFICATE REQUEST-----\n{text}-----END CERTIFICATE REQUEST-----\n"
    )


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (lambda p: None, "No such file"),
        (lambda p: p.mkdir(), "a request in PEM"),
        (lambda p: p.write_text("nonsense"), "a request in PEM"),
        (lambda p: p.write_text("-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n"), "in PEM"),
        (flipped, "signed by its own key"),
        (lambda p: csr(p, key=rsa.generate_private_key(65537, 2048)), "P-256 key .no EC key"),
        (lambda p: csr(p, key=ec.generate_private_key(ec.SECP384R1())), "P-256 key .secp384r1"),
        (lambda p: csr(p, None), "one common name"),
        (lambda p: csr(p, "b", more=["c"]), "one common name"),
    ],
)
def test_what_is_no_request(tmp_path, write, said):
    path = tmp_path / "request.pem"
    write(path)
    with pytest.raises(fg.InvalidInput, match=f"request = .*({said})"):
        KeyRequest.read(path)


def test_a_request_that_was_changed(tmp_path):
    """The name of another member, under the first one's signature."""
    path = csr(tmp_path / "x.pem", "b")
    raw = x509.load_pem_x509_csr(path.read_bytes()).public_bytes(Encoding.DER)
    changed = raw.replace(b"\x0c\x01b", b"\x0c\x01c")
    assert changed != raw
    write_pem(path, changed)
    with pytest.raises(fg.InvalidInput, match="signed by its own key"):
        KeyRequest.read(path)


def test_what_is_not_signed_and_changes_nothing(still, tmp_path):
    key = ec.generate_private_key(ec.SECP256R1())
    one = KeyRequest.read(csr(tmp_path / "1", "b", key))
    other = KeyRequest.read(csr(tmp_path / "2", "c", key))
    stolen = KeyRequest("b", still.bundle("a").certificate().public_key)
    before = files(still.folder)
    for names, requests, said in [
        (["c"], [one], "request = 'b'.*one of the clients to add: c"),
        (["b", "c"], [one, one], "one request per client"),
        (["b", "c"], [one, other], "request = 'c'.*a new key: b has"),
        (["b"], [stolen], "request = 'b'.*a new key: a has"),
    ]:
        with pytest.raises(fg.InvalidInput, match=said):
            operator.add(still.folder, names, requests=requests)
    assert files(still.folder) == before
    operator.add(still.folder, ["b"], requests=[one])
    operator.revoke(still.folder, ["b"])
    with pytest.raises(fg.InvalidInput, match="b has or had this one"):
        operator.add(still.folder, ["b"], requests=[one])
    operator.add(still.folder, ["b"], requests=[KeyRequest.read(csr(tmp_path / "3", "b"))])
    assert Registry.read(still.folder / "authority").members["b"].generation == 2
    renewal.renew(still.folder, ["b"])
    operator.revoke(still.folder, ["b"])
    for requests in ([one], [replace(other, name="c")]):  # a stolen key stays revoked for ever
        with pytest.raises(fg.InvalidInput, match="b has or had this one"):
            operator.add(still.folder, [requests[0].name], requests=requests)
