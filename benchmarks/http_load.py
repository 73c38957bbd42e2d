"""Requests over a few connections at once, as fast as they are answered, from one process.

No client library: its own cost would hide the service's.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec


def request(path: str, body: bytes) -> bytes:
    """Return a POST as bytes."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


@dataclass
class Measured:
    """Seconds of each `choose` and each `observe`, and of the whole."""

    choose: list[float] = field(default_factory=list)
    observe: list[float] = field(default_factory=list)
    seconds: float = 0.0


def drive(port: int, connections: int, pairs: int, body: Callable[[int], bytes]) -> Measured:
    """Choose, then report a reward, `pairs` times over each of some connections at a time."""
    found, poll, clock = Measured(), select.epoll(), time.perf_counter
    sockets: dict[int, socket.socket] = {}
    state: dict[int, tuple[str, float, int, bytes]] = {}  # what is asked, since when, which, got
    begin = clock()
    for _ in range(connections):
        made = socket.create_connection(("127.0.0.1", port))
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sockets[made.fileno()] = made
        poll.register(made.fileno(), select.EPOLLIN)
        made.sendall(request("/v1/choose", body(0)))
        state[made.fileno()] = ("choose", clock(), 0, b"")
    while state:
        for number, _ in poll.poll():
            kind, since, index, got = state[number]
            got += sockets[number].recv(65536)
            head, found_end, rest = got.partition(b"\r\n\r\n")
            length = 0
            if found_end:
                assert head.startswith(b"HTTP/1.1 200"), got
                length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            if not found_end or len(rest) < length:
                state[number] = (kind, since, index, got)
                continue
            getattr(found, kind).append(clock() - since)
            if kind == "choose":
                id_ = msgspec.json.decode(rest)["id"]
                answer = request("/v1/observe", b'{"id":"%s","reward":1.0}' % id_.encode())
                following = "observe"
            elif index + 1 < pairs:
                answer, following, index = (
                    request("/v1/choose", body(index + 1)),
                    "choose",
                    index + 1,
                )
            else:
                del state[number]
                continue
            state[number] = (following, clock(), index, b"")
            sockets[number].sendall(answer)
    found.seconds = clock() - begin
    for made in sockets.values():
        made.close()
    poll.close()
    return found
