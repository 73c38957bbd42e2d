"""Alarms start, hold and end; the operator's program is told, and can do no harm."""

from __future__ import annotations

import json
import logging
import os
import shlex
import subprocess
import sys
import time

import pytest

from fedglb.errors import InvalidInput
from fedglb.federation import alarms
from fedglb.federation.alarms import Alarm, AlarmBoard, AlarmCommand, low_disk
from tests.federation.helpers.nats_federation import eventually

GB = 10**9


# -- the board -------------------------------------------------------------------------------------


class Watched:
    """A board, and what it told since the last time."""

    def __init__(self) -> None:
        self.board = AlarmBoard(lambda alarm, starts: self.told.append((alarm, starts)))
        self.told: list[tuple[Alarm, bool]] = []

    def look(self, now: float, *found: Alarm) -> list[tuple[str, str | None, bool]]:
        self.board.look(found, now)
        out = [(alarm.kind, alarm.client, starts) for alarm, starts in self.told]
        self.told.clear()
        return out


def test_an_alarm_starts_holds_and_ends():
    watched = Watched()
    assert watched.look(0.0) == []
    assert watched.look(10.0, Alarm("disk", "9 MB")) == [("disk", None, True)]
    assert watched.look(15.0, Alarm("disk", "8 MB")) == []
    assert watched.board.standing == (Alarm("disk", "8 MB", 10.0),)  # newest text, first time
    assert watched.board.stands("disk")
    assert watched.look(20.0) == []
    assert watched.look(75.0) == []
    assert watched.board.stands("disk")
    assert watched.look(75.1) == [("disk", None, False)]
    assert watched.board.standing == ()
    assert watched.look(90.0, Alarm("disk", "9 MB")) == [("disk", None, True)]
    assert watched.board.standing[0].since == 90.0


def test_an_alarm_that_comes_and_goes_is_one_alarm():
    watched, told = Watched(), []
    for second in range(0, 3600, 5):
        told += watched.look(
            second, *([Alarm("away", "a", client="a")] if second % 20 == 0 else [])
        )
    assert told == [("away", "a", True)]


def test_alarms_are_known_by_kind_and_client():
    watched = Watched()
    both = Alarm("away", "a", 3.0, "a"), Alarm("away", "b", 4.0, "b")
    assert watched.look(5.0, *both) == [("away", "a", True), ("away", "b", True)]
    assert [alarm.since for alarm in watched.board.standing] == [3.0, 4.0]
    assert watched.look(100.0, both[1]) == [("away", "a", False)]


def test_a_clock_that_goes_back_ends_no_alarm_late():
    watched = Watched()
    watched.look(1e9, Alarm("disk", ""))
    assert watched.look(1e6) == [("disk", None, False)]


# -- the disk --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("total", "free", "stands", "alarm"),
    [
        (500 * GB, 1.01 * GB, False, False),
        (500 * GB, 0.99 * GB, False, True),
        (500 * GB, 1.19 * GB, True, True),
        (500 * GB, 1.21 * GB, True, False),
        (GB, 0.11 * GB, False, False),  # a small disk
        (GB, 0.09 * GB, False, True),
    ],
)
def test_a_disk_that_is_nearly_full(monkeypatch, tmp_path, total, free, stands, alarm):
    monkeypatch.setattr(alarms.shutil, "disk_usage", lambda path: (total, total - free, free))
    found = list(low_disk(tmp_path, stands))
    assert [a.kind for a in found] == ["disk"] * alarm
    assert all(a.urgent and str(tmp_path) in a.text for a in found)


def test_a_disk_that_cannot_be_asked_is_no_alarm(tmp_path):
    assert list(low_disk(tmp_path / "nothing", False)) == []


# -- the operator's program ------------------------------------------------------------------------


def command(code: str) -> AlarmCommand:
    return AlarmCommand(shlex.join([sys.executable, "-c", code]), of="shops")


@pytest.fixture
def logged(caplog):
    """A function that waits for a text in the log, and returns the log."""
    caplog.set_level(logging.INFO, "fedglb.federation.alarms")

    def wait(text: str) -> str:
        eventually(lambda: text in caplog.text, text)
        return caplog.text

    return wait


def test_the_program_gets_the_alarm_as_json_and_its_output_is_logged(logged):
    given = alarms.facts_of(Alarm("away", "a is «gone»", 5.0, "a"), True)
    command("import sys; print('got', sys.stdin.read())").call(given)
    text = logged("got {")
    found = json.loads(text[text.index("got {") + 4 :].splitlines()[0])
    assert found.pop("time") <= time.time()
    assert found == {
        "of": "shops", "state": "start", "kind": "away", "text": "a is «gone»", "since": 5.0,
        "client": "a", "urgent": False,
    }  # fmt: skip


def test_no_shell_reads_the_command(logged):
    AlarmCommand("echo $HOME; false", of="shops").call({})
    assert "ended with" not in logged("--on-alarm: $HOME; false")


def test_programs_run_one_at_a_time_in_order(logged, tmp_path):
    path = tmp_path / "said"
    code = f"""
import json, os, sys, time
path = {str(path)!r}
fd = os.open(path + ".lock", os.O_CREAT | os.O_EXCL)  # fails if another one runs
time.sleep(0.05)
open(path, "a").write(str(json.load(sys.stdin)["number"]))
os.unlink(path + ".lock")
"""
    program = command(code)
    for number in range(5):
        program.call({"number": number})
    eventually(lambda: path.exists() and len(path.read_text()) == 5, "five calls")
    assert path.read_text() == "01234"


def test_the_caller_does_not_wait(logged, tmp_path):
    path = tmp_path / "go"
    code = f"""
import os, time
while not os.path.exists({str(path)!r}):
    time.sleep(0.01)
print("gone on")
"""
    command(code).call({})
    path.touch()
    logged("gone on")


def test_a_program_that_fails_is_logged_and_the_next_call_is_made(logged):
    program = command("import sys; print('to the log', file=sys.stderr); sys.exit(7)")
    program.call({})
    assert "to the log" in logged("ended with 7")
    program.call({})
    eventually(lambda: logged("ended with 7").count("ended with 7") == 2, "the second call")


def test_a_program_that_vanished_is_logged(logged, tmp_path):
    path = tmp_path / "program"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    program = AlarmCommand(str(path), of="shops")
    path.unlink()
    program.call({})
    logged("cannot run")


def test_a_program_that_hangs_is_killed_with_all_that_it_started(logged, monkeypatch, tmp_path):
    monkeypatch.setattr(alarms, "_TIMEOUT", 2.0)
    path = tmp_path / "pid"
    code = f"""
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
open({str(path)!r}, "w").write(str(child.pid))
time.sleep(1000)
"""
    command(code).call({})
    logged("killed")
    if path.exists():  # on a busy machine it may not have come so far
        child = int(path.read_text())
        eventually(lambda: _has_ended(child), "the child has ended")


def _has_ended(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_program_that_leaves_another_behind_does_not_hang(logged, monkeypatch, tmp_path):
    """The other one holds the pipe, in a session of its own."""
    monkeypatch.setattr(alarms, "_TIMEOUT", 5.0)
    path = tmp_path / "pid"
    code = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"],
                         start_new_session=True)
open({str(path)!r}, "w").write(str(child.pid))
print("done", flush=True)
"""
    command(code).call({})
    logged("--on-alarm: done")
    os.kill(int(path.read_text()), 9)


def test_endless_output_is_cut(logged, monkeypatch):
    monkeypatch.setattr(alarms, "_TIMEOUT", 2.0)
    command("while True: print('x' * 99)").call({})
    assert len(logged("killed")) < 30_000


def test_a_program_that_ends_without_reading_has_not_failed(logged, monkeypatch):
    class Late(subprocess.Popen):
        """Returns when the program has ended."""

        def __init__(self, *words, **more):
            super().__init__(*words, **more)
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)

    monkeypatch.setattr(alarms.subprocess, "Popen", Late)
    command("print('ended')").call({})
    assert "cannot run" not in logged("--on-alarm: ended")


def test_calls_that_wait_are_bounded(logged, monkeypatch):
    monkeypatch.setattr(alarms, "_WAITING", 1)
    program = command("import time; time.sleep(3)")
    for _ in range(3):  # one runs at most, one waits
        program.call({"alarm": "dropped"})
    assert "is dropped" in logged("1 calls wait")


@pytest.mark.parametrize("wrong", ["", "  ", "no-such-program-here --now", "'unbalanced"])
def test_a_command_that_cannot_run_is_refused(wrong):
    with pytest.raises(InvalidInput, match=r"on_alarm = .*: expected a program that can be run"):
        AlarmCommand(wrong, of="shops")
