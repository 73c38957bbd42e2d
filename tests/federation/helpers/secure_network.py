"""The federation of `lossy_network` with secure sums: real agents, coordinator, keys and files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import fedglb as fg
from fedglb.federation.agent.sums import AgentSums
from fedglb.federation.agreement import Agreement
from fedglb.federation.coordinator.policy import CoordinatorPolicy
from fedglb.federation.coordinator.session import CoordinatorSession
from fedglb.federation.coordinator.store import CoordinatorStore
from fedglb.federation.secure_sums.transcript import SumRules, agreement_digest
from fedglb.privacy.fixed_point import unpack
from fedglb.protocol.messages import MaskedSum
from tests.federation.helpers.lossy_network import DIM, Harness, Node
from tests.federation.helpers.sum_members import FEDERATION, roster_of, session_keys

NAMES = ("a", "b", "c", "d", "e")
POLICY = CoordinatorPolicy(time_limit=5.0, absent_after=20.0, resend=0.25, grace=8.0)
PRIVATE = fg.GaussianMechanism(epsilon=1.0, delta=1e-6, honest=0.6)


def secure(
    updates: int = 6,
    first: float = 2.0,
    growth: float = 2.0,
    minimum: int = 3,
    privacy: fg.GaussianMechanism | None = None,
    names: Sequence[str] = NAMES,
) -> Agreement:
    algorithm = fg.fedglb_private(updates, first, privacy, growth)
    made = Agreement(fg.Problem(dim=DIM), algorithm, len(names), minimum=minimum)
    return made.with_roster(roster_of(names).digest, names)


def rules_of(agreement: Agreement, names: Sequence[str] = NAMES) -> SumRules:
    return SumRules(
        FEDERATION, roster_of(names), agreement_digest(agreement.facts()),
        agreement.min_members, agreement.algorithm.max_updates,
    )  # fmt: skip


class SecureNode(Node):
    """An agent that gives nothing but masked sums."""

    rules: SumRules

    def open(self) -> None:
        super().open()
        keys = session_keys(self.rules.roster, self.name, self.agent_session.session)
        self.agent_session.sums = AgentSums(self.agent_session.answers, self.rules, keys)


def secure_node(rules: SumRules, *given: Any) -> Node:
    """Return a `SecureNode` with these rules; the rest is that of `Node`."""
    return type("_Node", (SecureNode,), {"rules": rules})(*given)


class SecureHarness(Harness):
    """Agents with secure sums, and their coordinator."""

    def __init__(
        self,
        folder: Path,
        names: Sequence[str] = NAMES,
        agreement: Agreement | None = None,
        policy: CoordinatorPolicy = POLICY,
        **more: Any,
    ) -> None:
        agreed = secure(names=names) if agreement is None else agreement
        self.rules = rules_of(agreed, names)
        super().__init__(folder, names, agreed, policy, **more)

    def _node(self, name: str, seed: int = 99) -> Node:
        return secure_node(self.rules, name, self.folder / f"{name}.db", self.agreement, seed)

    def begin(self, after: int = 0) -> None:
        self.file = CoordinatorStore(self.folder / "coordinator.db", self.agreement)
        self.session = CoordinatorSession(
            self.agreement, self.file, self.policy, self.events.append, after,
            wall=lambda: self.now, rules=self.rules,
        )  # fmt: skip
        self.tell(self.session.start(self.now))

    def until_update(self, number: int, seconds: float = 600.0) -> None:
        """Let time pass until all hold the model of this update, or of a later one."""
        self.until(lambda: self.shared(number), seconds)

    def total(self, update: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the sum of an update: its vector and its matrix."""
        return unpack(self.coordinator.releases[update].numbers, DIM)

    def recorded(self) -> np.ndarray:
        """Return all masked numbers that were sent, one after another."""
        return np.concatenate([m.numbers for m in self.heard("up", MaskedSum)])


def plain_sums(running: Any, names: Sequence[str], theta: np.ndarray) -> np.ndarray:
    """Return Σ (v, H) of all samples of these agents at θ, as whole numbers: without any secret."""
    from fedglb.protocol.one_pass import sums_of

    setting = running.agreement.setting
    out = np.zeros(DIM + DIM * (DIM + 1) // 2, np.int64)
    for name in names:
        samples = running.nodes[name].learner.protocol_client.samples.so_far()
        every = np.array([0]), np.array([len(samples)])
        out += sums_of(setting, theta, samples.X[None], samples.y[None], *every)[0]
    return out
