"""Choose S, c_μ, λ and how much to explore: by one rule, on seeds that no result reports.

Each candidate is one setting for all algorithms. The rule takes the candidate at which the
algorithms lose least, on average, against the candidate that would be best for each of them
alone: it minimises the mean over algorithms of log(regret / the algorithm's own least regret).
`rule.py` has the rule, `race.py` stops candidates that cannot win any more.
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
from fedglb.studies.run.race import Raced
from fedglb.studies.run.rule import FOR_EACH_RULE, RULE, STOPPED, loss, mean, score
from fedglb.studies.spec.algorithms import as_tables, family
from fedglb.studies.spec.plan import INFIMUM, Plan, SearchTable, left_alone

#: Runs the sweep of these tables and returns its result; the text describes it to the user.
RunSweep: TypeAlias = Callable[[dict[str, Any], str], SweepResult]
#: Runs candidates for as long as they can win: their sweeps' tables, for each its regrets so far by
#: algorithm and seed, and the limit.
RunRace: TypeAlias = Callable[
    [Sequence[dict[str, Any]], Sequence[Sequence[Sequence[float]]], float], Sequence[Raced]
]


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


def choose(plan: Plan, run: RunSweep, race: RunRace) -> tuple[dict[str, Any], dict[str, Any]]:
    """Search; return the tables with the chosen values, and how they were chosen.

    All candidates are run on the first seed. The one that leads there is run on the others too, and
    then every other candidate, for as long as it can still beat that one.

    The second result is for the report: the rule, the choice, and for each algorithm its regret at
    the choice and at the candidate that is best for it alone.
    """
    search = plan.search
    assert search is not None
    every = candidates(search)
    first, *rest = search.seeds
    sweeps = searches(plan, every, [first])
    begun: list[list[list[float]]] = []  # regrets: by candidate, algorithm, seed
    labels: list[str] = []
    for i, tables in enumerate(sweeps):
        result = run(tables, f"search {i + 1} of {len(sweeps)}")
        regrets, labels = _regrets(result, len(search.algorithm))
        begun += regrets
    horizon = int(sweeps[0]["horizon"])
    tried = [Raced([mean(seeds) for seeds in row], horizon) for row in begun]
    if rest:
        order = sorted(range(len(every)), key=lambda c: score(tried[c].regrets))
        leader, *others = order
        ((ended,), _) = _regrets(
            run(searches(plan, [every[leader]], rest)[0], "search, the first to be completed"),
            len(search.algorithm),
        )
        both = [[*one, *more] for one, more in zip(begun[leader], ended, strict=True)]
        tried[leader] = Raced([mean(seeds) for seeds in both], horizon * len(search.seeds))
        limit = score(tried[leader].regrets)
        tables_of = [searches(plan, [every[c]], rest)[0] for c in others]
        raced = race(tables_of, [begun[c] for c in others], limit)
        for c, made in zip(others, raced, strict=True):
            tried[c] = made
    return _chosen(plan, every, labels, tried, horizon)


def choose_for_each(
    plan: Plan, run: RunSweep, race: RunRace
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Search for each algorithm alone; return a sweep's tables for each, and how they were chosen.

    Algorithms that a search does not touch come last, as the file has them.
    """
    assert plan.search is not None
    made, found = [], []
    for table in plan.search.algorithm:
        alone = _only(plan, table)
        tables, how = choose(alone, run, race)
        made.append(tables)
        found.append(how)
    others = [table for table in as_tables(plan.tables["algorithm"]) if left_alone(table)]
    if others:
        made.append({**plan.tables, "algorithm": others, "defaults": {}})
    joined = {
        "rule": f"{FOR_EACH_RULE} {STOPPED}" if len(plan.search.seeds) > 1 else FOR_EACH_RULE,
        "seeds": plan.search.seeds, "horizon": found[0]["horizon"],
        "candidates": found[0]["candidates"], "stopped": sum(how["stopped"] for how in found),
        "chosen": {}, "algorithms": [a for how in found for a in how["algorithms"]],
        "not_searched": _not_searched(plan, plan.search),
        "tried": [{"algorithm": how["algorithms"][0]["label"], **t}
                  for how in found for t in how["tried"]],
    }  # fmt: skip
    return made, joined


def _only(plan: Plan, table: dict[str, Any]) -> Plan:
    """Return the plan of one algorithm of the search."""
    assert plan.search is not None
    every = [t for t in as_tables(plan.tables["algorithm"]) if not left_alone(t)]
    own = [t for t in every if t.get("name") == table.get("name")]
    takes = parameters(str(table.get("name")))
    defaults = {k: v for k, v in plan.tables.get("defaults", {}).items() if k in takes}
    tables = {**plan.tables, "algorithm": own or [table], "defaults": defaults}
    return replace(
        plan, tables=tables, search=msgspec.structs.replace(plan.search, algorithm=[table])
    )


def _chosen(
    plan: Plan,
    every: Sequence[Candidate],
    labels: Sequence[str],
    tried: Sequence[Raced],
    horizon: int,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what `choose` does, from how far each candidate came."""
    search = plan.search
    assert search is not None
    whole = [c for c, made in enumerate(tried) if made.steps == horizon * len(search.seeds)]
    chosen = min(whole, key=lambda c: score(tried[c].regrets))
    stopped = len(every) - len(whole)
    algorithms, best = [], []
    for a, label in enumerate(labels):
        own = min(whole, key=lambda c: tried[c].regrets[a])
        best.append(tried[own].regrets[a])
        algorithms.append(
            {
                "label": label, "regret_at_chosen": tried[chosen].regrets[a],
                "own_best": asdict(every[own]), "regret_at_own_best": best[a],
                # one that was stopped might have had less
                "own_best_is_sure": best[a] <= min(made.regrets[a] for made in tried),
            }
        )  # fmt: skip
    how = {
        "rule": f"{RULE} {STOPPED}" if len(search.seeds) > 1 else RULE,
        "seeds": search.seeds, "horizon": horizon,
        "candidates": len(every), "stopped": stopped, "chosen": asdict(every[chosen]),
        "mean_log_loss": loss(tried[chosen].regrets, best), "algorithms": algorithms,
        "not_searched": _not_searched(plan, search),
        "tried": [
            {**asdict(c), "regrets": made.regrets, "steps": made.steps}
            for c, made in zip(every, tried, strict=True)
        ],
    }  # fmt: skip
    return with_choice(plan.tables, every[chosen]), how


def with_choice(tables: dict[str, Any], candidate: Candidate) -> dict[str, Any]:
    """Return a sweep's tables with a candidate's values as problem and defaults."""
    return {
        **tables,
        **_problem(tables, candidate),
        "defaults": {**tables.get("defaults", {}), **candidate.of_algorithm()},
    }


def _problem(tables: dict[str, Any], candidate: Candidate) -> dict[str, Any]:
    """Return the problem with a candidate's values; nothing where it is not the file's to say."""
    chosen = candidate.of_problem()
    said = tables.get("problem", {})
    if not chosen and ("problem" not in tables or not isinstance(said, Mapping)):
        return {}
    return {"problem": {**said, **chosen}}


def searches(plan: Plan, every: Sequence[Candidate], seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Return the sweeps of candidates on seeds, one per problem: each algorithm with all of them.

    A problem has a sweep of its own because S changes the rewards and c_μ what is known of them.
    """
    search = plan.search
    assert search is not None
    groups = [list(group) for _, group in itertools.groupby(every, key=Candidate.of_problem)]
    return [
        {
            **plan.tables,
            "name": f"{plan.name}-search",
            "seeds": list(seeds),
            "horizon": plan.tables["horizon"] if search.horizon is None else search.horizon,
            **_problem(plan.tables, group[0]),
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
