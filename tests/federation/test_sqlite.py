"""SQLite files: transactions, kinds, versions, arrays; also names and the count of traffic."""

from __future__ import annotations

import sqlite3
import subprocess
import sys

import numpy as np
import pytest

from fedglb.errors import InvalidInput
from fedglb.federation.coordinator.store import Traffic
from fedglb.federation.errors import Unavailable
from fedglb.federation.names import check_client, check_name, down, identity, up
from fedglb.federation.sqlite import close, connect, pack, transaction, unpack

SCHEMA = "CREATE TABLE one(a INTEGER PRIMARY KEY);\nCREATE TABLE two(b)"


@pytest.fixture
def db(tmp_path):
    out = connect(tmp_path / "f.db", SCHEMA, "agent", 1)
    yield out
    close(out)


def test_a_transaction_is_all_or_nothing(db):
    with transaction(db):
        db.execute("INSERT INTO one VALUES (1)")

    def twice() -> None:
        with transaction(db):
            db.execute("INSERT INTO one VALUES (2)")
            db.execute("INSERT INTO one VALUES (1)")

    def interrupted() -> None:
        with transaction(db):
            db.execute("INSERT INTO one VALUES (3)")
            raise KeyboardInterrupt

    with pytest.raises(sqlite3.IntegrityError):
        twice()
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert db.execute("SELECT a FROM one").fetchall() == [(1,)]
    assert not db.in_transaction


def test_how_a_file_is_opened(db):
    settings = {
        name: db.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("journal_mode", "locking_mode", "synchronous", "secure_delete")
    }
    assert settings == {
        "journal_mode": "wal", "locking_mode": "normal", "synchronous": 1, "secure_delete": 1,
    }  # fmt: skip


def test_nobody_else_can_open_it_until_it_is_closed(db, tmp_path):
    path = tmp_path / "f.db"
    for kind, remedy in (("agent", "its own agent"), ("coordinator", "stop the other")):
        with pytest.raises(Unavailable, match=rf"f\.db is already open.*{remedy}"):
            connect(path, SCHEMA, kind, 1)
    close(db)
    assert not list(tmp_path.glob("*-shm"))
    again = connect(path, SCHEMA, "agent", 1)
    assert again.execute("SELECT count(*) FROM one").fetchone() == (0,)
    close(again)


def test_a_file_of_another_kind(db, tmp_path):
    close(db)
    with pytest.raises(InvalidInput, match="or a file of a coordinator"):
        connect(tmp_path / "f.db", SCHEMA, "coordinator", 1)
    close(connect(tmp_path / "other.db", SCHEMA, "coordinator", 1))
    with pytest.raises(InvalidInput, match="or a file of an agent"):
        connect(tmp_path / "other.db", SCHEMA, "agent", 1)


@pytest.mark.parametrize(
    ("kind", "found", "supported"), [("agent", 1, 2), ("coordinator", 1, 2), ("agent", 3, 2)]
)
def test_a_file_of_another_version(tmp_path, kind, found, supported):
    """The file, both versions, and what to do; the file stays as it is."""
    path = tmp_path / "f.db"
    close(connect(path, SCHEMA, kind, found))
    before = path.read_bytes()
    text = rf"f\.db': expected .*version {supported}, .* not {found}: use the fedglb that"
    with pytest.raises(InvalidInput, match=text):
        connect(path, SCHEMA, kind, supported)
    assert path.read_bytes() == before
    close(connect(path, SCHEMA, kind, found))  # and it is not left locked


def test_a_file_whose_making_was_interrupted_is_made_again(tmp_path):
    path = tmp_path / "empty.db"
    path.touch()
    close(connect(path, SCHEMA, "agent", 1))
    half = sqlite3.connect(tmp_path / "half.db")
    half.execute("PRAGMA journal_mode=WAL")
    half.close()
    made = connect(tmp_path / "half.db", SCHEMA, "agent", 1)
    assert made.execute("SELECT count(*) FROM two").fetchone() == (0,)
    close(made)


def test_arrays_come_back_to_the_bit():
    arrays = {
        "a": np.array([-0.0, 5e-324, np.inf, np.nan]), "n": np.array(3), "e": np.empty((0, 2)),
        "names": np.array(["b", "ä"]),
    }  # fmt: skip
    back = unpack(pack(arrays))
    assert list(back) == list(arrays)
    for name, value in arrays.items():
        assert back[name].dtype == value.dtype
        assert back[name].shape == value.shape
        assert back[name].tobytes() == value.tobytes()
    with pytest.raises(ValueError, match="Object arrays"):
        pack({"o": np.array([None, object()])})


def test_names():
    for name in ("a", "A-b_9", "x" * 64):
        assert check_name("n", name) == check_client(name) == name
    for name in ("", "x" * 65, "a.b", "a b", "*", ">", "ä", "a\n", None, 3, "a/b"):
        with pytest.raises(InvalidInput, match="n ="):
            check_name("n", name)
    assert check_name("n", "coordinator") == "coordinator"
    with pytest.raises(InvalidInput, match="the coordinator's"):
        check_client("coordinator")
    assert (up("f", "a"), down("f", "a")) == ("fed.f.up.a", "fed.f.down.a")
    assert identity("f", "a", 3) == "fedglb://f/a/3"


def test_traffic_adds_up():
    traffic = Traffic()
    for size in (10, 30):
        traffic.add("Heartbeat", "up", size)
    traffic.add("Heartbeat", "down", 5)
    traffic.add("NewModel", "down", 100)
    assert (traffic.messages, traffic.size) == (4, 145)
    assert traffic.entries == {
        "Heartbeat.up": (2, 40), "Heartbeat.down": (1, 5), "NewModel.down": (1, 100),
    }  # fmt: skip


def test_a_process_that_may_open_no_more_files_is_told_so(tmp_path):
    script = """
import resource, sys
from fedglb.federation import Agent, Unavailable
import fedglb as fg
agents = [Agent.open(f"{sys.argv[1]}/0.db", fg.Problem(dim=2))]
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
try:
    while len(agents) < 40:
        agents.append(Agent.open(f"{sys.argv[1]}/{len(agents)}.db", fg.Problem(dim=2)))
except Unavailable as error:
    print(error)
agents.pop().close()
Agent.open(f"{sys.argv[1]}/new.db", fg.Problem(dim=2)).close()
for agent in agents:
    agent.observe(agent.choose([[1.0, 0.0]]).id, 1.0)
"""
    command = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    assert "too many open files and connections" in done.stdout
