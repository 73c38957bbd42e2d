"""A folder where commands are run as a page prints them."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.service.pages import commands, files
from tests.service.process import PATIENCE


class Folder:
    """A folder with a recipe's files, where its commands are run."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.commands = path, commands(text)
        for name, content in files(text).items():
            (path / name).write_text(content)
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = {
            **os.environ, "PATH": programs, "PWD": str(path), "PYTHONUNBUFFERED": "1",
            "GUNICORN_CMD_ARGS": f"--bind unix:{path}/web.sock", "XDG_RUNTIME_DIR": str(path),
            "UVICORN_UDS": str(path / "web.sock"),
        }  # fmt: skip

    @contextmanager
    def start(self, command: str) -> Iterator[subprocess.Popen[bytes]]:
        """Start a command; end it and its children at the end."""
        with open(self.path / "log", "ab") as log:
            process = subprocess.Popen(
                ["sh", "-c", command], cwd=self.path, env=self.environment, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        try:
            yield process
        finally:
            for number in (signal.SIGTERM, signal.SIGKILL):
                try:
                    os.killpg(process.pid, number)
                    process.wait(PATIENCE)
                except (ProcessLookupError, subprocess.TimeoutExpired):
                    continue
            process.wait()

    def run(self, command: str) -> str:
        """Run a command that ends, and well; return what it prints."""
        done = subprocess.run(
            ["sh", "-c", command], cwd=self.path, env=self.environment, timeout=PATIENCE,
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, (command, done.stdout, done.stderr, self.log)
        return done.stdout

    @property
    def log(self) -> str:
        """Return what the commands that were started have said."""
        place = self.path / "log"
        return place.read_text() if place.exists() else ""

    def ask(self, method: str, path: str) -> tuple[int, dict]:
        """Ask the application, over a connection of its own: no answer is an error."""
        connection = http.client.HTTPConnection("localhost")
        with socket.socket(socket.AF_UNIX) as connection.sock:
            connection.sock.settimeout(PATIENCE)
            connection.sock.connect(str(self.path / "web.sock"))
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null")

    def eventually(self, condition: Callable[[], object]) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, self.log
            time.sleep(0.05)

    def answers(self) -> bool:
        try:
            return self.ask("GET", "/nothing")[0] == 404
        except OSError:
            return False
