"""Drives a solve with the sums of a `Data`, as a federation would."""

from __future__ import annotations

from fedglb.parts.global_update import GlobalUpdate, Objective, Solution, Solve
from tests.parts.global_update.reference import Data

LIMIT = 20_000


def drive(
    solver: GlobalUpdate, data: Data, objective: Objective | None = None
) -> tuple[Solution, list]:
    """The solution, and the queries that led to it."""
    solve = Solve(solver, data.objective() if objective is None else objective)
    queries = []
    while solve.query is not None:
        assert solve.solution is None
        assert len(queries) < LIMIT, "the solver does not end"
        queries.append(solve.query)
        solve.tell(data.answer(solve.query))
    assert solve.solution is not None
    return solve.solution, queries
