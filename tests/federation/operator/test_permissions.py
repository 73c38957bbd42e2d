"""What a member may say and hear, tried against a real server: nobody speaks for another."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from contextlib import AsyncExitStack

import pytest

from fedglb.federation.operator.nats_config import ServerLimits
from tests.federation.helpers.nats_federation import PATIENCE, connected, refused, until

LIMITS = ServerLimits(9, max_clients=6)
UP_A, UP_B = "fed.demo.up.a", "fed.demo.up.b"
DOWN_A, DOWN_B = "fed.demo.down.a", "fed.demo.down.b"
BOTH = "fed.demo.coordinator"  # where coordinators notice each other


async def everybody(shared, scene):
    """Connect a, b and the coordinator, all of them listening; play the scene; end in silence."""
    async with (
        connected(shared.bundle("a")) as a,
        connected(shared.bundle("b")) as b,
        connected(shared.coordinator_bundle) as head,
    ):
        await a.listen(DOWN_A)
        await b.listen(DOWN_B)
        await head.listen("fed.demo.up.*")
        await scene(a, b, head)


async def settle(a, b, head):
    """Return when all that was said before has been delivered: it comes in order."""
    await a.say(UP_A, b"last")
    await a.flush()
    await until(lambda: (UP_A, b"last") in head.heard)
    await head.say(DOWN_B, b"last")
    await head.flush()
    await until(lambda: (DOWN_B, b"last") in b.heard)
    await b.say(UP_B, b"last")
    await b.flush()
    await until(lambda: (UP_B, b"last") in head.heard)


LAST = [(UP_A, b"last"), (UP_B, b"last")]


def test_the_way_up_and_the_way_down(shared):
    async def scene(a, b, head):
        await a.say(UP_A, b"hello")
        await a.flush()  # PING belongs to the protocol: no right is needed for it
        await head.say(DOWN_B, b"welcome")
        await head.flush()
        await settle(a, b, head)
        assert head.heard == [(UP_A, b"hello"), *LAST]
        assert b.heard == [(DOWN_B, b"welcome"), (DOWN_B, b"last")]
        assert (a.heard, a.errors, b.errors, head.errors) == ([], [], [], [])

    asyncio.run(everybody(shared, scene))


@pytest.mark.parametrize(
    "subject",
    [UP_B, DOWN_A, DOWN_B, BOTH, "fed.other.up.a", "_INBOX.x", "x", "$SYS.REQ.SERVER.PING",
     "$SYS.REQ.SERVER.PING.CONNZ", "_INBOX.operator.answer"],
)  # fmt: skip
def test_a_client_speaks_on_its_own_subject_only(shared, subject):
    async def scene(a, b, head):
        await a.say(subject, b"forged")
        await settle(a, b, head)
        assert any("permissions violation for publish" in error for error in a.errors)
        assert head.heard == LAST
        assert (a.heard, b.heard) == ([], [(DOWN_B, b"last")])
        assert a.nc.is_connected

    asyncio.run(everybody(shared, scene))


@pytest.mark.parametrize(
    "subject",
    [DOWN_B, UP_B, UP_A, BOTH, ">", "*", "fed.>", "fed.demo.down.*", "fed.demo.up.*",
     "fed.*.down.b", "_INBOX.>", "$SYS.>", "$JS.>"],
)  # fmt: skip
def test_a_client_hears_its_own_subject_only(shared, subject):
    async def scene(a, b, head):
        await a.listen(subject)
        await b.say(UP_B, b"secret")
        await b.flush()
        await head.say(DOWN_B, b"secret")
        await head.flush()
        await settle(a, b, head)
        assert any("permissions violation for subscription" in error for error in a.errors)
        assert a.heard == []

    asyncio.run(everybody(shared, scene))


@pytest.mark.parametrize(
    ("speak", "hear"), [(UP_A, DOWN_A), ("fed.other.down.a", ">"), ("$SYS.x", "$SYS.>")]
)
def test_the_coordinator_neither_speaks_for_a_client_nor_hears_what_it_says_to_others(
    shared, speak, hear
):
    async def scene(a, b, head):
        await head.listen(hear)
        await head.say(speak, b"forged")
        await settle(a, b, head)
        assert len([error for error in head.errors if "permissions violation" in error]) == 2
        assert head.heard == LAST

    asyncio.run(everybody(shared, scene))


REPLIES = [
    DOWN_B, UP_B, "fed.demo.up.a", "fed.demo.down.a", "$JS.API.STREAM.DELETE.KV_fed",
    "$SYS.REQ.SERVER.PING", "_INBOX.coordinator.x", "_R_.x",
]  # fmt: skip
REFUSED = ["_R_.x"]  # the server's own: it drops the whole message


@pytest.mark.parametrize("reply", REPLIES)
def test_a_reply_subject_reaches_nobody(shared, reply):
    """nats-server does not check reply subjects: nothing may come of one."""

    async def scene(a, b, head):
        await a.say(UP_A, b"mine", reply=reply)
        await a.say(UP_A, b"mine", reply=reply, headers={"Nats-Expected-Stream": "x"})
        await settle(a, b, head)
        mine = [] if reply in REFUSED else [(UP_A, b"mine")] * 2
        assert head.heard == [*mine, *LAST]
        assert b.heard == [(DOWN_B, b"last")]
        assert a.heard == []

    asyncio.run(everybody(shared, scene))


def test_a_subject_without_listeners_sends_no_word_to_a_forged_reply(shared):
    """The server itself answers "no responders" to a reply subject: not to another's."""

    async def scene():
        async with connected(shared.bundle("a")) as a, connected(shared.bundle("b")) as b:
            await b.listen(DOWN_B)
            for reply in REPLIES:
                await a.say(UP_A, b"nobody listens", reply=reply)
            await a.flush()
            await b.flush()
            assert b.heard == []

    asyncio.run(scene())


def test_a_certificate_counts_not_the_name_that_is_claimed(shared):
    async def scene():
        other = "fedglb://demo/b/1"
        async with (
            connected(shared.bundle("a"), user=other, password="") as a,
            connected(shared.coordinator_bundle) as head,
        ):
            await head.listen("fed.demo.up.*")
            await a.say(UP_B, b"forged")
            await a.say(UP_A, b"mine")
            await a.flush()
            await until(lambda: head.heard)
            assert head.heard == [(UP_A, b"mine")]

    asyncio.run(scene())


def raw(bundle):
    """A socket past TLS, after the server's INFO: from here on by hand."""
    plain = socket.create_connection(("127.0.0.1", int(bundle.server.rpartition(":")[2])), PATIENCE)
    door = bundle.tls().wrap_socket(plain, server_hostname="127.0.0.1")
    door.sendall(b'CONNECT {"verbose":false,"pedantic":false}\r\nPING\r\n')
    said = b""
    while b"PONG" not in said:
        said += door.recv(65536)
    return door, json.loads(said[said.index(b"{") : said.rindex(b"}") + 1])


def test_a_message_that_is_too_large_costs_its_sender_the_connection(shared):
    def shout():
        door, info = raw(shared.bundle("a"))
        with door:
            assert info["max_payload"] == 8 * 1024 * 1024  # the server's; a client's is less
            size = LIMITS.payload + 1
            said = b""
            try:
                door.sendall(f"PUB {UP_A} {size}\r\n".encode() + b"x" * size + b"\r\n")
                while part := door.recv(65536):
                    said += part
            except (ConnectionError, ssl.SSLError):
                pass  # cut off in the middle
            else:
                assert b"Maximum Payload Violation" in said

    async def scene(a, b, head):
        await asyncio.wait_for(asyncio.to_thread(shout), PATIENCE)
        await settle(a, b, head)  # all others are where they were, a's other connection too
        assert head.heard == LAST
        assert not a.lost.is_set()
        assert not b.lost.is_set()
        assert not head.lost.is_set()

    asyncio.run(everybody(shared, scene))
    assert "maximum payload" in shared.log.lower()


def test_a_large_message_within_the_limit_arrives(shared):
    async def scene(a, b, head):
        await a.say(UP_A, b"x" * LIMITS.payload)
        await a.flush()
        await until(lambda: head.heard)
        assert len(head.heard[0][1]) == LIMITS.payload

    asyncio.run(everybody(shared, scene))


def test_too_many_subscriptions_cost_their_client_the_connection(shared):
    async def scene(a, b, head):
        for _ in range(20):
            await a.nc.subscribe(DOWN_A)
        await until(a.lost.is_set)
        await b.say(UP_B, b"last")
        await b.flush()
        await until(lambda: (UP_B, b"last") in head.heard)

    asyncio.run(everybody(shared, scene))
    assert "maximum subscriptions exceeded" in shared.log


def test_coordinators_hear_each_other_and_no_client_hears_them(shared):
    async def scene(a, b, head):
        async with connected(shared.coordinator_bundle) as other:
            await other.listen(BOTH)
            await head.say(BOTH, b"here")
            await head.flush()
            await until(lambda: other.heard)
        await settle(a, b, head)
        assert (a.heard, b.heard) == ([], [(DOWN_B, b"last")])

    asyncio.run(everybody(shared, scene))


def test_connections_of_clients_end_at_a_number_and_the_coordinators_are_not_among_them(shared):
    async def scene(a, b, head):
        async with AsyncExitStack() as stack:
            for _ in range(LIMITS.connections - 2):
                await stack.enter_async_context(connected(shared.bundle("a")))
            assert (
                "maximum account active connections" in (await refused(shared.bundle("a"))).lower()
            )
            async with connected(shared.coordinator_bundle):
                pass
            await settle(a, b, head)

    asyncio.run(everybody(shared, scene))
