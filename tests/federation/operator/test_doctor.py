"""What `doctor` finds in the operator's folder, and at the shared server."""

from __future__ import annotations

import json
import shutil

import pytest

from fedglb.federation.certificates import Certificate
from fedglb.federation.operator import nats_server, renewal
from fedglb.federation.operator.authority import Authority
from fedglb.federation.operator.doctor import operator as doctor
from tests.cli import in_process
from tests.federation.helpers.nats_federation import federation


@pytest.fixture
def folder(shared, tmp_path):
    """Return a copy of the operator's folder, to be damaged; the server is that of the first."""
    place = tmp_path / "copy"
    shutil.copytree(shared.folder, place)
    path = place / "server" / "nats.conf"
    path.write_text(path.read_text().replace(str(shared.folder), str(place)))
    return place


def faults(found):
    return {f.check: f for f in found if f.grade == "fault"}


def warnings(found):
    return {f.check: f for f in found if f.grade == "warning"}


def test_a_sound_one(shared):
    found = doctor(shared.folder)
    assert {f.grade for f in found} == {"ok"}, found
    assert {f.check for f in found} == {
        "python", "fedglb", "nats-py", "cryptography", "nats-server", "permissions", "disk",
        "authority", "certificate", "clock", "server files", "agreement", "state", "server", "tls",
        "admitted",
    }  # fmt: skip


def test_it_changes_nothing(shared):
    def files():
        return {
            p: p.read_bytes() for p in shared.folder.rglob("*") if p.is_file() and p.name != "log"
        }

    before = files()
    doctor(shared.folder)
    assert files() == before


def changed(name, old, new):
    """Return a function that changes a file of an operator's folder; old None: all of it."""

    def change(folder):
        text = new if old is None else (folder / name).read_text().replace(old, new)
        (folder / name).write_text(text)

    return change


def server_certificate(authority=None, host="127.0.0.1", file="server.pem"):
    """Return a function that gives the server a certificate of an authority, and its key."""

    def change(folder):
        signer = authority or Authority.read(folder / "authority")
        server = folder / "server"
        signer.issue("demo/server", [host]).write(server / file, server / "server.key")

    return change


def readable(folder):
    (folder / "authority" / "ca.key").chmod(0o640)


OTHER = Authority.new("demo")
MISMATCH = server_certificate(file="another.pem")
MEMBERS = changed("server/accounts.conf", "/a/1", "/a/9")


@pytest.mark.parametrize(
    ("damage", "check", "text", "remedy"),
    [
        (readable, "permissions", "other users can read", "chmod 600"),
        (changed("authority/registry.json", None, "{"), "authority", "restore authority/ from", ""),
        (MISMATCH, "server files", "not the key of server.pem", "renew"),
        (server_certificate(OTHER), "server files", "this authority did not issue", "renew"),
        (server_certificate(host="10.1.2.3"), "server files", "is for 10.1.2.3", "renew"),
        (MEMBERS, "server files", "differs from registry.json", "renew"),
        (changed("server/nats.conf", None, "listen: ["), "server files", "rejects", "nats.conf"),
        (
            changed("clients/a/federation.toml", "max_clients = 6", "max_clients = 7"),
            "agreement", "max_clients: '7', the federation has '6'", "authority/",
        ),
        (changed("coordinator/state.db", None, "x" * 5000), "state", "not a database", "backup"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_what_to_do(folder, damage, check, text, remedy):
    damage(folder)
    found = [f for f in doctor(folder) if f.grade == "fault" and f.check == check]
    assert any(text in f.text and remedy in f.remedy for f in found), found


def test_what_it_says_to_do_mends_it(folder):
    for damage in (MISMATCH, MEMBERS):
        damage(folder)
    (folder / "server" / "ca.pem").write_text("x")
    assert "server files" in faults(doctor(folder))
    renewal.renew(folder, ["server"])
    assert "server files" not in faults(doctor(folder))


def test_certificates_that_end_soon(folder):
    renewal.renew(folder, ["a"], days=20)
    found = [f for f in doctor(folder) if f.grade == "warning" and f.check == "certificate"]
    assert ["a's certificate expires on" in f.text for f in found] == [True]
    assert found[0].remedy == f"fedglb federation renew {folder} a"
    own = Authority.read(folder / "authority").renewed(days=300)
    own.write(folder / "authority")
    found = [f for f in doctor(folder) if f.grade == "warning" and "authority" in f.text]
    assert "no certificate outlasts it" in found[0].remedy
    assert Certificate(own.pem).ends < Certificate(Authority.new("x").pem).ends


def test_without_a_server(tmp_path):
    still = federation(tmp_path, ["a"])
    found = doctor(still.folder)
    assert "cannot reach" in faults(found)["server"].text
    assert "nats-server -c" in warnings(found)["server"].remedy
    with still:
        assert not faults(doctor(still.folder))


def test_a_server_that_is_too_old_or_missing(shared, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(nats_server, "found", lambda: None)
        assert "not on the PATH" in warnings(doctor(shared.folder))["nats-server"].text


def command(*arguments):
    done = in_process.federation("doctor", *arguments)
    return done.returncode, done.stdout, done.stderr


def test_the_command(shared, folder):
    code, out, _ = command(shared.folder)
    assert code == 0
    assert {line[0] for line in out.splitlines()} == {"✓"}
    code, out, _ = command(shared.folder / "clients" / "a", "--json")
    answer = json.loads(out)
    assert (code, answer["sound"]) == (0, True)
    assert {"check", "grade", "text", "remedy"} == set(answer["findings"][0])
    readable(folder)
    code, out, _ = command(folder)
    assert code == 1
    assert any(line.startswith("✗  permissions") and "→ chmod" in line for line in out.splitlines())
    code, out, _ = command(folder, "--json")
    assert (code, json.loads(out)["sound"]) == (1, False)
    code, _, err = command(folder / "nowhere")
    assert (code, "FOLDER" in err) == (2, True)
    code, _, err = command(folder, "--file", "x")
    assert (code, "--file applies only to a client's bundle" in err) == (2, True)
