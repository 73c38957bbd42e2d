"""Networks in the simulator: what is late, lost or away, and how long updates take."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import fedglb as fg
from fedglb.simulation.post import Post
from fedglb.simulation.reference import ReferenceEngine
from tests.unchanged import runs as unchanged

N, T = 5, 60
ENV = fg.Synthetic(fg.Problem(dim=3), clients=N, arms=4)
UCB = fg.fedglb_ucb(threshold=1.0, solver=fg.Newton())
ALGORITHMS = {
    "fedglb_ucb": UCB,
    "fedglb_ucb_1": fg.fedglb_ucb_1(updates=4, solver=fg.Newton()),
    "fedglb_ucb_3": fg.fedglb_ucb_3(updates=4),
    "dislinucb": fg.dislinucb(threshold=1.0),
    "fedlinucb": fg.fedlinucb(threshold=1.0),
    "async_linucb": fg.async_linucb(threshold=0.5),
    "mix": fg.fedglb_mix(threshold=0.1),
    "auto": fg.fedglb_auto(),
    "personal": fg.fedglb_personal(),
    "adaptive": fg.fedglb_auto(memory=fg.Adaptive((64.0, 16.0))),
    "half-life": fg.fedglb_auto(memory=fg.HalfLife(20.0)),
    "private": fg.fedglb_private(4),
    "noise": fg.fedglb_private(4, privacy=fg.GaussianMechanism(epsilon=8.0, delta=1e-3)),
    "centralised": fg.one_ucb_glm(),
    "alone": fg.n_ons_glm(),
}
NETWORKS = {
    "late": fg.Network(delay=[0.1, 0.2, 0.3, 0.4, 6.0]),
    "lossy": fg.Network(loss=0.3, jitter=2.0),
    "narrow": fg.Network(bandwidth=500.0),
    "away": fg.Network(delay=0.1, away={0: (5, 20), 3: [(1, 2), (30, 45)]}),
    "impatient": fg.Network(delay=[0.1, 0.1, 0.1, 0.1, 8.0], time_limit=1.0),
    "all": fg.Network(0.2, 0.5, 2000.0, 3.0, {1: (10, 40)}, time_limit=5.0),
}


def play(algorithm: Any, network: fg.Network | None, seed: int = 1, horizon: int = T) -> fg.Run:
    return fg.simulate(algorithm, ENV, horizon, seed, network=network)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_perfect_network_changes_nothing(name):
    without, over = play(ALGORITHMS[name], None), play(ALGORITHMS[name], fg.Network())
    assert over.trace.equals(without.trace)
    assert np.array_equal(over.choices, without.choices)
    assert over.ledger.equals(without.ledger)
    assert over.updates.drop("seconds", "seconds_to_all").equals(
        without.updates.drop("seconds", "seconds_to_all")
    )
    if over.updates.height:
        assert set(over.updates["seconds"]) == set(over.updates["seconds_to_all"]) == {0.0}
        assert without.updates["seconds"].null_count() == without.updates.height


@pytest.mark.some(24)
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_learns_over_every_network(name, network):
    run, again = (play(ALGORITHMS[name], NETWORKS[network], horizon=150) for _ in range(2))
    assert (run.choices >= 0).all()
    assert again.trace.equals(run.trace)
    assert again.updates.equals(run.updates, null_equal=True)
    if name not in ("centralised", "alone"):
        assert run.syncs > 0
        seconds = run.updates["seconds"]
        assert seconds.min() >= 0.0
        both = run.updates.drop_nulls("seconds_to_all")
        assert (both["seconds_to_all"] >= both["seconds"]).all()
        assert run.update_seconds == pytest.approx(seconds.mean())


def test_an_update_lasts_as_long_as_its_rounds_take():
    """A request, then two exchanges (sums, derivatives) at 2 x 0.3 s each, then the model."""
    run = play(fg.fedglb_ucb(1.0, fg.Newton(stop="fixed", rounds=1)), fg.Network(delay=0.3))
    rounds = run.updates["rounds"].to_numpy()
    assert run.updates["seconds"].to_numpy() == pytest.approx(0.3 + 0.6 * (1 + rounds))
    lasted = run.updates["seconds_to_all"].drop_nulls().to_numpy()
    assert lasted == pytest.approx((0.6 + 0.6 * (1 + rounds))[: len(lasted)])


def test_a_straggler_holds_up_all_unless_there_is_a_limit():
    slow = [0.1, 0.1, 0.1, 0.1, 5.0]
    waits, goes_on = (
        play(UCB, fg.Network(delay=slow, time_limit=limit)) for limit in (math.inf, 0.5)
    )
    assert waits.update_seconds > 20.0
    assert goes_on.update_seconds < 2.0
    assert goes_on.syncs > 3 * waits.syncs
    n = goes_on.updates["n"].to_numpy()
    t = goes_on.updates["t"].to_numpy()
    assert (n <= 4 * (t + 1)).all()  # without the samples of the slow client
    messages = dict(goes_on.ledger["message", "messages"].rows())
    asked, answered = messages["SumsRequest"], messages["Covariance"]
    assert asked - N <= answered <= asked  # its late answers count, too, but for those on their way


def test_nobody_reaches_a_client_that_is_away():
    run = play(fg.fedglb_ucb_1(updates=6), fg.Network(away={2: (10, 30)}))
    # updates of steps 10, 20, 30, …: the first waits until the client is back, and so does step 20
    assert run.updates["t"].to_list() == [10, 40, 50, 60]
    assert run.updates["seconds"].to_list() == [21.0, 0.0, 0.0, 0.0]


def test_clients_go_on_with_the_old_model_while_an_update_is_under_way():
    at_once, late = play(UCB, None), play(UCB, fg.Network(delay=2.0))
    first = at_once.updates["t"][0]
    assert late.updates["t"][0] >= first
    before = slice(0, first - 1)
    assert np.array_equal(late.choices[before], at_once.choices[before])
    assert not np.array_equal(late.choices, at_once.choices)


def test_samples_age_by_the_clock_of_the_coordinator():
    """It gets a request 3 s after the step in which a client sent it."""
    algorithm = fg.fedglb_auto(memory=fg.HalfLife(20.0))
    engine = ReferenceEngine(algorithm, fg.Networked(ENV, fg.Network(delay=3.0)), T, 1)
    engine.run()
    model, update = engine.coordinator.model, engine.coordinator.last_update
    assert model is not None
    assert update is not None
    assert model.now == update.t + 3


def test_lost_messages_are_sent_again_and_counted():
    plain, lossy = play(UCB, fg.Network(delay=0.1)), play(UCB, fg.Network(loss=0.4, delay=0.1))
    resent = lossy.ledger.filter(message="Resent")
    assert set(resent["direction"]) == {"up", "down"}
    share = resent["messages"].sum() / lossy.ledger["messages"].sum()
    assert share == pytest.approx(0.4, abs=0.08)
    assert "Resent" not in plain.ledger["message"]
    assert lossy.bits == lossy.ledger["bits"].sum() == lossy.trace["bits"][-1]
    assert lossy.update_seconds > plain.update_seconds


def test_compare_and_sweeps_play_over_networks(tmp_path):
    network = NETWORKS["all"]
    alone = [play(algorithm, network) for algorithm in (UCB, fg.fedglb_auto())]
    together = fg.compare([UCB, fg.fedglb_auto()], ENV, T, 1, network=network)
    assert all(a.trace.equals(b.trace) for a, b in zip(alone, together, strict=True))
    tables = {
        "name": "networked", "horizon": T, "seeds": 2, "problem": {"dim": 3},
        "environment": {
            "clients": N, "arms": 4,
            "network": {
                "loss": 0.2, "delay": 0.5, "bandwidth": 2000.0, "jitter": 3.0,
                "away": {"1": [10, 40]}, "time_limit": 5.0,
            },
        },
        "algorithm": [{"name": "fedglb-ucb", "threshold": 1.0, "solver": "newton"}],
    }  # fmt: skip
    read = fg.sweep(tables, tmp_path / "a", jobs=1).runs
    assert read["regret"][0] == alone[0].regret
    assert read["update_seconds"][0] == alone[0].update_seconds
    made = fg.Experiment.of([UCB], fg.Networked(ENV, network), horizon=T, seeds=2)
    assert fg.sweep(made, tmp_path / "b", jobs=2).runs["regret"].equals(read["regret"])


def test_the_same_over_a_lossy_network_with_other_seeds_is_another_run():
    recorded = unchanged.recorded("logistic")
    first, second = (
        fg.simulate(UCB, recorded, seed=seed, network=fg.Network(jitter=3.0)) for seed in (1, 2)
    )
    assert first.parameters["randomised"]
    assert not first.trace.equals(second.trace)
    assert not fg.simulate(UCB, recorded, network=fg.Network(delay=1.0)).parameters["randomised"]


@dataclass(frozen=True)
class Echo(fg.Strategy):
    """Client 0 sends the step every ten steps; the coordinator sends it to all."""

    def client(self, i, world):
        class Client:
            got: list[tuple[int, int]] = []  # noqa: RUF012 - each client has a class
            now = 0

            def choose(self, arms, t):
                self.now = t
                return 0

            def observe(self, arm, reward, t):
                return np.float32(t) if i == 0 and t % 10 == 0 else None

            def receive(self, message):
                self.got.append((int(message), self.now))

        made.append(Client())
        return made[-1]

    def coordinator(self, world):
        class Coordinator:
            def receive(self, client, message):
                return message

        return Coordinator()


made: list[Any] = []


def test_a_strategy_over_a_network():
    made.clear()
    network = fg.Network(delay=[1.5, 0.0, 0.0, 0.0, 4.0], bandwidth=64.0)
    run = play(Echo(), network)
    # 32 bits take half a second: up at 10 + 2.0 s, down to 1 … 3 at 12.5, to 4 at 16.5
    assert run.updates["seconds"].to_list() == pytest.approx([2.0] * 5)
    assert run.updates["seconds_to_all"].to_list() == pytest.approx([6.5] * 5)
    assert made[1].got[0] == (10, 12)
    assert made[4].got[0] == (10, 16)
    assert len(made[1].got) == 5
    assert run.updates["t"].to_list() == [12, 22, 32, 42, 52]


def test_a_link_keeps_the_order_and_sends_one_message_after_the_other():
    post = Post(fg.Network(delay=1.0, jitter=5.0, bandwidth=10.0, loss=0.3), 2, seed=3)
    for k in range(50):
        post.send(k, 0, upward=True, bits=20)
        post.send(100 + k, 1, upward=False, bits=0)
    post.now = math.inf
    times: dict[int, float] = {}
    for event in post.events():
        times[event] = post.now
    assert [k for k in times if k < 100] == list(range(50))
    assert [k for k in times if k >= 100] == list(range(100, 150))
    assert times[49] >= 50 * 2.0 + 1.0  # 2 s each, and the delay of the last
    assert times[149] < times[49]


def test_events_that_follow_from_events_come_in_the_order_of_time():
    post = Post(fg.Network(), 1, seed=0)
    post.wait("b", 2.0)
    post.wait("a", 1.0)
    post.now = 10.0
    seen = []
    for event in post.events():
        seen.append((event, post.now))
        if event == "a":
            post.wait("a2", 0.5)
            post.wait("too late", 10.0)
    assert seen == [("a", 1.0), ("a2", 1.5), ("b", 2.0)]
    assert post.now == 10.0


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"loss": 1.0}, "loss"), ({"loss": [0.1, -0.1]}, r"loss\[1\]"), ({"delay": -1.0}, "delay"),
        ({"bandwidth": 0.0}, "bandwidth"), ({"jitter": math.inf}, "jitter"), ({"step": 0}, "step"),
        ({"delay": "fast"}, "delay"), ({"delay": np.array(0.5)}, "delay"),
        ({"delay": [[1.0], [1.0, 2.0]]}, r"delay\[0\]"),
        ({"away": [(1, 2)]}, "first step, last step"),
        ({"away": {0: (5, 4)}}, "away"), ({"away": {-1: (1, 2)}}, "away"),
        ({"away": {0: 7}}, "away"), ({"retry": 0.0}, "retry"), ({"time_limit": 0.0}, "time_limit"),
    ],
)  # fmt: skip
def test_a_network_is_checked(given, text):
    with pytest.raises(fg.InvalidInput, match=text):
        fg.Network(**given)


@pytest.mark.parametrize("given", [{"delay": [1.0, 2.0]}, {"away": {5: (1, 2)}}])
def test_a_network_fits_the_clients(given):
    with pytest.raises(fg.InvalidInput, match="network"):
        play(UCB, fg.Network(**given))


def test_what_is_no_network_is_refused_by_its_name():
    with pytest.raises(fg.InvalidInput, match=r"^network = 0\.5: expected a Network"):
        fg.simulate(UCB, ENV, T, network=0.5)  # type: ignore[arg-type]
    with pytest.raises(fg.InvalidInput, match=r"^network = 0\.5: expected a Network"):
        fg.compare([UCB], ENV, T, network=0.5)  # type: ignore[arg-type]
