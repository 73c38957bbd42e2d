"""No message carries a raw sample, and the ledger counts what messages carry."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import fedglb as fg
from fedglb.kernels.personal import SENT
from fedglb.protocol.messages import (
    MESSAGES,
    BatchSums,
    Covariance,
    Derivatives,
    Evaluate,
    MaskedSum,
    ModelSums,
    NewModel,
    SumsRequest,
)
from tests.protocol.driver import Federation, communicating, one_pass

D, N, T = 3, 4, 20
TRIANGLE = D * (D + 1) // 2
NUMBERS_OF_MIXTURE = 11


def federation(name: str) -> Federation:
    fed = Federation((communicating() | one_pass())[name], fg.Problem(D), N, T)
    rng = np.random.default_rng(1)
    for client in fed.clients:  # a sum over a single sample would be that sample
        X = rng.standard_normal((3, D))
        client.absorb(X / np.linalg.norm(X, axis=1, keepdims=True), [1.0, 0.0, 1.0])
    fed.run()
    return fed


def payload(value: object) -> list[np.ndarray]:
    """Every number in a message, however deep; without the effects of arms."""
    if dataclasses.is_dataclass(value):
        names = [f.name for f in dataclasses.fields(value) if f.name != "effects"]
        return [a for name in names for a in payload(getattr(value, name))]
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, float):
        return [np.array(value)]
    assert value is None or isinstance(value, int | str | bool), f"unknown payload {value!r}"
    return []


@pytest.mark.parametrize("name", communicating())
def test_no_message_carries_a_sample(name):
    fed = federation(name)
    walk(fed, fed.sent)
    kinds = {type(message) for message in fed.sent}
    one_exchange = getattr(fed.algorithm.solver, "starts_at_model", False)
    assert (ModelSums in kinds, Covariance in kinds) == (one_exchange, not one_exchange)
    rounds = name != "dislinucb" and "effects" not in name
    assert ({Evaluate, Derivatives} <= kinds) == rounds
    left_out = {Covariance if one_exchange else ModelSums}
    asks = not name.startswith("variant")  # on a schedule, nobody does
    assert not (asks and rounds) or kinds == set(MESSAGES) - left_out - {BatchSums, MaskedSum}


def test_the_sums_of_an_arm_give_the_arm_away():
    """As docs/privacy.md says: its features, how often it was played, and what came of it."""
    algorithm = fg.fedglb_auto()
    client = fg.Client(0, algorithm, algorithm.setting(fg.Problem(D), 1, None))
    for t, reward in enumerate([1.0, 0.0, 1.0], 1):
        client.observe([0.6, 0.0, 0.8], reward, t, id=5)
    (answer,) = client.receive(SumsRequest(0, 1))
    key, h, g, *b = answer.effects  # at θ = 0 a weight is 1/4, a residual 1/2 − y
    assert (key, h, g) == (5.0, 0.75, -0.5)
    np.testing.assert_allclose(np.array(b) / h, [0.6, 0.0, 0.8], rtol=1e-15)


def test_the_walk_finds_a_sample_where_there_is_one():
    fed = federation("newton")
    x = fed.clients[0].samples.X[5]
    for leak in (
        Derivatives(0, 1, 1, gradient=-x),
        Derivatives(0, 1, 1, gradient=np.ones(D), hessian=np.stack([x, x, x])),
        Derivatives(0, 1, 1, gradient=fed.clients[0].samples.y.copy()),
    ):
        with pytest.raises(AssertionError):
            walk(fed, [leak])


def walk(fed, messages):
    X = np.concatenate([c.samples.X[:, :D] for c in fed.clients])
    for message in messages:
        for numbers in payload(message):
            # what a radius needs is few numbers; never is there a row per sample
            assert numbers.shape in (
                (),
                (0,),
                (1,),
                (2,),
                (D,),
                (D, D),
                (SENT,),
                (NUMBERS_OF_MIXTURE,),
            )
            if numbers.shape == (D,):
                assert np.abs(np.concatenate([X, -X]) - numbers).max(axis=1).min() > 1e-9
            if numbers.shape == (D, D):
                assert not any((row == X).all(axis=1).any() for row in numbers)


@pytest.mark.parametrize("name", communicating())
def test_transfers_are_two_per_client_round_and_update(name):
    fed = federation(name)
    ledger, syncs, rounds = fed.coordinator.ledger, fed.coordinator.syncs, fed.coordinator.rounds
    assert syncs > 2
    # with one exchange, the first answers are a round, and their request carries nothing
    exchanges = rounds if fed.algorithm.solver.starts_at_model else rounds + syncs
    assert ledger.transfers == 2 * N * exchanges
    assert ledger.scalars == sum(m.scalars() for m in fed.sent)
    assert ledger.messages == len(fed.sent)
    asked = {(m.update, m.round) for m in fed.sent if isinstance(m, Evaluate)}
    assert rounds == len(asked) + (syncs if fed.algorithm.solver.starts_at_model else 0)


def entries(name: str) -> dict[str, tuple[int, int, int]]:
    frame = federation(name).coordinator.ledger.frame()
    assert frame["bits"].equals(64 * frame["scalars"])
    return {row[0]: row[2:5] for row in frame.rows()}


def test_scalars_of_each_message_type():
    newton = entries("newton")
    for kind, each in {
        "SyncRequest": 0, "SumsRequest": 0, "Covariance": TRIANGLE,
        "Evaluate": D, "Derivatives": D + TRIANGLE, "NewModel": D + TRIANGLE + 1,
    }.items():  # fmt: skip
        messages, transfers, scalars = newton[kind]
        assert messages > 0
        assert scalars == messages * each
        assert transfers == (messages if each else 0)
    assert entries("agd")["Derivatives"][2] == entries("agd")["Derivatives"][0] * D
    linear = entries("dislinucb")
    assert linear["Covariance"][2] == linear["Covariance"][0] * (TRIANGLE + D)
    assert linear["NewModel"][2] == linear["NewModel"][0] * (D + TRIANGLE + 1)
    assert "Evaluate" not in linear
    # variant 3's clients also need b and the covariance of gradients
    lazy = entries("variant 3")
    assert lazy["NewModel"][2] == lazy["NewModel"][0] * (2 * D + 2 * TRIANGLE + 2)


def test_scalars_of_effects():
    fed = federation("effects")
    sums = [m for m in fed.sent if isinstance(m, ModelSums)]
    assert {m.effects.size % (D + 3) for m in sums} == {0}
    assert len({m.effects.size for m in sums}) > 3
    models = [m for m in fed.sent if isinstance(m, NewModel)]
    up, down = (fed.coordinator.ledger.entries[kind].scalars for kind in (
        ("ModelSums", "up"), ("NewModel", "down"),
    ))  # fmt: skip
    assert up == sum(D + TRIANGLE + m.effects.size for m in sums)
    assert down == sum(D + TRIANGLE + 1 + m.model.effects.size for m in models)


def test_scalars_of_one_exchange():
    auto, more = entries("auto"), entries("mix, further rounds")
    for found in (auto, more):
        assert found["ModelSums"] == (found["ModelSums"][0],) * 2 + (
            found["ModelSums"][0] * (D + TRIANGLE),
        )
        assert found["SumsRequest"][1:] == (0, 0)
        assert "Covariance" not in found
        assert found["Derivatives"][2] == found["Derivatives"][0] * (D + TRIANGLE)
    fed = federation("auto")
    terms = fed.coordinator.model.radius_terms.size
    assert auto["NewModel"][2] == auto["NewModel"][0] * (D + TRIANGLE + terms + 1)  # and λ


@pytest.mark.parametrize("name", one_pass())
def test_a_one_pass_update_is_one_message_up_and_one_model_down(name):
    fed = federation(name)
    ledger, syncs = fed.coordinator.ledger, fed.coordinator.syncs
    assert syncs == 5
    assert {type(m).name for m in fed.sent} == {"SumsRequest", "BatchSums", "NewModel"}
    found = {row[0]: row[2:5] for row in ledger.frame().rows()}
    models = D + TRIANGLE + fed.coordinator.model.radius_terms.size
    assert found == {
        "SumsRequest": (N * syncs, 0, 0),
        "BatchSums": (N * syncs, N * syncs, N * syncs * (D + TRIANGLE)),
        "NewModel": (N * syncs, N * syncs, N * syncs * models),
    }
    assert ledger.transfers == 2 * N * syncs
    for message in fed.sent:
        if isinstance(message, BatchSums):
            assert (message.numbers.shape, message.numbers.dtype) == ((D + TRIANGLE,), np.int64)
            assert message.scalars() == D + TRIANGLE
        # how many samples there are is told to nobody
        assert not hasattr(message, "samples")
        assert getattr(message, "covered", 0) == 0


@pytest.mark.parametrize("name", one_pass())
def test_no_release_is_a_sample(name):
    fed = federation(name)
    X = np.concatenate([c.samples.X for c in fed.clients])
    for message in fed.sent:
        if isinstance(message, BatchSums):
            v = message.numbers[:D] * 2.0**-30
            assert np.abs(np.concatenate([X, -X]) - v).max(axis=1).min() > 1e-6
    if fed.algorithm.privacy is not None:  # nor are the numbers those that samples lead to
        closed = fed.clients[0].batches.closed[1]
        (first,) = (m for m in fed.sent
                    if isinstance(m, BatchSums) and (m.client, m.update) == (0, 1))  # fmt: skip
        assert (np.abs(first.numbers - closed) > 2**20).all()


class UnknownCurvature(fg.Poisson):
    """A link without self-concordance: Newton's steps need losses."""

    def self_concordance(self, radius):
        return None


def test_newton_asks_for_losses_where_the_self_concordance_is_unknown():
    algorithm = fg.fedglb_ucb(1.0, fg.Newton())
    fed = Federation(algorithm, fg.Problem(D, UnknownCurvature(), noise=1.0), N, T)
    fed.run()
    replies = [m for m in fed.sent if isinstance(m, Derivatives)]
    assert replies
    assert {m.scalars() for m in replies} == {D + TRIANGLE + 1}


def test_one_ucb_glm_has_the_papers_count():
    env = fg.Synthetic(fg.Problem(D), clients=N, arms=4)
    run = fg.simulate(fg.one_ucb_glm(), env, horizon=T)
    assert (run.syncs, run.rounds) == (N * T, N * T)
    assert (run.transfers, run.scalars) == (N * N * T, N * N * T * D)
    assert run.ledger.height == 1
    last = run.trace.row(-1, named=True)
    assert (last["transfers"], last["syncs"]) == (N * N * T, N * T)
