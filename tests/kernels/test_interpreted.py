"""The same bits without compilation: random numbers, elementary functions, decisions, runs.

And with checked indices: both are ways to find an error in a part.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

KERNELS = """
import math
import numpy as np
from fedglb.kernels.elementary import exp, log, on_circle
from fedglb.kernels.philox import normals, philox, uniforms
from fedglb.parts.choice import *
from tests.parts.choice.decisions import learned, place, play

print([int(w) for w in philox(1, 2, 3, 4, 5, 6)])
for seed in (0, -3, 2**62 + 1):
    out = np.empty(3)
    normals(seed, 2**32 - 1, 2, 1, out)
    print(uniforms(seed, 10**6, 4, 2**32 - 1, 0), out.tolist())
for k in range(-40, 41):
    x = 18.7 * k + 0.1
    v = (k + 41) / 83
    print(exp(x).hex(), log(v).hex(), *[c.hex() for c in on_circle(v)])
print(exp(math.inf), exp(-math.inf), exp(math.nan))
for at in (place(1, 3, 6), learned(2, 5, 4)):
    for rule in (
        Ucb(), Greedy(), Sigma(), Bayes(), Thompson(draws=20), Thompson(draws=0),
        Bank(Thompson(draws=5), 1.0), Bank(Ucb()), EpsilonGreedy(0.5, Bank(Bayes(), 1.0)),
    ):
        print(rule, [play(rule, at, number=n)[:3] for n in range(3)])
"""
RUNS = """
import fedglb as fg
for link in (fg.Logistic(), fg.Probit(), fg.Poisson(), fg.Identity()):
    env = fg.Synthetic(fg.Problem(3, link, noise=0.5), clients=3, arms=4)
    for algorithm in (
        fg.fedglb_ucb(0.5, fg.Newton()), fg.fedglb_ucb_1(2, fg.LBFGS()), fg.fedglb_ucb_3(2),
        fg.n_ucb_glm(), fg.dislinucb(0.5),
    ):
        for engine in ("compiled", "reference"):
            run = fg.simulate(algorithm, env, 10, seed=1, engine=engine)
            print(run.choices.tolist(), run.syncs, run.scalars)
"""
EFFECTS = """
import numpy as np
from tests.simulation.test_effects import CASES, PROBLEMS, RULES, fg, played

for case, link, rule in (("contexts", "poisson", "Thompson"), ("later", "logistic", "Bayes")):
    env = CASES[case](PROBLEMS[link], np.random.default_rng(4))
    run, models = played(fg.fedglb_auto(choice=RULES[rule]), env)
    print(run.choices.tolist(), [model.effects.tolist() for model in models])
"""
OWN = """
import fedglb as fg
from tests.parts.choice.test_own_rules import Deviations, made, one_number
from tests.simulation.test_engines_agree import Third, enough, newton, shrinking, wide

env = fg.Synthetic(fg.Problem(3), clients=2, arms=4)
for engine in ("compiled", "reference"):
    for rule in (Deviations(1.0), made(one_number)):
        try:
            print(fg.simulate(fg.fedglb_auto(choice=rule), env, 10, 1, engine).choices.tolist())
        except fg.InvalidInput as error:
            print(error)
    for trigger in (enough, Third()):
        algorithm = fg.Algorithm("x", newton, fg.Newton(), trigger, shrinking, choice=wide)
        run = fg.simulate(algorithm, env, 10, 1, engine)
        print(run.choices.tolist(), run.syncs, run.scalars)
"""
BEYOND = """
from fedglb.kernels.compile import kernel

class Beyond(fg.Fixed):
    @staticmethod
    @kernel
    def formula(vectors, counters, terms, constants):
        return vectors[0, vectors.shape[1]]

for engine in ("compiled", "reference"):
    try:
        fg.simulate(fg.n_ons_glm(confidence=Beyond(1.0)), env, 10, 1, engine)
    except IndexError:
        print("noticed")
"""


def output(script, **environment):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout


@pytest.mark.parametrize(
    ("script", "lines"),
    [pytest.param(KERNELS, 4 + 82 + 18, marks=pytest.mark.slow, id="kernels"),
     pytest.param(RUNS, 40, id="runs"), pytest.param(EFFECTS, 2, id="effects")],
)  # fmt: skip
def test_the_same_without_compilation(script, lines):
    compiled = output(script)
    assert len(compiled.splitlines()) == lines
    assert output(script, NUMBA_DISABLE_JIT="1") == compiled


@pytest.mark.parametrize(
    "variable",
    ["NUMBA_DISABLE_JIT", pytest.param("NUMBA_BOUNDSCHECK", marks=pytest.mark.slow)],
)
def test_an_error_in_a_part_is_found(variable):
    """The same runs and errors as without the variable, and an index beyond an array raises."""
    usual, found = output(OWN), output(OWN + BEYOND, **{variable: "1"})
    assert found == usual + "noticed\nnoticed\n"
    lines = usual.splitlines()
    assert len(lines) == 8
    assert lines[:4] == lines[4:]
    assert "expected a float array of shape (K,) = (4,)" in lines[1]
