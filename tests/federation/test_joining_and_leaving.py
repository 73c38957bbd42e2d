"""Clients that join during an update, leave, come back, are slow or too few; a real server."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, ExitStack

import numpy as np
import pytest

from fedglb.federation.wire.messages import Admitted, Goodbye, HelloRequest, Rejected
from fedglb.protocol.messages import Evaluate, NewModel, SumsRequest, SyncRequest
from tests.federation.helpers.in_process import (
    Serving,
    client_of,
    honest,
    opened,
    play,
    same,
    update,
)
from tests.federation.helpers.nats_federation import PATIENCE, federation, table, until
from tests.federation.helpers.raw_client import by_hand
from tests.protocol.driver import equal_arrays

DIM = 3
HONEST = {"a": 7, "b": 4, "d": 9}
SOLVER = {"name": "newton", "tolerance": 1e-14}


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    folder, agreed = tmp_path_factory.mktemp("coming"), table(6, DIM, solver=SOLVER)
    with federation(folder, ["a", "b", "c", "d", "e"], agreed) as out:
        yield out


@pytest.fixture
def agreement(running):
    return running.coordinator_bundle.agreement


def play_scene(running, tmp_path, scene, **policy):
    with (
        Serving(running, tmp_path / "state.db", **policy) as serving,
        honest(running, tmp_path, serving, HONEST) as agents,
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


def test_a_client_that_joins_during_an_update_gets_its_model(running, tmp_path, agreement):
    async def scene(serving, agents):
        async with by_hand(running, "c") as c:
            await c.join()
            agents["d"].request_update()
            await c.hear(SumsRequest)  # the update waits for c
            with opened(running, tmp_path, "e", 3) as late:
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

    play_scene(running, tmp_path, scene)


def test_a_client_that_leaves_during_an_update(running, tmp_path, agreement):
    async def scene(serving, agents):
        async with by_hand(running, "c") as c:
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

    play_scene(running, tmp_path, scene)


def test_a_client_that_missed_updates_finds_the_newest_model(running, tmp_path, agreement):
    async def scene(serving, agents):
        with opened(running, tmp_path, "c", 4, "c.db") as c:
            await asyncio.to_thread(serving.wait, "joined", client="c")
            agents["d"].request_update()
            await updated(serving, [*agents.values(), c])
        await asyncio.to_thread(serving.wait, "left", client="c")
        for number in (2, 3):  # two updates without it
            play(agents["d"], "d", 2)
            agents["d"].request_update()
            await updated(serving, agents.values(), number)
        history = [{**HONEST, "c": 4}, {**HONEST, "d": 11}, {**HONEST, "d": 13}]
        with opened(running, tmp_path, "c", 2, "c.db") as c:
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

    play_scene(running, tmp_path, scene)


def test_a_slow_client_is_asked_again_and_waited_for(running, tmp_path, agreement):
    """It answers nothing at the first time of asking."""

    async def scene(serving, agents):
        async with by_hand(running, "c") as c:
            await c.join()
            agents["d"].request_update()
            for kind in (SumsRequest, Evaluate):
                first = await c.hear(kind)
                again = await c.hear(kind)
                assert type(first) is type(again) is kind
                await c.say(c.answer(again))
            await c.take_part()
            event = await updated(serving, agents.values())
            assert event.facts["clients"] == 4
            assert serving.texts("excluded") == []
            model = update(agreement, {**HONEST, "c": 5})
            assert same(serving.session.coordinator.model, model)
            sent = serving.session.traffic.entries["SumsRequest.down"][0]
            entry = serving.session.coordinator.ledger.entries["SumsRequest", "down"]
            assert sent > entry.messages == 4  # the ledger counts each once

    play_scene(running, tmp_path, scene)


def test_a_client_that_was_silent_comes_back(running, tmp_path, agreement):
    """The same process, after an outage: it is called, says hello, and takes part again."""

    async def scene(serving, agents):
        async with by_hand(running, "c") as c:
            await c.join()
            await asyncio.to_thread(serving.silence, "c")
            left = await asyncio.to_thread(serving.wait, "left", client="c")
            assert left.text == "c has left: silent for too long"
            await c.beat()
            await c.hear(HelloRequest)
            await c.join()
            agents["d"].request_update()
            await c.take_part()
            event = await updated(serving, agents.values())
            assert event.facts["clients"] == 4
            model = update(agreement, {**HONEST, "c": 5})
            assert same(serving.session.coordinator.model, model)

    play_scene(running, tmp_path, scene)


def test_a_new_file_waits_for_the_silence_of_the_old_one(running, tmp_path, agreement):
    """Its samples are others: the model covers none of them."""

    async def scene(serving, agents):
        with ExitStack() as stack:
            line = AsyncExitStack()
            old = await line.enter_async_context(by_hand(running, "c", 5))
            await old.join()
            agents["d"].request_update()
            await old.take_part()
            await updated(serving, agents.values())
            new = stack.enter_context(opened(running, tmp_path, "c", 3))
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

    play_scene(running, tmp_path, scene)


def test_another_file_in_the_middle_of_an_update_ends_the_part_of_the_first(
    running, tmp_path, agreement
):
    """The old one has left; what is frozen of it in the update cannot be asked for any more."""

    async def scene(serving, agents):
        async with by_hand(running, "e") as e:
            await e.join()
            async with by_hand(running, "c", 5) as old:
                await old.join()
                agents["d"].request_update()
                await old.say(old.answer(await old.hear(SumsRequest)))
                await old.say(Goodbye())
            with opened(running, tmp_path, "c", 3) as new:
                await until(lambda: new.status.admitted)
                await e.take_part()
                event = await updated(serving, [*agents.values(), new])
                assert (event.facts["clients"], event.facts["samples"]) == (4, 7 + 4 + 9 + 5)
                model = serving.session.coordinator.model
                assert same(model, update(agreement, {**HONEST, "e": 5}))
                check_state(agreement, new, "c", 3, (1, 0, model))

    play_scene(running, tmp_path, scene)


def test_too_few_for_an_update_and_then_enough(running, tmp_path, agreement):
    async def scene(serving, agents):
        agents["d"].request_update()  # three are too few: nothing happens
        async with by_hand(running, "c") as c:
            await c.join()
            first = await c.hear(SumsRequest)
            assert first.update == 1
            assert serving.texts("updating") == ["update 1 starts with 4 clients"]
            await c.say(c.answer(first))
            await c.hear(Evaluate)
            await c.say(Goodbye())
            event = await asyncio.to_thread(serving.wait, "abandoned", update=1)
            assert event.text == "update 1 is abandoned: of 4 clients, fewer than 4 remain"
            assert agents["d"].status.requested_at == 9  # the request stands
            assert agents["d"].status.model == 0
            c.session = "the next one"  # after goodbye a session is over
            await c.join()
            model = await c.take_part()
            assert model.update == 2
            event = await updated(serving, agents.values(), 2)
            assert event.facts["clients"] == 4
            expected = update(agreement, {**HONEST, "c": 5})
            assert same(serving.session.coordinator.model, expected)
            await until(lambda: agents["d"].status.requested_at == 0)

    play_scene(running, tmp_path, scene, quorum=4)


def test_who_was_refused_for_its_answer_is_part_of_the_next_update(running, tmp_path, agreement):
    """One that sent an invalid message is excluded from that update, not of the federation."""

    async def scene(serving, agents):
        async with by_hand(running, "c") as c:
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
            assert np.all(np.isfinite(model.theta))
            await c.hello(update=2)
            assert (await c.hear(Admitted)).update == 2

    play_scene(running, tmp_path, scene)


def test_a_request_that_is_said_twice_is_counted_once(running, tmp_path):
    """A beat says it as well, and may be faster."""

    async def scene(serving, agents):
        async with by_hand(running, "c") as c:
            await c.join()
            await c.beat(requested_at=5)
            await c.say(SyncRequest("c", 5, 0))
            await c.take_part()
            event = await updated(serving, agents.values())
            assert (event.facts["asked_by"], event.facts["t"]) == ("c", 5)
            ledger = serving.session.coordinator.ledger
            assert ledger.entries["SyncRequest", "up"].messages == 1

    play_scene(running, tmp_path, scene)
