"""docs/records.md: the walk from a log to a changed schema, the hash, a log of Vowpal Wabbit.

Free ports stand for the ports.
"""

from __future__ import annotations

import json
import re
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest

import fedglb as fg
from fedglb.features.encode import stable_hash
from tests.federation.helpers.nats_process import free_port
from tests.service.pages import Folder, commands, curl, section

PAGE = "records.md"
PORTS = "8731", "8733"  # of the agents, as printed


def printed(text: str, language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", text, re.S | re.M)
    return found


class Shop(Folder):
    """The folder of the walk, and its agents at free ports."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, section(PAGE))
        self._ports = {port: free_port() for port in PORTS}

    def make_schema(self) -> str:
        """Make the log and its schema; return what `show` prints."""
        *_, shown = [self.run(each) for each in commands(section(PAGE, "A log becomes a schema"))]
        return shown

    def serve(self, command: str) -> AbstractContextManager[object]:
        """Start an agent."""
        found = re.search(r" --http 127\.0\.0\.1:(\d+)", command)
        port = found[1] if found else PORTS[0]
        plain = command if found is None else command.replace(found[0], "")
        return self.start(f"{plain} --http 127.0.0.1:{self._ports[port]}")

    def ask_agent(self, command: str, decision: str = "") -> Any:
        """Do what curl would, and return the answer."""
        (port,) = re.findall(r"127\.0\.0\.1:(\d+)", command)
        there = command.replace(f":{port}/", ":8731/").replace('"ID"', json.dumps(decision))
        status, body = curl(there.replace("=ID", f"={decision}"), self._ports[port])
        assert status == 200, (command, body)
        return json.loads(body)

    def status(self, port: str) -> dict[str, Any]:
        """Return what an agent says of itself."""
        try:
            return self.ask_agent(f"curl -s http://127.0.0.1:{port}/v1/status")
        except OSError:  # it does not listen yet
            return {"samples": None, "model": None, "admitted": None, "revision": None}


@pytest.fixture
def shop(tmp_path):
    return Shop(tmp_path)


def test_a_log_becomes_a_schema(shop):
    text = section(PAGE, "A log becomes a schema")
    assert shop.make_schema().endswith(printed(text, "text"))
    schema = (shop.path / "features.toml").read_text()
    for part in printed(text, "toml").split("\n\n"):
        assert part in schema


def test_one_shop(shop):
    shop.make_schema()
    text = section(PAGE, "One shop")
    load, start, model, choose, explain, observe = commands(text)
    shop.run(load)
    with shop.serve(start):
        shop.eventually(lambda: shop.status("8731")["samples"] == 2000)
        strongest = [each["feature"] for each in shop.ask_agent(model)["weights"]]
        assert strongest == re.findall(r"`(context\.country=.*?)`", text)
        decision = shop.ask_agent(choose)
        assert list(decision) == list(json.loads(printed(text, "json")))
        assert shop.ask_agent(explain, decision["id"])["runner_up"] is not None
        assert shop.ask_agent(observe, decision["id"]) == {"id": decision["id"]}


def test_two_shops_and_another_schema(shop):
    shop.make_schema()
    init, nats, coordinator, load, *agents, preview = commands(section(PAGE, "Two shops"))
    shop.run(f"{init} --port {free_port()}")
    with ExitStack() as stack:
        stack.enter_context(shop.start(nats))
        shop.eventually(lambda: "Server is ready" in shop.log)
        stack.enter_context(shop.start(coordinator))
        shop.run(load)
        for each in agents:
            stack.enter_context(shop.serve(each))
        shop.eventually(lambda: all(shop.status(port)["model"] for port in PORTS))
        assert shop.status("8733")["samples"] == 0
        for country, liked in (("FR", "novel"), ("DE", "sandal")):
            arms = shop.ask_agent(preview.replace('"FR"', json.dumps(country)))["arms"]
            assert max(arms, key=lambda arm: arm["estimate"])["arm_id"] == liked
        infer, change, look = commands(section(PAGE, "Another schema"))
        shop.run(infer)
        shop.run(change)
        shop.eventually(lambda: shop.ask_agent(look)["revision"] == 2)
        shop.eventually(lambda: shop.status("8733")["revision"] == 2)
        shop.eventually(lambda: all(shop.status(port)["admitted"] for port in PORTS))
        assert shop.ask_agent(look)["samples"] == 2000


def test_the_hash(shop):
    text = section(PAGE, "The encoding")
    rows = re.findall(r"^\| `(.*)` \| `([0-9a-f]{16})` \|$", text, re.M)
    assert len(rows) == len(commands(text)) == 4
    for (name, first), command in zip(rows, commands(text), strict=True):
        assert shop.run(command)[:16] == first
        exact = name.replace("\\ud800", "\ud800")
        assert stable_hash(exact) == int.from_bytes(bytes.fromhex(first), "little")


def test_a_log_of_vowpal_wabbit_is_imported(shop):
    events = [
        {
            "_label_cost": -1.0 * (k % 2), "_label_probability": 0.8, "_label_Action": 1 + k % 2,
            "_labelIndex": k % 2, "Version": "1", "EventId": str(k), "a": [1, 2], "p": [0.8, 0.2],
            "c": {
                "User": {"country": "DE", "_id": k}, "hour": k % 24,
                "_multi": [
                    {"_tag": "sandal", "Item": {"category": "shoes"}},
                    {"_tag": "novel", "Item": {"category": "books"}},
                ],
            },
            **({"_skipLearn": True} if k == 7 else {}),
        }
        for k in range(40)
    ]  # fmt: skip
    events[0]["c"]["User"]["country"] = "FR"
    (shop.path / "events.dsjson").write_text("\n".join(map(json.dumps, events)))
    for each in commands(section(PAGE, "If you come from Personalizer or Vowpal Wabbit")):
        shop.run(each)
    schema = fg.Features.read(shop.path / "past.toml")
    assert list(schema.context) == ["User.country", "hour"]
    assert list(schema.arm) == ["Item.category"]
    with fg.Agent.open(shop.path / "past.db", features=schema) as agent:
        log = agent.export()
    assert log["reward"].to_list() == [float(k % 2) for k in range(40) if k != 7]
    record = {"context": {"User.country": "DE", "hour": 1}, "arm": {"Item.category": "books"}}
    assert json.loads(log["record"][1]) == record
