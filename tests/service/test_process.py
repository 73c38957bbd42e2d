"""The service as a process: where it listens, what it refuses, how it ends."""

from __future__ import annotations

import http.client
import signal
import socket
import ssl
import stat
import subprocess
import sys
import threading

import pytest

import fedglb as fg
from fedglb.federation import AlreadyObserved, Unavailable, UnknownDecision
from fedglb.federation.operator.authority import Authority
from tests.federation.helpers.json_processes import Service
from tests.federation.helpers.nats_federation import PATIENCE, eventually
from tests.service.load import load

ARMS = [[1.0, 0.0], [0.0, 1.0]]


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """A service for all tests that only need one."""
    path = tmp_path_factory.mktemp("running") / "a.db"
    with Service(path, "--dim", "2", "--http", "127.0.0.1:0") as out:
        out.path = path
        assert out.url  # it has its file and its port
        yield out
        assert out.stop() == 0


@pytest.fixture
def notified(tmp_path, monkeypatch):
    """The socket on which systemd listens to the services that are started."""
    place = str(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", place)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
        out.bind(place)
        out.settimeout(PATIENCE)
        yield out


@pytest.mark.slow  # kill -9 under load: `test_kills.py`
def test_sigterm_under_load_finishes_what_is_in_progress(tmp_path, notified):
    """And the next process goes on: the clients see a pause. systemd is told of both."""
    path, place = tmp_path / "a.db", tmp_path / "agent.sock"
    options = (path, "--dim", "3", "--socket", place, "--socket-mode", "660")
    with Service(*options) as first, load({"a": first.url}, 4, tmp_path) as clients:
        eventually(lambda: all(each.calls > 50 for each in clients.loaders), "all are at it")
        assert first.url == f"unix://{place}"
        assert stat.S_IMODE(place.stat().st_mode) == 0o660
        assert notified.recv(100) == b"READY=1"
        assert first.stop() == 0
        assert notified.recv(100) == b"STOPPING=1"
        assert first.events[-1]["event"] == "stopped"
        assert not place.exists()
        with Service(*options) as second:
            assert second.url == first.url
            before = clients.calls
            eventually(lambda: clients.calls > before + 200, "they go on")
            clients.stop()
            assert second.stop(signal.SIGINT) == 0
    with fg.Agent.open(path, fg.Problem(dim=3)) as agent:
        kept = dict(agent.export()["id", "reward"].iter_rows())
    # a request that was made twice counts once
    assert kept == {id_: row.reward for id_, row in clients.acknowledged("a").items()}


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    """A certificate for 127.0.0.1, its key, the authority's certificate and a token."""
    folder = tmp_path_factory.mktemp("secured")
    authority = Authority.new("shops")
    issued = authority.issue("shops/server", ["127.0.0.1"])
    (folder / "ca.pem").write_bytes(authority.pem)
    issued.write(folder / "cert.pem", folder / "key.pem")
    (folder / "token").write_text("0123456789abcdef")
    (folder / "token").chmod(0o600)
    return folder


def test_other_addresses_need_a_certificate_and_a_token(tmp_path, secured, serve):
    tls = ("--tls-cert", secured / "cert.pem", "--tls-key", secured / "key.pem")
    token = ("--token-file", secured / "token")
    for options in ((), tls, token):
        error = serve(tmp_path / "a.db", "--dim", "2", "--http", "0.0.0.0:0", *options).exception
        assert isinstance(error, fg.InvalidInput)
        assert error.argument == "--http"
        assert "--token-file" in str(error)
    assert not (tmp_path / "a.db").exists()
    with Service(tmp_path / "a.db", "--dim", "2", "--http", "0.0.0.0:0", *tls, *token) as running:
        url = f"https://127.0.0.1:{running.port}"
        with fg.AgentClient(url, "0123456789abcdef", cafile=secured / "ca.pem") as client:
            client.observe(client.choose(ARMS).id, 1.0)
            assert client.status.samples == 1
        wrong = fg.AgentClient(url, "guessed", cafile=secured / "ca.pem")
        with pytest.raises(Unavailable, match="token is missing or wrong"), wrong as client:
            client.choose(ARMS)
        with pytest.raises(Unavailable, match="certificate verify failed"):
            fg.AgentClient(url, "0123456789abcdef").choose(ARMS)
        with pytest.raises(Unavailable):  # no TLS
            fg.AgentClient(url.replace("https", "http"), patience=0.0).choose(ARMS)
        plain = ssl.create_default_context(cafile=secured / "ca.pem")
        connection = http.client.HTTPSConnection("127.0.0.1", running.port, context=plain)
        connection.request("GET", "/v1/export")
        assert connection.getresponse().status == 401
        connection.close()
        assert running.stop() == 0


ALONE = ["--dim", "2"]
REFUSED = [
    ("--dim", ["--dim", "0"]),
    ("--http", [*ALONE, "--http", "8731"]),
    ("--http", [*ALONE, "--http", "example.org:80"]),
    ("--http", [*ALONE, "--http", "127.0.0.1:99999"]),
    ("--http", [*ALONE, "--http", "[::]:8731"]),
    ("--max-arms", [*ALONE, "--max-arms", "0"]),
    ("--link", [*ALONE, "--link", "cubic"]),
    ("--tls-key", [*ALONE, "--tls-cert", "missing.pem"]),
    ("--tls-cert", [*ALONE, "--tls-cert", "no.pem", "--tls-key", "no.pem"]),
    ("--token-file", [*ALONE, "--token-file", "missing"]),
    ("--socket-mode", [*ALONE, "--socket", "s", "--socket-mode", "777"]),
    ("--durable", [*ALONE, "--durable", "never"]),
    ("--shutdown-timeout", [*ALONE, "--shutdown-timeout", "0"]),
    ("--bundle", ["--bundle", "nothing"]),
]


def test_options_that_are_refused_before_there_is_a_file(tmp_path, monkeypatch, serve):
    monkeypatch.chdir(tmp_path)
    for said, options in REFUSED:
        error = serve("a.db", *options).exception
        assert isinstance(error, fg.InvalidInput), options
        assert error.argument == said, options
        assert list(tmp_path.iterdir()) == [], options
    for said, options in (
        ("--dim or --features is required without --bundle", []),
        ("--dim and --bundle exclude each other", ["--bundle", "nothing", *ALONE]),
    ):
        error = serve("a.db", *options).exception
        assert isinstance(error, fg.InvalidInput), options
        assert said in str(error)
        assert list(tmp_path.iterdir()) == [], options


def raw(port: int, data: bytes) -> bytes:
    """Send bytes; return all that comes until the other side closes, or an answer is there."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as made:
        try:
            made.sendall(data)
            return made.recv(65536)
        except (ConnectionResetError, BrokenPipeError):
            return b""


def test_bytes_that_are_no_request_do_no_harm(running):
    port = running.port
    for data in (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/choose HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x00" * 100,
    ):
        found = raw(port, data)
        assert found == b"" or found.startswith(b"HTTP/1.1 4"), (data, found)
    # a head without an end is not read for ever
    assert raw(port, b"GET / HTTP/1.1\r\nX: " + b"a" * 2**20) == b""
    upgrade = b"Upgrade: websocket\r\nConnection: Upgrade\r\n"
    asked = b"GET / HTTP/1.1\r\nHost: localhost\r\n" + upgrade + b"\r\n"
    assert raw(port, asked).startswith(b"HTTP/1.1 ")
    with fg.AgentClient(running.url) as client:
        assert client.choose(ARMS).arm in (0, 1)


WITHOUT_THE_EXTRA = """
import sys
for name in ("starlette", "uvicorn", "prometheus_client", "nats"):
    sys.modules[name] = None
import fedglb as fg
fg.AgentClient("unix:///x"), fg.AsyncAgentClient("http://localhost:1")
assert "numba" not in sys.modules
from fedglb.cli import main
from fedglb.cli.federation.coordinator import _page
for serve in (lambda: _page(None, "127.0.0.1:0", None, None, None), main):
    try:
        serve()
    except BaseException as error:
        print(getattr(error, "exit_code", getattr(error, "code", error)))
"""


def test_without_the_extra_clients_work_and_commands_say_what_to_install(tmp_path):
    command = ("agent", "serve", str(tmp_path / "a.db"), "--dim", "2")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_THE_EXTRA, *command], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "1\n1\n"), done.stderr
    assert done.stderr.count("pip install 'fedglb[service]'") == 2


def test_the_agents_errors_are_the_clients(running, tmp_path):
    client = fg.AgentClient(running.url)
    with fg.Agent.open(tmp_path / "b.db", fg.Problem(dim=2)) as agent:
        for call in (
            lambda x: x.choose([[3.0, 4.0]]),
            lambda x: x.choose([[1.0, 0.0, 0.0]]),
            lambda x: x.choose([[float("nan"), 0.0]]),
            lambda x: x.choose(ARMS, ids=["one"]),
            lambda x: x.choose(ARMS, t=-1),
            lambda x: x.choose(ARMS, key=""),
            lambda x: x.observe("x-1", 7.0),
            lambda x: x.observe("x-1", "high"),
        ):
            with pytest.raises(fg.InvalidInput) as here:
                call(agent)
            with pytest.raises(fg.InvalidInput) as there:
                call(client)
            assert here.value.argument == there.value.argument
    with pytest.raises(UnknownDecision):
        client.observe("x-1", 1.0)
    decision = client.choose(ARMS, ids=["red", "blue"])
    assert decision.arm_id == ["red", "blue"][decision.arm]
    assert 0.2 < decision.propensity < 0.8  # by a hundred draws between two equal arms
    client.observe(decision.id, 1.0)
    with pytest.raises(AlreadyObserved) as error:
        client.observe(decision.id, 1.0)  # the application's own mistake, not a repetition
    assert error.value.same
    log = client.export()
    assert log["id", "reward"].rows()[-1] == (decision.id, 1.0)
    client.close()


def test_threads_share_a_client_and_so_does_a_forked_child(running):
    client = fg.AgentClient(running.url)
    before = client.status.samples
    ids: list[str] = []

    def work() -> None:
        for _ in range(25):
            decision = client.choose(ARMS)
            client.observe(decision.id, 0.0)
            ids.append(decision.id)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(set(ids)) == 100
    script = f"""
import os
import fedglb as fg
client = fg.AgentClient({running.url!r})
first = client.choose({ARMS!r})
child = os.fork()
for _ in range(20):
    client.observe(client.choose({ARMS!r}).id, 1.0)
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert client.status.samples - before == 140
    client.close()
