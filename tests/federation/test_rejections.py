"""Invalid messages of a member with a certificate: it is excluded and named, the others go on.

Every update of honest agents here ends with the very model that they have without the offender.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest

import fedglb as fg
from fedglb.errors import InvalidInput
from fedglb.federation import Agent
from fedglb.federation.wire.codec import VERSION, encode
from fedglb.federation.wire.messages import Hello, HelloRequest
from fedglb.problem_table import ProblemTable
from fedglb.protocol.messages import Covariance, Derivatives, Evaluate
from tests.federation.helpers.in_process import same
from tests.federation.helpers.lossy_network import (
    DIM,
    POLICY,
    agreed,
    ask,
    harness,
    joined,
    texts,
    updated,
)
from tests.federation.helpers.nats_federation import federation, table

HONEST = ["a", "b", "d"]  # the offender's name is in the middle of the order
OFFENDER = "c"
EXACT = agreed(algorithm=fg.fedglb_ucb(1e9, fg.Newton(tolerance=1e-14)), max_clients=6)


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The model of the honest ones alone."""
    running = joined(tmp_path_factory.mktemp("honest"), names=HONEST, agreement=EXACT)
    updated(running, "d")
    running.close()
    return running.coordinator.model


@pytest.fixture
def running(tmp_path):
    with harness(tmp_path, [*HONEST, OFFENDER], EXACT, POLICY) as out:
        out.until(out.everybody_here)
        out.feed()
        yield out


def intercept(running, wanted, instead):
    """Let the offender send something else instead of its first message of this kind."""
    answers = []

    def lost(way, name, message):
        if way != "up" or name != OFFENDER or answers or not wanted(message):
            return False
        answers.append(None)
        answers.extend(instead(message))
        return True

    running.lost = lost
    return answers


def check_left_out(running, expected):
    """The honest ones, and nobody else, are in the model: it is theirs to the bit."""
    assert sorted(running.coordinator.covered) == HONEST
    assert same(running.coordinator.model, expected)
    left = [e.facts["client"] for e in running.events if e.kind == "excluded"]
    assert left == [OFFENDER]


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
    "indefinite": (lambda m, s: replace(m, matrix=np.diag([1.0, -0.5])), "indefinite"),
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


@pytest.mark.parametrize(
    ("where", "spoil", "reason"),
    [(where, *how) for where, _, how in OFFENCES],
    ids=[f"{where}, {what}" for where, what, _ in OFFENCES],
)
def test_an_invalid_answer(running, expected, where, spoil, reason):
    kind = Covariance if where == "covariance" else Derivatives
    session = running.nodes[OFFENDER].agent_session.session
    answers = intercept(
        running,
        lambda message: isinstance(message, kind),
        lambda message: running.hear(OFFENDER, spoil(message, session)),
    )
    updated(running, "d")
    assert reason in answers[1].reason
    check_left_out(running, expected)
    (named,) = [e for e in running.events if e.kind == "invalid"]
    assert named.facts["client"] == OFFENDER
    assert named.text.startswith(f"{OFFENDER} sent an invalid message: ")
    assert reason in named.text


def test_an_answer_in_a_late_round(running, expected):
    """The rounds before were made with the offender: the solve starts again without it."""
    intercept(
        running,
        lambda message: isinstance(message, Derivatives) and message.round == 2,
        lambda m: running.hear(OFFENDER, replace(m, gradient=np.full(DIM, np.nan))),
    )
    updated(running, "d")
    check_left_out(running, expected)
    assert "gradient" in texts(running, "invalid")[0]


@pytest.mark.parametrize("how", ["silence", "another update", "another session"])
def test_no_answer_within_the_time_limit(running, expected, how):
    def instead(message):
        if how == "another update":
            assert running.hear(OFFENDER, replace(message, update=message.update + 1)) == []
        if how == "another session":
            assert running.hear(OFFENDER, message, "another") == [HelloRequest()]
        return True

    running.lost = lambda way, name, m: (
        way == "up" and name == OFFENDER and isinstance(m, Covariance) and instead(m)
    )
    ask(running, "d")
    running.until(running.shared)
    check_left_out(running, expected)
    assert texts(running, "excluded") == ["excluded c: no answer within 5 s"]
    assert not running.heard("down", Evaluate, OFFENDER)
    assert running.coordinator.clients.keys() == {*HONEST, OFFENDER}


DISAGREEMENTS = {
    "problem.dim": "4", "problem.link": "Probit", "problem.radius": "2", "features": "0123abcd",
    "algorithm.trigger.threshold": "2", "max_clients": "7", "algorithm.unheard_of": "1",
}  # fmt: skip


def test_another_agreement_is_not_admitted(tmp_path, expected):
    with harness(tmp_path, HONEST, EXACT, POLICY) as running:
        running.until(running.everybody_here)
        running.feed()
        for fact, value in DISAGREEMENTS.items():
            facts = {**EXACT.facts(), fact: value}
            [refused] = running.hear(OFFENDER, Hello("file", 0, "test", facts), "s")
            assert refused.reason.startswith("c does not agree with the federation: ")
            assert f"{fact}: {value!r}, the federation has " in refused.reason
        updated(running, "d")
        assert same(running.coordinator.model, expected)
        assert len(texts(running, "rejected")) == 1


# -- before any connection -------------------------------------------------------------------------

OTHER = fg.fedglb_ucb(2.0, fg.Newton(tolerance=1e-14))
SCHEMA, ANOTHER = (fg.Features(arm={"price": fg.Number(knots)}) for knots in ([5, 50], [5, 60]))


@pytest.mark.parametrize(
    ("problem", "more", "name"),
    [
        (fg.Problem(dim=4), {}, "problem.dim"),
        (fg.Problem(dim=3, link=fg.Identity()), {}, "problem.link"),
        (fg.Problem(dim=3, radius=2.0), {}, "problem.radius"),
        (fg.Problem(dim=3), {"algorithm": OTHER}, "algorithm.trigger.threshold"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_agent_opens_only_with_what_was_agreed_on(shared, tmp_path, problem, more, name):
    with pytest.raises(InvalidInput, match="the federation's value") as refused:
        Agent.open(tmp_path / "a.db", problem, bundle=shared.bundle("a").folder, **more)
    assert refused.value.argument == name
    assert not (tmp_path / "a.db").exists()


def test_an_agent_opens_only_with_the_schema_that_was_agreed_on(tmp_path):
    problem = ProblemTable(None)
    agreed_on = msgspec.structs.replace(table(1, 3), problem=problem, features=SCHEMA.plain())
    place = federation(tmp_path, ["a"], agreed_on).bundle("a").folder  # no server runs
    given = {"path": tmp_path / "a.db", "bundle": place}
    with pytest.raises(InvalidInput, match=SCHEMA.digest) as refused:
        Agent.open(**given, features=ANOTHER)
    assert refused.value.argument == "features"
    for own in (None, SCHEMA):
        with Agent.open(**given, features=own) as agent:
            assert agent.status.revision == 1
