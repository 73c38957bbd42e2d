"""What the pages print: files, by the names in their first lines, and commands."""

from __future__ import annotations

import http.client
import re
import shlex
from pathlib import Path
from urllib.parse import urlsplit

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
