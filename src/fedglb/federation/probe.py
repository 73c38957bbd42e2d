"""Try the door: whether a running server lets the holder of a certificate in."""

from __future__ import annotations

import json
import socket
import ssl
import time

_STEP = 2.0
_CONNECT = {"verbose": False, "pedantic": False, "lang": "fedglb", "version": "1", "protocol": 1}


def admitted(context: ssl.SSLContext, address: tuple[str, int], hostname: str) -> bool | None:
    """Return True: let in; False: the server knows no such member; None: no clear answer.

    `hostname` is what the server's certificate must say; `address` is where to knock. Nothing is
    said or heard: the connection is closed as soon as the server has answered.
    """
    try:
        with (
            socket.create_connection(address, _STEP) as plain,
            context.wrap_socket(plain, server_hostname=hostname) as door,
            door.makefile("rb") as lines,
        ):
            lines.readline()  # INFO
            door.sendall(b"CONNECT " + json.dumps(_CONNECT).encode() + b"\r\nPING\r\n")
            answer = lines.readline()
    except OSError:  # ssl.SSLError is one too
        return None
    if answer.startswith(b"PONG"):
        return True
    return False if b"Authorization Violation" in answer else None


def settles(
    wanted: bool,
    context: ssl.SSLContext,
    address: tuple[str, int],
    hostname: str,
    patience: float = 5.0,
) -> bool:
    """Knock until the answer is the wanted one: a server takes a moment to reload."""
    deadline = time.monotonic() + patience
    while admitted(context, address, hostname) is not wanted:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
