"""Claims of this package: each rule inside and outside its thresholds, listed where testable."""

from __future__ import annotations

import pytest

from fedglb.studies.report.claims import check
from fedglb.studies.report.summary import defaults
from tests.studies.report.made_study import config, good, numbers

HOLDS, FAILS, OPEN = "holds", "does not hold", "not decided"
TUNED = config("fedglb-ucb", 100, [100.0], threshold=1.0)


def ours(*configs):
    claims = check(numbers(*configs))
    return {c.key: c for c in claims if c.whose == "this package"}


def auto(regrets, **more):
    """FedGLB-Auto with its defaults, as far as made runs have them."""
    usual = {"threshold": 0.1, "clock": "own samples", "solver": defaults("fedglb-auto")["solver"]}
    return config("fedglb-auto", 50, regrets, **{"rounds": 50, **usual, **more})


@pytest.mark.parametrize(
    ("mean", "error", "verdict"),
    [(80.0, 1.0, HOLDS), (125.0, 12.0, HOLDS), (125.0, 13.0, OPEN), (126.0, 1.0, OPEN),
     (130.0, 2.0, FAILS)],
)  # fmt: skip
def test_nothing_to_tune(mean, error, verdict):
    claim = ours(TUNED, auto([mean - error, mean + error]))["nothing-to-tune"]
    assert claim.verdict == verdict
    assert claim.decided.startswith(f"FedGLB-Auto (D=0.1): {mean / 100:.2f} ")
    assert "best of 1 settings of the paper’s: FedGLB-UCB (D=1), regret 100" in claim.measured
    assert "with 50 % of its transfers" in claim.measured


def test_only_defaults_are_untuned():
    assert "nothing-to-tune" in ours(TUNED, auto([80.0]))
    assert "nothing-to-tune" not in ours(TUNED, auto([80.0], threshold=0.2))
    assert "nothing-to-tune" not in ours(TUNED, auto([80.0], clock="steps"))
    assert "nothing-to-tune" not in ours(auto([80.0]))
    both = ours(TUNED, auto([500.0]), auto([80.0], threshold=0.2))["nothing-to-tune"]
    assert both.verdict == FAILS  # the untuned one counts, not the best


@pytest.mark.parametrize(
    ("rounds", "verdict"), [(50, HOLDS), (55, HOLDS), (56, OPEN), (74, OPEN), (75, FAILS)]
)
def test_one_exchange(rounds, verdict):
    made = [TUNED, config("fedglb-mix", 50, [90.0], threshold=1.0, rounds=rounds)]
    claim = ours(*made)["one-exchange"]
    assert claim.verdict == verdict
    assert f"FedGLB-Mix: {rounds / 50:.2f} " in claim.decided
    assert "for comparison, FedGLB-UCB: 0.20" in claim.measured


def test_near_one_is_told_of_each():
    one = config("one-ucb-glm", 1000, [100.0])
    mix = config("fedglb-mix", 50, [200.0], threshold=1.0)
    claims = ours(one, auto([110.0]), mix)
    assert claims["auto-near-one"].verdict == HOLDS
    assert claims["mix-near-one"].verdict == FAILS
    assert "FedGLB-Auto’s regret is comparable" in claims["auto-near-one"].text
    assert "FedGLB-Mix (D=1): 2.00" in claims["mix-near-one"].decided


def test_only_where_the_study_has_what_they_need():
    assert ours(*good()) == {}
    assert set(ours(auto([110.0]))) == {"one-exchange"}
