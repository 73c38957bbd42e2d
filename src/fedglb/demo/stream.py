"""One agent's users: the arms that each is offered, and what each would do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fedglb.demo.plan import DemoPlan
from fedglb.problem import Problem
from fedglb.typing import FloatArray


@dataclass(frozen=True)
class Offer:
    """What one user is offered; `means` is known to the demonstration, not to the agent."""

    arms: FloatArray
    means: FloatArray
    uniform: float
    problem: Problem

    def reward(self, arm: int) -> float:
        """Return what this user gives for an arm."""
        sample = self.problem.link.compiled_sample
        return sample.call(float(self.means[arm]), self.uniform, self.problem.R)

    def regret(self, arm: int) -> float:
        """Return what choosing this arm costs, in expectation."""
        return float(self.means.max() - self.means[arm])


def stream(plan: DemoPlan, index: int) -> Iterator[Offer]:
    """Yield the offers of one agent, the same in every process: they are the simulator's."""
    env = plan.environment
    for block in env.checked_blocks(plan.decisions, plan.seed):
        assert block.uniforms is not None
        for step in range(len(block.arms)):
            uniform = float(block.uniforms[step, index])
            yield Offer(block.arms[step, index], block.means[step, index], uniform, env.problem)
