"""The commands of docs/service.md, as they are printed, against a real service."""

from __future__ import annotations

import http.client
import json
import re
import shlex
from pathlib import Path
from urllib.parse import urlsplit

from fedglb.service.problem import TITLES
from tests.service.process import service

PAGE = (Path(__file__).parents[2] / "docs" / "service.md").read_text()
SOURCES = Path(__file__).parents[2] / "src" / "fedglb" / "service"


def commands() -> list[str]:
    """Return the commands that ask the service for something."""
    found = "".join(re.findall(r"^```sh\n(.*?)^```", PAGE, flags=re.S | re.M))
    return found.replace("\\\n", " ").splitlines()


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


def test_every_command_does_what_the_page_says(tmp_path):
    assert len(commands()) == 6
    with service(tmp_path / "a.db", "--dim", "3", "--http", "127.0.0.1:0") as running:
        decision = ""
        for command in commands():
            status, body = curl(command.replace('"ID"', json.dumps(decision)), running.port)
            assert status == 200, (command, body)
            if "/v1/choose " in command:
                decision = json.loads(body)["id"]
        assert running.stop() == 0


def test_every_problem_is_on_the_page():
    for name in set(TITLES) - {"internal"}:
        assert f"`{name}`" in PAGE
