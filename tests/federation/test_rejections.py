"""Invalid messages of a member with a certificate: it is excluded and named, the others go on.

Every update of honest agents here ends with the very model that they have without the offender.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from dataclasses import replace

import msgspec
import numpy as np
import pytest

import fedglb as fg
from fedglb.errors import InvalidInput
from fedglb.federation import Agent
from fedglb.federation.coordinator.store import CoordinatorStore, MemberRecord
from fedglb.federation.wire.codec import VERSION, encode
from fedglb.federation.wire.messages import Rejected
from fedglb.protocol.messages import Covariance, Evaluate, SumsRequest
from tests.federation.helpers.in_process import Serving, honest, same, update
from tests.federation.helpers.nats_federation import PATIENCE, federation, table, until
from tests.federation.helpers.raw_client import by_hand

DIM, MOST = 3, 6
HONEST = {"a": 7, "b": 4, "d": 9}  # samples; the offender's name is in the middle of the order
NAMES = ["a", "b", "c", "d"]
OFFENDER = "c"
SOLVER = {"name": "newton", "tolerance": 1e-14}


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with federation(
        tmp_path_factory.mktemp("refusals"), NAMES, table(MOST, DIM, solver=SOLVER)
    ) as out:
        yield out


@pytest.fixture(scope="module")
def expected(running):
    """The model of the honest ones alone."""
    return update(running.coordinator_bundle.agreement, HONEST)


def play_scene(running, tmp_path, scene, **policy):
    """Let three honest agents and somebody by hand play a scene; return the coordinator."""
    with (
        Serving(running, tmp_path / "state.db", **policy) as serving,
        honest(running, tmp_path, serving, HONEST) as agents,
    ):
        asyncio.run(asyncio.wait_for(scene(serving, agents), 2 * PATIENCE))
    return serving


async def updated(serving, agents, number=1):
    """Wait until the honest ones have their model; return the event."""
    for agent in agents.values():
        assert await asyncio.to_thread(agent.wait_for_model, number, PATIENCE)
    return await asyncio.to_thread(serving.wait, "updated", number=number)


def check_left_out(serving, event, expected):
    """The honest ones, and nobody else, are in the model: it is theirs to the bit."""
    assert event.facts["clients"] == len(HONEST)
    assert event.facts["samples"] == sum(HONEST.values())
    assert same(serving.session.coordinator.model, expected)
    left = [e.facts["client"] for e in serving.events if e.kind == "excluded"]
    assert left == [OFFENDER]


# -- invalid answers -------------------------------------------------------------------------------


def with_first(array, value):
    out = np.array(array)
    out[(0,) * out.ndim] = value
    return out


def unpacked_as(answer, session, dim):
    """The same kind of answer from a problem of another dimension."""
    if isinstance(answer, Covariance):
        answer = replace(answer, matrix=np.eye(dim))
    else:
        answer = replace(answer, gradient=np.zeros(dim), hessian=np.eye(dim))
    return encode(answer, session)


COVARIANCES = {
    "nan": (lambda m, s: replace(m, matrix=with_first(m.matrix, np.nan)), "matrix"),
    "infinite": (lambda m, s: replace(m, matrix=with_first(m.matrix, np.inf)), "matrix"),
    "another dimension": (lambda m, s: unpacked_as(m, s, DIM + 1), "matrix"),
    "indefinite": (lambda m, s: replace(m, matrix=np.diag([1.0, -0.5, 1.0])), "indefinite"),
    "trace": (lambda m, s: replace(m, matrix=2.0 * m.matrix), "trace of matrix"),
    "a field too many": (lambda m, s: replace(m, b=np.zeros(DIM)), "b = 'given'"),
    "garbage": (lambda m, s: b"\x00\xff garbage", "no header"),
    "cut off": (lambda m, s: encode(m, s)[:-5], "truncated"),
    "another version": (
        lambda m, s: b"fgb" + bytes([VERSION + 1]) + encode(m, s)[4:],
        f"wire format {VERSION + 1}",
    ),
}
DERIVATIVES = {
    "nan": (lambda m, s: replace(m, gradient=with_first(m.gradient, np.nan)), "gradient"),
    "infinite": (lambda m, s: replace(m, gradient=with_first(m.gradient, np.inf)), "gradient"),
    "another dimension": (lambda m, s: unpacked_as(m, s, DIM - 1), "gradient"),
    "too large a gradient": (
        lambda m, s: replace(m, gradient=1e3 * m.gradient),
        "length of gradient, measured by the covariance",
    ),
    "nan in the hessian": (lambda m, s: replace(m, hessian=with_first(m.hessian, np.nan)),
                           "hessian"),
    "an indefinite hessian": (lambda m, s: replace(m, hessian=-m.hessian), "hessian = 'too small'"),
    "too large a hessian": (lambda m, s: replace(m, hessian=1e2 * m.hessian), "'too large'"),
    "no hessian": (lambda m, s: replace(m, hessian=None), "hessian = 'missing'"),
    "garbage": (lambda m, s: b"fgb" + bytes([VERSION, 0xC1]), "message"),
}  # fmt: skip
OFFENCES = [("covariance", *case) for case in COVARIANCES.items()] + [
    ("derivatives", *case) for case in DERIVATIVES.items()
]


@pytest.mark.some(8)
@pytest.mark.parametrize(
    ("where", "spoil", "reason"),
    [(where, *how) for where, _, how in OFFENCES],
    ids=[f"{where}, {what}" for where, what, _ in OFFENCES],
)
def test_an_invalid_answer(running, tmp_path, expected, where, spoil, reason):
    async def scene(serving, agents):
        async with by_hand(running, OFFENDER) as offender:
            await offender.join()
            agents["d"].request_update()
            request = await offender.hear(SumsRequest)
            answer = offender.answer(request)
            if where == "derivatives":
                await offender.say(answer)
                answer = offender.answer(await offender.hear(Evaluate))
            await offender.say(spoil(answer, offender.session))
            refused = await offender.hear(Rejected)
            assert reason in refused.reason
            event = await updated(serving, agents)
            check_left_out(serving, event, expected)

    serving = play_scene(running, tmp_path, scene)
    (named,) = [e for e in serving.events if e.kind == "invalid"]
    assert named.facts["client"] == OFFENDER
    assert named.text.startswith(f"{OFFENDER} sent an invalid message: ")
    assert reason in named.text


def test_an_answer_in_a_late_round(running, tmp_path, expected):
    """The rounds before were made with the offender: the solve starts again without it."""

    async def scene(serving, agents):
        async with by_hand(running, OFFENDER) as offender:
            await offender.join()
            agents["d"].request_update()
            await offender.say(offender.answer(await offender.hear(SumsRequest)))
            await offender.say(offender.answer(await offender.hear(Evaluate, round=1)))
            answer = offender.answer(await offender.hear(Evaluate, round=2))
            await offender.say(replace(answer, gradient=np.full(DIM, np.nan)))
            event = await updated(serving, agents)
            check_left_out(serving, event, expected)

    serving = play_scene(running, tmp_path, scene)
    assert "gradient" in serving.texts("invalid")[0]


# -- answers that do not come ----------------------------------------------------------------------


async def silence(offender, answer):
    pass


async def headers(offender, answer):
    await offender.say(answer, headers={"Nats-Msg-Id": "1"})


async def reply(offender, answer):
    await offender.say(answer, reply="fed.demo.up.a")


async def of_another_update(offender, answer):
    await offender.say(replace(answer, update=answer.update + 1))


async def of_another_session(offender, answer):
    await offender.say(encode(answer, "another"))


async def too_large(offender, answer):
    """By a socket of its own: the library would not send it."""
    bundle, size = offender.bundle, 8 * 1024 * 1024 + 1

    def shout():
        plain = socket.create_connection(
            ("127.0.0.1", int(bundle.server.rpartition(":")[2])), PATIENCE
        )
        with bundle.tls().wrap_socket(plain, server_hostname="127.0.0.1") as door:
            door.sendall(b'CONNECT {"verbose":false,"pedantic":false}\r\n')
            try:
                door.sendall(f"PUB fed.demo.up.c {size}\r\n".encode() + b"x" * size + b"\r\n")
                while door.recv(65536):
                    pass
            except (ConnectionError, ssl.SSLError):
                pass  # cut off in the middle

    await asyncio.to_thread(shout)


SILENT = [silence, headers, reply, of_another_update, of_another_session, too_large]


@pytest.mark.parametrize("how", SILENT, ids=lambda f: f.__name__)
def test_no_answer_within_the_time_limit(running, tmp_path, expected, how):
    async def scene(serving, agents):
        async with by_hand(running, OFFENDER) as offender:
            await offender.join()
            agents["d"].request_update()
            answer = offender.answer(await offender.hear(SumsRequest))
            await how(offender, answer)
            coordinator = serving.session.coordinator
            await until(lambda: coordinator.missing() == [OFFENDER])
            serving.give_up(0.3)
            event = await updated(serving, agents)
            check_left_out(serving, event, expected)
            assert not [m for _, m in offender.line.heard if b"Evaluate" in m]
            assert serving.session.coordinator.clients.keys() == {*HONEST, OFFENDER}

    serving = play_scene(running, tmp_path, scene)
    assert serving.texts("excluded") == ["c is excluded: no answer within 0.3 s"]


# -- who is not admitted ---------------------------------------------------------------------------

DISAGREEMENTS = [
    ("problem.dim", "4"), ("problem.link", "Probit"), ("problem.radius", "2"),
    ("feature_map", "0123abcd"), ("algorithm.trigger.threshold", "2"), ("max_clients", "7"),
    ("algorithm.unheard_of", "1"),
]  # fmt: skip


@pytest.mark.parametrize(("fact", "value"), DISAGREEMENTS)
def test_another_agreement(running, tmp_path, expected, fact, value):
    async def scene(serving, agents):
        async with by_hand(running, OFFENDER) as offender:
            await offender.hello(**{fact: value})
            refused = await offender.hear(Rejected)
            assert refused.reason.startswith("c does not agree with the federation: ")
            assert f"{fact}: {value!r}, the federation has " in refused.reason
            agents["d"].request_update()
            event = await updated(serving, agents)
            assert event.facts["clients"] == len(HONEST)
            assert same(serving.session.coordinator.model, expected)
            assert serving.texts("rejected") == [refused.reason]
            assert not [m for _, m in offender.line.heard if b"SumsRequest" in m]

    play_scene(running, tmp_path, scene)


def test_one_client_too_many(running, tmp_path, expected):
    """N counts all that ever came, also those that are long gone.

    The operator gives no more certificates than N: here the coordinator's file knows of others.
    """
    before = CoordinatorStore(tmp_path / "state.db", running.coordinator_bundle.agreement)
    for name in ("g", "h", "i"):
        before.write_member(name, MemberRecord("a file", present=False, model=0))
    before.close()

    async def scene(serving, agents):
        async with by_hand(running, OFFENDER) as offender:
            await offender.hello()
            refused = await offender.hear(Rejected)
            assert refused.reason == "c would be one client too many: max_clients is 6"
            agents["d"].request_update()
            event = await updated(serving, agents)
            assert event.facts["clients"] == len(HONEST)
            assert same(serving.session.coordinator.model, expected)
            assert serving.texts("rejected") == [refused.reason]

    play_scene(running, tmp_path, scene)


def test_another_file_under_a_certificate_in_use(running, tmp_path, expected):
    """It is rejected and its messages are ignored: the owner is not pushed out."""

    async def scene(serving, agents):
        async with by_hand(running, "a") as thief:
            await thief.hello()
            refused = await thief.hear(Rejected)
            assert "another file already uses the certificate of a" in refused.reason
            thief.client.update = 1
            await thief.say(Covariance("a", 1, 5, thief.client.sums.matrix))
            agents["d"].request_update()
            event = await updated(serving, agents)
            assert (event.facts["clients"], event.facts["samples"]) == (3, sum(HONEST.values()))
            assert same(serving.session.coordinator.model, expected)
            assert serving.texts("rejected") == [refused.reason]
            assert agents["a"].status.refused is None

    play_scene(running, tmp_path, scene)


def test_a_copy_of_a_file_takes_the_place_of_the_older_agent(running, tmp_path):
    """Both have the same identity; the older one is told so, and does not fight."""
    counts = {**HONEST, OFFENDER: 5}
    model = update(running.coordinator_bundle.agreement, counts)

    async def scene(serving, agents):
        async with by_hand(running, OFFENDER) as older, by_hand(running, OFFENDER) as newer:
            newer.instance = older.instance
            await older.join()
            await newer.join()
            for _ in range(3):  # whatever it says, it is out
                await older.beat()
                assert "has taken its place" in (await older.hear(Rejected)).reason
                await older.hello()
                assert "has taken the place of c" in (await older.hear(Rejected)).reason
            agents["d"].request_update()
            request = await newer.hear(SumsRequest)
            await older.say(replace(older.answer(request), matrix=np.zeros((DIM, DIM))))
            await newer.say(newer.answer(request))
            await newer.take_part()
            event = await updated(serving, agents)
            assert event.facts["clients"] == 4
            assert same(serving.session.coordinator.model, model)

    play_scene(running, tmp_path, scene)


def test_an_agent_whose_file_was_copied_goes_on_alone(running, tmp_path):
    async def scene(serving, agents):
        async with by_hand(running, "a", 7) as copy:
            copy.instance = agents["a"]._client.store.instance
            await copy.join()
            older = agents["a"]
            while older.status.refused is None:
                await asyncio.sleep(0.01)
            assert re.search(
                "another agent .*has taken (its place|the place of a)", older.status.refused
            )
            await copy.beat()
            older.observe(older.choose(np.eye(DIM)).id, 1.0)  # it still chooses and learns
            assert older.status.samples == 8
            assert serving.session.members.session("a") == copy.session

    play_scene(running, tmp_path, scene)


# -- before any connection -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("problem", "name"),
    [
        (fg.Problem(dim=DIM + 1), "problem.dim"),
        (fg.Problem(dim=DIM, link=fg.Identity()), "problem.link"),
        (fg.Problem(dim=DIM, radius=2.0), "problem.radius"),
    ],
)
def test_an_agent_does_not_open_with_another_problem(running, tmp_path, problem, name):
    with pytest.raises(InvalidInput, match="as the federation agreed") as refused:
        Agent.open(tmp_path / "a.db", problem, bundle=running.bundle("a").folder)
    assert refused.value.argument == name
    assert not (tmp_path / "a.db").exists()


def test_an_agent_does_not_open_with_another_algorithm(running, tmp_path):
    with pytest.raises(InvalidInput, match="as the federation agreed") as refused:
        Agent.open(
            tmp_path / "a.db", fg.Problem(dim=DIM), bundle=running.bundle("a").folder,
            algorithm=fg.fedglb_ucb(threshold=2.0, solver=fg.Newton(tolerance=1e-14)),
        )  # fmt: skip
    assert refused.value.argument == "algorithm.trigger.threshold"


def test_an_agent_does_not_open_with_a_feature_map_that_was_not_agreed_on(running, tmp_path):
    columns = fg.Table({"x": [1.0, 3.0], "y": [0.0, 1.0]}, labels=[0, 1])
    fitted = fg.FeatureMap.fit(columns)
    other = fitted.scaled(fitted.encode(columns.columns), "largest")
    with pytest.raises(InvalidInput, match="'None', as the federation agreed") as refused:
        Agent.open(
            tmp_path / "a.db", fg.Problem(dim=DIM), bundle=running.bundle("a").folder,
            feature_map=other,
        )  # fmt: skip
    assert refused.value.argument == "feature_map"
    assert other.digest in str(refused.value)


@pytest.mark.parametrize("given", [None, "another"])
def test_an_agent_opens_only_with_the_feature_map_that_was_agreed_on(tmp_path, given):
    columns = fg.Table({"x": [1.0, 3.0], "y": [0.0, 1.0]}, labels=[0, 1])
    fitted = fg.FeatureMap.fit(columns)
    agreed, other = (fitted.scaled(fitted.encode(columns.columns), s) for s in ("largest", "each"))
    made = federation(
        tmp_path, ["a"], msgspec.structs.replace(table(1, 3), feature_map=agreed.digest)
    )
    place = made.bundle("a").folder  # no server runs: nothing is tried
    with pytest.raises(InvalidInput, match=agreed.digest) as refused:
        Agent.open(
            tmp_path / "a.db", fg.Problem(dim=3), bundle=place,
            feature_map=None if given is None else other,
        )  # fmt: skip
    assert refused.value.argument == "feature_map"
    with Agent.open(
        tmp_path / "a.db", fg.Problem(dim=3), bundle=place, feature_map=agreed
    ) as agent:
        assert agent.status.samples == 0
