"""A folder whose experiment changes: what is run, what is kept, what the tables are then."""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
import pytest

import fedglb as fg
from fedglb.algorithms import ALGORITHMS
from fedglb.algorithms.catalog import all_parameters, build, parameters
from fedglb.simulation import bar
from fedglb.studies.results import store
from fedglb.studies.run import task
from fedglb.studies.spec.keys import keys_of
from tests.studies.own_parts import Plain, coins, plain
from tests.studies.tiny import bytes_of, held, parts, start_sweep, tables, toml

#: A sweep says once per process that a part is plain Python.
pytestmark = pytest.mark.filterwarnings("ignore::fedglb.parts.own.NotCompiled")


@pytest.fixture
def ran(monkeypatch):
    """The runs that were executed, as pairs (label, seed)."""
    found, real = [], task._compare

    def compare(experiment, one, progress):
        found.extend((experiment.configurations[i].label, one.seed) for i in one.configurations)
        return real(experiment, one, progress)

    monkeypatch.setattr(task, "_compare", compare)
    return found


@pytest.fixture
def swept(tmp_path, ran):
    """Sweep into one folder; return the runs that this executed."""

    def sweep(experiment, folder=tmp_path / "out"):
        before = len(ran)
        fg.sweep(experiment, folder, jobs=1)
        return ran[before:]

    return sweep


def test_ten_more_seeds_than_twenty_are_ten_runs(tmp_path, swept):
    def one(seeds):
        return tables(algorithm=[{"name": "n-ons-glm"}], defaults={}, seeds=seeds)

    assert len(swept(one(20))) == 20
    assert swept(one(30)) == [("N-ONS-GLM", seed) for seed in range(21, 31)]
    assert len(swept(one(30), tmp_path / "at once")) == 30
    assert bytes_of(tmp_path / "out") == bytes_of(tmp_path / "at once")


UCB, ONS = tables()["algorithm"]
#: What is changed, and the new runs.
CHANGES = {
    "more seeds": ({"seeds": 6}, 6),
    "other seeds": ({"seeds": [9, 2]}, 3),
    "fewer seeds": ({"seeds": 3}, 0),
    "seeds in another order": ({"seeds": [4, 2, 3, 1]}, 0),
    "another algorithm": ({"algorithm": [UCB, {"name": "fedglb-auto", "solver": "one-exchange"},
                                         ONS]}, 4),
    "one less": ({"algorithm": [UCB]}, 0),
    "another value": ({"algorithm": [{**UCB, "threshold": [0.1, 0.5, 1.0]}, ONS]}, 4),
    "another default": ({"defaults": {"exploration": 0.2, "solver": "newton"}}, 12),
    "the default of one algorithm": ({"algorithm": [UCB, {**ONS, "exploration": 0.2}]}, 4),
    "another order": ({"algorithm": [ONS, UCB]}, 0),
    "another label": ({"algorithm": [{**UCB, "label": "mine"}, ONS]}, 0),
    "another name": ({"name": "other"}, 0),
    "another spelling": ({
        "defaults": {}, "problem": fg.Problem(3, radius=1),
        "algorithm": {"a": fg.fedglb_ucb(np.float64(1), fg.Newton(), 0.1),
                      "b": {"name": "fedglb-ucb", "threshold": 0.1, "exploration": 0.1, "ridge": 1,
                            "solver": {"name": "newton"}},
                      "c": {"name": "n-ons-glm", "exploration": 0.1}},
    }, 0),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_only_what_is_missing_is_run_and_the_tables_are_those_of_one_sweep(
    tmp_path, swept, undisturbed, change
):
    changes, new = CHANGES[change]
    assert len(swept(tables())) == 12
    assert len(swept(tables(**changes))) == new
    swept(tables(**changes), tmp_path / "at once")
    assert bytes_of(tmp_path / "out") == bytes_of(tmp_path / "at once")
    grown, whole = (fg.load_sweep(tmp_path / name).manifest for name in ("out", "at once"))
    differ = {"started", "wall_seconds", "run_seconds", "sessions"}
    assert {key for key in whole if grown[key] != whole[key]} <= differ
    runs = len(whole["configurations"]) * len(whole["seeds"])
    assert [session["kept"] for session in grown["sessions"]] == [0, runs - new]
    assert swept(tables()) == []  # nothing was lost
    assert bytes_of(tmp_path / "out") == bytes_of(undisturbed)


def test_whole_numbers_are_the_same_run_as_floats():
    kinds, env = all_parameters(), fg.Synthetic(fg.Problem(3), clients=3, arms=4)
    several = 0
    for name in ALGORITHMS:
        known = parameters(name)
        whole = {
            key: 2 for key in known if kinds.get(key) is float and key not in ("delta", "epsilon")
        }
        others = {"updates": 3} if "updates" in known else {}
        made = [build(name, {**{k: kind(v) for k, v in whole.items()}, **others})
                for kind in (int, float, np.float64)]  # fmt: skip
        assert len({keys_of(fg.Experiment.of([one], env, 30)).runs for one in made}) == 1
        runs = [fg.simulate(one, env, 30, 1) for one in made]
        assert all(run.trace.equals(runs[0].trace) for run in runs)
        several += bool(whole)
    assert several > 10


# -- one's own code ------------------------------------------------------------------------------

RULE = """
from dataclasses import dataclass, replace
import shared_by_rules
from tests.studies.own_parts import Plain, plain, coins

@dataclass(frozen=True)
class Own(Plain):
    def radius(self, setting, state):
        return shared_by_rules.FACTOR * self.alpha

def rule():
    return replace(plain(), confidence=Own())

def other_rule():
    return plain(alpha=0.5)
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a module of the test's own, or write it anew; all of them are imported again."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    names = set()

    def forget():
        for name in names:
            sys.modules.pop(name, None)
        importlib.invalidate_caches()

    def write(name, text):
        (tmp_path / f"{name}.py").write_text(text)
        names.add(name)
        forget()

    write("shared_by_rules", "FACTOR = 1.0\n")
    yield write
    forget()


def named(**algorithms):
    """A sweep of functions, by their labels."""
    return {
        "name": "own", "horizon": 9, "seeds": 2, "environment": coins(2),
        "algorithm": [{"name": name, "label": label} for label, name in algorithms.items()],
    }  # fmt: skip


def test_an_edit_of_a_module_runs_the_algorithms_that_need_it(tmp_path, swept, write):
    write("first_rules", RULE)
    write("second_rules", RULE.replace("FACTOR *", "FACTOR +"))
    said = named(one="first_rules:rule", two="second_rules:rule", three="first_rules:other_rule",
                 four="n-ons-glm")  # fmt: skip
    assert len(swept(said)) == 8
    write("first_rules", "# a comment\n" + RULE)
    assert swept(said) == []
    write("first_rules", RULE.replace("FACTOR *", "FACTOR -"))
    assert swept(said) == [("one", 1), ("one", 2)]
    write("first_rules", RULE.replace("FACTOR *", "FACTOR -").replace("0.5", "0.75"))
    # the module of the first one is another, and the object that the third function makes
    assert sorted(swept(said)) == [("one", 1), ("one", 2), ("three", 1), ("three", 2)]
    write("shared_by_rules", "FACTOR = 2.0\n")
    assert sorted(swept(said)) == [("one", 1), ("one", 2), ("two", 1), ("two", 2)]
    swept(said, tmp_path / "at once")
    assert bytes_of(tmp_path / "out") == bytes_of(tmp_path / "at once")
    write("shared_by_rules", "FACTOR = 1.0\n")
    write("first_rules", RULE)
    assert swept(said) == []
    assert bytes_of(tmp_path / "out") != bytes_of(tmp_path / "at once")


def test_an_edit_of_a_module_that_the_environment_needs_runs_everything(swept, write):
    places = "from tests.studies.own_parts import Coins\nclass Places(Coins):\n    pass\n"
    write("own_places", places)
    said = {**named(one="n-ons-glm"), "problem": {"dim": 2},
            "environment": {"name": "own_places:Places", "clients": 2}}  # fmt: skip
    assert len(swept(said)) == 2
    write("own_places", places.replace("pass", "BEST = 1"))
    assert len(swept(said)) == 2
    write("own_places", places)
    assert swept(said) == []


def of_a_notebook(factor):
    @dataclass(frozen=True)
    class Own(Plain):
        def radius(self, setting, state):
            return (lambda x: factor * x)(self.alpha)

    return replace(plain(), name="own", confidence=Own())


def test_an_edit_of_a_class_in_a_notebook_runs_its_algorithm(swept):
    for factor, new in ((1.0, ["own", "own", "other", "other"]), (9.0, ["own", "own"]), (1.0, [])):
        algorithms = {"own": of_a_notebook(factor), "other": plain()}
        done = swept(fg.Experiment.of(algorithms, coins(2), 9, seeds=2))
        assert sorted(label for label, _ in done) == sorted(new)


def test_equal_algorithms_that_python_cannot_compare_have_the_same_runs(tmp_path, swept):
    @dataclass(frozen=True, eq=False)
    class Own(Plain):
        def __eq__(self, other):
            return self is other

        def __hash__(self):
            return 0

    twice = {"one": replace(plain(), confidence=Own()), "two": replace(plain(), confidence=Own())}
    swept(fg.Experiment.of(twice, coins(2), 9, seeds=2))
    assert len(swept(fg.Experiment.of(twice, coins(2), 9, seeds=3))) == 2
    runs = fg.load_sweep(tmp_path / "out").runs
    assert runs["label", "seed"].rows() == [(label, s) for label in twice for s in (1, 2, 3)]
    assert runs.filter(label="one")["regret"].equals(runs.filter(label="two")["regret"])


# -- faults --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_killed_while_it_grows_it_goes_on_from_there(tmp_path, swept, longer):
    folder = tmp_path / "out"
    experiment, expected = longer
    assert len(swept(toml(tmp_path, horizon=100, seeds=2))) == 6
    process = start_sweep(experiment, folder, "--jobs", "2", **held(tmp_path))
    process.kill()
    process.communicate()
    kept = fg.load_sweep(folder, partial=True)
    assert not kept.manifest["complete"]
    assert set(kept.runs["seed"]) >= {1, 2}
    assert 6 < kept.runs.height <= 12
    seen = []
    fg.sweep(experiment, folder, jobs=1, progress=seen.append)
    assert {status.kept for status in seen} == {kept.runs.height}
    assert bytes_of(folder) == bytes_of(expected)
    assert swept(toml(tmp_path, horizon=100, seeds=2)) == []


def test_whatever_write_fails_nothing_that_was_finished_is_run_again(
    tmp_path, monkeypatch, ran, swept
):
    swept(tables(seeds=2))
    real = store.atomic_write
    # The first manifest, the two parts of the third seed, all parts in one, the two tables, the
    # last manifest. A try has no parts to write that an earlier one has written.
    for fails, kept in ((1, 6), (2, 6), (3, 8), (3, 9), (2, 9), (3, 9), (4, 9), (5, 9)):
        written = []

        def write(path, content, written=written, fails=fails):
            written.append(path)
            if len(written) == fails:
                raise OSError("no room")
            real(path, content)

        with monkeypatch.context() as patch:
            patch.setattr(store, "atomic_write", write)
            with pytest.raises(OSError, match="no room"):
                fg.sweep(tables(seeds=3), tmp_path / "out", jobs=1)
        assert fg.load_sweep(tmp_path / "out", partial=True).runs.height == kept
    assert len(ran) == 6 + 2 + 2 + 1 + 1  # two tries lost one part each
    assert swept(tables(seeds=3)) == []
    swept(tables(seeds=3), tmp_path / "at once")
    assert bytes_of(tmp_path / "out") == bytes_of(tmp_path / "at once")


def test_damaged_runs_are_run_again_and_damaged_tables_written_again(tmp_path, swept):
    swept(tables())
    (part,) = parts(tmp_path / "out")
    whole = bytes_of(tmp_path / "out")
    (tmp_path / "out" / "runs.parquet").write_bytes(b"PAR1")
    assert swept(tables()) == []
    assert bytes_of(tmp_path / "out") == whole
    part.write_bytes(part.read_bytes()[:-1])
    assert swept(tables()) == []  # the tables are whole
    assert len(swept(tables(seeds=5))) == 15
    assert parts(tmp_path / "out") != [part]
    assert swept(tables()) == []
    assert bytes_of(tmp_path / "out") == whole


def test_a_folder_that_grows_while_it_is_read(tmp_path, monkeypatch):
    folder, real = tmp_path / "out", store.Path.read_bytes
    fg.sweep(tables(), folder, jobs=1)

    def read(path):
        content = real(path)
        if path.name == "runs.parquet":
            monkeypatch.undo()
            fg.sweep(tables(seeds=5), folder, jobs=1)
        return content

    monkeypatch.setattr(store.Path, "read_bytes", read)
    result = fg.load_sweep(folder)
    assert result.manifest["seeds"] == [1, 2, 3, 4, 5]
    assert result.runs.height == 15
    assert result.traces.height == 15 * 12


def test_a_part_of_the_new_experiment_can_be_read_while_it_grows(tmp_path):
    class Stop(Exception):
        pass

    def stop(status):
        raise Stop

    folder = tmp_path / "out"
    fg.sweep(tables(seeds=2), folder, jobs=1)
    other = tables(seeds=3, algorithm=[{**UCB, "label": "mine", "threshold": [1.0, 2.0]}])
    with pytest.raises(Stop):
        fg.sweep(other, folder, jobs=1, progress=stop)
    with pytest.raises(fg.InvalidInput, match="to resume"):
        fg.load_sweep(folder)
    rows = fg.load_sweep(folder, partial=True).runs["label", "seed"].rows()
    # what was there, and the first task: the new threshold on the first seed
    assert rows == [("mine D=1", 1), ("mine D=1", 2), ("mine D=2", 1)]


def test_what_is_kept_is_said(tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr(bar, "_on_terminal", None)
    monkeypatch.setattr(bar, "_lines", lambda console, title: lambda *drawn: said.append(drawn))
    for seeds in (2, 3, 1):
        fg.sweep(tables(seeds=seeds), tmp_path / "out", jobs=1, progress=True)
    texts = [text for *_, text in said]
    assert "6/6 runs" in texts
    assert "9/9 runs (6 kept)" in texts
    assert texts[-1] == "3/3 runs (3 kept)"
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert [session["kept"] for session in manifest["sessions"]] == [0, 6, 3]
    assert pl.read_parquet(parts(tmp_path / "out")).height == 9
