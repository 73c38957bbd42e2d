"""Damaged files: one clear error each, which says which file, what is wrong and what to do."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from pathlib import Path

import numpy as np
import pytest

import fedglb as fg
from fedglb.cli import main
from fedglb.federation import Agent
from fedglb.federation.coordinator.store import CoordinatorStore
from fedglb.federation.operator import operator, renewal
from fedglb.federation.operator.authority import Authority
from tests.federation.helpers.lossy_network import agreed, ask, joined
from tests.federation.helpers.nats_federation import federation, table

PROBLEM = fg.Problem(dim=3)


@pytest.fixture
def folder(tmp_path):
    return federation(tmp_path, ["a", "b"], table(max_clients=5)).folder


@pytest.fixture
def command(monkeypatch, capsys):
    """Return what a command says; it must fail, with one line and without a traceback."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["fedglb", "federation", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code in (1, 2)
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        lines = [line for line in said.err.splitlines() if line.startswith("fedglb: ")]
        assert len(lines) == 1, said.err
        return lines[0]

    return run


def truncated(path):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 3])


def overwritten(path):
    """With noise, all but the header by which SQLite knows its files."""
    content, rng = path.read_bytes(), np.random.default_rng(1)
    path.write_bytes(content[:100] + rng.bytes(len(content) - 100))


def replaced(path):
    path.write_bytes(b"something else\n" * 100)


@pytest.mark.parametrize("damage", [truncated, overwritten, replaced])
def test_an_agents_file(tmp_path, damage):
    path = tmp_path / "agent.db"
    with Agent.open(path, PROBLEM) as agent:
        for _ in range(200):
            agent.observe(agent.choose(np.eye(3)).id, 1.0)
    damage(path)
    with pytest.raises(fg.InvalidInput, match=r"agent\.db.*damaged.*backup.*a new one"):
        Agent.open(path, PROBLEM)


@pytest.fixture
def state(tmp_path):
    """Return the file of a coordinator that has made an update."""
    (tmp_path / "c").mkdir()
    running = joined(tmp_path / "c")
    ask(running)
    running.until(running.shared)
    running.session.stop()
    running.close()
    return tmp_path / "c" / "coordinator.db"


@pytest.mark.parametrize("damage", [truncated, overwritten, replaced])
def test_a_coordinators_file(state, damage):
    damage(state)
    with pytest.raises(fg.InvalidInput, match=r"coordinator\.db.*damaged.*backup.*no agent loses"):
        CoordinatorStore(state, agreed(1e9))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE state SET arrays = x'504B0304'",
        "UPDATE state SET arrays = zeroblob(1000)",
        "UPDATE state SET traffic = x'7B22'",
        "UPDATE facts SET value = '{'",
        "DROP TABLE members",
    ],
)
def test_what_a_coordinators_file_says_is_no_longer_what_was_written(
    tmp_path, state, command, statement
):
    place = federation(tmp_path, ["a"], table(5, 2)).folder / "coordinator"  # as `state` has it
    path = Path(shutil.move(state, place / "state.db"))
    db = sqlite3.connect(path)
    db.execute(statement)
    db.commit()
    db.close()
    said = command("coordinator", place)
    assert "state.db" in said
    assert "damaged" in said
    assert "docs/operate.md" in said


@pytest.mark.some(3)
@pytest.mark.parametrize("damage", [truncated, replaced])
@pytest.mark.parametrize("name", ["registry.json", "ca.key", "ca.pem", "federation.toml"])
def test_the_authoritys_files(folder, command, name, damage):
    damage(folder / "authority" / name)
    said = command("add", folder, "c")
    assert name in said
    assert "authority/" in said


def test_a_key_that_is_not_the_authoritys(folder, command):
    Authority.new("demo").write(folder / "server")
    (folder / "authority" / "ca.key").write_bytes((folder / "server" / "ca.key").read_bytes())
    said = command("renew", folder, "--all")
    assert "not the key of its ca.pem" in said
    assert "restore authority/ from its backup" in said


@pytest.mark.some(3)
@pytest.mark.parametrize("damage", [truncated, replaced])
@pytest.mark.parametrize("name", ["cert.pem", "key.pem", "ca.pem", "federation.toml"])
def test_a_bundles_files(folder, command, name, damage):
    damage(folder / "coordinator" / name)
    said = command("coordinator", folder / "coordinator")
    assert name in said
    assert "from the operator again" in said
    assert not (folder / "coordinator" / "state.db").exists()


def test_files_that_this_user_may_not_read(folder, command, monkeypatch):
    """As root every file can be read, so it is said to be otherwise."""
    read = Path.read_bytes

    def denied(path):
        if path.name == "key.pem":
            raise PermissionError(13, "Permission denied", str(path))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", denied)
    said = command("coordinator", folder / "coordinator")
    assert "key.pem" in said
    assert "Permission denied" in said


def test_a_server_whose_certificate_is_damaged_gets_a_new_one(folder):
    for name in ("server.key", "server.pem", "ca.pem", "accounts.conf"):
        truncated(folder / "server" / name)
    (folder / "server" / "nats.conf").unlink()
    assert set(renewal.renew(folder, ["server"]).renewed) == {
        "server"
    }  # nats-server has checked it
    operator.add(folder, ["c"])
