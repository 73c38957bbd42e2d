"""The paper's claims, one per file, each held against the numbers of a study."""

from fedglb.report.claims.base import (
    FAILS,
    HOLDS,
    UNDECIDED,
    UNTESTED,
    Claim,
    Evidence,
    evidence,
)
from fedglb.report.claims.beats_linear import beats_linear
from fedglb.report.claims.beats_variants import beats_variants
from fedglb.report.claims.communication_pays import communication_pays
from fedglb.report.claims.fewer_and_fewer import fewer_and_fewer
from fedglb.report.claims.growth import growth
from fedglb.report.claims.near_one import near_one

CLAIMS = (
    communication_pays, beats_variants, near_one, fewer_and_fewer, beats_linear, growth,
)  # fmt: skip


def check(found: Evidence) -> tuple[Claim, ...]:
    """Hold all claims against the numbers."""
    return tuple(claim(found) for claim in CLAIMS)


__all__ = [
    "CLAIMS", "FAILS", "HOLDS", "UNDECIDED", "UNTESTED", "Claim", "Evidence", "check", "evidence",
]  # fmt: skip
