"""One agent's users: the arms that each is offered, and the reward that each gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fedglb.federation.demo.plan import DemoPlan
from fedglb.problem import Problem
from fedglb.typing import FloatArray


@dataclass(frozen=True)
class UserOffer:
    """The arms for one user; the demonstration knows their mean rewards, the agent does not."""

    arms: FloatArray
    means: FloatArray
    uniform: float
    problem: Problem

    def reward(self, arm: int) -> float:
        """Return the reward that this user gives for an arm."""
        sample = self.problem.link.compiled_sample
        return sample.call(float(self.means[arm]), self.uniform, self.problem.R)

    def regret(self, arm: int) -> float:
        """Return the expected loss of choosing this arm instead of the best."""
        return float(self.means.max() - self.means[arm])


def stream(plan: DemoPlan, index: int) -> Iterator[UserOffer]:
    """Yield the offers of one agent: those of the simulator, the same in every process."""
    env = plan.environment
    for block in env.checked_blocks(plan.decisions, plan.seed):
        assert block.uniforms is not None
        for step in range(len(block.arms)):
            uniform = float(block.uniforms[step, index])
            yield UserOffer(block.arms[step, index], block.means[step, index], uniform, env.problem)
