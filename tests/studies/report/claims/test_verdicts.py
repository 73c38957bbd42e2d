"""Each rule just inside and just outside its thresholds: what errors and few settings decide."""

from __future__ import annotations

import pytest

from fedglb.studies.report.claims import CLAIMS, check
from fedglb.studies.report.claims.growth import slope
from fedglb.studies.report.summary import defaults
from tests.studies.report.made_study import config, good, numbers

HOLDS, FAILS, OPEN, UNTESTED = "holds", "does not hold", "not decided", "not tested here"


def held(key, *configs):
    """A claim's verdict; also of one that cannot be tested, which a report leaves out."""
    made = numbers(*configs)
    claims = [*check(made), *(claim(made) for claim in CLAIMS)]
    return next(c for c in claims if c.key == key)


def spread(mean, error):
    """Regrets with a mean and a standard error, as `config` takes them."""
    return [mean - error, mean + error]


def near(*ours):
    """FedGLB-UCB with these (communication, regrets); One-UCB-GLM has 100 for 1000."""
    made = [config("fedglb-ucb", cost, regrets, threshold=i + 1.0)
            for i, (cost, regrets) in enumerate(ours)]  # fmt: skip
    return [*made, config("one-ucb-glm", 1000, [100.0] * len(ours[0][1]))]


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        ([(50, spread(125.0, 12.4))], HOLDS), ([(50, spread(125.0, 12.6))], OPEN),
        ([(50, spread(125.1, 1.0))], OPEN), ([(50, spread(130.0, 2.4))], FAILS),
        ([(50, spread(130.0, 2.6))], OPEN), ([(50, spread(125.0, 167.0))], OPEN),
        ([(50, spread(80.0, 30.0))], HOLDS),
        ([(100, [100.0])], HOLDS), ([(101, [100.0])], OPEN),  # a tenth of the communication
        ([(900, [150.0])], FAILS),  # not even where it is dear
        ([(900, [100.0]), (50, [150.0])], FAILS),  # only where it is dear
        ([(900, [150.0]), (50, [100.0, 220.0])], FAILS),
    ],
)  # fmt: skip
def test_near_one(ours, verdict):
    assert held("near-one", *near(*ours)).verdict == verdict


def test_the_number_that_is_shown_is_the_one_that_decided():
    """The best of all is not decided; what is too far is the best with little communication."""
    claim = held("near-one", *near((900, spread(214.0, 102.0)), (50, spread(400.0, 10.0))))
    assert claim.verdict == FAILS
    assert claim.decided.startswith("FedGLB-UCB (D=2): 4.00 − 2 × 0.10 = 3.80 > 1.25, with 5.0 %")
    assert claim.numbers["decider"]["title"] == "FedGLB-UCB (D=2)"
    assert "FedGLB-UCB (D=1) has 2.14 ± 1.02 times" in claim.measured


# FedGLB-UCB has 200 from 10 to 10,000, where DisLinUCB's settings lie, and its best elsewhere.
def linear(theirs, best=(100.0, 100.0), *more):
    flat = [config("fedglb-ucb", cost, [200.0], threshold=float(cost)) for cost in (10, 10_000)]
    other = [config("dislinucb", 20 + i, [r], threshold=i + 1.0) for i, r in enumerate(theirs)]
    mine = config("fedglb-ucb", 100_000, list(best), threshold=0.1)
    return held("beats-linear", *flat, mine, *other, *more)


WON, TWO, LOST = [300.0] * 4, [300.0, 300.0, 150.0, 150.0], [150.0] * 4


@pytest.mark.parametrize(
    ("theirs", "verdict"),
    [(WON, HOLDS), ([300.0, 300.0, 300.0, 150.0], HOLDS), (TWO, OPEN), (LOST, OPEN),
     ([201.0, 201.0, 201.0, 150.0], OPEN),  # three quarters, but not on the geometric mean
     ([150.0, 150.0], HOLDS), ([150.0, 150.0, 150.0], OPEN)],  # of two nothing is said
)  # fmt: skip
def test_linear_clearly_worse_at_best(theirs, verdict):
    claim = linear(theirs)
    assert claim.verdict == verdict
    assert ("rests on the best settings alone" in claim.measured) is (len(theirs) < 3)


@pytest.mark.parametrize(
    ("theirs", "verdict"),
    [(WON, OPEN), (TWO, OPEN), (LOST, FAILS), ([300.0, 150.0, 150.0, 150.0], FAILS),
     ([3000.0, 199.0, 199.0, 199.0], OPEN),  # a quarter, but not on the geometric mean
     ([150.0, 150.0], OPEN)],
)  # fmt: skip
def test_linear_not_clearly_worse_at_best(theirs, verdict):
    best = spread(min(*theirs, 200.0) - 10.0, 80.0)
    assert linear(theirs, best).verdict == verdict


def test_linear_better_at_best():
    best = config("dislinucb", 500_000, [50.0], threshold=9.0)
    assert linear(WON, (100.0, 100.0), best).verdict == FAILS


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [([100.0], spread(110, 4.9), HOLDS), ([100.0], spread(110, 5.1), OPEN),
     ([100.0], spread(90, 5.1), OPEN), ([100.0], spread(90, 4.9), FAILS),
     # errors of 40 each, but the same seeds are bad for both: it is the difference that counts
     ([60.0, 140.0], [60.0, 140.4], OPEN), ([60.0, 140.0], [70.0, 150.5], HOLDS)],
)  # fmt: skip
def test_linear_by_errors_that_are_paired_by_seed(ours, theirs, verdict):
    claim = held("beats-linear", config("fedglb-ucb", 10, ours, threshold=1.0),
                 config("dislinucb", 99, theirs, threshold=1.0))  # fmt: skip
    assert claim.verdict == verdict
    gaps = [b - a for a, b in zip([*ours, *ours][:2], theirs, strict=True)]
    assert claim.numbers["difference"] == pytest.approx(sum(gaps) / 2)
    assert claim.numbers["difference_error"] == pytest.approx(abs(gaps[1] - gaps[0]) / 2)


FLAT = [config("fedglb-ucb", c, [100.0], threshold=float(c)) for c in (10, 10_000)]


def variant(name, regrets, start=20):
    return [config(name, start + i, [r], updates=i + 1) for i, r in enumerate(regrets)]


@pytest.mark.parametrize(
    ("regrets", "verdict"),
    [([150.0, 150.0, 150.0, 90.0], HOLDS), ([150.0, 150.0, 90.0, 90.0], FAILS),
     ([101.0, 101.0, 101.0, 50.0], FAILS), ([150.0] * 3, HOLDS), ([150.0] * 2, UNTESTED)],
)  # fmt: skip
def test_a_variant(regrets, verdict):
    claim = held("beats-variants", *FLAT, *variant("fedglb-ucb-1", regrets))
    assert claim.verdict == verdict
    assert "not run: FedGLB-UCB2, FedGLB-UCB3" in claim.measured


@pytest.mark.parametrize(("first", "verdict"), [(150.0, OPEN), (90.0, FAILS)])
@pytest.mark.parametrize(("start", "inside"), [(9_999, 2), (50_000, 0)])
def test_a_variant_that_cannot_be_compared_is_named(first, verdict, start, inside):
    others = variant("fedglb-ucb-2", [150.0] * 4, start)
    claim = held("beats-variants", *FLAT, *variant("fedglb-ucb-1", [first] * 4), *others)
    assert claim.verdict == verdict
    assert f"FedGLB-UCB2: not compared ({inside} of its 4 settings within" in claim.measured


def test_a_narrow_win_has_the_digits_to_show_it():
    claim = held("beats-variants", *FLAT, *variant("fedglb-ucb-1", [100.5] * 4))
    assert claim.verdict == HOLDS
    assert "with 1.005 ± 0 times FedGLB-UCB’s regret" in claim.measured


@pytest.mark.parametrize(("error", "verdict"), [(0.9, HOLDS), (1.1, OPEN)])
def test_a_win_that_the_seeds_do_not_decide_is_none(error, verdict):
    both = [config("fedglb-ucb-1", 20 + i, spread(102.0, error), updates=i + 1) for i in range(4)]
    claim = held("beats-variants", *FLAT, *both)
    assert claim.verdict == verdict
    # Of one mean over a constant, the jackknife's error is the mean's.
    assert claim.numbers["comparisons"][0]["error"] == pytest.approx(error / 100)
    assert ("|1.02 − 1| ≤ 2 × 0.011" in claim.decided) == (verdict == OPEN)


def test_errors_of_an_average_are_paired_by_seed():
    """The same seeds are bad for both: the ratio hardly varies."""
    mine = [config("fedglb-ucb", c, [60.0, 140.0], threshold=float(c)) for c in (10, 10_000)]
    other = [config("fedglb-ucb-1", 20 + i, [61.0, 143.0], updates=i + 1) for i in range(4)]
    assert held("beats-variants", *mine, *other).verdict == HOLDS


def along(regrets, algorithm="fedglb-ucb"):
    """An algorithm's regrets by rising communication."""
    dial = "updates" if algorithm[-1] in "123" else "threshold"
    return [config(algorithm, 10 * (i + 1), [float(r)], **{dial: i + 1})
            for i, r in enumerate(regrets)]  # fmt: skip


FALLING, RISING = [40, 30, 20, 10], [10, 20, 30, 40, 50]


@pytest.mark.parametrize(
    ("configs", "verdict"),
    [(along([4, 3, 1, 2]), HOLDS),  # a rank correlation of −0.8
     (along([4, 3, 5, 2, 1]), FAILS),  # of −0.7
     (along([9.5, *range(20, 9, -1), *range(9, 2, -1), 9.7]), FAILS),  # of −0.84, more at the end
     (along([3, 2, 1]), UNTESTED), (along([5, 5, 5, 5]), FAILS), (along(RISING), FAILS),
     ([*along(FALLING), *along(RISING, "dislinucb")], HOLDS),  # DisLinUCB does not count
     ([*along(FALLING), *along(RISING, "fedglb-ucb-1")], FAILS),
     ([*along(FALLING), *along(RISING[:3], "fedglb-ucb-1")], HOLDS),  # too few to count
     (along(FALLING, "fedglb-ucb-1"), OPEN)],  # FedGLB-UCB itself is not there
)  # fmt: skip
def test_communication_pays(configs, verdict):
    claim = held("communication-pays", *configs)
    assert claim.verdict == verdict
    if len(configs) == 20:
        assert claim.numbers["curves"][0]["rank_correlation"] < -0.8
    if len(configs) == 7:
        assert "FedGLB-UCB1: not tested, 3 of 4 settings" in claim.measured


def triggered(first, last, total=100, **more):
    """Updates of 80 steps: some in the first tenth, some in the last half, the rest between."""
    at = [4] * first + [20] * (total - first - last) + [60] * last
    return config("fedglb-ucb", 100, [5.0, 6.0], **{"threshold": 1.0, "updates_at": at, **more})


@pytest.mark.parametrize(
    ("first", "last", "total", "verdict"),
    [(15, 40, 100, HOLDS), (14, 40, 100, OPEN), (15, 41, 100, OPEN), (11, 49, 100, OPEN),
     (10, 40, 100, FAILS), (15, 50, 100, FAILS), (10, 50, 100, FAILS),
     (2, 1, 5, HOLDS), (2, 1, 4, UNTESTED)],  # four updates say nothing
)  # fmt: skip
def test_fewer_and_fewer(first, last, total, verdict):
    assert held("fewer-and-fewer", triggered(first, last, total)).verdict == verdict


def test_settings_with_few_updates_do_not_count():
    both = held("fewer-and-fewer", triggered(30, 10), triggered(0, 4, 4, threshold=2.0))
    assert both.verdict == HOLDS
    assert "averaged over 1 of 2 thresholds" in both.measured


def test_growth_looks_at_the_last_seven_eighths():
    steps = list(range(1, 81))
    root = [s**0.5 for s in steps]
    assert slope(steps, [7.0 * s for s in steps[:9]] + root[9:]) == pytest.approx(0.5)
    assert slope(steps, [7.0 * s for s in steps[:10]] + root[10:]) != pytest.approx(0.5, abs=0.01)


def test_settings_of_several_solvers_are_not_thresholds():
    made = [triggered(30, 10, threshold=d, solver=s) for d in (1.0, 2.0) for s in ("agd", "newton")]
    assert "at 4 of 4 settings" in held("growth", *made).measured
    assert "FedGLB-UCB agd D=1: 0.50 and 0.50" in held("growth", *made).measured
    assert "4 of 4 settings" in held("fewer-and-fewer", *made).measured
    assert "at 2 of 2 thresholds" in held("growth", *made[::2]).measured


@pytest.mark.parametrize(
    ("key", "configs", "decided"),
    [
        ("near-one", near((50, spread(120.0, 5.0))),
         "FedGLB-UCB (D=1): 1.20 ≤ 1.25, and 1.20 + 2 × 0.05 = 1.30 ≤ 1.5, with 5.0 % ≤ 10 % of "
         "the transfers"),
        ("near-one", near((50, spread(120.0, 20.0))),
         "FedGLB-UCB (D=1): 1.20 ≤ 1.25, but 1.20 + 2 × 0.20 = 1.60 > 1.5, with 5.0 % ≤ 10 % of "
         "the transfers"),
        ("near-one", near((900, [100.0]), (50, [150.0])),
         "FedGLB-UCB (D=2): 1.50 − 2 × 0.00 = 1.50 > 1.25, with 5.0 % ≤ 10 % of the transfers"),
        ("beats-variants", [*FLAT, *variant("fedglb-ucb-1", [150.0, 150.0, 90.0, 90.0])],
         "FedGLB-UCB1: beaten at 2 of 4 settings, 50 % < 75 %, with 1.16 > 1 times"),
        ("beats-variants", [*FLAT, *variant("fedglb-ucb-1", [150.0] * 4),
                            *variant("fedglb-ucb-2", [150.0] * 4, 50_000)],
         "FedGLB-UCB2: 0 settings to compare < 3"),
        ("communication-pays", along([4, 3, 5, 2, 1]), "FedGLB-UCB: −0.70 > −0.80"),
        ("communication-pays", along([0, 0, 0, 0]),
         "FedGLB-UCB: regret, or communication, is the same at every setting"),
        ("fewer-and-fewer", [triggered(14, 40)],
         "first tenth 14 % between 10 % and 15 %, last half 40 % ≤ 40 %"),
        ("fewer-and-fewer", [triggered(10, 50)],
         "first tenth 10 % ≤ 10 %, last half 50 % ≥ 50 %"),
        ("beats-linear", [config("fedglb-ucb", 10, [100.0], threshold=1.0),
                          config("dislinucb", 99, spread(110.0, 4.9), threshold=1.0)],
         "best settings: a difference of 10, |10| > 2 × 4.9"),
        ("growth", [triggered(30, 10)], "1 of 1 thresholds > half of them"),
    ],
)  # fmt: skip
def test_every_verdict_has_the_number_that_decided(key, configs, decided):
    assert held(key, *configs).decided == decided


# -- claims of this package ------------------------------------------------------------------------

TUNED = config("fedglb-ucb", 100, [100.0], threshold=1.0)


def ours(*configs):
    return {c.key: c for c in check(numbers(*configs)) if c.whose == "this package"}


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
    claim = ours(TUNED, auto(spread(mean, error)))["nothing-to-tune"]
    assert claim.verdict == verdict
    assert claim.decided.startswith(f"FedGLB-Auto (D=0.1): {mean / 100:.2f} ")
    assert "best of 1 settings of the paper’s: FedGLB-UCB (D=1), regret 100" in claim.measured
    assert "with 50 % of its transfers" in claim.measured


def test_only_defaults_are_untuned():
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


def test_ours_only_where_the_study_has_what_they_need():
    assert ours(*good()) == {}
    assert set(ours(auto([110.0]))) == {"one-exchange"}
