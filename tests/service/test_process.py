"""The service as a process: where it listens, what it refuses, how it ends."""

from __future__ import annotations

import http.client
import os
import random
import signal
import socket
import ssl
import stat
import subprocess
import sys
import threading
import time

import pytest

import fedglb as fg
from fedglb.federation import AlreadyObserved, Unavailable, UnknownDecision
from fedglb.federation.operator.authority import Authority
from tests.service.process import PATIENCE, acknowledged, loads, service, stored

ARMS = [[1.0, 0.0], [0.0, 1.0]]


def test_four_processes_lose_nothing_and_no_reward_is_refused(tmp_path):
    with service(tmp_path / "a.db", "--dim", "2", "--http", "127.0.0.1:0") as running:
        with loads(running.url, processes=4, count=100) as clients:
            found = acknowledged(clients)
        assert running.stop() == 0
    assert len(found) == 400
    assert None not in found.values()
    assert stored(tmp_path / "a.db") == found


@pytest.mark.slow
def test_sigterm_under_load_finishes_what_is_in_progress(tmp_path):
    """And the next process goes on: the clients see a pause."""
    path, place = tmp_path / "a.db", tmp_path / "agent.sock"
    options = (path, "--dim", "2", "--socket", place)
    with service(*options) as first, loads(first.url, processes=4, count=150) as clients:
        for each in clients:  # all of them are at it
            assert each.stdout.readline()
        assert first.stop() == 0
        assert first.events[-1]["event"] == "stopped"
        assert not place.exists()
        with service(*options) as second:
            assert second.url == first.url
            found = acknowledged(clients)
            assert second.stop(signal.SIGINT) == 0
    kept = stored(path)
    assert len(kept) == 600  # a request that was made twice counts once
    assert None not in kept.values()
    assert found.items() <= kept.items()


@pytest.mark.parametrize(
    ("kills", "count"), [(2, 100), pytest.param(40, 1500, marks=pytest.mark.slow)]
)
def test_kills_under_load_lose_nothing_that_was_acknowledged(tmp_path, kills, count):
    """And no reward of an acknowledged decision is refused: `observe` would have raised."""
    path, place, rng = tmp_path / "a.db", tmp_path / "agent.sock", random.Random(kills)
    options = (path, "--dim", "2", "--socket", place)
    with loads(f"unix://{place}", processes=4, count=count) as clients:
        for _ in range(kills):
            with service(*options) as running:
                assert running.url
                time.sleep(rng.expovariate(10.0))
                running.process.kill()
                running.ended()
            assert stat.S_ISSOCK(place.stat().st_mode)  # what a kill leaves is no obstacle
        with service(*options) as last:
            found = acknowledged(clients)
            assert last.stop() == 0
    kept = stored(path)
    assert len(kept) == 4 * count  # a request that was made twice counts once
    assert None not in kept.values()
    assert kept == found


@pytest.mark.some(1)
@pytest.mark.parametrize(("mode", "bits"), [("600", 0o600), ("660", 0o660)])
def test_a_unix_socket_has_the_permissions_that_were_asked_for(tmp_path, mode, bits):
    place = tmp_path / "agent.sock"
    options = (tmp_path / "a.db", "--dim", "2", "--socket", place, "--socket-mode", mode)
    with service(*options) as running:
        assert running.url == f"unix://{place}"
        assert stat.S_IMODE(place.stat().st_mode) == bits
        with fg.AgentClient(running.url) as client:
            decision = client.choose(ARMS)
            client.observe(decision.id, 1.0)
            assert client.status.samples == 1
        with service(tmp_path / "b.db", "--dim", "2", "--socket", place) as other:
            assert other.ended() == 1
            assert "another process listens" in other.errors
        assert running.stop() == 0
    assert not place.exists()


def test_a_file_is_never_replaced_by_a_socket(tmp_path):
    (tmp_path / "x").write_text("mine")
    with service(tmp_path / "a.db", "--dim", "2", "--socket", tmp_path / "x") as running:
        assert running.ended() == 2
        assert "--socket" in running.errors
    assert (tmp_path / "x").read_text() == "mine"


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


def test_other_addresses_need_a_certificate_and_a_token(tmp_path, secured):
    tls = ("--tls-cert", secured / "cert.pem", "--tls-key", secured / "key.pem")
    token = ("--token-file", secured / "token")
    for options in ((), tls, token):
        with service(tmp_path / "a.db", "--dim", "2", "--http", "0.0.0.0:0", *options) as running:
            assert running.ended() == 2
            assert "--http" in running.errors
            assert "--token-file" in running.errors
    assert not (tmp_path / "a.db").exists()
    with service(tmp_path / "a.db", "--dim", "2", "--http", "0.0.0.0:0", *tls, *token) as running:
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


def test_a_file_and_a_port_that_others_have(tmp_path):
    with service(tmp_path / "a.db", "--dim", "2", "--http", "127.0.0.1:0") as running:
        port = running.port
        options = ("--dim", "2", "--http", "127.0.0.1:0", "--wait", "0")
        with service(tmp_path / "a.db", *options) as other:
            assert other.ended() == 1
            assert "is open already" in other.errors
        with service(tmp_path / "b.db", "--dim", "2", "--http", f"127.0.0.1:{port}") as other:
            assert other.ended() == 1
            assert "in use" in other.errors


def raw(port: int, data: bytes) -> bytes:
    """Send bytes; return all that comes until the other side closes, or an answer is there."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as made:
        try:
            made.sendall(data)
            return made.recv(65536)
        except (ConnectionResetError, BrokenPipeError):
            return b""


def test_bytes_that_are_no_request_do_no_harm(tmp_path):
    with service(tmp_path / "a.db", "--dim", "2", "--http", "127.0.0.1:0") as running:
        port = running.port
        for data in (
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
            b"POST /v1/choose HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"\x00" * 100,
        ):
            assert raw(port, data).startswith((b"HTTP/1.1 4", b"")), data
        # a head without an end is not read for ever
        assert raw(port, b"GET / HTTP/1.1\r\nX: " + b"a" * 2**20) == b""
        upgrade = b"Upgrade: websocket\r\nConnection: Upgrade\r\n"
        asked = b"GET / HTTP/1.1\r\nHost: localhost\r\n" + upgrade + b"\r\n"
        assert raw(port, asked).startswith(b"HTTP/1.1 ")
        with fg.AgentClient(running.url) as client:
            assert client.choose(ARMS).arm == 0
        assert running.stop() == 0


def test_systemd_is_told(tmp_path):
    place = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        notified.bind(place)
        notified.settimeout(PATIENCE)
        os.environ["NOTIFY_SOCKET"] = place
        try:
            with service(tmp_path / "a.db", "--dim", "2", "--http", "127.0.0.1:0") as running:
                assert notified.recv(100) == b"READY=1"
                assert running.stop() == 0
                assert notified.recv(100) == b"STOPPING=1"
        finally:
            del os.environ["NOTIFY_SOCKET"]


def test_without_the_extra_it_says_what_to_install(tmp_path):
    script = (
        "import sys; sys.modules['starlette'] = None; sys.argv = "
        f"['fedglb', 'agent', 'serve', {str(tmp_path / 'a.db')!r}, '--dim', '2']; "
        "from fedglb.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install 'fedglb[service]'" in done.stderr


def test_the_client_needs_no_extra(tmp_path):
    script = (
        "import sys\nfor name in ('starlette', 'uvicorn', 'prometheus_client', 'nats'):\n"
        "    sys.modules[name] = None\nimport fedglb as fg\nfg.AgentClient('unix:///x'), "
        "fg.AsyncAgentClient('http://localhost:1')\nprint('numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr


def test_the_agents_errors_are_the_clients(tmp_path):
    with service(tmp_path / "a.db", "--dim", "2", "--http", "127.0.0.1:0") as running:
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
        assert (decision.arm_id, decision.propensity) == ("red", 1.0)
        client.observe(decision.id, 1.0)
        with pytest.raises(AlreadyObserved) as error:
            client.observe(decision.id, 1.0)  # the application's own mistake, not a repetition
        assert error.value.same
        log = client.export()
        assert log["id", "reward"].rows() == [(decision.id, 1.0)]
        client.close()
        assert running.stop() == 0


@pytest.mark.slow
def test_threads_share_a_client_and_so_does_a_forked_child(tmp_path):
    with service(tmp_path / "a.db", "--dim", "2", "--http", "127.0.0.1:0") as running:
        client = fg.AgentClient(running.url)
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
        assert client.status.samples == 140
        client.close()
        assert running.stop() == 0
