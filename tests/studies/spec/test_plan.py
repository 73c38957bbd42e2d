"""A study's file: profiles, search, and what is refused."""

from __future__ import annotations

import pytest

import fedglb as fg
from fedglb.studies.run.search import candidates
from fedglb.studies.spec.plan import EXPERIMENTS, find, read_plan

#: What a study of the package compares.
EVERY = {
    "fedglb-ucb", "fedglb-ucb-1", "fedglb-ucb-2", "fedglb-ucb-3", "fedglb-iterate", "fedglb-mix",
    "fedglb-auto", "dislinucb", "one-ucb-glm", "n-ucb-glm", "n-ons-glm",
}  # fmt: skip
FILE = {
    "name": "tiny", "horizon": 20, "seeds": 2, "problem": {"dim": 3},
    "environment": {"clients": 2, "arms": 4},
    "algorithm": [{"name": "fedglb-ucb", "threshold": [0.1, 1.0]}],
    "search": {
        "seeds": [101], "exploration": [0.1, 1.0], "alpha": [0.3], "ridge": [0.5, 1.0],
        "algorithm": [{"name": "fedglb-ucb", "threshold": 1.0}],
    },
    "profile": {"quick": {"horizon": 5, "environment": {"clients": 1}, "search": {"ridge": [1.0]}}},
}  # fmt: skip


def changed(**search):
    return {**FILE, "search": {**FILE["search"], **search}}


def test_a_profile_changes_what_it_names_and_nothing_else():
    quick, full = read_plan(FILE, "quick"), read_plan(FILE, "full")
    assert (quick.tables["horizon"], full.tables["horizon"]) == (5, 20)
    assert quick.tables["environment"] == {"clients": 1, "arms": 4}
    assert full.tables["environment"] == {"clients": 2, "arms": 4}
    assert (quick.search.ridge, quick.search.alpha) == ([1.0], [0.3])
    assert full.search.ridge == [0.5, 1.0]
    assert FILE["environment"] == {"clients": 2, "arms": 4}  # the file's own is as it was


def test_the_size_in_full():
    assert read_plan(FILE, "quick").full == {
        "command": 'reproduce(…, "full")', "seeds": 2, "horizon": 20, "clients": 2,
        "configurations": 2,
    }  # fmt: skip
    assert read_plan("magic").full["command"] == "fedglb reproduce magic --full"
    assert read_plan(FILE, "full").full == {}


def test_what_is_left_is_a_sweep():
    experiment = fg.read_experiment(read_plan(FILE, "quick").tables)
    assert (experiment.horizon, experiment.env.clients) == (5, 1)


def test_candidates_are_the_product():
    search = read_plan(FILE, "full").search
    assert len(set(candidates(search))) == len(candidates(search)) == 2 * (2 + 1)


FED, ONS = {"name": "fedglb-ucb", "threshold": 1.0}, {"name": "n-ons-glm"}


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (changed(seeds=[2]), "search.seeds = .*which include 2"),
        (changed(seeds=[]), "at least one seed"),
        (changed(exploration=[], alpha=[]), "values to try"),
        (changed(ridge=[-1.0]), r"search.ridge\[0\] = -1.0"),
        (changed(ridge=[0.0]), r"search.ridge\[0\] = 0.0.*> 0"),
        (changed(curvature=["small"]), "infimum"),
        (changed(horizon=0), "search.horizon = 0"),
        (changed(horizon="x"), "a whole number"),
        (changed(sedes=[1]), "did you mean seeds"),
        (changed(algorithm=[]), "at least one"),
        (changed(algorithm=[{**FED, "threshold": [1.0]}]),
         r"search.algorithm\[0\].threshold = \[1.0\].*one value"),
        (changed(algorithm=[{**ONS, "ridge": 1.0}]),
         r"search.algorithm\[0\].ridge = 1.0.*\[search\] chooses it"),
        ({**FILE, "defaults": {"exploration": 0.1}}, "defaults.exploration = 0.1.*chooses it"),
        ({**FILE, "defaults": {"ridge": 0.1}}, "defaults.ridge = 0.1.*chooses it"),
        ({**FILE, "algorithm": [{**ONS, "confidence": "lemma"}]}, r"algorithm\[0\].confidence"),
        ({**changed(curvature=["infimum", 0.1]), "problem": {"dim": 3, "curvature": 0.05}},
         "problem.curvature = 0.05.*chooses it"),
        (changed(choose="both"), "search.choose = 'both'.*jointly, for each"),
        ({**changed(choose="for each"), "algorithm": [ONS]},
         r"algorithm\[0\].name = 'n-ons-glm'.*defaults = false"),
        (changed(choose="for each", algorithm=[ONS, ONS]),
         r"search.algorithm\[1\].name = 'n-ons-glm'.*once"),
        (changed(choose="for each", algorithm=[{"name": "n-ons"}]),
         r"search.algorithm\[0\].name = 'n-ons'.*did you mean n-ons-glm"),
        (changed(choose="for each", algorithm=[{"name": "nowhere:f"}]),
         r"search.algorithm\[0\].name = 'nowhere:f'.*importable"),
        ({**FILE, "profile": {"quick": 5}}, "profile = .*tables of changes"),
        ({**FILE, "profile": {"quick": {"profile": {}}}}, "profile = .*tables of changes"),
        ({**FILE, "measure": "bytes"}, "one of transfers, scalars"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_by_name(tables, message):
    with pytest.raises(fg.InvalidInput, match=message):
        read_plan(tables, "full")


def test_an_unknown_profile_or_name_is_refused_with_the_known_ones():
    assert read_plan(FILE).profile == "quick"
    assert read_plan({k: v for k, v in FILE.items() if k != "profile"}).profile == "full"
    with pytest.raises(fg.InvalidInput, match=r"one of full, quick; did you mean quick"):
        read_plan(FILE, "quik")
    with pytest.raises(fg.InvalidInput, match=r"did you mean mushroom"):
        find("mushrooms")


@pytest.mark.parametrize("name", [n for n in EXPERIMENTS if not read_plan(n).axis])
def test_the_experiments_of_the_package_are_as_promised(name):
    quick, full = read_plan(name, "quick"), read_plan(name, "full")
    assert full.name == name
    assert full.search is not None
    if name == "solvers":
        return
    assert full.tables["horizon"] == 2000
    real = name != "synthetic"
    assert full.tables["seeds"] == (30 if real else 10)
    assert full.tables["environment"]["clients"] == (20 if real else 200)
    assert full.measure == quick.measure == ("scalars" if real else "transfers")
    presets = {table["name"] for table in full.tables["algorithm"]}
    assert presets >= EVERY - (set() if real else {"dislinucb"})
    untouched = [table for table in full.tables["algorithm"] if not table.get("defaults", True)]
    assert {table["name"] for table in untouched} == {"fedglb-mix", "fedglb-auto"}
    own = read_plan(name, "own")
    assert own.search.choose == "for each"
    assert own.tables == full.tables
    if real:
        assert "offered" not in full.tables["environment"]  # all clusters
        for profile, key, value in (("sixteen", "offered", 16), ("each", "scale", "each"),
                                    ("member", "mode", "member")):  # fmt: skip
            assert read_plan(name, profile).tables["environment"][key] == value
