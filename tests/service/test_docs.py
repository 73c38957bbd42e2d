"""The commands of docs/applications.md about the agent's service, against a real one."""

from __future__ import annotations

import json

from fedglb.service.problem import TITLES
from tests.service.pages import commands, curl, section
from tests.service.process import service

PAGE = section("applications.md", "The agent as a service")


def test_every_command_does_what_the_page_says(tmp_path):
    assert len(commands(PAGE)) == 6
    with service(tmp_path / "a.db", "--dim", "3", "--http", "127.0.0.1:0") as running:
        decision = ""
        for command in commands(PAGE):
            status, body = curl(command.replace('"ID"', json.dumps(decision)), running.port)
            assert status == 200, (command, body)
            if "/v1/choose " in command:
                decision = json.loads(body)["id"]
        assert running.stop() == 0


def test_every_problem_is_on_the_page():
    for name in set(TITLES) - {"internal"}:
        assert f"`{name}`" in PAGE
