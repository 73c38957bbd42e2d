"""The command line as a user meets it."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from types import SimpleNamespace

import click
import pytest
from typer.main import get_command

import fedglb as fg
from fedglb.cli import app
from fedglb.cli.run import _complete_name, _complete_pair
from tests.cli.in_process import fedglb

SMALL = ["clients=3", "arms=4", "dim=3", "horizon=12", "--seed", "5"]


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
    out = fedglb("run", "fedglb-ucb", "threshold=0.5", "solver=newton", "--json", *SMALL)
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
        out = fedglb("run", name, "threshold=0.2", f"clock={clock}", "--json", *SMALL)
        assert out.returncode == 0, out.stderr
        answer = json.loads(out.stdout)
        expected = fg.simulate(fg.ALGORITHMS[name](0.2, clock=clock), env, 12, seed=5)
        assert (answer["regret"], answer["syncs"]) == (expected.regret, expected.syncs)
        assert answer["trigger"] == f"Event(threshold=0.2, clock='{clock}')"
        syncs[clock] = expected.syncs
    assert syncs["steps"] != syncs["own samples"]


@pytest.mark.parametrize("name", ["one-ucb-glm", "n-ucb-glm"])
def test_the_tolerance_of_an_exact_fit(name):
    small = [*SMALL, "link=poisson", "noise=1", "exploration=0.1"]
    env = fg.Synthetic(fg.Problem(3, fg.Poisson(), noise=1.0), clients=3, arms=4)
    out = fedglb("run", name, "tolerance=0.5", "--json", *small)
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
    updates = ["updates=3"] if scheduled else []
    out = fedglb("run", name, *updates, *SMALL)
    assert out.returncode == 0, out.stderr
    assert "regret" in out.stdout
    assert "transfers" in out.stdout


def commands(group: click.Command, *names: str) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *names, name)
        else:
            yield (*names, name)


def test_every_help_shows_an_example_of_its_command():
    found = list(commands(get_command(app)))
    assert len(found) == 22
    for words in found:
        text = " ".join(fedglb(*words, "--help").stdout.split())
        assert re.search(rf"Example: (\w+=\S+ )?fedglb {' '.join(words)}\b", text), words


def test_help_shows_the_keys_of_an_algorithm():
    assert "fedglb-ucb-3" in fedglb("run", "--help").stdout
    for arguments in (["fedglb-private", "--help"], ["--help", "fedglb-private"]):
        text = fedglb("run", *arguments).stdout
        for key in (*inspect.signature(fg.fedglb_private).parameters, "link", "clients", "horizon"):
            assert f"\n {key} " in text


def test_completion_knows_names_keys_and_values():
    context = SimpleNamespace(params={"algorithm": "dislinucb"})
    assert _complete_name("fedglb-ucb-") == ["fedglb-ucb-1", "fedglb-ucb-2", "fedglb-ucb-3"]
    assert _complete_pair(context, "cl") == ["clock=", "clients="]
    assert _complete_pair(context, "link=p") == ["link=poisson", "link=probit"]


def test_tables_are_given_key_by_key():
    given = ["solver.stop=fixed", "solver=agd", "solver.rounds=3", "confidence.fixed=0.3"]
    out = fedglb("run", "fedglb-ucb", "threshold=0.5", *given, "--json", *SMALL)
    assert out.returncode == 0, out.stderr
    env = fg.Synthetic(fg.Problem(3), clients=3, arms=4)
    solver = fg.AGD(stop="fixed", rounds=3)
    algorithm = fg.fedglb_ucb(0.5, solver, confidence=fg.Fixed(0.3))
    assert json.loads(out.stdout)["regret"] == fg.simulate(algorithm, env, 12, seed=5).regret
    out = fedglb("run", "fedglb-mix", "solver.slack=1e-6", "--json", *SMALL)
    assert json.loads(out.stdout)["global_update"] == "OneExchange(slack=1e-06, within='radius')"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "fedglb-ucbb"], "did you mean fedglb-ucb"),
        (["run", "fedglb-ucb", "solver=newtn"], "did you mean newton"),
        (["run", "fedglb-ucb", "link=logit"], "did you mean logistic"),
        (["run", "fedglb-ucb", "confidence=iterat"], "did you mean iterate"),
        (["run", "fedglb-ucb", "--engine", "fast"], "reference"),
        (["run", "fedglb-ucb", "updates=3"], "threshold"),
        (["run", "fedglb-ucb", "thresold=3"], "did you mean threshold"),
        (["run", "fedglb-ucb", "newton"], "threshold=10"),
        (["run", "n-ons-glm", "solver.stop=fixed"], "fedglb: solver = {'stop': 'fixed'}"),
        (["run", "fedglb-ucb", "solver.memory=3"], "solver agd"),
        (["run", "fedglb-ucb", "confidence=fixed"], "{fixed = 0.3}"),
        (["run", "n-ons-glm", "confidence.fixed=-1"], "fedglb: confidence.fixed = -1"),
        (
            ["run", "fedglb-ucb", "solver=newton", "solver.tolerance=0"],
            "fedglb: solver.tolerance = 0",
        ),
        (["run", "fedglb-ucb", "clock=samples"], "fedglb: clock = 'samples'"),
        (["run", "fedglb-ucb-1", "clock=steps"], "fedglb: clock = 'steps'"),
        (["run", "fedglb-ucb", "dim=0"], "fedglb: dim = 0"),
        (["run", "fedglb-ucb", "horizon=many"], "fedglb: horizon = 'many'"),
        (["run", "one-ucb-glm", "tolerance=0"], "tolerance = 0.0"),
        (["run", "fedglb-ucb-1", "updates=600"], "B = T = 500"),
        (["run", "fedglb-ucb", "delta=1.5"], "delta = 1.5"),
        (["run", "fedglb-ucb", "link=poisson"], "noise"),
        (["run", "fedglb-private", "privacy.epsilon=-1", "privacy.delta=1e-6"], "privacy.epsilon"),
        (["rnu"], "run"),
    ],
)
def test_mistakes_are_one_clear_error(arguments, said):
    out = fedglb(*arguments)
    assert out.returncode == 2
    assert out.stdout == ""
    assert said in out.stderr
    assert "Traceback" not in out.stderr
