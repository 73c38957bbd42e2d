"""Each rule just inside and just outside its thresholds: what errors and few settings decide."""

from __future__ import annotations

import pytest

from fedglb.studies.report.claims import CLAIMS, check
from fedglb.studies.report.claims.growth import slope
from tests.studies.report.made_study import config, numbers

HOLDS, FAILS, OPEN, UNTESTED = "holds", "does not hold", "not decided", "not tested here"
TOO_FEW = "too few seeds to judge"


def held(key, *configs):
    """A claim's verdict; also of one that cannot be tested, which a report leaves out."""
    made = numbers(*configs)
    claims = [*check(made), *(claim(made) for claim in CLAIMS)]
    return next(c for c in claims if c.key == key)


def spread(mean, error):
    """Regrets with a mean and a standard error, as `config` takes them."""
    return [mean - error, mean + error]


def near_one(*ours, few=False):
    made = [config("fedglb-ucb", cost, regrets, threshold=i + 1.0, few=few)
            for i, (cost, regrets) in enumerate(ours)]  # fmt: skip
    one = config("one-ucb-glm", 1000, [100.0] * len(ours[0][1]), few=few)
    return held("near-one", *made, one)


@pytest.mark.parametrize(
    ("mean", "error", "verdict"),
    [(125.0, 12.4, HOLDS), (125.0, 12.6, OPEN), (125.1, 1.0, OPEN), (130.0, 2.4, FAILS),
     (130.0, 2.6, OPEN), (125.0, 167.0, OPEN), (80.0, 30.0, HOLDS)],
)  # fmt: skip
def test_near_one_by_regret_and_error(mean, error, verdict):
    assert near_one((50, spread(mean, error))).verdict == verdict


@pytest.mark.parametrize(("cost", "verdict"), [(100, HOLDS), (101, OPEN)])
def test_near_one_by_communication(cost, verdict):
    assert near_one((cost, [100.0, 100.0])).verdict == verdict


@pytest.mark.parametrize("regret", [100.0, 300.0])
def test_near_one_with_one_seed(regret):
    claim = near_one((50, [regret]), few=True)
    assert claim.verdict == TOO_FEW
    assert "±" not in claim.measured


def test_near_one_only_where_it_is_dear():
    claim = near_one((900, [100.0, 100.0]), (50, [150.0, 150.0]))
    assert claim.verdict == FAILS
    assert claim.decided == (
        "FedGLB-UCB (D=2): 1.50 − 2 × 0.00 = 1.50 > 1.25, with 5.0 % ≤ 10 % of the transfers"
    )


def test_the_number_that_is_shown_is_the_one_that_decided():
    """The best of all is not decided; what is too far is the best with little communication."""
    claim = near_one((900, spread(214.0, 102.0)), (50, spread(400.0, 10.0)))
    assert claim.verdict == FAILS
    assert claim.decided.startswith("FedGLB-UCB (D=2): 4.00 − 2 × 0.10 = 3.80 > 1.25, with 5.0 %")
    assert claim.numbers["decider"]["title"] == "FedGLB-UCB (D=2)"
    assert "FedGLB-UCB (D=1) has 2.14 ± 1.02 times" in claim.measured


def test_near_one_nowhere():
    assert near_one((900, [150.0, 150.0])).verdict == FAILS  # not even where it is dear
    assert near_one((900, [150.0, 150.0]), (50, [100.0, 220.0])).verdict == FAILS


# FedGLB-UCB has 200 from 10 to 10,000, where DisLinUCB's settings lie, and its best elsewhere.
def linear(theirs, best=(100.0, 100.0), *more):
    flat = [config("fedglb-ucb", cost, [200.0, 200.0], threshold=float(cost))
            for cost in (10, 10_000)]  # fmt: skip
    other = [config("dislinucb", 20 + i, [r, r], threshold=i + 1.0) for i, r in enumerate(theirs)]
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
    best = config("dislinucb", 500_000, [50.0, 50.0], threshold=9.0)
    assert linear(WON, (100.0, 100.0), best).verdict == FAILS


@pytest.mark.parametrize(
    ("mean", "error", "verdict"),
    [(110, 4.9, HOLDS), (110, 5.1, OPEN), (90, 5.1, OPEN), (90, 4.9, FAILS)],
)
def test_linear_by_paired_errors(mean, error, verdict):
    claim = held(
        "beats-linear", config("fedglb-ucb", 10, [100.0, 100.0], threshold=1.0),
        config("dislinucb", 99, spread(mean, error), threshold=1.0),
    )  # fmt: skip
    assert claim.verdict == verdict
    assert claim.numbers["difference"] == pytest.approx(mean - 100)
    assert claim.numbers["difference_error"] == pytest.approx(error)


def test_linear_is_paired_by_seed():
    """Errors of 40 each, but the same seeds are bad for both: it is the difference that counts."""
    ours = config("fedglb-ucb", 10, [60.0, 140.0], threshold=1.0)
    for theirs, verdict in (([60.0, 140.4], OPEN), ([70.0, 150.5], HOLDS)):
        other = config("dislinucb", 99, theirs, threshold=1.0)
        assert held("beats-linear", ours, other).verdict == verdict


def test_linear_with_one_seed():
    claim = held("beats-linear", config("fedglb-ucb", 10, [5.0], threshold=1.0, few=True),
                 config("dislinucb", 99, [9.0], threshold=1.0, few=True))  # fmt: skip
    assert claim.verdict == TOO_FEW
    assert "too few seeds for an error" in claim.measured


FLAT = [config("fedglb-ucb", c, [100.0, 100.0], threshold=float(c)) for c in (10, 10_000)]


def variant(name, regrets, start=20):
    return [config(name, start + i, [r, r], updates=i + 1) for i, r in enumerate(regrets)]


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
@pytest.mark.parametrize("start", [9_999, 50_000])
def test_a_variant_that_cannot_be_compared_is_named(first, verdict, start):
    claim = held(
        "beats-variants", *FLAT, *variant("fedglb-ucb-1", [first] * 4),
        *variant("fedglb-ucb-2", [150.0] * 4, start),
    )  # fmt: skip
    assert claim.verdict == verdict
    inside = 2 if start == 9_999 else 0
    assert f"FedGLB-UCB2: not compared ({inside} of its 4 settings within" in claim.measured


def test_a_narrow_win_has_the_digits_to_show_it():
    claim = held("beats-variants", *FLAT, *variant("fedglb-ucb-1", [100.5] * 4))
    assert claim.verdict == HOLDS
    assert "with 1.005 times FedGLB-UCB’s regret" in claim.measured


def pays(regrets, algorithm="fedglb-ucb", *more):
    dial = "updates" if algorithm[-1] in "123" else "threshold"
    made = [config(algorithm, 10 * (i + 1), [float(r)], **{dial: i + 1})
            for i, r in enumerate(regrets)]  # fmt: skip
    return held("communication-pays", *made, *more)


@pytest.mark.parametrize(
    ("regrets", "verdict"),
    [([4, 3, 1, 2], HOLDS),  # a rank correlation of −0.8
     ([4, 3, 5, 2, 1], FAILS),  # of −0.7
     ([9.5, *range(20, 9, -1), *range(9, 2, -1), 9.7], FAILS),  # of −0.84, but more at the end
     ([3, 2, 1], UNTESTED), ([5, 5, 5, 5], FAILS)],
)  # fmt: skip
def test_communication_pays(regrets, verdict):
    claim = pays(regrets)
    assert claim.verdict == verdict
    if len(regrets) == 20:
        assert claim.numbers["curves"][0]["rank_correlation"] < -0.8


def test_curves_that_count():
    falling, rising = [40, 30, 20, 10], [10, 20, 30, 40]
    other = [config("dislinucb", 10 * i, [float(i)], threshold=float(i)) for i in range(1, 6)]
    assert pays(falling, "fedglb-ucb", *other).verdict == HOLDS
    worse = [config("fedglb-ucb-1", 10 * i, [float(i)], updates=i) for i in range(1, 6)]
    assert pays(falling, "fedglb-ucb", *worse).verdict == FAILS
    few = pays(falling, "fedglb-ucb", *worse[:3])
    assert few.verdict == HOLDS
    assert "FedGLB-UCB1: not tested, 3 of 4 settings" in few.measured
    assert pays(falling, "fedglb-ucb-1").verdict == OPEN  # FedGLB-UCB itself is not there
    assert pays(rising).verdict == FAILS


def triggered(first, last, total=100, **more):
    """Updates of 80 steps: some in the first tenth, some in the last half, the rest between."""
    at = [4] * first + [20] * (total - first - last) + [60] * last
    return config("fedglb-ucb", 100, [5.0, 6.0], **{"threshold": 1.0, "updates_at": at, **more})


@pytest.mark.parametrize(
    ("first", "last", "verdict"),
    [(15, 40, HOLDS), (14, 40, OPEN), (15, 41, OPEN), (11, 49, OPEN), (10, 40, FAILS),
     (15, 50, FAILS), (10, 50, FAILS)],
)  # fmt: skip
def test_fewer_and_fewer(first, last, verdict):
    assert held("fewer-and-fewer", triggered(first, last)).verdict == verdict


def test_few_updates_do_not_count():
    assert held("fewer-and-fewer", triggered(2, 1, 5)).verdict == HOLDS
    assert held("fewer-and-fewer", triggered(2, 1, 4)).verdict == UNTESTED
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
        ("near-one", [config("fedglb-ucb", 50, spread(120.0, 5.0), threshold=1.0),
                      config("one-ucb-glm", 1000, [100.0])],
         "FedGLB-UCB (D=1): 1.20 ≤ 1.25, and 1.20 + 2 × 0.05 = 1.30 ≤ 1.5, with 5.0 % ≤ 10 % of "
         "the transfers"),
        ("near-one", [config("fedglb-ucb", 50, spread(120.0, 20.0), threshold=1.0),
                      config("one-ucb-glm", 1000, [100.0])],
         "FedGLB-UCB (D=1): 1.20 ≤ 1.25, but 1.20 + 2 × 0.20 = 1.60 > 1.5, with 5.0 % ≤ 10 % of "
         "the transfers"),
        ("beats-variants", [*FLAT, *variant("fedglb-ucb-1", [150.0, 150.0, 90.0, 90.0])],
         "FedGLB-UCB1: beaten at 2 of 4 settings, 50 % < 75 %, with 1.16 > 1 times"),
        ("beats-variants", [*FLAT, *variant("fedglb-ucb-1", [150.0] * 4),
                            *variant("fedglb-ucb-2", [150.0] * 4, 50_000)],
         "FedGLB-UCB2: 0 settings to compare < 3"),
        ("communication-pays", [config("fedglb-ucb", 10 * (i + 1), [float(r)], threshold=i + 1.0)
                                for i, r in enumerate([4, 3, 5, 2, 1])],
         "FedGLB-UCB: −0.70 > −0.80"),
        ("communication-pays", [config("fedglb-ucb", 10 * (i + 1), [0.0], threshold=i + 1.0)
                                for i in range(4)],
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
