"""Claims, one per file, each held against the numbers of a study: the paper's and ours."""

from dataclasses import replace

from fedglb.studies.report.claims.base import (
    FAILS,
    HOLDS,
    TOO_FEW,
    UNDECIDED,
    UNTESTED,
    Claim,
    Evidence,
    evidence,
)
from fedglb.studies.report.claims.beats_linear import beats_linear
from fedglb.studies.report.claims.beats_variants import beats_variants
from fedglb.studies.report.claims.communication_pays import communication_pays
from fedglb.studies.report.claims.fewer_and_fewer import fewer_and_fewer
from fedglb.studies.report.claims.growth import growth
from fedglb.studies.report.claims.near_one import auto_near_one, mix_near_one, near_one
from fedglb.studies.report.claims.nothing_to_tune import nothing_to_tune
from fedglb.studies.report.claims.one_exchange import one_exchange

#: The paper's claims, and those of this package.
CLAIMS = (
    communication_pays, beats_variants, near_one, fewer_and_fewer, beats_linear, growth,
)  # fmt: skip
OURS = (nothing_to_tune, one_exchange, auto_near_one, mix_near_one)


def check(found: Evidence) -> tuple[Claim, ...]:
    """Hold all claims against the numbers; those that the study cannot test are left out.

    With fewer than 5 seeds no claim has a verdict.
    """
    made = [
        *(claim(found) for claim in CLAIMS),
        *(replace(claim(found), whose="this package") for claim in OURS),
    ]
    tested = [claim for claim in made if claim.verdict != UNTESTED]
    if found.few_seeds:
        tested = [replace(claim, verdict=TOO_FEW, decided="") for claim in tested]
    return tuple(tested)


__all__ = [
    "CLAIMS",
    "FAILS",
    "HOLDS",
    "OURS",
    "TOO_FEW",
    "UNDECIDED",
    "UNTESTED",
    "Claim",
    "Evidence",
    "check",
    "evidence",
]  # fmt: skip
