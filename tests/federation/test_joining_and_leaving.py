"""Clients that join during an update, leave, come back, are slow or too few; a real server."""

from __future__ import annotations

import asyncio
import re
from contextlib import AsyncExitStack, ExitStack

import numpy as np
import pytest

from fedglb.federation.wire.messages import Goodbye, Rejected
from fedglb.protocol.messages import Evaluate, NewModel, SumsRequest
from tests.federation.helpers.in_process import (
    Serving,
    client_of,
    honest,
    opened,
    play,
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


def test_a_client_that_leaves_during_an_update(shared, tmp_path, agreement):
    async def scene(serving, agents):
        async with by_hand(shared, "c") as c:
            await c.join()
            agents["d"].request_update()
            await c.say(c.answer(await c.hear(SumsRequest)))
            await c.hear(Evaluate)  # a round with b in it is under way
            await asyncio.to_thread(agents["b"].close)
            left = await asyncio.to_thread(serving.wait, "left", client="b")
            assert left.text == "b has left: it said goodbye"
            await c.take_part()
            event = await updated(serving, [agents["a"], agents["d"]])
            assert event.facts["clients"] == 3
            assert serving.texts("excluded") == ["b is excluded: it said goodbye"]
            counts = {"a": 7, "c": 5, "d": 9}
            assert same(serving.session.coordinator.model, update(agreement, counts))

    play_scene(shared, tmp_path, scene)


def test_a_client_that_missed_updates_finds_the_newest_model(shared, tmp_path, agreement):
    async def scene(serving, agents):
        with opened(shared, tmp_path, "c", 4, "c.db") as c:
            await asyncio.to_thread(serving.wait, "joined", client="c")
            agents["d"].request_update()
            await updated(serving, [*agents.values(), c])
        await asyncio.to_thread(serving.wait, "left", client="c")
        for number in (2, 3):  # two updates without it
            play(agents["d"], "d", 2)
            agents["d"].request_update()
            await updated(serving, agents.values(), number)
        history = [{**HONEST, "c": 4}, {**HONEST, "d": 11}, {**HONEST, "d": 13}]
        with opened(shared, tmp_path, "c", 2, "c.db") as c:
            assert await asyncio.to_thread(c.wait_for_model, 3, PATIENCE)
            model = serving.session.coordinator.model
            assert same(model, update(agreement, *history))
            assert (c.status.model, c._client.protocol_client.covered) == (3, 0)
            assert same(c._client.protocol_client.state.base, model)
            agents["d"].request_update()
            event = await updated(serving, [*agents.values(), c], 4)
            assert (event.facts["clients"], event.facts["samples"]) == (4, 7 + 4 + 6 + 13)
            now = {**HONEST, "c": 6, "d": 13}
            assert same(serving.session.coordinator.model, update(agreement, *history, now))
            assert c._client.protocol_client.covered == 6

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
            assert "another file already uses the certificate of c" in new.status.refused
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
            assert serving.texts("excluded") == ["c is excluded: no answer within 0.3 s"]

    play_scene(shared, tmp_path, scene)


def test_an_agent_whose_file_was_copied_goes_on_alone(shared, tmp_path):
    """The copy has the same identity: the older agent is told so, and does not fight."""

    async def scene(serving, agents):
        async with by_hand(shared, "a", 7) as copy:
            copy.instance = agents["a"]._client.store.instance
            await copy.join()
            older = agents["a"]
            await until(lambda: older.status.refused is not None)
            assert re.search(
                "another agent .*has taken (its place|the place of a)", older.status.refused
            )
            await copy.beat()
            older.observe(older.choose(np.eye(DIM)).id, 1.0)  # it still chooses and learns
            assert older.status.samples == 8
            assert serving.session.members.session("a") == copy.session

    play_scene(shared, tmp_path, scene)


def test_who_was_refused_for_its_answer_is_part_of_the_next_update(shared, tmp_path, agreement):
    """One that sent an invalid message is excluded from that update, not from the federation."""

    async def scene(serving, agents):
        async with by_hand(shared, "c") as c:
            await c.join()
            agents["d"].request_update()
            await c.hear(SumsRequest)
            await c.say(b"garbage")
            await c.hear(Rejected)
            await updated(serving, agents.values())
            c.client.receive(await c.hear(NewModel))
            agents["d"].request_update()
            await c.take_part()
            event = await updated(serving, agents.values(), 2)
            assert event.facts["clients"] == 4
            model = update(agreement, HONEST, {**HONEST, "c": 5})
            assert same(serving.session.coordinator.model, model)

    play_scene(shared, tmp_path, scene)
