"""Choose S, c_μ, λ and the exploration by one rule, on seeds that no result reports.

Each candidate is one setting for all algorithms. The rule takes the candidate at which the
algorithms lose least, on average, against the candidate that would be best for each of them
alone: it minimises the mean over algorithms of log(regret / the algorithm's own least regret).
`race.py` stops candidates that cannot win any more.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeAlias

import msgspec
import polars as pl

from fedglb.algorithms.catalog import parameters
from fedglb.errors import Place
from fedglb.studies.results.store import SweepResult
from fedglb.studies.run.race import Raced, mean, score
from fedglb.studies.spec.experiment import Experiment
from fedglb.studies.spec.grid import as_tables, family
from fedglb.studies.spec.plan import INFIMUM, JOINTLY, Plan, SearchTable, left_alone

RULE = (
    "One setting for all algorithms: of all candidates the one with the least mean, over the "
    "algorithms of the search, of log(regret / least regret of this algorithm over all "
    "candidates); regrets are means over the search's seeds, none of which is reported, and "
    "count as 1 where they are less."
)
FOR_EACH_RULE = (
    "Each algorithm has its own setting: of all candidates the one with its least regret, a mean "
    "over the search's seeds, none of which is reported."
)
STOPPED = (
    "A candidate is stopped once its regret so far, which can only grow, puts it behind a "
    "completed one: it cannot win any more. Its regret is then a lower bound."
)
#: A sweep: read, or its tables.
Sweep: TypeAlias = Experiment | dict[str, Any]
#: Runs a sweep and returns its result; the text describes it to the user.
RunSweep: TypeAlias = Callable[[Sweep, str], SweepResult]
#: Runs candidates for as long as they can win: their sweeps' tables, for each its regrets so far by
#: algorithm and seed, and the limit.
RunRace: TypeAlias = Callable[
    [Sequence[dict[str, Any]], Sequence[Sequence[Sequence[float]]], float], Sequence[Raced]
]


@dataclass(frozen=True)
class Candidate:
    """One setting that the search tries; None: the file's value, or the default."""

    radius: float | None = None  # S
    curvature: float | str | None = None  # c_μ; "infimum": the link's own infimum on the ball
    ridge: float | None = None  # λ
    exploration: float | None = None  # the factor on the lemmas' radii; None: α is fixed
    alpha: float | None = None  # a fixed α; None: the lemmas' radii

    def of_problem(self) -> dict[str, Any]:
        """Return its values for `[problem]`."""
        values = {"radius": self.radius, "curvature": self.curvature}
        return {key: value for key, value in values.items() if value not in (None, INFIMUM)}

    def of_algorithm(self) -> dict[str, Any]:
        """Return its values for an algorithm."""
        values: dict[str, Any] = {"ridge": self.ridge, "exploration": self.exploration}
        if self.alpha is not None:
            values["confidence"] = {"fixed": self.alpha}
        return {key: value for key, value in values.items() if value is not None}


def candidates(search: SearchTable) -> list[Candidate]:
    """Return all candidates; those with the same problem are neighbours."""
    none = (None,)
    explorations = [(e, None) for e in search.exploration] + [(None, a) for a in search.alpha]
    return [
        Candidate(S, c, ridge, exploration, alpha)
        for S in search.radius or none
        for c in search.curvature or none
        for ridge in search.ridge or none
        for exploration, alpha in explorations
    ]


def separate(plan: Plan) -> list[Plan]:
    """Return a plan's searches: one for all algorithms, or one for each."""
    assert plan.search is not None
    if plan.search.choose == JOINTLY:
        return [plan]
    made = []
    for table in plan.search.algorithm:
        every = [t for t in as_tables(plan.tables["algorithm"]) if not left_alone(t)]
        own = [t for t in every if t.get("name") == table.get("name")]
        takes = parameters(str(table.get("name")))
        defaults = {k: v for k, v in plan.tables.get("defaults", {}).items() if k in takes}
        tables = {**plan.tables, "algorithm": own or [table], "defaults": defaults}
        search = msgspec.structs.replace(plan.search, algorithm=[table])
        made.append(replace(plan, tables=tables, search=search))
    return made


def choose(
    plan: Plan, begun: Sequence[Sequence[Sweep]], run: RunSweep, race: RunRace
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Search; return the tables of sweeps with the chosen values, and the facts about the choice.

    `begun` has, for each of the searches that are `separate`, its sweeps on the first seed. The
    second result is for the report: the rule, the choice, and for each algorithm its regret at the
    choice and at the candidate that is best for it alone.
    """
    search = plan.search
    assert search is not None
    found = [
        _chosen(each, *_tried(each, own, run, race))
        for each, own in zip(separate(plan), begun, strict=True)
    ]
    if search.choose == JOINTLY:
        ((tables, how),) = found
        return [tables], how
    made, each = [tables for tables, _ in found], [how for _, how in found]
    others = [table for table in as_tables(plan.tables["algorithm"]) if left_alone(table)]
    if others:  # as in the file
        made.append({**plan.tables, "algorithm": others, "defaults": {}})
    return made, {
        "rule": f"{FOR_EACH_RULE} {STOPPED}" if len(search.seeds) > 1 else FOR_EACH_RULE,
        "seeds": search.seeds, "horizon": each[0]["horizon"],
        "candidates": each[0]["candidates"], "stopped": sum(how["stopped"] for how in each),
        "chosen": {}, "algorithms": [a for how in each for a in how["algorithms"]],
        "not_searched": _not_searched(plan, search),
        "tried": [{"algorithm": how["algorithms"][0]["label"], **t}
                  for how in each for t in how["tried"]],
    }  # fmt: skip


def _tried(
    plan: Plan, begun: Sequence[Sweep], run: RunSweep, race: RunRace
) -> tuple[list[str], list[Raced]]:
    """Return the names of the algorithms and the result of each candidate.

    All candidates run on the first seed. The leader there also runs on the others, then every other
    candidate, for as long as it can still beat the leader.
    """
    search = plan.search
    assert search is not None
    every, rest = candidates(search), search.seeds[1:]
    first: list[list[list[float]]] = []  # regrets: by candidate, algorithm, seed
    labels: list[str] = []
    for i, sweep in enumerate(begun):
        result = run(sweep, f"search {i + 1} of {len(begun)}")
        regrets, labels = _regrets(result, len(search.algorithm))
        first += regrets
    horizon = _horizon(plan)
    tried = [Raced([mean(seeds) for seeds in row], horizon) for row in first]
    if rest:
        leader, *others = sorted(range(len(every)), key=lambda c: score(tried[c].regrets))
        completed = run(
            searches(plan, [every[leader]], rest)[0], "search, the first to be completed"
        )
        ((ended,), _) = _regrets(completed, len(search.algorithm))
        both = [[*one, *more] for one, more in zip(first[leader], ended, strict=True)]
        tried[leader] = Raced([mean(seeds) for seeds in both], horizon * len(search.seeds))
        tables = [searches(plan, [every[c]], rest)[0] for c in others]
        raced = race(tables, [first[c] for c in others], score(tried[leader].regrets))
        for c, made in zip(others, raced, strict=True):
            tried[c] = made
    return labels, tried


def _chosen(
    plan: Plan, labels: Sequence[str], tried: Sequence[Raced]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the tables of the best candidate, and the facts about the choice."""
    search = plan.search
    assert search is not None
    every, horizon = candidates(search), _horizon(plan)
    whole = [c for c, made in enumerate(tried) if made.steps == horizon * len(search.seeds)]
    chosen = min(whole, key=lambda c: score(tried[c].regrets))
    algorithms, best = [], []
    for a, label in enumerate(labels):
        own = min(whole, key=lambda c: tried[c].regrets[a])
        best.append(tried[own].regrets[a])
        algorithms.append(
            {
                "label": label, "regret_at_chosen": tried[chosen].regrets[a],
                "own_best": asdict(every[own]), "regret_at_own_best": best[a],
                # a stopped one might have had less
                "own_best_is_sure": best[a] <= min(made.regrets[a] for made in tried),
            }
        )  # fmt: skip
    return with_choice(plan.tables, every[chosen]), {
        "rule": f"{RULE} {STOPPED}" if len(search.seeds) > 1 else RULE,
        "seeds": search.seeds, "horizon": horizon,
        "candidates": len(every), "stopped": len(every) - len(whole),
        "chosen": asdict(every[chosen]),
        "mean_log_loss": score(tried[chosen].regrets) - score(best), "algorithms": algorithms,
        "not_searched": _not_searched(plan, search),
        "tried": [
            {**asdict(c), "regrets": made.regrets, "steps": made.steps}
            for c, made in zip(every, tried, strict=True)
        ],
    }  # fmt: skip


def _horizon(plan: Plan) -> int:
    """Return the horizon of a search: its own, or the file's."""
    assert plan.search is not None
    return int(plan.tables["horizon"] if plan.search.horizon is None else plan.search.horizon)


def with_choice(tables: dict[str, Any], candidate: Candidate) -> dict[str, Any]:
    """Return a sweep's tables with a candidate's values as problem and defaults."""
    return {
        **tables,
        **_problem(tables, candidate),
        "defaults": {**tables.get("defaults", {}), **candidate.of_algorithm()},
    }


def _problem(tables: dict[str, Any], candidate: Candidate) -> dict[str, Any]:
    """Return the problem with a candidate's values; empty if the environment has a problem."""
    chosen = candidate.of_problem()
    said = tables.get("problem", {})
    if not chosen and ("problem" not in tables or not isinstance(said, Mapping)):
        return {}
    return {"problem": {**said, **chosen}}


def searches(plan: Plan, every: Sequence[Candidate], seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Return the sweeps of candidates on seeds, one per problem: each algorithm with all of them.

    Each problem has one sweep, because S changes the rewards and c_μ the problem.
    """
    search = plan.search
    assert search is not None
    groups = [list(group) for _, group in itertools.groupby(every, key=Candidate.of_problem)]
    return [
        {
            **plan.tables,
            "name": f"{plan.name}-search",
            "seeds": list(seeds),
            "horizon": _horizon(plan),
            **_problem(plan.tables, group[0]),
            "algorithm": [
                {**algorithm, **candidate.of_algorithm()}
                for algorithm in search.algorithm
                for candidate in group
            ],
        }
        for group in groups
    ]


def in_search(path: Place, candidates_each: int, first: int = 0) -> Place:
    """Turn a place in the tables of a search's sweep into the place in the file.

    `first` is the place of the sweep's first algorithm among those of the search.
    """
    match path:
        case ("algorithm", int(index), *inner):
            return ("search", "algorithm", first + index // candidates_each, *inner)
        case ("seeds" | "horizon" | "algorithm", *_):
            return ("search", *path)
    return path


def _not_searched(plan: Plan, search: SearchTable) -> list[str]:
    """Return the reported algorithms that are not in the search."""
    took_part = {family((), table) for table in search.algorithm}
    reported = {family((), table) for table in as_tables(plan.tables["algorithm"])}
    return sorted(reported - took_part)


def _regrets(result: SweepResult, algorithms: int) -> tuple[list[list[list[float]]], list[str]]:
    """Return regrets by candidate, algorithm and seed, and the algorithms' names."""
    runs = result.runs.group_by("label", maintain_order=True).agg(
        "regret", pl.col("algorithm", "threshold", "updates").first()
    )
    regrets = runs["regret"].to_list()
    count = len(regrets) // algorithms
    names = [_name(runs.row(a * count, named=True)) for a in range(algorithms)]
    return [[regrets[a * count + c] for a in range(algorithms)] for c in range(count)], names


def _name(row: dict[str, Any]) -> str:
    """Return an algorithm's name and its D or B, if it has one."""
    if row["threshold"] is not None:
        return f"{row['algorithm']} D={row['threshold']:g}"
    if row["updates"] is not None:
        return f"{row['algorithm']} B={row['updates']}"
    return str(row["algorithm"])
