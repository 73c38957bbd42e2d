"""Connections that send nothing, or half a request, do not keep others out."""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPResponse

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from fedglb.service import server
from fedglb.service.agent import RequestLimits, make_app
from fedglb.service.guard import Access, Guard
from fedglb.service.listening import Listen
from fedglb.service.metrics import Metrics
from tests.federation.helpers.nats_federation import PATIENCE, eventually

STATUS = b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n"
BODY = b'{"arms": [[1.0, 0.0]]}'
HEAD = (
    b"POST /v1/choose HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n" % len(BODY)
)
SLOW = {"silent": b"", "half a head": STATUS[:30], "half a body": HEAD + BODY[:5], "idle": STATUS}


@pytest.fixture(autouse=True)
def _no_timers(monkeypatch):
    """Whoever is slow is not closed for that alone."""
    monkeypatch.setattr(server, "_HEAD_TIMEOUT", 1e6)


@contextmanager
def listening(app: Guard) -> Iterator[int]:
    with server.serve_in_thread(app, Listen.parse("127.0.0.1:0")) as url:
        yield int(url.rpartition(":")[2])


def patient(agent, **limits: int) -> Guard:
    return make_app(agent, limits=RequestLimits(read_timeout=10**6, **limits))


def connected(stack: ExitStack, port: int, data: bytes) -> socket.socket:
    made = stack.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE))
    made.sendall(data)
    return made


def status(made: socket.socket) -> int:
    answer = HTTPResponse(made)
    answer.begin()
    answer.read()
    return answer.status


def is_closed(made: socket.socket) -> bool:
    try:
        return bool(select.select([made], [], [], 0)[0]) and made.recv(1, socket.MSG_PEEK) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("kind", SLOW)
def test_the_slowest_connection_makes_room_for_another(agent, monkeypatch, kind):
    monkeypatch.setattr(server, "_MAX_CONNECTIONS", 4)
    with listening(patient(agent)) as port, ExitStack() as stack:
        slow = []
        for _ in range(4):
            slow.append(connected(stack, port, SLOW[kind]))
            if kind == "idle":
                assert status(slow[-1]) == 200
        for closed in (1, 2):
            assert status(connected(stack, port, STATUS)) == 200
            eventually(lambda n=closed: sum(map(is_closed, slow)) == n, "one makes room")


def test_half_of_the_file_descriptors_are_for_connections(monkeypatch):
    import resource

    for soft, most in ((256, 128), (2**20, 1024), (resource.RLIM_INFINITY, 1024)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, soft=soft: (soft, soft))
        assert server.most_connections() == most


def test_a_request_in_progress_is_not_closed_for_another(monkeypatch):
    monkeypatch.setattr(server, "_MAX_CONNECTIONS", 1)
    begun, end = asyncio.Event(), asyncio.Event()

    async def handler(_: Request) -> Response:
        begun.set()
        loops.append(asyncio.get_running_loop())
        await end.wait()
        return PlainTextResponse("done")

    loops: list[asyncio.AbstractEventLoop] = []
    guard = Guard({"/v1/status": ("GET", handler)}, Access(), Metrics(lambda: ()), 10)
    with listening(guard) as port, ExitStack() as stack:
        first = connected(stack, port, STATUS)
        eventually(begun.is_set, "it is in progress")
        second = connected(stack, port, b"")
        eventually(lambda: is_closed(second), "there is no room")
        loops[0].call_soon_threadsafe(end.set)
        assert status(first) == 200


def test_bodies_that_do_not_arrive_make_room_for_other_requests(agent):
    with listening(patient(agent, max_concurrent=2)) as port, ExitStack() as stack:
        silent = connected(stack, port, b"")
        slow = [connected(stack, port, SLOW["half a body"]) for _ in range(2)]
        answered = lambda: status(connected(stack, port, STATUS)) == 200  # noqa: E731
        eventually(lambda: answered() and any(map(is_closed, slow)), "one makes room")
        assert not is_closed(silent)  # it has no request to end
    assert agent.export().height == 0


def test_a_body_has_some_time(agent, monkeypatch):
    monkeypatch.setattr(server, "_BODY_TIME", 1e6)
    with listening(patient(agent, max_concurrent=2)) as port, ExitStack() as stack:
        slow = [connected(stack, port, SLOW["half a body"]) for _ in range(2)]
        eventually(lambda: status(connected(stack, port, STATUS)) == 503, "it is full")
        for each in slow:
            each.sendall(BODY[5:])
            assert status(each) == 200
        assert status(connected(stack, port, STATUS)) == 200
