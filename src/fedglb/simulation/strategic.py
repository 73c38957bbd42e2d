"""The engine of `fg.Strategy`: clients and a coordinator of any class, message by message."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from fedglb.algorithms.strategy import Payload, Strategy, World, payloads, size
from fedglb.environments import Block, Environment
from fedglb.errors import InvalidInput
from fedglb.protocol.learner import Chosen
from fedglb.protocol.messages import Ledger
from fedglb.simulation.engine import described_run
from fedglb.simulation.results import Recorder, Run
from fedglb.simulation.stepwise import Stepwise
from fedglb.typing import FloatArray

#: A step has at most this many messages per client: more are an exchange without an end.
_MOST = 100_000
_METHODS = {"client": ("choose", "observe"), "coordinator": ("receive",)}


class StrategyEngine(Stepwise):
    """A run of a strategy."""

    def __init__(self, strategy: Strategy, env: Environment, horizon: int, seed: int) -> None:
        self.strategy, self.env, self.horizon, self.seed = strategy, env, horizon, seed
        self.recorder = Recorder(horizon, env.clients, env.parameter(seed))
        self.begin()
        self.ledger = Ledger()
        self.syncs = 0
        size_of_run = env.problem, env.clients, env.arms, horizon, seed
        self.worlds = [World(*size_of_run, who) for who in range(-1, env.clients)]
        self.coordinator = _checked("coordinator", strategy.coordinator(self.worlds[0]))
        self.clients = [
            _checked("client", strategy.client(i, world)) for i, world in enumerate(self.worlds[1:])
        ]
        self._posted = 0  # messages since the last step's end
        self._on_the_way: dict[int, list[Any]] = {}  # by update: its row, start, clients without it

    def choose(self, block: Block, step: int, i: int) -> Chosen:
        """Let client i choose."""
        t, arms = block.first + step, np.ascontiguousarray(block.arms[step, i])
        given = self.clients[i].choose(arms.copy(), t)
        try:
            arm = operator.index(given)
        except TypeError:
            arm = -1
        if not 0 <= arm < len(arms):
            allowed = f"the index of an arm, 0 … {len(arms) - 1}"
            raise InvalidInput(self._call(i, f"choose(arms, t={t})"), given, allowed)
        unknown = math.nan  # whether the choice was drawn, and how: only the strategy knows
        return Chosen(arm, unknown, unknown, unknown, unknown, 0.0, arms[arm])

    def learn(self, i: int, known: list[tuple[FloatArray, float]], t: int) -> None:
        """Let client i learn."""
        for arm, reward in known:
            returned = self.clients[i].observe(arm.copy(), reward, t)
            self._send_up(i, returned, f"observe(arm, reward, t={t})", self.post.now)

    def end_step(self, t: int) -> None:
        """Let the coordinator act by the clock, if it does."""
        self._posted = 0
        act = getattr(self.coordinator, "end_step", None)
        if act is not None:
            self._send_down(act(t), f"end_step(t={t})", self.post.now)

    def communication(self) -> tuple[int, int, Ledger]:
        """Return the counts: a round is a global update."""
        return self.syncs, self.syncs, self.ledger

    def handle(self, event: Any) -> None:
        """Deliver a message."""
        i, content, upward, sent, update = event
        if upward:
            self._send_down(self.coordinator.receive(i, content), f"receive({i}, message)", sent)
            return
        receive = getattr(self.clients[i], "receive", None)
        if receive is None:
            name = self._call(i, "receive")
            raise InvalidInput(name, None, "a method: the coordinator sends messages")
        if update is not None:
            self._arrived(i, update)
        self._send_up(i, receive(content), "receive(message)", self.post.now)

    def _send_up(self, i: int, returned: Any, method: str, now: float) -> None:
        what = self._call(i, method)
        for message in payloads(returned, what):
            if message.to is not None:
                allowed = "no addressee (to=None): a client's messages go to the coordinator"
                raise InvalidInput(what, message, allowed)
            self._post(i, message, upward=True, sent=now)

    def _send_down(self, returned: Any, method: str, begun: float) -> None:
        """Send the coordinator's messages, which answer what was sent at the time `begun`."""
        what, every = f"{self.strategy.name}: coordinator.{method}", range(self.env.clients)
        for message in payloads(returned, what):
            if message.to is not None and message.to not in every:
                allowed = f"a message to a client, 0 … {self.env.clients - 1}"
                raise InvalidInput(what, message, allowed)
            update = self._new_update(begun) if message.to is None else None
            for i in every if message.to is None else (message.to,):
                self._post(i, message, upward=False, sent=self.post.now, update=update)

    def _post(
        self, i: int, message: Payload, *, upward: bool, sent: float, update: int | None = None
    ) -> None:
        self._posted += 1
        if self._posted > _MOST * self.env.clients:
            allowed = f"at most {_MOST:,} per client: these answer each other without an end"
            raise InvalidInput(f"{self.strategy.name}: messages in a step", self._posted, allowed)
        numbers, bits = size(message)
        way, carries = "up" if upward else "down", int(bits > 0)
        self.ledger.add(message.name, way, 1, carries, numbers, bits)
        event = i, message.content, upward, sent, update
        again = self.post.send(event, i, upward=upward, bits=bits)
        if again:
            self.ledger.add("Resent", way, again, again * carries, again * numbers, again * bits)

    def _new_update(self, begun: float) -> int:
        """Record a global update: a message to all clients."""
        self.syncs += 1
        n = int(self.recorder.log.totals[2])
        row: dict[str, Any] = {"t": self.t, "n": n, "rounds": 1}
        if self.post.network is not None:
            row["seconds"] = self.post.now - begun
            self._on_the_way[self.syncs] = [row, begun, set(range(self.env.clients))]
        self.recorder.updates.append(row)
        return self.syncs

    def _arrived(self, i: int, update: int) -> None:
        if update in self._on_the_way:
            row, begun, missing = self._on_the_way[update]
            missing.discard(i)
            if not missing:
                row["seconds_to_all"] = self.post.now - begun
                del self._on_the_way[update]

    def _call(self, i: int, method: str) -> str:
        return f"{self.strategy.name}: client {i}.{method}"

    def result(self) -> Run:
        """Return the result of the run."""
        drew = any(world.drew for world in self.worlds)
        parameters = {
            "algorithm": self.strategy.name,
            "strategy": repr(self.strategy),
            **described_run(self.env, self.horizon, self.seed),
            "randomised": self.env.randomised or drew,
            "engine": "reference",
        }
        caveats = (f"{self.strategy.name} is a strategy: nothing is proven",)
        return self.recorder.result(self.ledger, None, parameters, caveats)


def _checked(role: str, made: Any) -> Any:
    for method in _METHODS[role]:
        if not callable(getattr(made, method, None)):
            allowed = f"an object with {' and '.join(_METHODS[role])}"
            raise InvalidInput(f"Strategy.{role}(…)", made, allowed)
    return made
