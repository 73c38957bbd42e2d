"""A federation in one process, for tests: recorded samples, and a say in every delivery."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

import fedglb as fg
from fedglb.privacy import NoiseSource
from fedglb.protocol.messages import Message
from fedglb.protocol.persistence import to_arrays

SEED = 7  # of random choices


class Federation:
    """N clients and a coordinator over a random stream; messages pass through `hook`."""

    def __init__(
        self,
        algorithm: fg.Algorithm,
        problem: fg.Problem,
        N: int,
        T: int,
        seed: int = 0,
        noise: NoiseSource | None = None,
    ):
        self.algorithm, self.noise = algorithm, noise
        self.setting = algorithm.setting(problem, N, T)
        self.clients = [fg.Client(i, algorithm, self.setting, SEED, noise) for i in range(N)]
        self.coordinator = fg.Coordinator(algorithm, self.setting, range(N))
        self.rng = np.random.default_rng(seed)
        self.T, self.d = T, problem.dim
        self.theta = self.rng.standard_normal(self.d)
        self.theta *= problem.S / np.linalg.norm(self.theta)
        self.sent: list[Message] = []
        self.choices: list[int] = []
        self.hook: Callable[[Message], None] = lambda message: None
        self.items: np.ndarray | None = None  # arms that are offered again and again
        self.differ = False  # whether every other client has the opposite parameter

    def interact(self, i: int, t: int) -> list[Message]:
        """Let client i choose and learn; return what it wants to send."""
        arms = self.rng.standard_normal((6, self.d))
        arms /= np.linalg.norm(arms, axis=1, keepdims=True)
        ids = None
        if self.algorithm.local_update.effects:
            self.items = arms if self.items is None else self.items
            arms, ids = np.concatenate([self.items, arms[:1]]), [*range(6), f"new, {t}, {i}"]
        u = self.rng.random()
        arm = self.clients[i].choose(arms, ids=ids)
        self.choices.append(arm)
        problem = self.setting.problem
        z = float(arms[arm] @ self.theta)
        if self.differ:
            z *= 20.0 - 40.0 * (i % 2)
        mean = problem.link.mean(z)
        reward = problem.link.sample(mean, u, problem.R)
        return self.clients[i].observe(arms[arm], reward, t, None if ids is None else ids[arm])

    def deliver(self, messages: list[Message]) -> None:
        queue = deque(messages)
        while queue:
            message = queue.popleft()
            self.sent.append(message)
            self.hook(message)
            queue.extend(self.pass_on(message) or ([] if queue else self.coordinator.again()))

    def pass_on(self, message: Message) -> list[Message]:
        """Deliver one message and return the answers."""
        receiver = self.coordinator if message.upward else self.clients[message.client]
        return receiver.receive(message)

    def step(self, t: int) -> None:
        for i in range(len(self.clients)):
            self.deliver(self.interact(i, t))
        self.deliver(self.coordinator.end_step(t))

    def run(self) -> None:
        for t in range(1, self.T + 1):
            self.step(t)


def communicating(T: int = 20) -> dict[str, fg.Algorithm]:
    """One algorithm for every kind of global update, and every solver."""
    return {
        "agd": fg.fedglb_ucb(1.0, fg.AGD()),
        "newton": fg.fedglb_ucb(1.0, fg.Newton()),
        "lbfgs": fg.fedglb_ucb(1.0, fg.LBFGS()),
        "lbfgs, then newton": fg.fedglb_ucb(1.0, fg.LBFGS(1e-14), ridge=0.01),
        "fixed rounds": fg.fedglb_ucb(1.0, fg.AGD(stop="fixed", rounds=4)),
        "variant 1": fg.fedglb_ucb_1(5, fg.Newton()),
        "variant 2": fg.fedglb_ucb_2(5, fg.AGD()),
        "variant 3": fg.fedglb_ucb_3(5),
        "dislinucb": fg.dislinucb(1.0),
        "mix": fg.fedglb_mix(1.0, solver=fg.OneExchange(slack=0.05)),
        "mix, further rounds": fg.fedglb_mix(1.0, solver=fg.OneExchange(slack=1e-6)),
        "mix, newton, evidence": fg.fedglb_mix(1.0, solver=fg.Newton(), ridge=fg.Evidence()),
        "auto": fg.fedglb_auto(1.0, solver=fg.OneExchange(within="deviation")),
        "auto, thompson": fg.fedglb_auto(
            1.0,
            fg.EpsilonGreedy(0.2, fg.Thompson(draws=3)),
            solver=fg.OneExchange(within="deviation"),
        ),
        "effects": fg.fedglb_auto(1.0),
        "personal effects": fg.fedglb_personal(1.0),
    }


def one_pass(updates: int = 5) -> dict[str, fg.Algorithm]:
    """The algorithms whose updates take each sample in once, with and without noise."""
    return {
        "one pass": fg.fedglb_private(updates),
        "one pass, sums": fg.fedglb_private(updates, privacy=fg.GaussianMechanism(1.0, 1e-6)),
        "one pass, silo": fg.fedglb_private(
            updates, privacy=fg.GaussianMechanism(1.0, 1e-6, "silo", "replace")
        ),
    }


def equal_arrays(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> bool:
    """Return whether two states are the same to the bit."""
    return a.keys() == b.keys() and all(
        x.dtype == b[k].dtype and x.shape == b[k].shape and x.tobytes() == b[k].tobytes()
        for k, x in a.items()
    )


def same_model(one: fg.Coordinator, other: fg.Coordinator) -> bool:
    """Return whether two coordinators have the same model, to the bit."""
    return equal_arrays(to_arrays(one.model), to_arrays(other.model))
