"""`fg.Strategy`: what it sees, what is counted, what is refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import fedglb as fg
from fedglb.algorithms.strategy import payloads, size

PROBLEM = fg.Problem(dim=3, radius=2.0)
ENV = fg.Synthetic(PROBLEM, clients=4, arms=5)
T = 30


class Player:
    """Plays by a given function, and sends what another one returns."""

    def __init__(self, strategy: Script, i: int, world: fg.World) -> None:
        self.strategy, self.i, self.world = strategy, i, world
        self.received: list[Any] = []

    def choose(self, arms, t):
        return self.strategy.choose(self, arms, t)

    def observe(self, arm, reward, t):
        return self.strategy.observe(self, arm, reward, t)

    def receive(self, message):
        self.received.append(message)
        return self.strategy.answer(self, message)


class Centre:
    def __init__(self, strategy: Script, world: fg.World) -> None:
        self.strategy, self.world = strategy, world
        self.received: list[tuple[int, Any]] = []

    def receive(self, client, message):
        self.received.append((client, message))
        return self.strategy.react(self, client, message)

    def end_step(self, t):
        return self.strategy.tick(self, t)


def nothing(*_: Any) -> None:
    return None


@dataclass(frozen=True)
class Script(fg.Strategy):
    """A strategy of functions; `made` has its objects."""

    choose: Any = lambda player, arms, t: (t + player.i) % len(arms)
    observe: Any = nothing
    answer: Any = nothing
    react: Any = nothing
    tick: Any = nothing
    made: list[Any] = field(default_factory=list, compare=False)

    def client(self, i, world):
        self.made.append(Player(self, i, world))
        return self.made[-1]

    def coordinator(self, world):
        self.made.append(Centre(self, world))
        return self.made[-1]


def play(strategy: fg.Strategy, env: fg.Environment = ENV, **more: Any) -> fg.Run:
    return fg.simulate(strategy, env, T, seed=1, **more)


def test_a_strategy_plays_the_arms_and_noise_that_all_algorithms_meet():
    seen = []

    def watch(player, arms, t):
        seen.append(arms.copy())
        arms[:] = np.nan  # a copy
        return 0

    strategy = Script(choose=watch)
    run, other = fg.compare([strategy, fg.n_ons_glm()], ENV, T, seed=1)
    (block,) = ENV.checked_blocks(T, 1)
    assert np.array_equal(np.array(seen).reshape(block.arms.shape), block.arms)
    assert (run.choices == 0).all()
    assert run.regret == pytest.approx((block.means.max(axis=2) - block.means[:, :, 0]).sum())
    assert run.client_regret.sum() == pytest.approx(run.regret)
    assert other.trace.height == run.trace.height == T
    assert run.caveats == ("Script is a strategy: nothing is proven",)


def test_clients_learn_the_arm_and_the_reward_of_their_choice():
    kept = []
    play(Script(observe=lambda player, arm, reward, t: kept.append((t, player.i, arm, reward))))
    (block,) = ENV.checked_blocks(T, 1)
    assert [(t, i) for t, i, *_ in kept] == [(t, i) for t in range(1, T + 1) for i in range(4)]
    for t, i, arm, reward in kept:
        assert np.array_equal(arm, block.arms[t - 1, i, (t + i) % 5])
        assert reward in (0.0, 1.0)


def test_late_rewards_and_clients_that_do_not_act():
    kept = []
    strategy = Script(observe=lambda player, arm, reward, t: kept.append((t, player.i, arm)))
    env = fg.Partial(fg.Delayed(ENV, 3), np.tile([True, True, True, False], (T, 1)))
    run = play(strategy, env)
    (block,) = env.checked_blocks(T, 1)
    assert {i for _, i, _ in kept} == {0, 1, 2}
    assert min(t for t, *_ in kept) == 4
    for t, i, arm in kept:
        assert np.array_equal(arm, block.arms[t - 4, i, (t - 3 + i) % 5])
    assert (run.choices[:, 3] == -1).all()


@pytest.mark.parametrize(
    ("content", "numbers", "bits"),
    [
        (1.5, 1, 64), (7, 1, 64), (-(2**63), 1, 64), (2**200, 1, 201), (1j, 1, 128), (True, 1, 1),
        (None, 0, 0), (b"abc", 0, 24), ("é", 0, 16),
        (np.zeros((2, 3)), 6, 384), (np.zeros(5, dtype=np.float32), 5, 160),
        (np.zeros(5, dtype=np.int8), 5, 40), (np.float16(1.0), 1, 16),
        ((1.0, np.zeros(2, np.uint16), b"x"), 3, 64 + 32 + 8), ({"a": 1.0, "b": [2, 3]}, 3, 192),
        (fg.Payload(np.ones(8), bits=8), 8, 8), (fg.Payload(b"zipped", bits=41), 0, 41),
    ],
)  # fmt: skip
def test_numbers_and_bits_of_a_message(content, numbers, bits):
    (message,) = payloads(content, "") or [fg.Payload(None)]
    assert size(message) == (numbers, bits)


def test_the_ledger_counts_each_message_in_its_direction():
    strategy = Script(
        observe=lambda player, arm, reward, t: [
            fg.Payload(np.zeros(3, np.float32), name="Gradient"), fg.Payload(None, name="Ping"),
        ],
        react=lambda centre, client, message: None if message is None else fg.Payload(
            np.zeros(2), to=client, name="Answer"
        ),
        tick=lambda centre, t: b"0123" if t % 10 == 0 else None,
    )  # fmt: skip
    run = play(strategy)
    rows = {(name, way): rest for name, way, *rest in run.ledger.rows()}
    n = 4 * T
    assert rows == {
        ("Gradient", "up"): [n, n, 3 * n, 96 * n],
        ("Ping", "up"): [n, 0, 0, 0],
        ("Answer", "down"): [n, n, 2 * n, 128 * n],
        ("Payload", "down"): [12, 12, 0, 12 * 32],
    }
    assert (run.syncs, run.rounds, run.updates.height) == (3, 3, 3)
    assert run.updates["t"].to_list() == [10, 20, 30]
    assert run.updates["n"].to_list() == [40, 80, 120]
    assert (run.bits, run.trace["bits"][-1]) == (run.ledger["bits"].sum(),) * 2
    assert run.transfers == 2 * n + 12


def test_messages_arrive_in_order_before_the_next_client_chooses():
    order = []

    def choose(player, arms, t):
        order.append((t, player.i, len(player.received)))
        return 0

    play(
        Script(
            choose=choose,
            observe=lambda player, arm, reward, t: player.i,
            react=lambda centre, client, message: message,
        )
    )
    assert order[:6] == [(1, 0, 0), (1, 1, 1), (1, 2, 2), (1, 3, 3), (2, 0, 4), (2, 1, 5)]


def test_what_arrives_is_a_copy_that_cannot_be_written_to():
    shared = np.zeros(2)
    strategy = Script(
        observe=lambda player, arm, reward, t: {"sum": [shared]},
        react=lambda centre, client, message: np.asarray(message["sum"][0]),
    )
    play(strategy)
    (centre,) = [made for made in strategy.made if isinstance(made, Centre)]
    shared[:] = 1.0
    _, message = centre.received[0]
    assert message["sum"][0].tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="read-only"):
        message["sum"][0][0] = 2.0
    with pytest.raises(TypeError):
        message["sum"] = 3


def test_random_numbers_follow_from_the_seed_and_the_client():
    def draws(seed: int) -> np.ndarray:
        strategy = Script(choose=lambda player, arms, t: player.world.rng.integers(len(arms)))
        return fg.simulate(strategy, ENV, T, seed).choices

    assert np.array_equal(draws(1), draws(1))
    assert not np.array_equal(draws(1), draws(2))
    one, two = draws(1)[:, 0], draws(1)[:, 1]
    assert not np.array_equal(one, two)
    worlds = [fg.World(PROBLEM, 4, 5, T, seed=1, who=who) for who in (-1, 0, 3)]
    assert len({world.common_rng.random() for world in worlds}) == 1
    assert len({world.rng.random() for world in worlds}) == 3


def test_a_run_says_whether_another_seed_gives_another_one():
    means = np.full((T, 4, 5), 0.5)
    env = fg.Recorded(PROBLEM, np.full((T, 4, 5, 3), 0.1), means, np.zeros((T, 4)))
    drawn = Script(choose=lambda player, arms, t: player.world.rng.integers(len(arms)))
    own = Script(
        choose=lambda player, arms, t: np.random.default_rng(player.world.seed + t).integers(5)
    )
    assert not fg.simulate(Script(), env).parameters["randomised"]
    assert fg.simulate(drawn, env).parameters["randomised"]
    assert fg.simulate(own, env).parameters["randomised"]


def test_what_the_choice_was_drawn_from_is_unknown():
    run = play(Script())
    assert np.isnan(run.propensities).all()


def test_a_run_is_saved_and_drawn(tmp_path):
    run = play(Script(tick=lambda centre, t: 1.0))
    run.save(tmp_path / "a.run")
    again = fg.load_run(tmp_path / "a.run")
    assert again.trace.equals(run.trace)
    assert again.updates.equals(run.updates)
    assert "Script" in run._repr_html_()
    assert fg.plot([run, play(fg.n_ons_glm())], "bits").axes


BAD = {
    "an index": (Script(choose=lambda player, arms, t: 5), "index of an arm, 0 … 4"),
    "an arm": (Script(choose=lambda player, arms, t: arms[0]), "index of an arm"),
    "a float": (Script(choose=lambda player, arms, t: 1.0), "index of an arm"),
    "content": (Script(observe=lambda *_: object()), "messages of numbers"),
    "objects in an array": (Script(observe=lambda *_: np.array([{}])), "messages of numbers"),
    "a masked array": (
        Script(observe=lambda *_: np.ma.array([1.0, 2.0], mask=[False, True])),
        "messages of numbers",
    ),
    "an addressee": (Script(observe=lambda *_: fg.Payload(1.0, to=2)), "go to the coordinator"),
    "no client": (Script(tick=lambda *_: fg.Payload(1.0, to=4)), "a client, 0 … 3"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_a_strategy_must_not_return(name):
    strategy, text = BAD[name]
    with pytest.raises(fg.InvalidInput, match=text) as raised:
        play(strategy)
    assert raised.value.argument.startswith("Script")


def test_an_object_without_its_methods_is_refused():
    @dataclass(frozen=True)
    class Empty(fg.Strategy):
        def client(self, i, world):
            return object()

        def coordinator(self, world):
            return Centre(Script(), world)

    with pytest.raises(fg.InvalidInput, match="choose and observe"):
        play(Empty())


def test_a_client_without_receive_may_get_nothing():
    class Deaf:
        def choose(self, arms, t):
            return 0

        def observe(self, arm, reward, t):
            return None

    @dataclass(frozen=True)
    class Half(Script):
        def client(self, i, world):
            return Deaf()

    assert play(Half()).syncs == 0
    with pytest.raises(fg.InvalidInput, match="the coordinator sends messages"):
        play(Half(tick=lambda centre, t: 1.0))


@pytest.mark.parametrize("given", [{"to": -1}, {"bits": 1.5}, {"name": 3}])
def test_a_payload_is_checked(given):
    with pytest.raises(fg.InvalidInput):
        fg.Payload(1.0, **given)


def test_neither_observer_nor_another_object():
    with pytest.raises(fg.InvalidInput, match="observer"):
        play(Script(), engine="reference", observer=print)
    with pytest.raises(fg.InvalidInput, match="an Algorithm"):
        fg.simulate(Script, ENV, T)  # type: ignore[arg-type]


def test_a_strategy_is_a_dataclass():
    class Own(Script):
        def __init__(self, every: int) -> None:
            self.every = every

    class Default(Script):
        observe = 3  # the dataclass above keeps its default

    for made in (lambda: Own(every=3), Default):
        with pytest.raises(fg.InvalidInput, match=r"@dataclass\(frozen=True\) above the class"):
            made()


@pytest.mark.parametrize("network", [None, fg.Network(delay=1e-6)])
def test_messages_that_answer_each_other_without_an_end_are_refused(network):
    strategy = Script(
        observe=lambda player, arm, reward, t: b"" if t == 3 else None,
        react=lambda centre, client, message: message,
        answer=lambda player, message: message,
    )
    with pytest.raises(fg.InvalidInput, match=r"Script: messages in a step.*answer each other"):
        play(strategy, fg.Synthetic(PROBLEM, clients=1, arms=2), network=network)


def test_what_a_strategy_raises_comes_out():
    def fails(*_: Any) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        play(Script(observe=fails))


@pytest.mark.parametrize("method", ["rejection", "weights"])
def test_on_a_log_a_strategy_counts_as_an_algorithm_that_plays_the_same(method):
    rng = np.random.default_rng(5)
    arms = rng.uniform(-0.5, 0.5, (200, 5, 3))
    chosen, rewards = rng.integers(0, 5, 200), rng.integers(0, 2, 200).astype(float)
    env = fg.Replay(PROBLEM, arms, chosen, rewards, np.full(200, 0.2), clients=4, method=method)
    algorithm = fg.simulate(fg.n_ucb_glm(choice=fg.Greedy()), env, seed=1)
    (block,) = env.checked_blocks(50, 1)
    learned = []
    strategy = Script(
        # what the algorithm has played, else an arm whose reward is not known
        choose=lambda player, arms, t: (
            k if (k := algorithm.choices[t - 1, player.i]) >= 0
            else int(np.isnan(block.rewards[t - 1, player.i]).argmax())
        ),
        observe=lambda player, arm, reward, t: learned.append(reward),
    )  # fmt: skip
    run = fg.simulate(strategy, env, seed=1)
    assert 10 < (run.choices >= 0).sum() == len(learned) < 150
    assert np.array_equal(run.choices, algorithm.choices)
    assert run.trace["regret", "reward"].equals(algorithm.trace["regret", "reward"])
    assert np.array_equal(run.regrets, algorithm.regrets)
