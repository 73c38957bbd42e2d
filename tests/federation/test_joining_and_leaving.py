"""Clients that join during an update or come with another file; a real server."""

from __future__ import annotations

import asyncio
import re
from contextlib import AsyncExitStack, ExitStack

import numpy as np
import pytest

from fedglb.federation.wire.messages import Goodbye
from fedglb.protocol.messages import NewModel, SumsRequest
from tests.federation.helpers.in_process import (
    Serving,
    client_of,
    honest,
    opened,
    same,
    update,
)
from tests.federation.helpers.nats_federation import PATIENCE, until
from tests.federation.helpers.raw_client import by_hand
from tests.protocol.driver import equal_arrays

DIM = 3
HONEST = {"a": 7, "b": 4, "d": 9}


@pytest.fixture
def agreement(shared):
    return shared.coordinator_bundle.agreement


def play_scene(shared, tmp_path, scene, **policy):
    with (
        Serving(shared, tmp_path / "state.db", **policy) as serving,
        honest(shared, tmp_path, serving, HONEST) as agents,
    ):
        asyncio.run(asyncio.wait_for(scene(serving, agents), 2 * PATIENCE))


async def updated(serving, agents, number=1):
    for agent in agents:
        assert await asyncio.to_thread(agent.wait_for_model, number, PATIENCE)
    return await asyncio.to_thread(serving.wait, "updated", number=number)


def check_state(agreement, agent, name, samples, *adopted):
    """The agent is where a client is that adopts these models and has its samples on top.

    Each is the number of the update, how many samples are covered, and the model.
    """
    twin = client_of(agreement, name, samples)
    for number, covered, model in adopted:
        twin.receive(NewModel(name, number, covered, model))
    client = agent._client.protocol_client
    assert (client.adopted, client.covered) == adopted[-1][:2]
    ours, theirs = client.to_arrays(), twin.to_arrays()
    for one in (ours, theirs):
        del one["update"], one["frozen"]  # of an update in which it may have taken no part
    assert equal_arrays(ours, theirs)


def test_a_client_that_joins_during_an_update_gets_its_model(shared, tmp_path, agreement):
    async def scene(serving, agents):
        async with by_hand(shared, "c") as c:
            await c.join()
            agents["d"].request_update()
            await c.hear(SumsRequest)  # the update waits for c
            with opened(shared, tmp_path, "e", 3) as late:
                await asyncio.to_thread(serving.wait, "joined", client="e")
                await c.say(Goodbye())
                event = await updated(serving, [*agents.values(), late])
                assert event.facts["clients"] == 3
                model = serving.session.coordinator.model
                assert same(model, update(agreement, HONEST))
                check_state(agreement, late, "e", 3, (1, 0, model))
                agents["d"].request_update()  # and of the next one it is part
                event = await updated(serving, [*agents.values(), late], 2)
                assert event.facts["clients"] == 4
                second = serving.session.coordinator.model
                assert same(second, update(agreement, HONEST, {**HONEST, "e": 3}))
                check_state(agreement, late, "e", 3, (1, 0, model), (2, 3, second))

    play_scene(shared, tmp_path, scene)


def test_a_new_file_waits_for_the_silence_of_the_old_one(shared, tmp_path, agreement):
    """Its samples are others: the model covers none of them."""

    async def scene(serving, agents):
        with ExitStack() as stack:
            line = AsyncExitStack()
            old = await line.enter_async_context(by_hand(shared, "c", 5))
            await old.join()
            agents["d"].request_update()
            await old.take_part()
            await updated(serving, agents.values())
            new = stack.enter_context(opened(shared, tmp_path, "c", 3))
            await until(lambda: new.status.refused is not None)  # as long as the old one is there
            assert "another file already uses c's certificate" in new.status.refused
            assert (new.status.admitted, new.status.model) == (False, 0)
            await line.aclose()  # without a goodbye
            await asyncio.to_thread(serving.silence, "c")
            assert await asyncio.to_thread(new.wait_for_model, 1, PATIENCE)
            model = serving.session.coordinator.model
            check_state(agreement, new, "c", 3, (1, 0, model))
            agents["d"].request_update()
            event = await updated(serving, [*agents.values(), new], 2)
            assert (event.facts["clients"], event.facts["samples"]) == (4, 7 + 4 + 3 + 9)
            counts = ({**HONEST, "c": 5}, {**HONEST, "c": 3})
            assert same(serving.session.coordinator.model, update(agreement, *counts))
            assert new.status.refused is None

    play_scene(shared, tmp_path, scene)


@pytest.mark.parametrize("more", [{"headers": {"Nats-Msg-Id": "1"}}, {"reply": "fed.demo.up.a"}])
def test_an_answer_with_headers_or_a_reply_subject_is_dropped(shared, tmp_path, agreement, more):
    """No member sends such messages: an attacker made the server send them."""

    async def scene(serving, agents):
        async with by_hand(shared, "c") as c:
            await c.join()
            agents["d"].request_update()
            await c.say(c.answer(await c.hear(SumsRequest)), **more)
            await until(lambda: serving.session.coordinator.missing() == ["c"])
            serving.give_up(0.3)
            await updated(serving, agents.values())
            assert same(serving.session.coordinator.model, update(agreement, HONEST))
            assert serving.texts("excluded") == ["excluded c: no answer within 0.3 s"]

    play_scene(shared, tmp_path, scene)


def test_an_agent_whose_file_was_copied_goes_on_alone(shared, tmp_path):
    """The copy has the same identity: the older agent is told so, and does not fight."""

    async def scene(serving, agents):
        async with by_hand(shared, "a", 7) as copy:
            copy.instance = agents["a"]._client.store.instance
            await copy.join()
            older = agents["a"]
            await until(lambda: older.status.refused is not None)
            assert re.search("another agent .*has replaced (it|this one)", older.status.refused)
            await copy.beat()
            older.observe(older.choose(np.eye(DIM)).id, 1.0)  # it still chooses and learns
            assert older.status.samples == 8
            assert serving.session.members.session("a") == copy.session

    play_scene(shared, tmp_path, scene)
