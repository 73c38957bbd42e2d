"""Claims, the paper's and ours, checked against the numbers of a study."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from fedglb.studies.report.claims.base import TOO_FEW, UNTESTED, Claim
from fedglb.studies.report.claims.beats import beats_linear, beats_variants
from fedglb.studies.report.claims.communication import (
    communication_pays,
    fewer_and_fewer,
    one_exchange,
)
from fedglb.studies.report.claims.comparable import near_one, nothing_to_tune
from fedglb.studies.report.claims.growth import growth
from fedglb.studies.report.summary import StudyNumbers

#: The paper's claims, then those of this package.
CLAIMS: tuple[Callable[[StudyNumbers], Claim], ...] = (
    communication_pays, beats_variants, near_one, fewer_and_fewer, beats_linear, growth,
    nothing_to_tune, one_exchange, partial(near_one, algorithm="fedglb-auto"),
    partial(near_one, algorithm="fedglb-mix"),
)  # fmt: skip


def check(study: StudyNumbers) -> tuple[Claim, ...]:
    """Check all claims that the study can test.

    None has a verdict with fewer than 5 seeds, or where all seeds of a setting are the same run.
    """
    made = [claim(study) for claim in CLAIMS]
    tested = [claim for claim in made if claim.verdict != UNTESTED]
    if study.few_seeds or study.repeats:
        tested = [replace(claim, verdict=TOO_FEW, decided="") for claim in tested]
    return tuple(tested)


__all__ = ["CLAIMS", "Claim", "check"]
