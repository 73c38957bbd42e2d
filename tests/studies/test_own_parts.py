"""Sweeps of parts that are not the package's: they run, resume and are told apart as others are."""

from __future__ import annotations

import functools
import importlib
import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
import pytest

import fedglb as fg
from fedglb.algorithms.catalog import all_parameters
from fedglb.studies.report import write_report
from fedglb.studies.results.study import load_study
from fedglb.studies.run import task
from fedglb.studies.run.reproduce import reproduce
from fedglb.studies.spec.grid import OTHER_COLUMNS
from tests.studies.own_parts import Cautious, Coins, Pooled, cautious, coins, growing, plain
from tests.studies.tiny import bytes_of, fedglb, tables

#: A sweep says once per process that a part is plain Python.
pytestmark = pytest.mark.filterwarnings("ignore::fedglb.parts.own.NotCompiled")
HERE = "tests.studies.own_parts"
#: Three runs of each: own rule, own environment, a radius in plain Python, a strategy.
EXPERIMENT = fg.Experiment.of(
    {
        "auto": fg.fedglb_auto(),
        "cautious": [cautious(0.5), cautious(1.0)],
        "plain": plain(),
        "pooled": [Pooled(0.2), Pooled(0.5)],
    },
    coins(3),
    horizon=12,
    seeds=3,
)
NAMED = {
    "name": "named",
    "horizon": 12,
    "seeds": 2,
    "problem": {"dim": 2},
    "environment": {"name": f"{HERE}:Coins", "clients": 3, "best": 0.7},
    "algorithm": [
        {"name": f"{HERE}:cautious", "width": [0.5, 1.0], "seed": 3},
        {"name": "fedglb-auto", "choice": ["bayes", {"name": f"{HERE}:Cautious", "width": 2.0}]},
        {"name": "n-ons-glm"},
    ],
}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The folder of the experiment, run in this process."""
    folder = tmp_path_factory.mktemp("alone") / "out"
    fg.sweep(EXPERIMENT, folder, jobs=1)
    return folder


def named(**changes):
    return {**json.loads(json.dumps(NAMED)), **changes}


def objects(**changes):
    """Tables with objects in them."""
    made = {"name": "objects", "horizon": 9, "seeds": 2, "environment": coins(2)}
    return {**made, "algorithm": [fg.n_ons_glm()], **changes}


def test_objects_run_as_they_do_by_themselves(alone):
    runs = fg.load_sweep(alone).runs
    algorithms = {
        "auto": fg.fedglb_auto(), "cautious choice=Cautious(width=0.5)": cautious(0.5),
        "cautious choice=Cautious(width=1.0)": cautious(1.0), "plain": plain(),
        "pooled drawn=0.2": Pooled(0.2), "pooled drawn=0.5": Pooled(0.5),
    }  # fmt: skip
    assert runs["label"].unique(maintain_order=True).to_list() == list(algorithms)
    assert runs["algorithm"].unique(maintain_order=True).to_list() == [
        "auto", "cautious", "plain", "pooled",
    ]  # fmt: skip
    for label, algorithm in algorithms.items():
        engine = "reference" if label == "plain" else "compiled"
        run = fg.simulate(algorithm, coins(3), 12, 2, engine)
        row = runs.filter(pl.col("label") == label, pl.col("seed") == 2)
        assert (row["regret"].item(), row["reward"].item()) == (run.regret, run.reward)
        assert row["bits"].item() == run.bits


def test_two_processes_give_the_bytes_of_one(tmp_path, alone):
    fg.sweep(EXPERIMENT, tmp_path / "out", jobs=2)
    assert bytes_of(tmp_path / "out") == bytes_of(alone)


@pytest.mark.slow
def test_functions_in_tables_make_what_they_would_make(tmp_path):
    result = fg.sweep(named(), tmp_path / "out", jobs=2)
    runs = result.runs
    assert runs["label"].unique(maintain_order=True).to_list() == [
        "Cautious width=0.5", "Cautious width=1",
        "FedGLB-Auto D=0.1 choice=bayes one-exchange slack=inf within=deviation",
        "FedGLB-Auto D=0.1 choice=Cautious(width=2.0) one-exchange slack=inf within=deviation",
        "N-ONS-GLM",
    ]  # fmt: skip
    assert runs.filter(pl.col("width") == 0.5)["algorithm"][0] == f"{HERE}:cautious"
    assert runs["own_seed"].unique().sort().to_list() == [None, 3]
    env = Coins(fg.Problem(dim=2), 3, 0.7)
    for label, algorithm in (
        ("Cautious width=1", cautious(1.0)),
        (runs["label"][6], fg.fedglb_auto(choice=Cautious(2.0))),
    ):
        expected = [fg.simulate(algorithm, env, 12, seed).regret for seed in (1, 2)]
        assert runs.filter(pl.col("label") == label)["regret"].to_list() == expected
    assert set(result.manifest["own"]) >= {HERE}
    report = write_report(load_study(tmp_path / "out"), tmp_path / "report")
    table = json.loads(report.summary.read_text())["table"]
    assert {(row["curve"], row["dial"], row["value"]) for row in table} >= {
        ("Cautious", "width", 0.5), ("Cautious", "width", 1.0), ("N-ONS-GLM", "", None),
    }  # fmt: skip


def by_functions(factor):
    """Algorithms of plain functions, of a script's kind: workers get them as code."""

    def enough(samples, total, share=0.2):
        return samples >= 3 + share * total

    def step(theta, direction, predicted, y):
        return theta - factor * (predicted - y) * direction

    composed = fg.Algorithm("x", step, fg.Newton(), enough, lambda: 0.3)
    return {
        "closed": fg.fedglb_auto(choice=lambda mean, sd: mean + factor * sd),
        "number": [fg.fedglb_auto(choice=functools.partial(growing, width=w)) for w in (0.5, 1.5)],
        "parts": replace(composed, name="parts"),
    }


@pytest.mark.slow
def test_functions_are_sent_to_workers_and_named_in_results(tmp_path):
    algorithms = by_functions(1.5)
    experiment = fg.Experiment.of(algorithms, coins(3), horizon=12, seeds=2, name="functions")
    runs = fg.sweep(experiment, tmp_path / "two", jobs=2).runs
    assert runs["label"].unique(maintain_order=True).to_list() == [
        "closed", "number choice=growing(width=0.5)", "number choice=growing(width=1.5)", "parts",
    ]  # fmt: skip
    assert set(runs["choice"]) == {
        "<lambda>(factor=1.5)", "growing(width=0.5)", "growing(width=1.5)", "ucb",
    }  # fmt: skip
    for label, algorithm in (
        ("closed", algorithms["closed"]), ("parts", algorithms["parts"]),
        ("number choice=growing(width=1.5)", algorithms["number"][1]),
    ):  # fmt: skip
        expected = [fg.simulate(algorithm, coins(3), 12, seed).regret for seed in (1, 2)]
        assert runs.filter(pl.col("label") == label)["regret"].to_list() == expected


def test_another_body_or_another_number_is_another_sweep():
    def made(rule, **more):
        return fg.Experiment.of([fg.fedglb_auto(choice=rule)], coins(2), 9, seeds=2).identity

    closed = [by_functions(factor)["closed"].choice for factor in (1.5, 1.5, 2.0)]
    rules = [
        *closed, lambda mean, sd: mean + sd, lambda mean, sd: mean - sd, growing,
        functools.partial(growing, width=0.5), functools.partial(growing, width=2.5),
    ]  # fmt: skip
    found = [made(rule) for rule in rules]
    assert found[0] == found[1]
    assert len(set(found[1:])) == len(found) - 1


def test_tables_and_paths_have_functions_too():
    said = {
        "algorithm": [
            {"name": "fedglb-auto", "choice": [growing, lambda mean: mean]},
            {"name": "fedglb-auto", "choice": {"name": f"{HERE}:growing", "width": 0.5}},
            {"name": "fedglb-auto", "choice": f"{HERE}:growing"},
            {"name": "n-ons-glm", "confidence": [lambda samples: 1.0 / (1.0 + samples)]},
            {"name": "n-ons-glm", "confidence": {"name": f"{HERE}:falling", "alpha": 0.5}},
        ]
    }
    said["algorithm"][2]["threshold"] = 0.2
    algorithms = [c.algorithm for c in fg.read_experiment(objects(**said)).configurations]
    assert [repr(each.choice) for each in algorithms[:4]] == [
        "growing(width=1.0)", "<lambda>", "growing(width=0.5)", "growing(width=1.0)",
    ]  # fmt: skip
    assert algorithms[3].choice == algorithms[0].choice
    described = [c.parameters for c in fg.read_experiment(objects(**said)).configurations]
    assert [d["choice"] for d in described[:2]] == ["growing(width=1.0)", "<lambda>"]
    assert [d["confidence"] for d in described[4:]] == [
        "<lambda>", f"{HERE}:falling alpha=0.5",
    ]  # fmt: skip
    with pytest.raises(fg.InvalidInput, match=r"algorithm\[0\].choice.wdith = 0.5"):
        fg.read_experiment(objects(**one("fedglb-auto", choice={"name": f"{HERE}:growing",
                                                                "wdith": 0.5})))  # fmt: skip


def test_a_link_and_a_problem_of_ones_own(tmp_path):
    by_name = tables(problem={"dim": 3, "link": "fedglb.links:Probit"})
    assert fg.read_experiment(by_name).env.problem == fg.Problem(3, fg.Probit())
    problem = fg.Problem(3, fg.Probit(), radius=2.0)
    assert fg.read_experiment(tables(problem=problem)).env.problem is problem
    made = {"name": "fedglb:Problem", "dim": 3, "radius": 2.0}
    assert fg.read_experiment(tables(problem=made)).env.problem.S == 2.0
    assert fg.read_experiment(named()).env.problem == fg.Problem(dim=2)


def test_what_was_finished_can_be_read_without_its_objects(tmp_path, alone):
    manifest = json.loads((alone / "manifest.json").read_text())
    folder = tmp_path / "out"
    folder.mkdir()
    changes = {"complete": False, "files": {}, "document": "{}"}
    (folder / "manifest.json").write_text(json.dumps(manifest | changes))
    whole, part = fg.load_sweep(alone), fg.load_sweep(folder, partial=True)
    assert part.runs.schema == whole.runs.schema
    assert part.runs.height == 0


def test_no_parameter_takes_the_place_of_another_column(alone):
    columns = set(fg.load_sweep(alone).runs.columns)
    assert OTHER_COLUMNS - columns == {"configuration"}
    assert columns - OTHER_COLUMNS - set(all_parameters()) == {"drawn"}  # its own parameter
    assert not OTHER_COLUMNS & set(all_parameters())


@dataclass(frozen=True)
class Holding(Pooled):
    """A strategy that holds anything."""

    held: Any = None
    memory: int = 100
    choice: str = "softmax"


def test_fields_of_a_strategy_are_no_parts_of_the_package():
    table = {"name": f"{__name__}:Holding", "memory": [50, 60], "choice": "argmax"}
    made = fg.read_experiment(tables(algorithm=[table], defaults={})).configurations
    assert [each.algorithm for each in made] == [
        Holding(memory=50, choice="argmax"), Holding(memory=60, choice="argmax"),
    ]  # fmt: skip
    assert made[0].parameters["own_memory"] == 50


def test_parameters_of_a_strategy_are_numbers_or_text_without_addresses():
    held = [np.int64(3), 4, len, lambda x: x]
    made = fg.Experiment.of([Holding(0.2, each) for each in held], coins(2), 9).configurations
    assert [each.parameters["held"] for each in made[:2]] == [3, 4]
    assert [type(each.parameters["held"]) for each in made[:2]] == [int, int]
    assert made[2].parameters["held"] == "<built-in function len>"
    assert made[3].label.endswith("<lambda>>")


# -- told apart ------------------------------------------------------------------------------------


def identity(**changes):
    return fg.read_experiment(objects(**changes)).identity


class Held(Coins):
    """Holds anything."""

    def __init__(self, held):
        super().__init__(fg.Problem(dim=2), 2)
        self.held = held

    @functools.cached_property
    def worked_out(self):
        return np.random.default_rng().random()


def local_class(factor):
    @dataclass(frozen=True)
    class Mine(Cautious):
        def score(self, arms, model, t):
            return model.mean - factor * self.width * model.sd

    return Mine(1.0)


SEVERAL = [
    1, 1.0, True, "1", [1], (1,), {1: 2}, {2: 1}, {1, 2}, b"1", np.ones(2), np.ones((2, 1)),
    np.ones(2, dtype=np.float32), np.arange(2.0), np.random.default_rng(1),
    np.random.default_rng(2), functools.partial(max, 1), functools.partial(min, 1),
    lambda x: x + 1, lambda x: x + 2, Held, Cautious, local_class(2.0), local_class(3.0),
    len, np.random, None,
]  # fmt: skip


@pytest.mark.slow
def test_different_objects_never_have_one_identity():
    found = [identity(environment=Held(each)) for each in SEVERAL]
    assert len(set(found)) == len(SEVERAL)
    again = [identity(environment=Held(each)) for each in SEVERAL]
    assert again == found


def test_equal_copies_have_one_identity_whatever_they_keep():
    used = Held(3)
    assert used.worked_out == used.worked_out
    assert identity(environment=used) == identity(environment=Held(3))
    assert local_class(2.0) is not local_class(2.0)
    one, two = (
        identity(environment=Held(local_class(2.0)), algorithm=[cautious(1.0)]) for _ in range(2)
    )
    assert one == two


def test_what_no_process_could_tell_apart_is_refused():
    for what in (threading.Lock(), (i for i in "x"), np.array([object()])):
        with pytest.raises(fg.InvalidInput, match=r"pickled|holds objects"):
            identity(environment=Held(what))


SCRIPT = """
import sys
import threading
from dataclasses import dataclass, replace
from typing import Any
import fedglb as fg
from tests.studies.own_parts import Cautious, coins

FACTOR = 2.0

@dataclass(frozen=True)
class Mine(Cautious):
    def score(self, arms, model, t):
        return model.mean - FACTOR * self.width * model.sd

if __name__ == "__main__":
    algorithms = {"mine": replace(fg.fedglb_auto(), choice=Mine(0.1)), "auto": fg.fedglb_auto()}
    experiment = fg.Experiment.of(algorithms, coins(2), horizon=9, seeds=2)
    try:
        fg.sweep(experiment, sys.argv[1], jobs=int(sys.argv[2]))
    except fg.InvalidInput as error:
        sys.exit(str(error))
"""


def script(folder, text, jobs):
    path = folder / "mine.py"
    path.write_text(text)
    where = os.pathsep.join([*filter(None, sys.path), os.getcwd()])
    return subprocess.run(
        [sys.executable, str(path), str(folder / "out"), str(jobs)],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": where},
    )  # fmt: skip


@pytest.mark.slow
def test_parts_of_a_script_run_in_processes_and_an_edit_runs_them_again(tmp_path):
    first = script(tmp_path, SCRIPT, 2)
    assert first.returncode == 0, first.stderr
    bytes_before = bytes_of(tmp_path / "out")
    shown = SCRIPT.replace("FACTOR =", "# a comment\nFACTOR =") + "print('done')\n"
    again = script(tmp_path, shown, 1)  # found, not run: nothing that the part does has changed
    assert again.returncode == 0, again.stderr
    assert bytes_of(tmp_path / "out") == bytes_before
    assert len(fg.load_sweep(tmp_path / "out").manifest["sessions"]) == 1
    before = fg.load_sweep(tmp_path / "out").runs
    for old, new in (("FACTOR = 2.0", "FACTOR = 3.0"), ("FACTOR * self", "FACTOR + self")):
        edited = script(tmp_path, SCRIPT.replace(old, new), 1)
        assert edited.returncode == 0, edited.stderr
        result = fg.load_sweep(tmp_path / "out")
        assert result.manifest["sessions"][-1]["kept"] == 2
        assert result.runs.filter(label="auto").equals(before.filter(label="auto"))


MODULE = '''"""What is mine."""
from tests.studies.own_parts import Cautious
from dataclasses import replace
import helpers
import fedglb as fg

def mine(width: float = 1.0):
    return replace(fg.fedglb_auto(), name="mine", choice=Cautious(helpers.twice(width)))

def places():
    return fg.Synthetic(fg.Problem(dim=2), clients=helpers.CLIENTS, arms=3)
'''
HELPERS = "CLIENTS = 2\ndef twice(x):\n    return 2 * x\n"
FILE = """
name = "mine"
horizon = 9
seeds = 2
environment = {name = "mine:places"}
[[algorithm]]
name = "mine:mine"
width = [0.1, 1.0]
"""


@pytest.mark.slow
def test_a_file_names_functions_of_modules_and_an_edit_runs_again_what_it_changes(
    tmp_path, monkeypatch
):
    root = os.getcwd()
    monkeypatch.chdir(tmp_path)
    files = {"mine.py": MODULE, "helpers.py": HELPERS, "mine.toml": FILE}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    where = {"PYTHONPATH": os.pathsep.join([*filter(None, sys.path), root])}
    out = fedglb("sweep", "mine.toml", "--jobs", "2", **where)
    assert out.returncode == 0, out.stderr
    labels = fg.load_sweep("results/mine").runs["label"].unique(maintain_order=True)
    assert labels.to_list() == ["mine width=0.1", "mine width=1"]
    for name, old, new, kept in (
        ("mine.py", '"""What is mine."""', "# What I own.", 4),
        ("mine.py", "width: float = 1.0", "width: float = 1.5", 4),  # the file gives another
        ("helpers.py", "2 * x", "3 * x", 0),
        ("helpers.py", "2 * x", "x + 1.8 * x * (x < 0.5) + x * (x >= 0.5)", 2),  # 2 · 1, 2.8 · 0.1
    ):
        (tmp_path / name).write_text(files[name].replace(old, new))
        again = fedglb("sweep", "mine.toml", "--jobs", "1", "--json", **where)
        assert again.returncode == 0, again.stderr
        assert json.loads(again.stdout)["kept"] == kept
        (tmp_path / name).write_text(files[name])
    (tmp_path / "helpers.py").write_text(HELPERS.replace("CLIENTS = 2", "CLIENTS = 3"))
    refused = fedglb("sweep", "mine.toml", "--jobs", "1", **where)
    assert refused.returncode == 2
    assert "its environment is another one, by its code" in refused.stderr


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module of the test's own, imported; called with a text, it writes its file anew."""
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "edited_meanwhile.py"

    def write(text):
        path.write_text(text)
        importlib.invalidate_caches()

    write("import fedglb as fg\nRIDGE = 1.0\ndef make():\n    return fg.n_ons_glm(ridge=RIDGE)\n")
    yield write
    sys.modules.pop("edited_meanwhile", None)


def test_a_module_that_was_edited_after_its_import_is_refused_until_it_is_loaded_again(module):
    said = tables(algorithm=[{"name": "edited_meanwhile:make"}], defaults={})
    first = fg.read_experiment(said)
    sources = task.Sources.of(first)
    module("import fedglb as fg\nRIDGE = 22.0\ndef make():\n    return fg.n_ons_glm(ridge=RIDGE)\n")
    with pytest.raises(
        fg.InvalidInput, match=r"edited_meanwhile.*edited since the import; reload it"
    ):
        fg.read_experiment(said)
    importlib.reload(sys.modules["edited_meanwhile"])
    second = fg.read_experiment(said)
    assert second.identity != first.identity
    assert second.configurations[0].algorithm.ridge == 22.0
    outcome = task.work(sources, task.Task(1, (0,)), None, None)
    assert outcome.part is None
    assert "another version of edited_meanwhile" in outcome.failures[0]


def test_a_worker_that_stays_imports_an_edited_module_again(module, tmp_path):
    said = tables(algorithm=[{"name": "edited_meanwhile:make"}], defaults={}, seeds=2)
    regrets = []
    for i, ridge in enumerate(("1.0", "22.0")):
        module(f"import fedglb as fg\ndef make():\n    return fg.n_ons_glm(ridge={ridge})\n")
        sys.modules.pop("edited_meanwhile", None)
        result = fg.sweep(said, tmp_path / f"out{i}", jobs=2)
        regrets.append(result.runs["regret"].to_list())
        env = fg.read_experiment(tables()).env
        expected = [fg.simulate(fg.n_ons_glm(ridge=float(ridge)), env, 12, s) for s in (1, 2)]
        assert regrets[-1] == [run.regret for run in expected]


# -- reproduce -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_reproduce_searches_for_functions_and_takes_objects(tmp_path):
    searched = [f"{HERE}:cautious", "n-ons-glm"]
    study = named(
        search={
            "seeds": [101, 102], "exploration": [0.1, 1.0], "radius": [1.0, 2.0],
            "algorithm": [{"name": name} for name in searched],
        }
    )  # fmt: skip
    reproduce(study, folder=tmp_path / "named", jobs=1)
    made = load_study(tmp_path / "named")
    how, runs = made.choice, made.result.runs
    assert (how["not_searched"], how["candidates"]) == (["fedglb-auto"], 4)
    assert [each["label"] for each in how["algorithms"]] == searched
    tuned = runs.filter(pl.col("algorithm").is_in(searched))
    assert set(tuned["exploration"]) == {how["chosen"]["exploration"]}
    assert set(runs["radius"]) == {how["chosen"]["radius"]}
    short = fg.Experiment.of([cautious(1.0), fg.n_ons_glm()], coins(2), 9, seeds=2, name="short")
    report = reproduce(short, folder=tmp_path / "short", jobs=1)
    assert "Cautious" in report.page.read_text()


@pytest.mark.parametrize(
    ("search", "changes", "said"),
    [
        ({"algorithm": [{"name": fg.n_ons_glm()}]}, {}, r"search.algorithm\[0\].name"),
        ({"radius": [1.0]}, {"environment": coins(2), "problem": {}}, "environment.*function of"),
        ({"radius": [1.0]}, {"problem": fg.Problem(dim=2)}, "problem.*chooses radius"),
        ({"algorithm": [{"name": f"{HERE}:coins"}]}, {}, "search.algorithm"),
        ({"algorithm": [{"name": f"{HERE}:plain"}]}, {}, "plain.*compiled parts only"),
    ],
)
def test_a_search_that_has_nothing_to_vary_is_refused(tmp_path, search, changes, said):
    found = {"seeds": [101], "exploration": [0.1], "algorithm": [{"name": "n-ons-glm"}], **search}
    with pytest.raises(fg.InvalidInput, match=said):
        reproduce(named(search=found, **changes), folder=tmp_path / "out", jobs=1)
    assert not (tmp_path / "out").exists()


# -- bad input -------------------------------------------------------------------------------------


@dataclass
class Melting(Cautious.__bases__[0]):
    """A part that can change: not frozen."""

    width: float = 1.0

    def score(self, arms, model, t):
        return model.mean


def one(name, **more):
    return {"algorithm": [{"name": name, **more}]}


def named_environment(**more):
    return {"environment": {"name": f"{HERE}:Coins", "clients": 1}, **more}


SHORT = fg.Recorded(fg.Problem(1), np.ones((2, 1, 1, 1)), np.ones((2, 1, 1)), np.zeros((2, 1)))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (one("nowhere:f"), r"algorithm\[0\].name = 'nowhere:f'.*impo"),
        (one(f"{HERE}:cautios"), "did you mean cautious"),
        (one(f"{HERE}:np.pi"), "a function or class"),
        (one(f"{HERE}:cautious", widht=1), "did you mean width"),
        (one(f"{HERE}:coins", clients=1), "returns an Algorithm"),
        (one(f"{HERE}:coins"), r"algorithm\[0\].clients = None"),
        (one(f"{HERE}:cautious", width="x"), "TypeError"),
        (one("fedglb-auto", choice=f"{HERE}:coins"), "choice"),
        (one("fedglb-auto", choice=f"{HERE}:misnamed"), r"choice\.mu = .*any of arms, mean, sd"),
        (one("fedglb-auto", choice={"name": f"{HERE}:misnamed", "mu": 1.0, "x": 2.0}),
         "misnamed's own: mu, sigma, scale"),
        (one(fg.n_ons_glm(), ridge=2.0), r"algorithm\[0\].ridge"),
        ({"algorithm": {"n-ons-glm": fg.fedglb_auto()}}, "name of a different preset"),
        ({"algorithm": [fg.n_ons_glm(), fg.n_ons_glm()]}, "each configuration once"),
        ({"algorithm": {"a": [plain(0.1), replace(plain(0.1), name="b")]}}, "a unique label"),
        ({"algorithm": {"a": "n-ons-glm"}}, r"algorithm.a = 'n-ons-glm'"),
        ({"algorithm": {"a": 3}}, r"algorithm.a = 3"),
        ({"algorithm": [replace(fg.fedglb_auto(), choice=Melting())]}, "frozen dataclass"),
        ({"environment": "nowhere:f"}, r"environment.name = 'nowhere:f'"),
        ({"environment": {"name": "coins"}}, "package.module:function"),
        ({"environment": Held.__new__(Held)}, "environment.problem = None"),
        ({"environment": SHORT}, "at most 2, the recorded"),
        ({"problem": {"dim": 2}}, "the environment has its problem"),
        ({"problem": {"dim": 2}, "environment": {"name": f"{HERE}:coins", "clients": 1}},
         "has no parameter `problem`"),
        (named_environment(), "problem.dim"),
        (named_environment(problem={"dim": 2, "link": f"{HERE}:coins"}), "problem.link|clients"),
    ],
)  # fmt: skip
def test_bad_input_is_one_clear_error(changes, said):
    with pytest.raises(fg.InvalidInput, match=said):
        fg.read_experiment(objects(**changes))


def test_an_environment_that_is_none_is_refused_and_so_is_no_horizon():
    with pytest.raises(fg.InvalidInput, match="environment = 3"):
        fg.Experiment.of([fg.n_ons_glm()], 3)
    with pytest.raises(fg.InvalidInput, match="horizon"):
        fg.Experiment.of([fg.n_ons_glm()], coins(2))
    assert fg.Experiment.of([fg.n_ons_glm()], SHORT, seeds=[7]).horizon == 2


def test_presets_that_are_objects_are_called_as_in_a_file():
    algorithms = [fg.fedglb_ucb(0.1, fg.Newton()), fg.fedglb_ucb(1.0, fg.Newton()), fg.n_ons_glm()]
    made = fg.Experiment.of(algorithms, coins(2), 9).configurations
    meant = fg.read_experiment(tables(defaults={"solver": "newton"})).configurations
    assert made == meant
