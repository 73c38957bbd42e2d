"""Choose S, c_μ, λ and how much to explore: by one rule, on seeds that no result reports.

Each candidate is one setting for all algorithms. The rule takes the candidate at which the
algorithms lose least, on average, against the candidate that would be best for each of them
alone: it minimises the mean over algorithms of log(regret / the algorithm's own least regret).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import polars as pl

from fedglb.errors import Place
from fedglb.reproduce.plan import INFIMUM, Plan, SearchTable
from fedglb.sweeps import SweepResult

RULE = (
    "One setting for all algorithms: of all candidates the one with the least mean, over the "
    "algorithms of the search, of log(regret / least regret of this algorithm over all "
    "candidates); regrets are means over the search's seeds, none of which is reported, and "
    "count as 1 where they are less."
)
#: Smaller regrets count as this: a ratio to almost no regret would outweigh all others.
_LEAST = 1.0

#: Runs the sweep of these tables and returns its result; the text describes it to the user.
RunSweep: TypeAlias = Callable[[dict[str, Any], str], SweepResult]


@dataclass(frozen=True)
class Candidate:
    """One setting that the search tries; None: the file's value, or the default.

    Attributes
    ----------
    radius
        S.
    curvature
        c_μ; "infimum": the link's own infimum on the ball.
    ridge
        λ.
    exploration
        The factor on the lemmas' radii; None: α is fixed.
    alpha
        A fixed α; None: the lemmas' radii.
    """

    radius: float | None = None
    curvature: float | str | None = None
    ridge: float | None = None
    exploration: float | None = None
    alpha: float | None = None

    def of_problem(self) -> dict[str, Any]:
        """Return its values for `[problem]`."""
        said = {"radius": self.radius, "curvature": self.curvature}
        return {key: value for key, value in said.items() if value not in (None, INFIMUM)}

    def of_algorithm(self) -> dict[str, Any]:
        """Return its values for an algorithm."""
        said: dict[str, Any] = {"ridge": self.ridge, "exploration": self.exploration}
        if self.alpha is not None:
            said["confidence"] = {"fixed": self.alpha}
        return {key: value for key, value in said.items() if value is not None}


def candidates(search: SearchTable) -> list[Candidate]:
    """Return all candidates; those with the same problem are neighbours.

    Examples
    --------
    >>> search = SearchTable([101], [{"name": "n-ons-glm"}], ridge=[1.0], exploration=[0.1, 1.0])
    >>> [c.exploration for c in candidates(search)]
    [0.1, 1.0]
    """
    none = (None,)
    explorations = [(e, None) for e in search.exploration] + [(None, a) for a in search.alpha]
    return [
        Candidate(S, c, ridge, exploration, alpha)
        for S in search.radius or none
        for c in search.curvature or none
        for ridge in search.ridge or none
        for exploration, alpha in explorations
    ]


def choose(plan: Plan, run: RunSweep) -> tuple[dict[str, Any], dict[str, Any]]:
    """Search; return the tables with the chosen values, and how they were chosen.

    The second is for the report: the rule, the choice, and for each algorithm its regret at the
    choice and at the candidate that is best for it alone.
    """
    search = plan.search
    assert search is not None
    every = candidates(search)
    sweeps = searches(plan, every)
    regrets: list[list[float]] = []  # one row per candidate, one column per algorithm
    labels: list[str] = []
    for i, tables in enumerate(sweeps):
        result = run(tables, f"search {i + 1} of {len(sweeps)}")
        means, labels = _regrets(result, len(search.algorithm))
        regrets += means
    best = [min(row[a] for row in regrets) for a in range(len(labels))]
    chosen = min(range(len(every)), key=lambda c: loss(regrets[c], best))
    algorithms = []
    for a, label in enumerate(labels):
        own = min(range(len(every)), key=lambda c: regrets[c][a])
        algorithms.append(
            {
                "label": label, "regret_at_chosen": regrets[chosen][a],
                "own_best": asdict(every[own]), "regret_at_own_best": regrets[own][a],
            }
        )  # fmt: skip
    how = {
        "rule": RULE, "seeds": search.seeds, "horizon": sweeps[0]["horizon"],
        "candidates": len(every), "chosen": asdict(every[chosen]),
        "mean_log_loss": loss(regrets[chosen], best), "algorithms": algorithms,
        "not_searched": _not_searched(plan, search),
        "tried": [{**asdict(c), "regrets": row} for c, row in zip(every, regrets, strict=True)],
    }  # fmt: skip
    return with_choice(plan.tables, every[chosen]), how


def loss(regrets: Sequence[float], best: Sequence[float]) -> float:
    """Return the mean of log(regret / best regret).

    Examples
    --------
    >>> round(loss([2.0, 8.0], [1.0, 4.0]), 4), loss([0.5], [0.0])
    (0.6931, 0.0)
    """
    pairs = zip(regrets, best, strict=True)
    return math.fsum(math.log(max(r, _LEAST) / max(b, _LEAST)) for r, b in pairs) / len(best)


def with_choice(tables: dict[str, Any], candidate: Candidate) -> dict[str, Any]:
    """Return a sweep's tables with a candidate's values as problem and defaults."""
    return {
        **tables,
        "problem": {**tables.get("problem", {}), **candidate.of_problem()},
        "defaults": {**tables.get("defaults", {}), **candidate.of_algorithm()},
    }


def searches(plan: Plan, every: Sequence[Candidate]) -> list[dict[str, Any]]:
    """Return the sweeps of a search, one per problem: each algorithm with all candidates."""
    search = plan.search
    assert search is not None
    groups = [list(group) for _, group in itertools.groupby(every, key=Candidate.of_problem)]
    return [
        {
            **plan.tables,
            "name": f"{plan.name}-search",
            "seeds": search.seeds,
            "horizon": plan.tables["horizon"] if search.horizon is None else search.horizon,
            "problem": {**plan.tables.get("problem", {}), **group[0].of_problem()},
            "algorithm": [
                {**algorithm, **candidate.of_algorithm()}
                for algorithm in search.algorithm
                for candidate in group
            ],
        }
        for group in groups
    ]


def in_search(path: Place, candidates_each: int) -> Place:
    """Turn a place in the tables of a search's sweep into the place in the file.

    Examples
    --------
    >>> in_search(("algorithm", 5, "threshold"), candidates_each=2)
    ('search', 'algorithm', 2, 'threshold')
    """
    match path:
        case ("algorithm", int(index), *inner):
            return ("search", "algorithm", index // candidates_each, *inner)
        case ("seeds" | "horizon" | "algorithm", *_):
            return ("search", *path)
    return path


def _not_searched(plan: Plan, search: SearchTable) -> list[str]:
    """Return the algorithms that are reported but took no part in the search."""
    took_part = {table.get("name") for table in search.algorithm}
    reported = (table.get("name") for table in plan.tables["algorithm"])
    return sorted({str(name) for name in reported if name not in took_part})


def _regrets(result: SweepResult, algorithms: int) -> tuple[list[list[float]], list[str]]:
    """Return the mean regret of each candidate, by algorithm, and the algorithms' names."""
    runs = result.runs.group_by("label", maintain_order=True).agg(
        pl.col("regret").mean(), pl.col("algorithm", "threshold", "updates").first()
    )
    means = runs["regret"].to_list()
    count = len(means) // algorithms
    names = [_name(runs.row(a * count, named=True)) for a in range(algorithms)]
    return [[means[a * count + c] for a in range(algorithms)] for c in range(count)], names


def _name(row: dict[str, Any]) -> str:
    """Return an algorithm's name and its D or B, if it has one."""
    if row["threshold"] is not None:
        return f"{row['algorithm']} D={row['threshold']:g}"
    if row["updates"] is not None:
        return f"{row['algorithm']} B={row['updates']}"
    return str(row["algorithm"])
