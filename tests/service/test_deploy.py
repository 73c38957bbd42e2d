"""docs/applications.md: the agent's service, from nothing to a federation; units; every command.

The loopback address stands for the host's name, free ports for the ports, and a copy for `scp`.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import click
import pytest
import typer.main

from fedglb.cli import app
from fedglb.service.problem import TITLES
from tests.cli.in_process import fedglb
from tests.federation.helpers.json_processes import Service
from tests.federation.helpers.nats_process import free_port
from tests.service.pages import DOCS, Folder, commands, curl, files, section, words

STEPS = (
    "1. Make the federation", "2. Start the server and the coordinator",
    "3. Bring each client its bundle", "4. Start the agent", "5. The application", "6. Look at it",
    "Adding and revoking clients",
)  # fmt: skip
PAGES = sorted([*DOCS.glob("*.md"), DOCS.parent / "README.md"])
SERVICE = section("applications.md", "The agent as a service")


def test_every_call_of_the_service_does_what_the_page_says(tmp_path):
    assert len(commands(SERVICE)) == 6
    with Service(tmp_path / "a.db", "--dim", "3", "--http", "127.0.0.1:0") as running:
        decision = ""
        for command in commands(SERVICE):
            status, body = curl(command.replace('"ID"', json.dumps(decision)), running.port)
            assert status == 200, (command, body)
            if "/v1/choose " in command:
                decision = json.loads(body)["id"]
        assert running.stop() == 0


def test_every_problem_is_on_the_page():
    for name in set(TITLES) - {"internal"}:
        assert f"`{name}`" in SERVICE


class Machine:
    """Both sides of the federation of the pages, in one folder."""

    def __init__(self, path: Path, stack: ExitStack, run: Callable[[str], object]) -> None:
        self.folder, self._stack, self._run = Folder(path, ""), stack, run
        self.nats, self.page, self.agent = free_port(), free_port(), free_port()
        self._started: list[Callable[[], object]] = []

    def do(self, command: str) -> None:
        """Start a service, or run a command once all services answer."""
        command = command.replace("nats.example.org", f"127.0.0.1 --port {self.nats}")
        command = command.replace("127.0.0.1:8732", f"127.0.0.1:{self.page}")
        if command.startswith("nats-server"):
            self._start(command, lambda: "Server is ready" in self.folder.log)
        elif " coordinator " in command:
            self._start(command, lambda: "the page is at" in self.folder.log)
        elif command.startswith("fedglb agent serve"):
            self._start(f"{command} --http 127.0.0.1:{self.agent}", lambda: self.status["admitted"])
        else:
            while self._started:
                self.folder.eventually(self._started.pop(0))
            if command.startswith("curl"):
                assert self._ask(command)[0] == 200
            else:
                self._run(command)

    def _start(self, command: str, answers: Callable[[], object]) -> None:
        self._stack.enter_context(self.folder.start(command))
        self._started.append(answers)

    def _ask(self, command: str) -> tuple[int, bytes]:
        try:
            return curl(command, self.agent)
        except OSError:  # it does not listen yet
            return 0, b'{"admitted": false}'

    @property
    def status(self) -> dict:
        """Return what the agent says of itself."""
        return json.loads(self._ask("curl -s http://127.0.0.1:8731/v1/status")[1])

    def bring(self, client: str) -> None:
        """Do what `scp` would."""
        place = self.folder.path
        shutil.copytree(place / "shops" / "clients" / client, place / client, dirs_exist_ok=True)

    def follow(self, steps: Sequence[str]) -> None:
        """Do what the page says, step by step."""
        for title in steps:
            if title.startswith("3."):
                (scp,) = commands(section("applications.md", title), "console")
                assert scp.startswith("scp shops/clients/shop-1/* ")
                self.bring("shop-1")
            for command in commands(section("applications.md", title)):
                self.do(command)


def test_from_nothing_to_a_decision_in_a_federation(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(command: str) -> None:
        assert fedglb(*words(command)[1:]).returncode == 0

    with ExitStack() as stack:
        machine = Machine(tmp_path, stack, run)
        machine.follow(STEPS[:5])
        assert machine.status["admitted"]


@pytest.mark.slow
def test_from_nothing_to_a_federation_and_on(tmp_path):
    with ExitStack() as stack:
        machine = Machine(tmp_path, stack, lambda command: machine.folder.run(command))
        folder = machine.folder
        machine.follow(STEPS)
        listed = json.loads(folder.run("fedglb federation list ./shops --json"))
        assert {each["name"] for each in listed if each["revoked"]} == {"shop-2"}
        status = json.loads(folder.run("fedglb federation status ./shops --json"))
        assert [each["name"] for each in status["members"] if each["present"]] == ["shop-1"]
        for command in commands(section("operate.md")):
            machine.do(command)
            if " revoke " in command:
                folder.eventually(lambda: "revoked" in (machine.status["refused"] or ""))
            elif " add " in command:
                assert not (folder.path / "shops" / "clients" / "shop-1" / "key.pem").exists()
                shutil.copy(folder.path / "new" / "key.pem", folder.path / "shop-1")
                machine.bring("shop-1")
                folder.eventually(lambda: machine.status["admitted"])  # by itself


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
def test_units_are_what_systemd_reads(tmp_path):
    units = files(section("applications.md", "A federation on several machines"))
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
        text = page.read_text()
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
