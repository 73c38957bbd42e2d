"""An agent begins or ends while there is no server, or something else in its place."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading

import pytest

from fedglb.federation import Agent
from tests.federation.helpers.nats_federation import eventually, federation, table


def opened(running, tmp_path) -> Agent:
    problem = table().build().problem
    return Agent.open(tmp_path / "a.db", problem, bundle=running.folder / "clients" / "a")


def threads() -> list[str]:
    """The threads that agents of this process have."""
    return [t.name for t in threading.enumerate() if t.name.startswith("fedglb-agents")]


@contextlib.contextmanager
def in_its_place(port: int, answer: bytes | None):
    """Something that takes connections and resets them (None), stays silent or talks nonsense."""
    taken: list[socket.socket] = []

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                taken.append(connection)
                if answer is None:
                    connection.close()
                else:
                    connection.sendall(answer)

    with socket.create_server(("127.0.0.1", port)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield taken
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in taken:
                connection.close()


def test_closing_without_a_server_is_no_error(tmp_path, caplog):
    running = federation(tmp_path, ["a"])
    agent = opened(running, tmp_path)
    eventually(lambda: caplog.records, "a first attempt")  # it has tried once
    agent.close()
    assert threads() == []
    assert [r for r in caplog.records if r.levelno >= logging.ERROR] == []


def test_closing_while_the_server_is_gone_is_no_error(tmp_path, caplog):
    with federation(tmp_path, ["a"]) as running:
        agent = opened(running, tmp_path)
        eventually(lambda: agent.status.connected, "a connection")
        running.kill()
        eventually(lambda: not agent.status.connected, "the end of it")
        agent.close()
        assert threads() == []
    assert [r for r in caplog.records if r.levelno >= logging.ERROR] == []


@pytest.mark.some(1)
@pytest.mark.parametrize("answer", [None, b"", b"HTTP/1.1 400 no\r\n\r\n"])
def test_a_first_handshake_that_fails_is_not_the_last(tmp_path, answer):
    running = federation(tmp_path, ["a"])
    with in_its_place(running.port, answer) as taken:
        agent = opened(running, tmp_path)
        eventually(lambda: len(taken) >= 2 or (answer == b"" and len(taken) == 1), "attempts")
    with running:
        eventually(lambda: agent.status.connected, "a connection")
        agent.close()


def test_closing_in_the_midst_of_a_handshake_leaves_no_thread(tmp_path):
    running = federation(tmp_path, ["a"])
    with in_its_place(running.port, b"") as taken:
        agent = opened(running, tmp_path)
        eventually(lambda: taken, "an attempt")
        agent.close()
        assert threads() == []
