"""The command line as a user meets it."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata

import pytest

import fedglb as fg
from fedglb.cli.run import run

SMALL = ["--clients", "3", "--arms", "4", "--dim", "3", "--horizon", "12", "--seed", "5"]


def fedglb(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fedglb.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("module", ["fedglb", "fedglb.cli"])
def test_the_version(module):
    out = subprocess.run(
        [sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=False
    )
    assert out.returncode == 0, out.stderr
    assert out.stdout == f"fedglb {fg.__version__}\n"


def test_the_version_is_the_installed_package_s():
    assert fg.__version__ == metadata.version("fedglb")


def test_json_is_the_simulation():
    out = fedglb("run", "fedglb-ucb", "--threshold", "0.5", "--solver", "newton", "--json", *SMALL)
    assert out.returncode == 0, out.stderr
    answer = json.loads(out.stdout)
    env = fg.Synthetic(fg.Problem(3), clients=3, arms=4)
    expected = fg.simulate(fg.fedglb_ucb(0.5, fg.Newton()), env, 12, seed=5)
    for key in ("regret", "reward", "syncs", "rounds", "transfers", "scalars"):
        assert answer[key] == getattr(expected, key)
    assert answer["exploration"] == 1.0
    assert len(answer["updates"]) == expected.syncs
    assert answer["ledger"] == expected.ledger.to_dicts()


@pytest.mark.parametrize("name", ["fedglb-ucb", "dislinucb"])
def test_the_clock_of_the_event(name):
    env = fg.Synthetic(fg.Problem(3), clients=3, arms=4)
    syncs = {}
    for clock in ("steps", "own samples"):
        out = fedglb("run", name, "--threshold", "0.2", "--clock", clock, "--json", *SMALL)
        assert out.returncode == 0, out.stderr
        answer = json.loads(out.stdout)
        expected = fg.simulate(fg.ALGORITHMS[name](0.2, clock=clock), env, 12, seed=5)
        assert (answer["regret"], answer["syncs"]) == (expected.regret, expected.syncs)
        assert answer["trigger"] == f"Event(threshold=0.2, clock='{clock}')"
        syncs[clock] = expected.syncs
    assert syncs["steps"] != syncs["own samples"]


@pytest.mark.parametrize("name", ["one-ucb-glm", "n-ucb-glm"])
def test_the_tolerance_of_an_exact_fit(name):
    small = [*SMALL, "--link", "poisson", "--noise", "1.0", "--exploration", "0.1"]
    env = fg.Synthetic(fg.Problem(3, fg.Poisson(), noise=1.0), clients=3, arms=4)
    out = fedglb("run", name, "--tolerance", "0.5", "--json", *small)
    assert out.returncode == 0, out.stderr
    answer = json.loads(out.stdout)

    def expected(tolerance):
        algorithm = fg.ALGORITHMS[name](exploration=0.1, tolerance=tolerance)
        run = fg.simulate(algorithm, env, 12, seed=5)
        return run.regret, None if run.theta is None else run.theta.tolist()

    assert (answer["regret"], answer["theta"]) == expected(0.5)
    assert expected(0.5) != expected(None)


@pytest.mark.parametrize("name", fg.ALGORITHMS)
def test_a_table_for_every_algorithm(name):
    scheduled = name.startswith("fedglb-ucb-") or name == "fedglb-private"
    updates = ["--updates", "3"] if scheduled else []
    out = fedglb("run", name, *updates, *SMALL)
    assert out.returncode == 0, out.stderr
    assert "regret" in out.stdout
    assert "transfers" in out.stdout


def test_every_parameter_of_every_algorithm_and_solver_is_an_option():
    import inspect

    options = set(inspect.signature(run).parameters)
    for part in (*fg.ALGORITHMS.values(), fg.AGD, fg.Newton, fg.LBFGS, fg.Problem):
        assert set(inspect.signature(part).parameters) - {"privacy"} <= options
    said = {"privacy_delta": "delta", "noise_in": "noise"}  # the privacy has options of its own
    of_privacy = {said.get(option, option) for option in options}
    advanced = {"honest", "hessian_share"}  # in files and in Python
    assert set(inspect.signature(fg.GaussianMechanism).parameters) - advanced <= of_privacy


def test_help_shows_defaults_and_an_example():
    text = fedglb("run", "--help").stdout
    for part in ("Example:", "fedglb-auto: 0.1", "1/n²", "--exploration", "fedglb-ucb-3"):
        assert part in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "fedglb-ucbb"], "did you mean fedglb-ucb"),
        (["run", "fedglb-ucb", "--solver", "newtn"], "did you mean newton"),
        (["run", "fedglb-ucb", "--link", "logit"], "did you mean logistic"),
        (["run", "fedglb-ucb", "--confidence", "iterat"], "did you mean iterate"),
        (["run", "fedglb-ucb", "--engine", "fast"], "reference"),
        (["run", "fedglb-ucb", "--updates", "3"], "--threshold"),
        (["run", "n-ons-glm", "--stop", "fixed"], "options that n-ons-glm takes"),
        (["run", "fedglb-ucb", "--memory", "3"], "solver agd"),
        (
            ["run", "fedglb-ucb", "--alpha", "0.3"],
            "fedglb: --alpha = 0.3 is not allowed: give --al",
        ),
        (["run", "fedglb-ucb", "--confidence", "fixed"], "fedglb: --alpha = None is not allowed"),
        (["run", "n-ons-glm", "--confidence", "fixed", "--alpha", "-1"], "fedglb: --alpha = -1.0"),
        (
            ["run", "fedglb-ucb", "--solver", "newton", "--tolerance", "0"],
            "fedglb: --tolerance = 0",
        ),
        (["run", "fedglb-ucb", "--clock", "samples"], "fedglb: --clock = 'samples'"),
        (["run", "fedglb-ucb-1", "--clock", "steps"], "options that fedglb-ucb-1 takes"),
        (["run", "fedglb-ucb", "--dim", "0"], "fedglb: --dim = 0"),
        (["run", "one-ucb-glm", "--tolerance", "0"], "--tolerance = 0.0"),
        (["run", "n-ons-glm", "--tolerance", "0.1"], "options that n-ons-glm takes"),
        (["run", "fedglb-ucb-1", "--updates", "600"], "B = T = 500"),
        (["run", "fedglb-ucb", "--delta", "1.5"], "delta = 1.5"),
        (["run", "fedglb-ucb", "--link", "poisson"], "noise"),
        (["run", "fedglb-ucb", "--thresold", "3"], "--threshold"),
        (["rnu"], "run"),
    ],
)
def test_mistakes_are_one_clear_error(arguments, said):
    out = fedglb(*arguments)
    assert out.returncode == 2
    assert out.stdout == ""
    assert said in out.stderr
    assert "Traceback" not in out.stderr
