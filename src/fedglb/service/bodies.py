"""Reading a body: declared as JSON, not too large, not too slow."""

from __future__ import annotations

import asyncio

from starlette.requests import ClientDisconnect, Request

from fedglb.service.limits import Limits
from fedglb.service.problem import Refused


async def read(request: Request, limits: Limits) -> bytes:
    """Return the body of a request, or raise `Refused`."""
    kind = request.headers.get("content-type", "")
    if kind != "application/json" and kind.partition(";")[0].strip().lower() != "application/json":
        # A page from elsewhere cannot send this type without asking first, and nobody says yes.
        raise Refused(415, "not-json", "give the header Content-Type: application/json")
    length = request.headers.get("content-length", "0")
    if length.isdigit() and int(length) > limits.most_body:
        raise _too_large(limits)
    try:
        async with asyncio.timeout(limits.read_seconds):
            return await _all(request, limits)
    except ClientDisconnect:  # nobody reads this, but it is counted, and no fault of ours
        raise Refused(400, "malformed", "the connection ended before the body") from None
    except TimeoutError:
        raise Refused(
            408, "too-slow", f"a body has to arrive within {limits.read_seconds} s",
            {"Connection": "close"},
        ) from None  # fmt: skip


async def _all(request: Request, limits: Limits) -> bytes:
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > limits.most_body:
            raise _too_large(limits)
        pieces.append(piece)
    return b"".join(pieces)


def _too_large(limits: Limits) -> Refused:
    allowed = f"a body has at most {limits.most_body} bytes: send fewer arms, or smaller batches"
    # what is left of the body is not read, so the connection cannot be used again
    return Refused(413, "too-large", allowed, {"Connection": "close"})
