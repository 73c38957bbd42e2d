"""A solve around a solver: with the Hessian at its result, and with a λ that a rule chooses."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from fedglb.parts.global_update.base import GlobalUpdate, Objective, Query, Solution, Steps, Sums
from fedglb.parts.ridge import Evidence
from fedglb.setting import Setting

T = TypeVar("T")


@dataclass(frozen=True)
class Refit(GlobalUpdate):
    """Solve; where a rule is given, choose λ by it and solve again; add the Hessian if needed.

    What clients answered in the first solve is not asked again in the second.
    """

    solver: GlobalUpdate  # the algorithm's solver
    rule: Evidence | None  # how λ is chosen; None: it is the setting's
    prior: Callable[[Setting], float]  # what A starts from in a setting: the local update's
    with_hessian: bool  # whether the model needs the Hessian at θ

    def solve(self, objective: Objective) -> Steps:
        """Yield queries, receive sums, return the solution."""
        asked: list[tuple[Query, Sums]] = []
        solution = yield from self._fit(objective, asked)
        if self.rule is None:
            return solution
        assert solution.hessian is not None
        before = objective.setting
        fit = (solution.hessian, solution.theta)
        if before.blocks:
            ridges = before.ridges or (before.ridge,) * before.blocks
            ridges = self.rule.next_blocks(*fit, ridges, before.problem)
            setting = replace(before, ridge=ridges[0], ridges=ridges)
        else:
            ridge = self.rule.next(*fit, before.ridge, before.problem)
            setting = replace(before, ridge=ridge)
        if solution.effects is not None:
            assert objective.at_model is not None
            setting = _with_effects(before, setting, objective.at_model, solution)
        change = (self.prior(setting) - self.prior(before)) * np.eye(len(objective.matrix))
        again = replace(objective, setting=setting, matrix=objective.matrix + change)
        if not self.solver.starts_at_model:
            again = replace(again, start=solution.theta)
        elif asked:  # from the last sums: most often they are enough
            again = replace(again, start=asked[-1][0].theta, at_model=asked[-1][1])
        solution = yield from self._fit(again, asked)
        return replace(solution, fitted=again)

    def _fit(self, objective: Objective, asked: list[tuple[Query, Sums]]) -> Steps:
        solution = yield from _remembering(self.solver.solve(objective), asked)
        if solution.hessian is None and (self.with_hessian or self.rule is not None):
            query = Query(solution.theta.copy(), hessian=True)
            sums = yield from _remembering(_one(query), asked)
            solution = replace(solution, hessian=sums.hessian)
        return solution


def _with_effects(before: Setting, after: Setting, sums: Sums, solution: Solution) -> Setting:
    """Return the setting `after` with λ₂ for the effects of a solution in the setting `before`."""
    assert sums.arms is not None
    assert sums.hessian is not None
    assert solution.hessian is not None
    assert solution.effects is not None
    reduced = solution.hessian + np.diag(before.penalty)
    second = sums.arms.next_ridge(after, sums.hessian, reduced, solution.effects)
    return replace(after, effect_ridge=second)


def _one(query: Query) -> Generator[Query, Sums, Sums]:
    return (yield query)


def _remembering(
    steps: Generator[Query, Sums, T], asked: list[tuple[Query, Sums]]
) -> Generator[Query, Sums, T]:
    """Run `steps`; a query that was answered before gets the same sums again."""
    try:
        query = next(steps)
        while True:
            sums = next(
                (_part(known, query) for before, known in asked if _same(before, query)), None
            )
            if sums is None:
                sums = yield query
                asked.append((query, sums))
            query = steps.send(sums)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]


def _part(sums: Sums, query: Query) -> Sums:
    """Return a query's part of known sums: more might end a solve earlier."""
    return Sums(
        sums.gradient,
        sums.hessian if query.hessian else None,
        sums.loss if query.loss else None,
    )


def _same(a: Query, b: Query) -> bool:
    """Return whether the answer to `a` contains the answer to `b`."""
    more = a.hessian >= b.hessian and a.loss >= b.loss
    return more and a.theta.tobytes() == b.theta.tobytes()
