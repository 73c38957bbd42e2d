"""nats-server as a process that tests and benchmarks start and end, and a port for it."""

from __future__ import annotations

import random
import socket
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fedglb.federation.operator import nats_server

TIMEOUT = 300.0  # seconds to start, and to end: a machine may be busy


def free_port() -> int:
    """Return a port of the loopback address that nobody uses.

    It is below those that the system gives to clients: one of these could take it while a server
    is away.
    """
    while True:
        port = random.SystemRandom().randrange(10_000, 32_000)
        with socket.socket() as found, suppress(OSError):
            found.bind(("127.0.0.1", port))
            return port


@dataclass
class NatsProcess:
    """A running nats-server that this process started; leaving the `with` block ends it."""

    process: subprocess.Popen[bytes]

    def stop(self) -> None:
        """End it in good order."""
        self.process.terminate()
        try:
            self.process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it as a crash does."""
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> NatsProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start(folder: Path, log: Path) -> NatsProcess:
    """Start nats-server and wait until it accepts connections; its output goes to `log`."""
    with open(log, "ab") as file:
        begin = file.tell()
        process = subprocess.Popen(
            nats_server.command(folder),
            stdin=subprocess.DEVNULL, stdout=file, stderr=file,
        )  # fmt: skip
    server = NatsProcess(process)
    deadline = time.monotonic() + TIMEOUT
    try:
        while time.monotonic() < deadline:
            said = log.read_bytes()[begin:]
            # From its log: a port that answers could be another server's.
            if nats_server.READY.encode() in said:
                return server
            if process.poll() is not None:
                break
            time.sleep(0.01)
    except BaseException:
        server.kill()
        raise
    server.kill()
    last = log.read_bytes()[begin:].decode(errors="replace").strip().splitlines()[-1:]
    raise nats_server.ServerFault(
        f"nats-server does not start: {''.join(last) or 'it wrote nothing'} ({log})"
    )
