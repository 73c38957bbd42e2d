"""docs/deploy.md from nothing to a federation, as it is printed; its units; every command.

The loopback address stands for the host's name, free ports for the ports, and a copy for `scp`.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from contextlib import ExitStack

import click
import pytest
import typer.main

from fedglb.cli import app
from tests.federation.helpers.nats_process import free_port
from tests.service.folder import Folder
from tests.service.pages import DOCS, commands, curl, files, section, words

STEPS = (
    "1. Make the federation", "2. Start the server and the coordinator",
    "3. Bring each client its bundle", "4. Start the agent", "5. The application", "6. Look at it",
    "Adding and revoking clients",
)  # fmt: skip
PAGES = ("../README.md", "deploy.md", "operate.md", "recipes.md", "service.md")


def test_from_nothing_to_a_federation(tmp_path):
    folder = Folder(tmp_path, "")
    nats, page, agent = free_port(), free_port(), free_port()

    def here(command: str) -> str:
        out = command.replace("nats.example.org", f"127.0.0.1 --port {nats}")
        out = out.replace("127.0.0.1:8732", f"127.0.0.1:{page}")
        if out.startswith("fedglb agent serve"):
            out += f" --http 127.0.0.1:{agent}"
        return out

    def answers(command: str) -> tuple[int, bytes]:
        try:
            return curl(command, agent)
        except OSError:
            return 0, b""

    with ExitStack() as stack:
        for title in STEPS:
            if title.startswith("3."):
                (scp,) = commands(section("deploy.md", title), "console")
                assert scp.startswith("scp -r shops/clients/shop-1 ")
                shutil.copytree(tmp_path / "shops/clients/shop-1", tmp_path / "shop-1")
            for command in commands(section("deploy.md", title)):
                if command.startswith("curl"):
                    assert answers(command)[0] == 200
                elif command.startswith("nats-server"):
                    stack.enter_context(folder.start(here(command)))
                    folder.eventually(lambda: "Server is ready" in folder.log)
                elif " coordinator " in command:
                    stack.enter_context(folder.start(here(command)))
                    folder.eventually(lambda: "the page is at" in folder.log)
                elif command.startswith("fedglb agent serve"):
                    stack.enter_context(folder.start(here(command)))
                    status = "curl -s http://127.0.0.1:8731/v1/status"
                    folder.eventually(lambda s=status: b'"welcome":true' in answers(s)[1])
                else:
                    folder.run(here(command))
        listed = json.loads(folder.run("fedglb federation list ./shops --json"))
        assert {each["name"] for each in listed if each["revoked"]} == {"shop-2"}
        status = json.loads(folder.run("fedglb federation status ./shops --json"))
        assert [each["name"] for each in status["members"] if each["present"]] == ["shop-1"]


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
def test_units_are_what_systemd_reads(tmp_path):
    units = files(section("deploy.md"))
    assert len(units) == 5
    for name, text in units.items():
        assert name.startswith("/etc/systemd/system/fedglb-")
        there = re.sub(r"^(Exec\w+)=\S+", r"\1=/bin/true", text, flags=re.M)  # as if installed
        (tmp_path / name.rpartition("/")[2]).write_text(there)
    for unit in sorted(tmp_path.iterdir()):
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True
        )
        assert (done.returncode, done.stderr) == (0, ""), unit.name


def printed() -> list[list[str]]:
    """Return the words of every command of fedglb on the pages: in blocks, units and the image."""
    found: list[list[str]] = []
    for page in PAGES:
        text = (DOCS / page).read_text()
        lines = [*commands(text, "console"), *commands(text, "sh")]
        lines += re.findall(r"^ExecStart=(.*)$", text, re.M)
        for block in re.findall(r"^```dockerfile\n(.*?)^```", text, re.S | re.M):
            lines += [
                part for run in re.findall(r"^RUN (.*)$", block, re.M) for part in run.split("&&")
            ]
            (entry,), (given,) = (
                re.findall(rf"^{k} (\[.*\])$", block, re.M) for k in ("ENTRYPOINT", "CMD")
            )
            found.append([*json.loads(entry), *json.loads(given)])
        found += [words(line) for line in lines]
        found += [words(code) for code in re.findall(r"`(fedglb [a-z][^`…]*)`", text)]
    return [each for each in found if each and each[0].rpartition("/")[2] == "fedglb"]


def test_every_command_on_the_pages_exists_with_its_options():
    assert len(printed()) > 30
    top = typer.main.get_command(app)
    for line in printed():
        command: click.Command = top
        for word in line[1:]:
            inside = getattr(command, "commands", {})
            if word in inside:
                command = inside[word]
            elif word.startswith("--"):
                known = {name for each in command.params for name in each.opts} | {"--help"}
                assert word in known, line
            else:
                assert not inside, line  # no such command
