"""nats-server as a program: where it is, whether it runs, a configuration's check and reload.

A folder here is the one of `nats.conf`.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from fedglb.federation.operator.nats_config import NATS, PID

_PATIENCE = 10.0
_PROGRAM = "nats-server"
_STEP = 2.0
_CONNECT = {"verbose": False, "pedantic": False, "lang": "fedglb", "version": "1", "protocol": 1}


class ServerFault(RuntimeError):
    """nats-server is missing, refuses its configuration, or does not do as it was told."""


def found() -> str | None:
    """Return the path of nats-server: one on the PATH, or a package's beside this Python."""
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


def check(folder: Path) -> None:
    """Raise `ServerFault` with nats-server's own words if it refuses the configuration."""
    done = subprocess.run(
        [program(), "-t", "-c", str(folder / NATS)],
        capture_output=True, text=True, check=False, timeout=_PATIENCE,
    )  # fmt: skip
    if done.returncode != 0:
        said = (done.stderr + done.stdout).strip()
        raise ServerFault(f"nats-server refuses the configuration in {folder}: {said}")


def running(folder: Path) -> int | None:
    """Return the process that serves this folder, or None.

    A number in an old pid file may belong to a stranger by now: it must be a nats-server with
    this folder's configuration.
    """
    try:
        pid = int((folder / PID).read_text())
        os.kill(pid, 0)
    except PermissionError:
        pass  # somebody else's process: it is there
    except (OSError, ValueError, OverflowError):
        return None
    if pid <= 1:  # 0 and negative numbers mean groups of processes
        return None
    return pid if _serves(pid, folder) else None


def reload(folder: Path) -> bool:
    """Tell the running server to read its configuration again; False: none is running."""
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


@dataclass
class Server:
    """A running nats-server that this process started; leaving the `with` block ends it."""

    process: subprocess.Popen[bytes]

    def stop(self) -> None:
        """End it in good order."""
        self.process.terminate()
        try:
            self.process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it as a crash does."""
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start(folder: Path, log: Path) -> Server:
    """Start nats-server and wait until it takes connections; what it says goes to `log`."""
    with open(log, "ab") as file:
        begin = file.tell()
        process = subprocess.Popen(
            [program(), "-c", str((folder / NATS).absolute())],
            stdin=subprocess.DEVNULL, stdout=file, stderr=file,
        )  # fmt: skip
    server = Server(process)
    deadline = time.monotonic() + _PATIENCE
    try:
        while time.monotonic() < deadline:
            said = log.read_bytes()[begin:]
            # Its own word: a port that answers could be that of another server.
            if b"Server is ready" in said:
                return server
            if process.poll() is not None:
                break
            time.sleep(0.01)
    except BaseException:
        server.kill()
        raise
    server.kill()
    last = log.read_bytes()[begin:].decode(errors="replace").strip().splitlines()[-1:]
    raise ServerFault(f"nats-server does not start: {''.join(last) or 'no word of it'} ({log})")


def admitted(context: ssl.SSLContext, address: tuple[str, int], hostname: str) -> bool | None:
    """Return True: let in; False: the server knows no such member; None: no clear answer.

    `hostname` is what the server's certificate must say; `address` is where to knock. Nothing is
    said or heard: the connection is closed as soon as the server has answered.
    """
    try:
        with (
            socket.create_connection(address, _STEP) as plain,
            context.wrap_socket(plain, server_hostname=hostname) as door,
            door.makefile("rb") as lines,
        ):
            lines.readline()  # INFO
            door.sendall(b"CONNECT " + json.dumps(_CONNECT).encode() + b"\r\nPING\r\n")
            answer = lines.readline()
    except OSError:  # ssl.SSLError is one too
        return None
    if answer.startswith(b"PONG"):
        return True
    return False if b"Authorization Violation" in answer else None


def wait_until_admitted(
    wanted: bool,
    context: ssl.SSLContext,
    address: tuple[str, int],
    hostname: str,
    patience: float = 5.0,
) -> bool:
    """Knock until the answer is the wanted one: a server takes a moment to reload."""
    deadline = time.monotonic() + patience
    while admitted(context, address, hostname) is not wanted:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _serves(pid: int, folder: Path) -> bool:
    """Whether the process is a nats-server with this folder's configuration."""
    words = _command(pid)
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


def _command(pid: int) -> list[str]:
    """Return the words with which a process was started; empty if there is none."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except OSError:
        pass
    done = subprocess.run(  # a system without /proc
        ["ps", "-p", str(pid), "-o", "args="],
        capture_output=True, text=True, check=False, timeout=_PATIENCE,
    )  # fmt: skip
    return done.stdout.split()
