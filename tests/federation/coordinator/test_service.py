"""The coordinator's service: messages that wait, and its end."""

from __future__ import annotations

import asyncio

import pytest

from fedglb.federation.coordinator.service import Inbox


@pytest.mark.parametrize("turns", range(4))
def test_an_end_that_comes_with_a_message_is_the_end(turns):
    """A service that went on would never stop: it is told once."""

    async def scene():
        inbox = Inbox()
        task = asyncio.create_task(inbox.get(60.0))
        for _ in range(3):
            await asyncio.sleep(0)
        inbox.put("a", b"x")
        for _ in range(turns):
            await asyncio.sleep(0)
        before = task.cancel()
        await asyncio.wait([task])
        return before, task.cancelled()

    before, cancelled = asyncio.run(scene())
    assert cancelled == before
