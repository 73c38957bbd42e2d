"""No way from HTTP to another client's data, and no sample on any page.

Two services and a coordinator with its page, as processes; what they get is recognisable, and then
looked for in everything that each of them answers or prints.
"""

from __future__ import annotations

import base64
import json
import socket
import struct
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import fedglb as fg
from fedglb.federation.coordinator.board import Board
from fedglb.federation.preload import preload
from fedglb.service.agent import make_app
from fedglb.service.coordinator import Page
from tests.federation.helpers.nats_federation import PATIENCE, eventually
from tests.service.federated import AGREED, DIM, Federated

#: An own export and an own answer are the only places where samples may be.
EXPORT = "/v1/export"
CALLS = {
    "/v1/choose", "/v1/choose/batch", "/v1/observe", "/v1/observe/batch", "/v1/preview",
    "/v1/explain", "/v1/request-update", "/v1/observe/ranking", "/v1/activate", "/v1/forget",
    "/v1/freeze", "/v1/unfreeze",
}  # fmt: skip
UP = ("/..", "/../..", "/../../..", "/%2e%2e", "/%2e%2e/%2e%2e", "/..%2f..", "/.%2e", "/..\\..")


def exchange(url: str, path: str, method: str = "GET", body: bytes = b"") -> tuple[int, bytes]:
    """Send a path as it stands, which no HTTP client does; return the status and all that came."""
    if url.startswith("unix://"):
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        place: object = url.removeprefix("unix://")
    else:
        made = socket.socket()
        place = ("127.0.0.1", int(url.strip("/").rpartition(":")[2]))
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with made:
        made.settimeout(PATIENCE)
        made.connect(place)
        made.sendall(head.encode() + body)
        found = b""
        while piece := made.recv(65536):
            found += piece
            if b"text/event-stream" in found and b"\n\n" in found.partition(b"\ndata: ")[2]:
                break  # the first message of a stream has everything
    return int(found.split(b" ", 2)[1]), found


@dataclass
class Secrets:
    """What one client's application sent, in the forms in which it could be found."""

    numbers: list[float]
    words: list[str] = field(default_factory=list)

    def forms(self) -> list[bytes]:
        out = [word.encode() for word in self.words]
        for value in self.numbers:
            raw = struct.pack("<d", value)
            out += [f"{abs(value)!r}"[2:11].encode(), raw, raw.hex().encode()]
            out += [base64.b64encode(raw)[:10]]
        return out

    def found_in(self, *texts: bytes) -> list[bytes]:
        return [form for form in self.forms() for text in texts if form in text]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Two services that have learned and hold a model of both, and the secrets of each."""
    preload(AGREED.build())
    folder = tmp_path_factory.mktemp("p")
    with Federated(folder, ("a", "b"), "--http", "127.0.0.1:0") as running:
        running.secrets = {
            "a": Secrets([0.123456789012, -0.234567890123, 0.345678901234]),
            "b": Secrets([0.543210987654, 0.432109876543, -0.321098765432]),
        }
        running.ids = {"a": [], "b": []}

        def covered() -> bool:
            for name, secret in running.secrets.items():
                with fg.AgentClient(running.urls[name], patience=PATIENCE) as client:
                    number = len(running.ids[name])
                    word, key = f"arm-of-{name}-{number}", f"key-of-{name}-{number}"
                    made = client.choose([secret.numbers], ids=[word], key=key)
                    client.observe(made.id, float(number % 2))
                    running.ids[name].append(made.id)
                    secret.words += [word, key, made.id]
            status = running.status()
            return status is not None and all(
                any(m.name == name and m.samples > 5 for m in status.members) for name in "ab"
            )

        eventually(covered, "a model of both")
        bad = {"arms": [[3.141592653589] * DIM], "ids": ["arm-refused"], "key": "key-refused"}
        for secret in running.secrets.values():
            secret.words += ["141592653", "arm-refused", "key-refused"]
        for url in running.urls.values():
            assert exchange(url, "/v1/choose", "POST", json.dumps(bad).encode())[0] == 400
        yield running


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """All paths of the service."""
    path = tmp_path_factory.mktemp("app") / "x.db"
    with fg.Agent.open(path, fg.Problem(dim=2)) as agent:
        return sorted(make_app(agent).handlers)


@pytest.mark.parametrize(("mine", "other"), [("a", "b"), ("b", "a")])
def test_a_service_has_nothing_of_the_other_client(place, paths, mine, other):
    url, theirs = place.urls[mine], place.secrets[other]
    assert EXPORT in paths
    assert set(paths) >= CALLS
    queries = ("", f"?client={other}", f"?file=../{other}.db", f"?format=ndjson&client={other}")
    for path in paths:
        for query in queries:
            for method in ("GET", "POST", "PUT", "DELETE", "PATCH"):
                status, found = exchange(url, path + query, method, b"{}" * (method != "GET"))
                assert status < 500, (method, path, found)
                assert not theirs.found_in(found), (method, path, query)
    _, log = exchange(url, EXPORT)
    assert place.secrets[mine].found_in(log)  # what is looked for can be found
    with fg.AgentClient(url) as client:
        frame = client.export()
    assert set(frame["id"]) == set(place.ids[mine])
    assert frame["arm_id"].str.starts_with(f"arm-of-{mine}-").all()


@pytest.mark.parametrize(("mine", "other"), [("a", "b"), ("b", "a")])
def test_ids_and_keys_of_the_other_client_open_nothing(place, mine, other):
    url, samples = place.urls[mine], len(place.ids[mine])
    path = place.path(other)
    for id_ in [*place.ids[other][:5], f"{path}-1", f"../{path.name}-1", "x' OR '1'='1-1", "%-1"]:
        body = json.dumps({"id": id_, "reward": 1.0}).encode()
        status, found = exchange(url, "/v1/observe", "POST", body)
        assert (status, b"arm-of-" in found) == (404, False), id_
        _, found = exchange(url, "/v1/observe/batch", "POST", b'{"batch": [%s]}' % body)
        assert json.loads(found.partition(b"\r\n\r\n")[2])["results"][0]["status"] == 404
    with fg.AgentClient(url) as client:
        assert client.status.samples == samples


@pytest.mark.parametrize("where", ["a", "b", "page"])
def test_paths_lead_to_no_file(place, paths, where):
    """Neither to the other's file nor to the machine's or the package's."""
    url = page_url(place) if where == "page" else place.urls[where]
    other = "a" if where == "b" else "b"
    secrets = [place.secrets[other]] if where != "page" else list(place.secrets.values())
    bundle = place.running.folder / "clients" / other
    targets = [f"{other}.db", f"{other}.sock", "coordinator.db", "app.py", "etc/passwd"]
    targets += [str(place.path(other))[1:], *(str(each)[1:] for each in bundle.iterdir())]
    signs = [b"SQLite format", b"root:", b"PRIVATE KEY", b"BEGIN CERTIFICATE", b"import "]
    begins = ["", *(each.rstrip("/") for each in ("/v1", "/docs", "/page.css", EXPORT))]
    tried = {f"{begin}{up}/{target}" for begin in begins for up in UP for target in targets}
    tried |= {f"/{target}" for target in targets} | {f"//{target}" for target in targets}
    tried |= {f"file:///{target}" for target in targets} | {f"{EXPORT}/{other}", f"/{other}"}
    for path in sorted(tried):
        status, found = exchange(url, path)
        assert 400 <= status < 500, (path, found)
        assert not any(sign in found for sign in signs), path
        assert not any(secret.found_in(found) for secret in secrets), path


def page_url(place: Federated) -> str:
    """Where the coordinator's page is."""

    def said() -> list[dict]:
        return [event for event in place.hear() if event["event"] == "serving"]

    eventually(said, "the coordinator's page")
    return said()[0]["url"]


def test_no_page_has_a_sample(place, paths):
    """Not the agents', not the coordinator's, not what they print; and there is no model there."""
    texts: dict[str, bytes] = {}
    for name, url in place.urls.items():
        for path in set(paths) - CALLS - {EXPORT}:
            status, texts[f"{name}{path}"] = exchange(url, path)
            assert status == 200, path
        texts[f"{name} printed"] = json.dumps(place.processes[name].events).encode()
    shown = list(Page(Board()).handlers())
    assert {"/", "/status.json", "/events", "/metrics"} <= set(shown)

    def on_the_page() -> bool:  # it shows the status of the last second
        return b"a has joined" in exchange(page_url(place), "/status.json")[1]

    eventually(on_the_page, "the first client on the coordinator's page")
    for path in shown:
        status, texts[f"coordinator{path}"] = exchange(page_url(place), path)
        assert status == 200, path
    texts["coordinator printed"] = json.dumps(place.hear()).encode()
    status = place.status()
    assert status is not None
    texts["status"] = status.to_json()
    assert b"a has joined" in texts["coordinator/status.json"]
    assert b"event: parts" in texts["coordinator/events"]
    assert b"as a member of its federation" in texts["a/"]
    for where, text in texts.items():
        for secret in place.secrets.values():
            assert not secret.found_in(text), where


def test_files_are_for_their_owner(place):
    """The sockets of services, which ask for no token."""
    for name in place.names:
        assert Path(place.urls[name].removeprefix("unix://")).stat().st_mode & 0o077 == 0


def test_without_the_server_a_service_goes_on_alone(place):
    """The last test: the others need the server."""
    place.running.kill()
    url = place.urls["a"]
    with fg.AgentClient(url) as client:
        eventually(lambda: not client.status.connected, "no connection")
        assert client.choose([place.secrets["a"].numbers]).id
    assert exchange(url, "/readyz")[0] == 200
    assert b"not connected to its federation" in exchange(url, "/")[1]
