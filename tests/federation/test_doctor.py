"""What `doctor` finds in a member's folder, and on its way to the server."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

import fedglb as fg
from fedglb.federation import Agent, doctor
from fedglb.federation.certificates import Certificate
from fedglb.federation.doctor import member
from fedglb.federation.operator import operator
from fedglb.federation.operator.authority import Authority
from tests.federation.helpers.agent_driver import copied
from tests.federation.helpers.nats_federation import federation
from tests.federation.helpers.nats_process import free_port


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with federation(tmp_path_factory.mktemp("doctor"), ["a", "b", "gone"]) as out:
        shutil.copytree(out.folder / "clients" / "gone", out.folder.parent / "gone")
        operator.revoke(out.folder, ["gone"])
        yield out


@pytest.fixture
def folder(running, tmp_path):
    """Return a client's folder, to be damaged."""
    return shutil.copytree(running.folder / "clients" / "a", tmp_path / "a")


@pytest.fixture
def issue(running):
    return Authority.read(running.folder / "authority").issue


def faults(found):
    return [f for f in found if f.grade == "fault"]


def test_a_sound_one(folder):
    found = member(folder)
    assert {f.grade for f in found} == {"ok"}, found
    assert {f.check for f in found} == {
        "python", "fedglb", "nats-py", "cryptography", "bundle", "certificate", "clock",
        "permissions", "disk", "server", "tls", "nats-server", "admitted",
    }  # fmt: skip


def test_who_is_revoked(running):
    (found,) = faults(member(running.folder.parent / "gone"))
    assert (found.check, found.text) == ("admitted", "the server does not know gone")
    assert "operator" in found.remedy


def test_a_server_that_is_away(folder):
    path = folder / "federation.toml"
    path.write_text(re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{free_port()}", path.read_text()))
    (found,) = faults(member(folder))
    assert found.check == "server"
    assert "firewall" in found.remedy


def test_a_server_that_is_not_trusted(folder):
    (folder / "ca.pem").write_bytes(Authority.new("demo").pem)
    found = {f.check: f for f in faults(member(folder))}
    assert "did not issue" in found["bundle"].text
    assert "not trusted" in found["tls"].text


def test_an_expired_certificate_and_one_that_ends_soon(folder, issue):
    issue("fedglb://demo/a/1", days=-0.01).write(folder / "cert.pem", folder / "key.pem")
    found = {f.check: f for f in faults(member(folder))}
    assert "a's certificate expired on" in found["certificate"].text
    assert "renewed bundle" in found["certificate"].remedy
    issue("fedglb://demo/a/1", days=29.0).write(folder / "cert.pem", folder / "key.pem")
    found = member(folder)
    assert not faults(found)
    (soon,) = [f for f in found if f.grade == "warning"]
    assert "a's certificate expires on" in soon.text


def test_keys_that_others_can_read(folder):
    (folder / "key.pem").chmod(0o644)
    (found,) = faults(member(folder))
    assert found.remedy == f"chmod 600 {folder / 'key.pem'}"


def test_a_key_of_somebody_else(folder, running):
    shutil.copy(running.folder / "clients" / "b" / "key.pem", folder / "key.pem")
    assert "not the key of cert.pem" in faults(member(folder))[0].text


def test_a_folder_that_cannot_be_read(tmp_path):
    (found,) = faults(member(tmp_path))
    assert "federation.toml is missing" in found.text


def test_a_clock_that_is_wrong(issue):
    certificate = Certificate(issue("fedglb://demo/a/1").certificate)
    now = datetime.now(UTC)
    assert doctor.clock([certificate], now).grade == "ok"
    found = doctor.clock([certificate], now - timedelta(hours=2))
    assert (found.grade, "NTP" in found.remedy) == ("fault", True)


def test_little_room(folder, monkeypatch):
    for free, grade in ((5e9, "ok"), (5e8, "warning"), (5e7, "fault")):
        usage = type("Usage", (), {"free": free})
        monkeypatch.setattr(shutil, "disk_usage", lambda path, usage=usage: usage)
        assert doctor.room(folder).grade == grade


def test_versions_that_are_too_old(monkeypatch):
    monkeypatch.setattr(doctor, "versions", lambda names: {"nats-py": "2.9.0"})
    found = {f.check: f for f in doctor.software()}
    assert found["nats-py"].grade == "fault"
    assert "pip install" in found["cryptography"].remedy
    for version in ("", "2.12.11", "2.13.0", "2.14.2"):
        assert doctor.server_version(version).grade == "fault", version
    for version in ("2.12.12", "2.14.3-beta", "2.15.1"):
        assert doctor.server_version(version).grade == "ok", version


def test_an_agents_file(folder, tmp_path):
    path = tmp_path / "agent.db"
    with Agent.open(path, fg.Problem(dim=3)) as agent:
        for _ in range(50):
            agent.observe(agent.choose(np.eye(3)).id, 1.0)
        killed = copied(path, tmp_path / "killed")  # with a write-ahead log that nobody emptied
    assert os.path.exists(f"{killed}-wal")
    for each in (path, killed, tmp_path / "none.db"):
        (found,) = [f for f in member(folder, each) if f.check == "file"]
        assert found.grade == "ok", found
    with Agent.open(killed, fg.Problem(dim=3)) as agent:  # nothing has changed
        assert agent.status.samples == 50
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    (found,) = faults(member(folder, path))
    assert (found.check, "backup" in found.remedy) == ("file", True)


def test_an_agents_file_that_is_open_stays_so(folder, tmp_path):
    path = tmp_path / "agent.db"
    with Agent.open(path, fg.Problem(dim=3)) as agent:
        code = (
            "import sys; from pathlib import Path; from fedglb.federation import doctor; "
            "print(doctor.sqlite_file('file', Path(sys.argv[1]), 'agent').grade)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, path], capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == "ok"
        agent.observe(agent.choose(np.eye(3)).id, 1.0)
    with Agent.open(path, fg.Problem(dim=3)) as agent:
        assert agent.status.samples == 1
