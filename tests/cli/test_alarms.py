"""`--on-alarm` of both services, as an operator gives it."""

from __future__ import annotations

import json
import shlex
import sys

import pytest

from tests.cli.in_process import agent, federation
from tests.federation.helpers.json_processes import Process, Service
from tests.federation.helpers.nats_federation import eventually

APPEND = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read())"


@pytest.fixture
def folder(tmp_path):
    """A federation without a server, whose client has a certificate that ends soon."""
    place = tmp_path / "demo"
    made = federation(
        "init", place, "--name", "demo", "--dim", 2, "--clients", "shop-1", "--days", 5
    )
    assert made.returncode == 0, made.stderr
    return place


def told(file) -> dict[str, str]:
    """Whom the program was told of, by the kind of the alarm."""
    lines = file.read_text().splitlines() if file.exists() else []
    return {found["kind"]: found["of"] for found in map(json.loads, lines)}


def test_a_program_that_cannot_run_is_refused_at_the_start(folder, tmp_path):
    coordinator, path = folder / "coordinator", tmp_path / "a.db"
    for found in (
        federation("coordinator", coordinator, "--on-alarm", "no-such-program"),
        agent("serve", path, "--dim", 2, "--on-alarm", "no-such-program"),
    ):
        assert found.returncode == 2
        assert "--on-alarm = 'no-such-program': expected a program that can be run" in found.stderr
    assert not path.exists()
    assert not (coordinator / "state.db").exists()


def test_a_coordinator_tells_of_its_alarms(folder, tmp_path):
    file = tmp_path / "told"
    program = shlex.join([sys.executable, "-c", APPEND, str(file)])
    with Process(
        "-m", "fedglb", "federation", "coordinator", str(folder / "coordinator"), "--json",
        "--on-alarm", program,
    ) as head:  # fmt: skip
        event = head.hear(lambda event: event["event"] == "alarm")
        assert (event["kind"], event["state"], event["client"]) == (
            "certificate", "start", "shop-1",
        )  # fmt: skip
        both = {"certificate": "demo", "disconnected": "demo"}
        eventually(lambda: told(file) == both, "both alarms")
        found = federation("status", folder)
        assert found.returncode == 1
        assert "ALARM disconnected: no connection to the NATS server: is it up" in found.stdout


def test_an_agent_tells_of_its_alarms(folder, tmp_path):
    file = tmp_path / "told"
    program = shlex.join([sys.executable, "-c", APPEND, str(file)])
    bundle = folder / "clients" / "shop-1"
    given = (tmp_path / "a.db", "--bundle", bundle, "--http", "127.0.0.1:0", "--on-alarm", program)
    with Service(*given) as service:
        service.hear(lambda event: "alarm certificate: shop-1's cert" in event["text"])
        eventually(lambda: told(file) == {"certificate": "shop-1"}, "the alarm")
        assert service.stop() == 0
