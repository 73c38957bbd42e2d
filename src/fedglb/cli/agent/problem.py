"""The problem and the schema of an agent's commands: from the options, or from the bundle."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fedglb.cli.report_errors import extra
from fedglb.errors import InvalidInput
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

    @property
    def about(self) -> dict[str, str]:
        """Rows for the agent's page."""
        federation = {} if self.federation is None else {"federation": self.federation}
        return {"client": self.client, "dim": str(self.problem.dim), **federation}

    @classmethod
    def of(cls, bundle: Path | None, features: Path | None, table: ProblemTable) -> AgentProblem:
        """Return the problem of these options, or raise `InvalidInput`."""
        if bundle is not None:
            for option, given in (("dim", table.dim), ("features", features)):
                if given is not None:
                    allowed = (
                        f"none: --{option} and --bundle exclude each other, because the bundle "
                    )
                    allowed += "has the federation's problem and its schema"
                    raise InvalidInput(option, _plain(given), allowed)
            with extra():
                from fedglb.federation.bundle import Bundle
            found = Bundle.read(bundle)
            agreement = found.agreement
            return cls(agreement.problem, agreement.features, found.client, found.federation)
        if features is None:
            if table.dim is None:
                allowed = "a number: --dim or --features is required without --bundle"
                raise InvalidInput("dim", None, allowed)
            return cls(table.build(), None)
        if table.dim is not None:
            allowed = (
                "none: --dim and --features exclude each other, because the schema has its own"
            )
            raise InvalidInput("dim", table.dim, allowed)
        schema = Features.read(features)
        return cls(table.build(schema.dim), schema)


def _plain(value: int | Path) -> int | str:
    return str(value) if isinstance(value, Path) else value
