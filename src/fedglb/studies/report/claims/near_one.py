"""An algorithm's regret is comparable to One-UCB-GLM's, at a small part of its communication."""

from __future__ import annotations

from collections.abc import Sequence

from fedglb.studies.report.claims.base import FEDGLB, UNTESTED, Claim, Evidence, verdict
from fedglb.studies.report.claims.paired import ERRORS
from fedglb.studies.report.claims.ratio import COMPARABLE, RULE, Ratio, ratio
from fedglb.studies.report.numerals import percent
from fedglb.studies.report.summary import NAMES, reference

#: Communication that counts as a small part, as a ratio to One-UCB-GLM's.
SMALL = 0.1
_TEXT = (
    "With frequent global updates {who}’s regret is comparable to that of One-UCB-GLM, at a "
    "small part of its communication."
)
_RULE = (
    f"Holds if some setting of {{who}} with at most {percent(SMALL)} of One-UCB-GLM’s "
    f"communication has {RULE}; does not hold if the best setting, of all "
    f"or of those with so little communication, has more than {COMPARABLE:g} times its regret "
    f"when {ERRORS:g} standard errors are subtracted; otherwise not decided. "
    "Errors of ratios are paired by seed."
)


def near_one(evidence: Evidence) -> Claim:
    """Hold the paper's claim against all settings of FedGLB-UCB."""
    return _near_one(evidence, FEDGLB, "near-one")


def auto_near_one(evidence: Evidence) -> Claim:
    """Hold the same claim about FedGLB-Auto against its settings."""
    return _near_one(evidence, "fedglb-auto", "auto-near-one")


def mix_near_one(evidence: Evidence) -> Claim:
    """Hold the same claim about FedGLB-Mix against its settings."""
    return _near_one(evidence, "fedglb-mix", "mix-near-one")


def _near_one(evidence: Evidence, algorithm: str, key: str) -> Claim:
    """Hold the claim; report the settings of most communication, least regret, and the cheapest."""
    who = NAMES[algorithm]
    text, rule = _TEXT.format(who=who), _RULE.format(who=who)
    one = reference(evidence.rows, "one-ucb-glm")
    ours = [row for curve in evidence.of(algorithm) for row in curve.rows]
    if one is None or not ours:
        missing = "One-UCB-GLM" if one is None else who
        return Claim(key, text, rule, f"{missing} was not run.", UNTESTED)
    found = [made for row in ours if (made := ratio(evidence, row, one)) is not None]
    if not found:
        nothing = "One-UCB-GLM has no regret or no communication to compare with."
        return Claim(key, text, rule, nothing, UNTESTED)
    small = [r for r in found if r.communication <= SMALL]
    best, best_small = _least_regret(found), _least_regret(small)
    assert best is not None
    settled = [r for r in found if r.settled]
    near = settled or [r for r in found if r.regret <= COMPARABLE]
    cheapest = min(near, key=lambda r: r.communication, default=None)
    frequent = max(found, key=lambda r: r.communication)
    sure = min((r for r in small if r.settled), key=lambda r: r.communication, default=None)
    # The best of all is far: then so are all. Else only those with little communication are.
    far = next((r for r in (best, best_small) if r is not None and r.far), None)
    decider = sure or far or best_small or best
    said = [f"most communication: {frequent.in_words(evidence.measure)}"]
    shown = [frequent]
    for what, one_of_them in (
        ("least regret", best),
        (f"least regret with at most {percent(SMALL)} of that communication", best_small),
        (f"cheapest {'clearly ' if settled else ''}within {COMPARABLE:g} times", cheapest),
    ):
        if one_of_them is not None and one_of_them not in shown:
            said.append(f"{what}: {one_of_them.in_words(evidence.measure)}")
            shown.append(one_of_them)
    if cheapest is None:
        said.append(f"no setting is within {COMPARABLE:g} times")
    numbers = {
        "frequent": frequent.plain(), "best": best.plain(), "decider": decider.plain(),
        "cheapest": None if cheapest is None else cheapest.plain(),
        "shown": decider.in_words(evidence.measure),
    }  # fmt: skip
    return Claim(
        key, text, rule, "; ".join(said) + ".", verdict(sure is not None, far is not None),
        _why(decider, evidence.measure), numbers,
    )  # fmt: skip


def _least_regret(found: Sequence[Ratio]) -> Ratio | None:
    return min(found, key=lambda r: r.regret, default=None)


def _why(decider: Ratio, measure: str) -> str:
    sign = "≤" if decider.communication <= SMALL else ">"
    return (
        f"{decider.why()}, with {percent(decider.communication)} {sign} {percent(SMALL)} of the "
        f"{measure}"
    )
