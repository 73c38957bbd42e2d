"""A client by hand: it has a certificate, and speaks the wire format as it likes."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from fedglb.federation.names import down, up
from fedglb.federation.wire.codec import decode_down, encode
from fedglb.federation.wire.messages import Admitted, Downward, Hello, Upward
from fedglb.protocol.messages import Evaluate, SumsRequest
from tests.federation.helpers.in_process import client_of
from tests.federation.helpers.nats_federation import PATIENCE, Connected, Running, connected

M = TypeVar("M")


class ByHand:
    """One connection of one client, with a session of its own."""

    def __init__(self, line: Connected, running: Running, name: str, samples: int) -> None:
        self.line, self.name = line, name
        self.bundle = running.bundle(name)
        self.agreement = self.bundle.agreement
        self.client = client_of(self.agreement, name, samples)
        self.session, self.instance = secrets.token_hex(8), secrets.token_hex(16)
        self._read = 0

    async def say(self, message: Upward | bytes, **more: Any) -> None:
        """Send a message, or any bytes."""
        data = message if isinstance(message, bytes) else encode(message, self.session)
        await self.line.say(up(self.bundle.federation, self.name), data, **more)

    async def hello(self) -> None:
        await self.say(Hello(self.instance, 0, "by hand", self.agreement.facts()))

    async def join(self) -> None:
        await self.hello()
        await self.hear(Admitted)

    async def hear(self, kind: type[M], **facts: object) -> M:
        """The next message of this kind that is for this session; others are passed over."""

        async def wait() -> M:
            while True:
                while self._read >= len(self.line.heard):
                    await asyncio.sleep(0.005)
                data = self.line.heard[self._read][1]
                self._read += 1
                session, message = self.decoded(data)
                ours = session in ("", self.session) and isinstance(message, kind)
                if ours and all(getattr(message, k) == v for k, v in facts.items()):
                    return message

        return await asyncio.wait_for(wait(), PATIENCE)

    def decoded(self, data: bytes) -> tuple[str, Downward]:
        return decode_down(data, self.name, self.agreement.problem.dim)

    def answer(self, request: SumsRequest | Evaluate) -> Any:
        """What an honest client answers."""
        return self.client.receive(request)[0]


@asynccontextmanager
async def by_hand(running: Running, name: str, samples: int = 5) -> AsyncIterator[ByHand]:
    """Connect a client by hand, and listen; it has said nothing yet."""
    async with connected(running.bundle(name)) as line:
        out = ByHand(line, running, name, samples)
        await line.listen(down(out.bundle.federation, name))
        yield out
