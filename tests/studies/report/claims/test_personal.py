"""Claims on personal models, just inside and just outside their thresholds."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fedglb.studies.report import write_report
from fedglb.studies.report.along import panels
from fedglb.studies.report.claims import check_along
from fedglb.studies.results.study import Study
from tests.studies.report.claims.test_verdicts import FAILS, HOLDS, OPEN, spread
from tests.studies.report.made_study import config
from tests.studies.report.made_study import study as made_study

TOO_FEW = "too few seeds to judge"


def study(rows, axis="heterogeneity", groups=None, **more):
    """Value → regrets of personal, shared and alone."""
    cells = []
    for value, regrets in rows.items():
        presets = (("fedglb-personal", 10), ("fedglb-auto", 10), ("n-ucb-glm", 0))
        each = zip(presets, regrets, strict=True)
        made = made_study(
            *(config(name, cost, r, **more) for (name, cost), r in each if r), horizon=1
        )
        if groups is not None:
            document = json.dumps({"environment": {"groups": groups}})
            manifest = {**made.result.manifest, "document": document}
            made = replace(made, cells=(replace(made.cells[0], result=replace(
                made.result, manifest=manifest)),))  # fmt: skip
        cells.append(replace(made.cells[0], value=value))
    return Study("x", "X", "", "transfers", tuple(cells), axis)


def verdicts(*args, **more):
    made = study(*args, **more)
    return {claim.key: claim.verdict for claim in check_along(made, panels(made))}


FAR = {1.0: ([40.0], [100.0], [100.0])}


@pytest.mark.parametrize(
    ("personal", "verdict"),
    [
        ([105.0], HOLDS), ([105.1], FAILS), (spread(105.0, 10.4), HOLDS),
        (spread(105.0, 10.6), OPEN), (spread(106.0, 0.6), OPEN), (spread(106.0, 0.4), FAILS),
    ],
)  # fmt: skip
@pytest.mark.parametrize("axis", ["heterogeneity", "group_spread", "outliers"])
def test_where_clients_are_alike(axis, personal, verdict):
    found = verdicts({0.0: (personal, [100.0], [50.0]), **FAR}, axis)
    assert found["personal-alike"] == verdict


@pytest.mark.parametrize(
    ("personal", "shared", "alone", "verdict"),
    [
        ([100.0], [100.0], [300.0], HOLDS), ([100.0], [300.0], [100.0], HOLDS),
        ([100.1], [100.0], [300.0], FAILS), ([100.1], [300.0], [100.0], FAILS),
        (spread(90.0, 14.9), [100.0], [300.0], HOLDS),
        (spread(90.0, 15.1), [100.0], [300.0], OPEN),
        (spread(101.0, 0.6), [100.0], [300.0], OPEN),
        (spread(101.0, 0.4), [300.0], [100.0], FAILS),
    ],
)  # fmt: skip
def test_however_much_they_differ(personal, shared, alone, verdict):
    at = (personal, shared, alone)
    assert verdicts({0.0: at, **FAR})["personal-anywhere"] == verdict
    assert verdicts({0.0: FAR[1.0], 2.0: at})["personal-anywhere"] == verdict


@pytest.mark.parametrize(
    ("personal", "verdict"),
    [
        ([45.0], HOLDS), ([45.1], FAILS), (spread(44.0, 4.9), HOLDS), (spread(44.0, 5.1), OPEN),
        (spread(46.0, 0.6), OPEN), (spread(46.0, 0.4), FAILS),
    ],
)  # fmt: skip
@pytest.mark.parametrize("others", [([100.0], [300.0]), ([300.0], [100.0])])
def test_two_groups(others, personal, verdict):
    rows = {0.0: ([100.0], [100.0], [300.0]), 1.0: (personal, *others)}
    assert verdicts(rows, "group_spread")["personal-two-groups"] == verdict
    assert verdicts(rows, "group_spread", 2)["personal-two-groups"] == verdict
    assert "personal-two-groups" not in verdicts(rows, "group_spread", 3)
    assert "personal-two-groups" not in verdicts(rows)


def test_what_was_not_run_is_not_judged():
    rows = {0.0: ([100.0], [100.0], [300.0]), **FAR}
    assert set(verdicts(rows)) == {"personal-alike", "personal-anywhere"}
    assert verdicts(rows, "drift") == {}
    for missing in range(3):
        some = {v: [None if i == missing else r for i, r in enumerate(own)]
                for v, own in rows.items()}  # fmt: skip
        assert set(verdicts(some)) == ({"personal-alike"} if missing == 2 else set())
    assert set(verdicts({0.5: rows[0.0], **FAR})) == {"personal-anywhere"}


def test_a_few_seeds_or_the_same_run_each_time_have_no_verdict():
    rows = {0.0: ([99.0, 101.0], [100.0, 100.0], [300.0, 300.0])}
    assert set(verdicts(rows, few=True).values()) == {TOO_FEW}
    assert set(verdicts(rows, randomised=False).values()) == {TOO_FEW}
    assert set(verdicts(rows).values()) == {HOLDS}


@pytest.mark.usefixtures("no_figures")
def test_the_number_that_decided_is_shown(tmp_path):
    made = study({0.0: (spread(106.0, 0.6), [100.0], [300.0]), **FAR})
    report = write_report(made, tmp_path)
    alike, anywhere = report.claims
    assert alike.decided == (
        "1.060 ± 0.006 times FedGLB-Auto’s at 0: 1.060 > 1.05, but 1.060 − 2 × 0.006 = 1.048 ≤ 1.05"
    )
    assert "1.060 − 2 × 0.006 = 1.048 > 1" in anywhere.decided
    made = study({0.0: (spread(104.0, 15.0), [100.0], [300.0]), **FAR})
    assert (
        write_report(made, tmp_path)
        .claims[0]
        .decided.endswith("1.040 ≤ 1.05, but 1.040 + 2 × 0.150 = 1.340 > 1.26")
    )
    assert "0.400 ± 0.000 times FedGLB-Auto’s at 1" in anywhere.measured
    assert alike.text in report.page.read_text()
