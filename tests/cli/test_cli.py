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


RUNS = [
    ("fedglb-ucb", "threshold=0.5, solver=newton", fg.fedglb_ucb(0.5, fg.Newton())),
    ("fedglb-ucb", "threshold=0.2", fg.fedglb_ucb(0.2)),
    ("fedglb-ucb", "threshold=0.2, clock=own samples", fg.fedglb_ucb(0.2, clock="own samples")),
    ("dislinucb", "threshold=0.2", fg.dislinucb(0.2)),
    ("dislinucb", "threshold=0.2, clock=own samples", fg.dislinucb(0.2, clock="own samples")),
    ("one-ucb-glm", "exploration=0.1", fg.one_ucb_glm(exploration=0.1)),
    (
        "one-ucb-glm",
        "exploration=0.1, tolerance=0.5",
        fg.one_ucb_glm(exploration=0.1, tolerance=0.5),
    ),
    ("n-ucb-glm", "exploration=0.1", fg.n_ucb_glm(exploration=0.1)),
    ("n-ucb-glm", "exploration=0.1, tolerance=0.5", fg.n_ucb_glm(exploration=0.1, tolerance=0.5)),
    (
        "fedglb-ucb",
        "threshold=0.5, solver.stop=fixed, solver=agd, solver.rounds=3, confidence.fixed=0.3",
        fg.fedglb_ucb(0.5, fg.AGD(stop="fixed", rounds=3), confidence=fg.Fixed(0.3)),
    ),
]


def test_json_is_the_simulation_that_the_keys_ask_for():
    env = fg.Synthetic(fg.Problem(3, fg.Poisson(), noise=1.0), clients=3, arms=4)
    seen = set()
    for name, keys, algorithm in RUNS:
        out = fedglb("run", name, *keys.split(", "), "link=poisson", "noise=1", "--json", *SMALL)
        assert out.returncode == 0, out.stderr
        answer, expected = json.loads(out.stdout), fg.simulate(algorithm, env, 12, seed=5)
        for key in ("regret", "reward", "syncs", "rounds", "transfers", "scalars", "bits"):
            assert answer[key] == getattr(expected, key), (name, keys)
        assert answer["exploration"] == algorithm.exploration
        assert answer["theta"] == (None if expected.theta is None else expected.theta.tolist())
        assert len(answer["updates"]) == expected.updates.height
        assert answer["ledger"] == expected.ledger.to_dicts()
        seen.add((answer["regret"], str(answer["theta"])))
    assert len(seen) == len(RUNS)  # no key is ignored
    out = fedglb("run", "fedglb-mix", "solver.slack=1e-6", "--json", *SMALL)
    assert json.loads(out.stdout)["global_update"] == "OneExchange(slack=1e-06, within='radius')"


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
    assert len(found) == 29
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
