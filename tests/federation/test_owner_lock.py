"""Who owns a file: one connection of one process, whatever fork or kill there is."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fedglb.federation.errors import Unavailable
from fedglb.federation.sqlite import close, connect, reader
from tests.federation.helpers.nats_federation import PATIENCE

SCHEMA = "CREATE TABLE one(a INTEGER PRIMARY KEY)"
OPEN = """
import os, sys
from fedglb.federation.sqlite import close, connect
db = connect(sys.argv[1], "CREATE TABLE one(a INTEGER PRIMARY KEY)", "agent", 1)
"""
WAIT = "print('open', flush=True)\ninput()\n"


def opened(path: Path):
    return connect(path, SCHEMA, "agent", 1)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "f.db"
    close(opened(path))
    return path


@pytest.fixture
def process(path):
    """Start processes; each says a line when it has the file, and ends when it is given one."""
    started = []

    def start(text: str) -> subprocess.Popen:
        out = subprocess.Popen(
            [sys.executable, "-c", text, str(path)], text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        started.append(out)
        return out

    yield start
    for each in started:
        each.kill()
        each.communicate(timeout=PATIENCE)


@pytest.mark.parametrize("elsewhere", [True, False], ids=["another process", "this one"])
def test_a_new_owner_waits_until_the_old_one_ends(path, process, elsewhere):
    if elsewhere:
        first = process(OPEN + WAIT)
        assert first.stdout.readline() == "open\n"
        pid, end = first.pid, first.kill
    else:
        db = opened(path)
        pid, end = os.getpid(), lambda: close(db)
    with pytest.raises(Unavailable, match=f"already open by process {pid}, and one"):
        connect(path, SCHEMA, "agent", 1, wait=0.1)
    found = []
    thread = threading.Thread(
        target=lambda: found.append(connect(path, SCHEMA, "agent", 1, wait=PATIENCE))
    )
    thread.start()
    thread.join(0.2)
    assert not found
    end()
    thread.join(PATIENCE)
    close(found[0])


def test_a_program_with_only_sqlites_own_lock_keeps_it_closed(path, process):
    other = process(
        "import sqlite3, sys\n"
        "db = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "db.execute('PRAGMA locking_mode=EXCLUSIVE')\n"
        "db.execute('BEGIN IMMEDIATE')\n" + WAIT
    )
    assert other.stdout.readline() == "open\n"
    with pytest.raises(Unavailable, match="already open, and one"):
        opened(path)
    other.kill()
    close(connect(path, SCHEMA, "agent", 1, wait=PATIENCE))


def test_a_forked_child_does_not_hold_its_parents_lock(path, process):
    """And never opens the file: what SQLite keeps in its memory is its parent's."""
    parent = process(
        OPEN
        + """
from fedglb.federation.errors import Unavailable
if os.fork() == 0:
    try:
        connect(sys.argv[1], "", "agent", 1)
    except Unavailable as error:
        print(error, flush=True)
    input()  # outlives its parent
    os._exit(0)
import time
time.sleep(600)
"""
    )
    assert "by the process that this one was forked from" in parent.stdout.readline()
    with pytest.raises(Unavailable):
        opened(path)
    parent.send_signal(signal.SIGKILL)
    parent.wait(timeout=PATIENCE)
    close(connect(path, SCHEMA, "agent", 1, wait=PATIENCE))
    parent.stdin.write("\n")


def test_a_reader_sees_what_is_committed_and_writes_nothing(path):
    db = opened(path)
    db.execute("INSERT INTO one VALUES (1)")
    second = reader(path)
    db.execute("BEGIN")
    db.execute("INSERT INTO one VALUES (2)")
    assert second.execute("SELECT count(*) FROM one").fetchone() == (1,)
    db.execute("COMMIT")
    assert second.execute("SELECT count(*) FROM one").fetchone() == (2,)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        second.execute("INSERT INTO one VALUES (3)")
    close(second)
    close(db)
