"""Claims, the paper's and ours, checked against the numbers of a study."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from fedglb.studies.report.claims.base import TOO_FEW, UNTESTED, Claim
from fedglb.studies.report.claims.beats import beats_linear, beats_variants
from fedglb.studies.report.claims.communication import (
    communication_pays,
    fewer_and_fewer,
    one_exchange,
)
from fedglb.studies.report.claims.comparable import near_one, nothing_to_tune
from fedglb.studies.report.claims.growth import growth
from fedglb.studies.report.claims.personal import alike, anywhere, two_groups
from fedglb.studies.report.summary import ENOUGH, StudyNumbers

if TYPE_CHECKING:  # they import claims
    from fedglb.studies.report.along import Panel
    from fedglb.studies.results.study import Study

#: The paper's claims, then those of this package.
CLAIMS: tuple[Callable[[StudyNumbers], Claim], ...] = (
    communication_pays, beats_variants, near_one, fewer_and_fewer, beats_linear, growth,
    nothing_to_tune, one_exchange, partial(near_one, algorithm="fedglb-auto"),
    partial(near_one, algorithm="fedglb-mix"),
)  # fmt: skip
#: Claims of this package on a study with an axis.
ALONG = (alike, anywhere, two_groups)


def check(study: StudyNumbers) -> tuple[Claim, ...]:
    """Check all claims that the study can test.

    None has a verdict with fewer than 5 seeds, or where all seeds of a setting are the same run.
    """
    few = study.few_seeds or study.repeats
    return _judged([claim(study) for claim in CLAIMS], few=few)


def check_along(study: Study, found: Sequence[Panel]) -> tuple[Claim, ...]:
    """Check all claims that the study with an axis can test; verdicts as in `check`."""
    lines = [line for panel in found for line in panel.lines]
    few = any(line.regrets.shape[1] < ENOUGH or not all(line.randomised) for line in lines)
    return _judged([claim(study, found) for claim in ALONG], few=few)


def _judged(made: Sequence[Claim], *, few: bool) -> tuple[Claim, ...]:
    tested = [claim for claim in made if claim.verdict != UNTESTED]
    if few:
        tested = [replace(claim, verdict=TOO_FEW, decided="") for claim in tested]
    return tuple(tested)


__all__ = ["ALONG", "CLAIMS", "Claim", "check", "check_along"]
