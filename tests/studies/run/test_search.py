"""The search: its rule, checked on regrets made up here; its sweeps, on real ones."""

from __future__ import annotations

import math

import polars as pl
import pytest

import fedglb as fg
from fedglb.studies.run.race import Raced, mean, score
from fedglb.studies.run.search import candidates, choose, searches
from fedglb.studies.spec.plan import read_plan
from tests.studies.spec.test_plan import FILE


def searched(**changes):
    algorithms = [{"name": "fedglb-ucb", "threshold": 1.0}, {"name": "dislinucb", "threshold": 2.0}]
    search = {
        "seeds": [101, 102], "radius": [1.0, 3.0], "curvature": ["infimum", 0.1], "alpha": [0.3],
        "exploration": [0.1, 1.0], "algorithm": algorithms,
    }  # fmt: skip
    return read_plan({**FILE, "search": {**search, **changes}}, "full")


class Made:
    """Stands in for sweeps: the regret of every run is what `regret(row)` says."""

    def __init__(self, regret):
        self.regret, self.documents, self.raced = regret, [], []

    def __call__(self, tables, text):
        experiment = fg.read_experiment(tables)
        self.documents.append(tables)
        rows = [
            {
                "label": c.label, "algorithm": c.preset, "threshold": c.parameters["threshold"],
                "updates": None, "seed": seed,
                "regret": self.regret(c, experiment.env.problem, seed),
            }
            for c in experiment.configurations
            for seed in experiment.seeds
        ]  # fmt: skip
        runs = pl.DataFrame(rows, schema_overrides={"updates": pl.Int64})
        return fg.SweepResult(runs, pl.DataFrame(), {})

    def race(self, sweeps, before, limit):
        """Every candidate to the end, or half of its way where it cannot win any more."""
        made = []
        for tables, known in zip(sweeps, before, strict=True):
            self.raced.append(tables)
            experiment = fg.read_experiment(tables)
            regrets = [
                mean([*k, *(self.regret(c, experiment.env.problem, s) for s in experiment.seeds)])
                for k, c in zip(known, experiment.configurations, strict=True)
            ]
            cannot = score([r / 2 for r in regrets]) > limit
            made.append(
                Raced([r / 2 for r in regrets], experiment.horizon)
                if cannot
                else Raced(regrets, 2 * experiment.horizon)
            )
        return made


def chosen(plan, made):
    """The tables and how they were chosen, with `made` in place of sweeps."""
    begun = searches(plan, candidates(plan.search), plan.search.seeds[:1])
    (tables,), how = choose(plan, [begun], made, made.race)
    return tables, how


def search(plan, regret):
    return chosen(plan, Made(regret))


def test_the_rule_takes_the_least_mean_log_ratio():
    # FedGLB-UCB likes S = 3 a little, DisLinUCB dislikes it a lot; both like a fixed radius.
    def regret(c, problem, seed):
        fed = c.preset == "fedglb-ucb"
        at = (8.0 if problem.S == 3 else 10.0) if fed else (50.0 if problem.S == 3 else 10.0)
        curved = 1.0 if problem.curvature == 0.1 else 1.5
        fixed = 1.0 if c.parameters["confidence"] == "fixed=0.3" else 2.0
        return at * curved * fixed + (seed - 101.5)  # means over seeds: without the last term

    tables, how = search(searched(), regret)
    assert how["chosen"] == {
        "radius": 1.0, "curvature": 0.1, "ridge": None, "exploration": None, "alpha": 0.3,
    }  # fmt: skip
    assert how["candidates"] == 2 * 2 * 3
    assert how["mean_log_loss"] == pytest.approx(math.log(10 / 8) / 2)
    fed, linear = how["algorithms"]
    assert (fed["label"], linear["label"]) == ("fedglb-ucb D=1", "dislinucb D=2")
    assert (fed["regret_at_chosen"], fed["regret_at_own_best"]) == (10.0, 8.0)
    assert fed["own_best"]["radius"] == 3.0
    assert linear["regret_at_chosen"] == linear["regret_at_own_best"] == 10.0
    assert tables["problem"] == {"dim": 3, "radius": 1.0, "curvature": 0.1}
    assert tables["defaults"] == {"confidence": {"fixed": 0.3}}
    assert tables["seeds"] == 2


def test_it_never_looks_at_a_seed_that_is_reported():
    made = Made(lambda c, problem, seed: float(seed))
    chosen(searched(), made)
    *begun, completed = [document["seeds"] for document in made.documents]
    assert begun == [[101]] * 4  # one a problem
    assert completed == [102]
    assert [tables["seeds"] for tables in made.raced] == [[102]] * 11


def test_those_that_lead_on_the_first_seed_are_raced_first_against_the_one_that_leads():
    def regret(c, problem, seed):
        return problem.S * (10.0 if problem.curvature == 0.1 else 20.0)

    made = Made(regret)
    _, how = chosen(searched(alpha=[], exploration=[0.1]), made)
    assert made.documents[-1]["problem"] == {"dim": 3, "radius": 1.0, "curvature": 0.1}
    raced = [tables["problem"] for tables in made.raced]
    assert [(p["radius"], p.get("curvature")) for p in raced] == [
        (1.0, None),
        (3.0, 0.1),
        (3.0, None),
    ]
    assert how["stopped"] == 2
    assert [row["steps"] for row in how["tried"]] == [40, 40, 20, 20]


def test_what_a_stopped_candidate_might_have_reached_is_said():
    # At S = 3 DisLinUCB fails, so this candidate is stopped; FedGLB-UCB might have been best there.
    def regret(c, problem, seed):
        return (15.0 if problem.S == 3 else 10.0) if c.preset == "fedglb-ucb" else problem.S**9

    _, how = search(searched(curvature=[], alpha=[], exploration=[0.1]), regret)
    assert how["stopped"] == 1
    fed, linear = how["algorithms"]
    assert not fed["own_best_is_sure"]  # 7.5 after half of the steps, which may be all
    assert linear["own_best_is_sure"]
    assert fed["own_best"]["radius"] == 1.0
    assert how["tried"][1]["regrets"][0] == 7.5


def test_a_regret_of_zero_outweighs_nothing():
    # Below 1 all regrets are alike: FedGLB-UCB's 0 must not cost DisLinUCB five times its own.
    def regret(c, problem, seed):
        fed = c.preset == "fedglb-ucb"
        return (0.0 if fed else 500.0) if problem.S == 3 else (1.0 if fed else 100.0)

    _, how = search(searched(), regret)
    assert how["chosen"]["radius"] == 1.0


def test_the_search_has_its_own_horizon_or_the_file_s():
    for horizon, expected in ((7, 7), (None, 20)):
        made = Made(lambda c, problem, seed: 1.0)
        _, how = chosen(searched(horizon=horizon), made)
        assert {document["horizon"] for document in made.documents} == {expected}
        assert how["horizon"] == expected


def test_who_took_no_part_is_named():
    plan = read_plan({**FILE, "algorithm": [*FILE["algorithm"], {"name": "n-ons-glm"}]}, "full")
    _, how = search(plan, lambda c, problem, seed: 1.0)
    assert how["not_searched"] == ["n-ons-glm"]
