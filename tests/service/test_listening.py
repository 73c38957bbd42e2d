"""Where a service may listen, and the files that protect an address which others reach."""

from __future__ import annotations

import socket
import stat

import pytest

import fedglb as fg
from fedglb.federation import Unavailable
from fedglb.service.listening import Listen, read_token

TOKEN = "0123456789abcdef-token"


@pytest.mark.parametrize("http", ["8732", "localhost", "127.0.0.1:", "127.0.0.1:x", ":1", "a:1",
                                  "127.0.0.1:65536", ""])  # fmt: skip
def test_what_is_no_address(http):
    with pytest.raises(fg.InvalidInput, match="an IP address and a port"):
        Listen.parse(http)


def test_on_loopback_only_loopback_names_are_allowed(tmp_path):
    assert Listen.parse("127.0.0.1:0").hosts == {"localhost", "127.0.0.1", "[::1]"}
    assert Listen.parse("127.9.9.9:0").hosts == {"localhost", "127.0.0.1", "[::1]", "127.9.9.9"}
    assert Listen.parse("127.0.0.1:0", path=tmp_path / "agent.sock").hosts is None


def test_a_tokens_file(tmp_path, caplog):
    path = tmp_path / "token"
    for text in ("short", "", "two words of a secret", "ü" * 20):
        path.write_text(text)
        with pytest.raises(fg.InvalidInput, match="token_file"):
            read_token(path)
    with pytest.raises(fg.InvalidInput, match="a readable file"):
        read_token(tmp_path / "missing")
    path.write_text(f"{TOKEN}\n")
    path.chmod(0o600)
    assert read_token(path) == TOKEN
    assert TOKEN not in repr(Listen.parse("127.0.0.1:0", path))
    assert caplog.text == ""
    path.chmod(0o644)
    read_token(path)
    assert "chmod 600" in caplog.text


def test_a_port_that_is_taken_is_said():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(Unavailable, match=f"127.0.0.1:{port}"),
            Listen.parse(f"127.0.0.1:{port}").bound(),
        ):
            pass


@pytest.mark.parametrize("mode", [0o600, 0o660])
def test_a_unix_socket_has_its_mode_and_replaces_only_what_a_killed_process_left(tmp_path, mode):
    path = tmp_path / "agent.sock"
    listen = Listen.parse("127.0.0.1:0", path=path, mode=mode)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))  # its file stays
    with listen.bound() as (_, url):
        assert url == f"unix://{path}"
        assert stat.S_IMODE(path.stat().st_mode) == mode
        with pytest.raises(Unavailable, match="another process listens"), listen.bound():
            pass
        assert path.exists()
    assert not path.exists()
    path.write_text("mine")
    with pytest.raises(fg.InvalidInput, match="socket"), listen.bound():
        pass
    assert path.read_text() == "mine"


def test_answers_are_sent_at_once():
    with (
        Listen.parse("127.0.0.1:0").bound() as (listener, _),
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
