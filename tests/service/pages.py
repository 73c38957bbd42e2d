"""What the pages print, files and commands, and a folder where the commands are run."""

from __future__ import annotations

import http.client
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tests.federation.helpers.nats_federation import PATIENCE, eventually

DOCS = Path(__file__).parents[2] / "docs"


def section(page: str, title: str = "") -> str:
    """Return a page, or its part under a title."""
    text = (DOCS / page).read_text()
    if not title:
        return text
    found = re.search(rf"^(##+) {re.escape(title)}\n", text, re.M)
    assert found, (page, title)
    level = len(found[1])
    return re.split(rf"^##{{1,{level - 1}}} ", text[found.end() :], maxsplit=1, flags=re.M)[0]


def files(text: str) -> dict[str, str]:
    """Return the blocks that begin with a comment which is a name: ``# shop.py``."""
    blocks = re.findall(r"^```\w+\n((?:#|//) ([\w./@-]+)\n.*?)^```", text, re.S | re.M)
    return {name: block for block, name in blocks}


def commands(text: str, language: str = "sh") -> list[str]:
    """Return the lines of the blocks with commands, continued ones as one."""
    found = re.findall(rf"^```{language}\n(.*?)^```", text, re.S | re.M)
    return [line for line in "".join(found).replace("\\\n", " ").splitlines() if line.strip()]


def words(command: str) -> list[str]:
    """Return a command's words, without what is set for it and whom it runs as."""
    out = shlex.split(command, comments=True)
    while out and ("=" in out[0] or out[0] == "sudo"):
        out.pop(0)
    return out


def curl(command: str, port: int) -> tuple[int, bytes]:
    """Do what curl would; it need not be installed."""
    name, *words = shlex.split(command)
    assert name == "curl"
    headers, body, url = {}, None, ""
    while words:
        match words.pop(0):
            case "-s":
                pass
            case "-o":
                words.pop(0)
            case "-H":
                key, _, value = words.pop(0).partition(": ")
                headers[key] = value
            case "-d":
                body = words.pop(0)
            case word:
                url = word
    parts = urlsplit(url)
    assert (parts.hostname, parts.port) == ("127.0.0.1", 8731)
    connection = http.client.HTTPConnection("127.0.0.1", port)
    target = f"{parts.path}?{parts.query}" if parts.query else parts.path
    connection.request("POST" if body else "GET", target, body, headers)
    response = connection.getresponse()
    answer = response.status, response.read()
    connection.close()
    return answer


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
        eventually(condition, "an answer", lambda: self.log)

    def answers(self) -> bool:
        try:
            return self.ask("GET", "/nothing")[0] == 404
        except OSError:
            return False
