"""A served agent in a federation: it joins, shares what it learns, and survives the server."""

from __future__ import annotations

import http.client
import time

import fedglb as fg
from tests.federation.helpers.in_process import Serving
from tests.federation.helpers.nats_federation import federation, table
from tests.service.process import PATIENCE, service

ARMS = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]


def until(condition) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def page(port: int, path: str) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", path)
    text = connection.getresponse().read().decode()
    connection.close()
    return text


def test_a_served_agent_takes_part(tmp_path):
    agreed = table(threshold=0.01)
    with federation(tmp_path, ["a", "b"], agreed) as place, Serving(place, tmp_path / "state.db"):
        bundle = place.bundle("a").folder
        options = (tmp_path / "a.db", "--bundle", bundle, "--http", "127.0.0.1:0")
        with service(*options) as running, fg.AgentClient(running.url) as client:
            until(lambda: client.status.admitted)
            assert "as a member of its federation" in page(running.port, "/")
            problem = fg.Problem(dim=3)
            other = fg.Agent.open(tmp_path / "b.db", problem, bundle=place.bundle("b").folder)
            with other:
                until(lambda: other.status.admitted)
                for k in range(20):
                    other.observe(other.choose([ARMS[k % 2]], ids=["of-b"]).id, float(k % 2))
                    decision = client.choose(ARMS, ids=["of-a", "of-a"])
                    client.observe(decision.id, float(decision.arm))
                until(lambda: client.status.model > 0)
            # what the other client chose and earned is nowhere to be had
            seen = "".join(page(running.port, path) for path in ("/", "/v1/export", "/v1/status"))
            assert "of-a" in seen
            assert "of-b" not in seen
            place.kill()
            until(lambda: not client.status.connected)
            assert client.choose(ARMS).id  # it goes on alone
            assert page(running.port, "/readyz") == '{"status":"ready"}'
            assert "without a connection" in page(running.port, "/")
            assert running.stop() == 0
