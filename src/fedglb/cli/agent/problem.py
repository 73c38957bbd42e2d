"""The problem and the schema of an agent's commands: from the options, or from the bundle."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fedglb.cli.report_errors import extra, fail
from fedglb.features import Features
from fedglb.problem import Problem
from fedglb.problem_table import ProblemTable


@dataclass(frozen=True)
class AgentProblem:
    """What an agent learns, and in which federation, if it has one."""

    problem: Problem
    features: Features | None
    client: str = "alone"
    federation: str | None = None

    @classmethod
    def of(cls, bundle: Path | None, features: Path | None, table: ProblemTable) -> AgentProblem:
        """Return the problem of these options, or exit with what is wrong with them."""
        if bundle is not None:
            for option, given in (("--dim", table.dim), ("--features", features)):
                if given is not None:
                    fail(f"{option} and --bundle exclude each other: the bundle has "
                         "the federation's problem and its schema", 2)  # fmt: skip
            with extra():
                from fedglb.federation.bundle import Bundle
            found = Bundle.read(bundle)
            agreement = found.agreement
            return cls(agreement.problem, agreement.features, found.client, found.federation)
        if features is None:
            if table.dim is None:
                fail("--dim or --features is required without --bundle", 2)
            return cls(table.build(), None)
        if table.dim is not None:
            fail("--dim and --features exclude each other: the schema has its own dimension", 2)
        schema = Features.read(features)
        return cls(table.build(schema.dim), schema)
