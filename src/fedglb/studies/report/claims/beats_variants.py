"""FedGLB-UCB beats its three variants at equal communication."""

from __future__ import annotations

from fedglb.studies.report.claims.base import FEDGLB, UNTESTED, VARIANTS, Claim, Evidence, verdict
from fedglb.studies.report.claims.equal import FEWEST, Comparison, comparisons
from fedglb.studies.report.summary import NAMES

_TEXT = "At equal communication FedGLB-UCB has less regret than its three variants."
_RULE = (
    "Each setting of a variant within FedGLB-UCB’s range of communication is compared with "
    "FedGLB-UCB’s mean regret there (interpolated linearly in the logarithms of both); a variant "
    f"with fewer than {FEWEST} such settings is not compared. Holds if each variant that was run "
    "is compared and loses at three quarters of its settings or more, and on the geometric mean; "
    "does not hold if one that is compared does not; otherwise not decided."
)


def beats_variants(evidence: Evidence) -> Claim:
    """Hold the claim against the variants that were run."""
    run = evidence.of(*VARIANTS)
    if not run or not evidence.of(FEDGLB):
        missing = "No variant" if not run else "FedGLB-UCB"
        text = f"{missing} was {'not ' if run else ''}run."
        return Claim("beats-variants", _TEXT, _RULE, text, UNTESTED)
    made = comparisons(evidence, *VARIANTS)
    absent = [NAMES[v] for v in VARIANTS if v not in {c.algorithm for c in run}]
    said = [c.in_words() for c in made]
    said += [f"not run: {', '.join(absent)}"] if absent else []
    usable = [c for c in made if c.enough]
    word = UNTESTED
    if usable:
        fails = not all(c.wins for c in usable)
        word = verdict(len(usable) == len(made) and not fails, fails)
    numbers = {"comparisons": [c.plain() for c in made]}
    return Claim("beats-variants", _TEXT, _RULE, "; ".join(said) + ".", word, _why(made), numbers)


def _why(made: list[Comparison]) -> str:
    """Return what decided: one that is not won, or not compared, or was won by the least."""
    usable = [c for c in made if c.enough]
    lost = next((c for c in usable if not c.wins), None)
    missing = next((c for c in made if not c.enough), None)
    if lost is None and missing is not None:
        return f"{missing.other}: {missing.compared} settings to compare < {FEWEST}"
    decider = lost or min(usable, key=lambda c: c.beaten / c.compared, default=None)
    return "" if decider is None else decider.why()
