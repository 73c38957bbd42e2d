"""An experiment is read as it is meant, or refused with file, key and what is allowed."""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from pathlib import Path

import numpy as np
import pytest
from joblib.externals.loky import get_reusable_executor

import fedglb as fg
from fedglb.environments.datasets import DATASETS
from fedglb.environments.partial import stretches
from fedglb.studies.spec.plan import read_plan
from tests.studies.tiny import TOML, tables

EXPERIMENTS = Path(__file__).parents[3] / "experiments"
NAMES = sorted(path.stem for path in EXPERIMENTS.glob("*.toml"))
REAL = ["covertype", "magic", "mushroom"]


def labels(*algorithms, **changes):
    experiment = fg.read_experiment(tables(algorithm=list(algorithms), **changes))
    return [c.label for c in experiment.configurations]


def test_the_paper_figure():
    experiment = fg.read_experiment(read_plan("synthetic", "full").tables)
    assert experiment.runs == (14 + 5 + 3 * 11 + 3 + 4 + 4) * 10
    assert experiment.seeds == tuple(range(1, 11))
    assert (experiment.env.clients, experiment.env.arms, experiment.horizon) == (200, 25, 2000)
    assert experiment.env.problem == fg.Problem(10, fg.Logistic())
    algorithms = [c.algorithm for c in experiment.configurations]
    thresholds = [c.parameters["threshold"] for c in experiment.configurations[:14]]
    assert (thresholds[0], thresholds[-1]) == (0.1, 5000.0)
    assert thresholds == sorted(thresholds)
    assert algorithms[6] == fg.fedglb_ucb(10.0, fg.Newton(), exploration=1.0)
    assert algorithms[19:30] == [
        fg.fedglb_ucb_1(b, fg.Newton()) for b in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
    ]
    assert algorithms[-11:-8] == [fg.one_ucb_glm(), fg.n_ucb_glm(), fg.n_ons_glm()]
    assert algorithms[-1] == fg.fedglb_auto(100.0)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in REAL])
def test_every_experiment_is_sound_and_named_as_its_file(name):
    path = EXPERIMENTS / f"{name}.toml"
    for profile in ("full", *tomllib.loads(path.read_text()).get("profile", {})):
        for cell in read_plan(path, profile).cells:
            assert fg.read_experiment(cell.tables).name == name


@pytest.mark.parametrize("name", REAL)
def test_every_experiment_on_real_data_is_sound_and_named_as_its_file(raw_files, name):
    test_every_experiment_is_sound_and_named_as_its_file(name)


def real(**environment):
    found = {"dataset": "magic", "clients": 3, **environment}
    return tables(environment=found, problem={"radius": 10.0})


def test_a_dataset_brings_its_arms_and_their_dimension(raw_files):
    env = fg.read_experiment(real(offered=4, scale="each", mode="member")).env
    assert env == fg.Classification(
        fg.Problem(11, radius=10.0), 3, fg.clustered("magic", mode="member", scale="each"), 4
    )
    assert fg.read_experiment(real()).env.arms == 32
    facts = env.facts()
    assert facts["feature_map_digest"] == env.data.feature_map.digest
    assert len(facts["rates"]) == 32


@pytest.fixture
def new_workers():
    """No worker of an earlier sweep is used, which has its environment; none is left behind."""
    get_reusable_executor().shutdown()
    yield
    get_reusable_executor().shutdown()


def test_a_sweep_on_real_data_runs_in_workers_and_says_what_it_ran_on(
    raw_files, new_workers, tmp_path
):
    result = fg.sweep(real(), tmp_path / "two", jobs=2)
    alone = fg.sweep(real(), tmp_path / "one", jobs=1)
    assert result.runs.equals(alone.runs)
    assert result.runs["regret"].min() > 0.0
    data = fg.read_experiment(real()).env.facts()
    assert result.manifest["data"] == data
    assert data["sha256"] == DATASETS["magic"].sha256
    text = json.dumps(data["feature_map"], sort_keys=True, separators=(",", ":"))
    assert data["feature_map_digest"] == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"dataset": "magik"}, r"environment.dataset = 'magik'.*did you mean magic"),
        ({"mode": "centre"}, "environment.mode = 'centre'.*centroid"),
        ({"offered": 33}, "environment.offered = 33"),
        ({"arms": 5}, "environment.arms = 5.*one of dataset, clients"),
        ({"clusters": "many"}, "environment.clusters = 'many'.*a whole number"),
    ],
)
def test_a_mistake_about_a_dataset_is_refused_by_key(raw_files, changed, said):
    with pytest.raises(fg.InvalidInput, match=said):
        fg.read_experiment(real(**changed))
    with pytest.raises(fg.InvalidInput, match=r"problem.dim = 10: .*11, the features of magic"):
        fg.read_experiment({**real(), "problem": {"dim": 10}})


def test_the_file_in_the_documentation_is_sound():
    text = (EXPERIMENTS.parent / "docs" / "research.md").read_text()
    tables = tomllib.loads(text.partition("```toml\n")[2].partition("```")[0])
    assert fg.read_experiment(tables).runs == (3 + 4 + 2 + 2) * 3


def test_grids_multiply_and_solvers_and_radii_come_in_words():
    experiment = fg.read_experiment(
        tables(
            algorithm=[
                {
                    "name": "fedglb-ucb",
                    "threshold": [1, math.inf],
                    "solver": ["lbfgs", {"name": "agd", "stop": "fixed", "rounds": 7}],
                    "confidence": ["iterate", {"fixed": 0.3}],
                }
            ]
        )
    )
    assert [c.algorithm for c in experiment.configurations] == [
        fg.fedglb_ucb(threshold, solver, 0.1, confidence=confidence)
        for threshold in (1, math.inf)
        for solver in (fg.LBFGS(), fg.AGD(stop="fixed", rounds=7))
        for confidence in (fg.Iterate(), fg.Fixed(0.3))
    ]
    assert experiment.configurations[3].label == (
        "FedGLB-UCB D=1 agd stop=fixed rounds=7 confidence=fixed=0.3"
    )


@pytest.mark.parametrize("preset", ["one-ucb-glm", "n-ucb-glm"])
def test_the_tolerance_of_an_exact_fit(preset):
    table = {"name": preset, "tolerance": [1e-3, 1e-6]}
    given = tables(algorithm=[table], defaults={"exploration": 0.1})
    made = fg.read_experiment(given).configurations
    expected = [fg.ALGORITHMS[preset](exploration=0.1, tolerance=e) for e in (1e-3, 1e-6)]
    assert [c.algorithm for c in made] == expected
    assert [c.parameters["tolerance"] for c in made] == [1e-3, 1e-6]
    assert made[0].label.endswith("tolerance=0.001")


def test_defaults_reach_only_those_that_take_them_and_yield_to_the_table():
    a, b, c = fg.read_experiment(
        tables(
            defaults={"ridge": 2.0, "updates": 3},
            algorithm=[
                {"name": "n-ons-glm"}, {"name": "fedglb-ucb-3"},
                {"name": "fedglb-ucb-3", "updates": 4},
            ],
        )
    ).configurations  # fmt: skip
    assert a.algorithm == fg.n_ons_glm(ridge=2.0)
    assert b.algorithm == fg.fedglb_ucb_3(3, ridge=2.0)
    assert c.algorithm == fg.fedglb_ucb_3(4, ridge=2.0)


def test_labels_say_what_differs_and_are_unique():
    near = [1.0, 1.0000000001]
    assert labels({"name": "n-ons-glm", "ridge": [1.0, 2.0]}, defaults={}) == [
        "N-ONS-GLM ridge=1", "N-ONS-GLM ridge=2",
    ]  # fmt: skip
    assert labels({"name": "fedglb-ucb", "threshold": near}) == [
        "FedGLB-UCB D=1.0 newton", "FedGLB-UCB D=1.0000000001 newton",
    ]  # fmt: skip


def test_seeds_are_a_number_or_a_list_and_can_be_given_apart():
    assert fg.read_experiment(tables(seeds=3)).seeds == (1, 2, 3)
    assert fg.read_experiment(tables(seeds=[7, 0])).seeds == (7, 0)
    assert fg.read_experiment(tables(), seeds=[5]).seeds == (5,)
    assert fg.read_experiment(tables(), seeds=np.int64(2)).seeds == (1, 2)
    for seeds in (0, [], [1, 1], [-1], ["a"], 1.5):
        with pytest.raises(fg.InvalidInput) as error:
            fg.read_experiment(tables(), seeds=seeds)
        assert error.value.argument.startswith("seeds")  # and not the file's


def test_numbers_of_numpy_are_numbers_for_workers_too():
    given = tables(
        horizon=np.int64(12), seeds=np.array([3, 7]), problem={"dim": np.int32(3)},
        algorithm=({"name": "fedglb-ucb", "threshold": (np.float32(3), np.int64(4))},),
    )  # fmt: skip
    plain = tables(seeds=[3, 7], algorithm=[{"name": "fedglb-ucb", "threshold": [3.0, 4]}])
    experiment = fg.read_experiment(given)
    assert experiment == fg.read_experiment(plain)
    assert fg.read_experiment(json.loads(experiment.document)) == experiment


def test_too_many_runs_are_refused_before_they_are_made():
    grid = {"from": 0.1, "to": 10.0, "points": 10_000}
    table = {"name": "fedglb-ucb", "threshold": grid, "ridge": grid, "delta": [0.1] * 10_000}
    with pytest.raises(fg.InvalidInput, match=r"at most 100,000 runs") as error:
        fg.read_experiment(tables(algorithm=[table], seeds=2))
    assert error.value.value == 2 * 10**12


def test_ranges_reach_from_the_smallest_number_to_the_largest():
    grid = {"from": 5e-324, "to": 1.7e308, "points": 5}
    table = {"name": "fedglb-ucb", "threshold": grid}
    made = fg.read_experiment(tables(algorithm=[table])).configurations
    thresholds = [c.parameters["threshold"] for c in made]
    steps = [math.log10(x) for x in thresholds]
    assert thresholds[0] == 5e-324
    assert thresholds[-1] == 1.7e308
    assert steps == pytest.approx(np.linspace(steps[0], steps[-1], 5).tolist(), rel=1e-9)


GOOD = TOML.format(horizon=12, seeds=4)
ALL = "[0.1, 1.0]"
#: What is replaced, by what (a new line goes to the end), and what the error says.
MISTAKES = [
    ("horizon", "horizn", "horizn = 12", "did you mean horizon"),
    ("dim", "dimm", "problem.dimm = 3", "dim, link"),
    ("arms", "arm", "environment.arm = 4", "clients, arms"),
    ("threshold", "thresold", f"algorithm[0].thresold = {ALL}", "did you mean threshold"),
    ("", "updates = 3", "algorithm[1].updates = 3", "exploration, ridge"),
    ("exploration", "explore", "defaults.explore = 0.1", "exploration"),
    ("exploration = 0.1", "updates = 3", "defaults.updates = 3", "an algorithm in the file"),
    ("horizon = 12", "", "horizon", "missing"),
    ("dim = 3", "", "problem.dim", "missing"),
    ('name = "n-ons-glm"', "ridge = 1.0", "algorithm[1].name", "n-ons-glm"),
    (f"threshold = {ALL}", "", "algorithm[0].threshold", "needs"),
    ("12", '"12"', "horizon = '12'", "a whole number"),
    ("12", "1.5", "horizon = 1.5", "whole number"),
    ("seeds = 4", 'seeds = "all"', "seeds = 'all'", "a whole number or a list"),
    ("seeds = 4", 'seeds = [1, "a"]', "seeds[1] = 'a'"),
    (ALL, '[0.1, "x"]', "algorithm[0].threshold[1] = 'x'", "number"),
    ("[problem]\ndim = 3", "[[problem]]\ndim = 3", "problem = [{'dim': 3}]", "a table"),
    (ALL, "[0.1, -1.0]", "algorithm[0].threshold[1] = -1.0", ">= 0"),
    ("", '[[algorithm]]\nname = "fedglb-ucb-1"\nupdates = [3, 13]',
     "algorithm[2].updates[1] = 13", "B = T = 12"),
    ("n-ons-glm", "n-ons", "algorithm[1].name = 'n-ons'", "n-ons-glm"),
    ("newton", "newtn", "defaults.solver = 'newtn'", "did you mean newton"),
    ('"newton"', '{name = "newton", memory = 3}', "defaults.solver.memory = 3", "tolerance, stop"),
    ('"newton"', '{name = "newton", tolerance = -1.0}', "defaults.solver.tolerance = -1.0", "> 0"),
    ('"newton"', "{tolerance = 1.0}", "defaults.solver.name", "agd"),
    ("", 'confidence = "iterat"', "algorithm[1].confidence = 'iterat'", "iterate"),
    ("", 'confidence = "fixed"', "{fixed = 0.3}"),
    ("", "confidence = {fixed = -1.0}", "algorithm[1].confidence.fixed = -1.0", ">= 0"),
    ("dim = 3", 'dim = 3\nlink = "logit"', "problem.link = 'logit'", "logistic"),
    ("dim = 3", 'dim = 3\nlink = "poisson"', "problem.noise = None"),
    ("arms = 4", "arms = 0", "environment.arms = 0", ">= 1"),
    ("seeds = 4", "seeds = 0", "seeds = 0", ">= 1"),
    ("seeds = 4", "seeds = [-1]", "seeds[0] = -1", ">= 0"),
    (ALL, "[]", "algorithm[0].threshold = []", "at least one"),
    (GOOD[GOOD.index("[problem]") :],
     "algorithm = []\nproblem = {dim = 3}\nenvironment = {clients = 2, arms = 4}",
     "algorithm = []", "at least one"),
    ("", '[[algorithm]]\nname = "n-ons-glm"', "algorithm[2]", "once"),
    (ALL, "[1, 1.0]", "algorithm[0]", "once"),
    (ALL, "{from = 0.1, to = 1.0}", "algorithm[0].threshold", "points"),
    (ALL, "{from = 1.0, to = 0.1, points = 3}", "algorithm[0].threshold.to = 0.1", "> 1"),
    (ALL, "{from = 0.1, to = 1.0, points = 1}", "algorithm[0].threshold.points = 1", ">= 2"),
    ('"tiny"', '"../tiny"', "name = '../tiny'", "letters"),
    ("", "=", "a TOML file", "line"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "said"), [(m[0], m[1], m[2:]) for m in MISTAKES])
def test_a_mistake_is_refused_by_file_and_key(old, new, said, tmp_path):
    text = GOOD.replace(old, new) if old else f"{GOOD}{new}\n"
    assert text != GOOD
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(fg.InvalidInput) as error:
        fg.read_experiment(path)
    for part in ["bad.toml", *said]:
        assert part in str(error.value)
    assert "\n" not in str(error.value)


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    for name in ("missing.toml", "binary.toml", "."):
        with pytest.raises(fg.InvalidInput, match=r"TOML file"):
            fg.read_experiment(tmp_path / name)
    with pytest.raises(fg.InvalidInput, match=r"dictionary"):
        fg.read_experiment(3)


# -- `[environment]` with keys that change it ----------------------------------------------------


def changed(**environment):
    return fg.read_experiment(tables(environment={"clients": 3, "arms": 4, **environment}))


def test_each_key_of_an_environment_is_one_around_another():
    plain = changed().env
    assert changed(heterogeneity=0.3).env == fg.Heterogeneous(plain, 0.3)
    assert changed(drift=0.01).env == fg.Drifting(plain, 0.01)
    assert changed(delay=5).env == fg.Delayed(plain, 5)
    assert changed(participation=0.2).env == fg.Partial(plain, 0.2)
    assert changed(imbalance=100).env == fg.Partial(plain, [1.0, 0.1, 0.01])
    assert changed(stay=5).env == stretches(plain, 5)
    assert changed(heterogeneity=0.3, directions=2).env == fg.Heterogeneous(plain, 0.3, 2)
    assert changed(group_spread=0.3).env == fg.Grouped(plain, 2, 0.3)
    assert changed(group_spread=0.3, groups=3).env == fg.Grouped(plain, 3, 0.3)
    assert changed(outliers=2).env == fg.Outliers(plain, 2)
    assert changed(walk=0.01).env == fg.Drifting(plain, 0.01, "walk")
    assert changed(jump=50).env == fg.Jump(plain, 50)
    together = changed(delay=5, participation=0.2, drift=0.01, heterogeneity=0.3).env
    inner = fg.Drifting(fg.Heterogeneous(plain, 0.3), 0.01)
    assert together == fg.Delayed(fg.Partial(inner, 0.2), 5)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"heterogeneity": -1.0}, r"environment\.heterogeneity = -1\.0"),
        ({"heterogeneity": 1.0, "directions": 99}, r"environment\.directions = 99"),
        ({"directions": 2}, r"environment\.directions = 2.*heterogeneity"),
        ({"group_spread": -1.0}, r"environment\.group_spread = -1\.0"),
        ({"groups": 2}, r"environment\.groups = 2.*group_spread"),
        ({"outliers": 4}, r"environment\.outliers = 4"),
        ({"walk": -1.0}, r"environment\.walk = -1\.0"),
        ({"jump": 1}, r"environment\.jump = 1"),
        ({"drift": -1.0}, r"environment\.drift = -1\.0"),
        ({"imbalance": 0.5}, r"environment\.imbalance = 0\.5"),
        ({"stay": 0}, r"environment\.stay = 0"),
        ({"stay": 5, "imbalance": 2.0}, "no Partial in it"),
        ({"delay": -1}, r"environment\.delay = -1"),
        ({"delay": 1.5}, r"environment\.delay = 1\.5"),
        ({"participation": 0.0}, r"environment\.participation = 0\.0"),
        ({"participation": [0.1, 0.2]}, r"environment\.participation.*fedglb reproduce"),
    ],
)
def test_mistakes_about_a_changed_environment_are_refused_at_their_key(given, words):
    with pytest.raises(fg.InvalidInput, match=words):
        changed(**given)


def test_data_has_delays_and_participation_only(raw_files):
    data = {"dataset": "magic", "clients": 3}
    made = fg.read_experiment(tables(environment={**data, "delay": 3}, problem={"radius": 10.0}))
    assert isinstance(made.env, fg.Delayed)
    split = {**data, "clients_by": "fAlpha", "client_groups": 2, "offered": 2}
    made = fg.read_experiment(tables(environment=split, problem={"radius": 10.0}))
    assert made.env.data == fg.clustered("magic", clients_by="fAlpha", client_groups=2)
    with pytest.raises(fg.InvalidInput, match="heterogeneity"):
        fg.read_experiment(tables(environment={**data, "heterogeneity": 0.3}, problem={}))
