"""What a study says in a headline and three sentences; every word follows from the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedglb.report.claims import FAILS, HOLDS, UNTESTED, Claim, Evidence
from fedglb.report.claims.base import FEDGLB
from fedglb.report.claims.communication_pays import FEWEST, from_to, signed
from fedglb.report.summary import reference
from fedglb.report.text.against import against_one, against_others, named, total
from fedglb.report.text.numerals import amount, percent


def headline(evidence: Evidence, claims: Sequence[Claim]) -> str:
    """Return the one line that matters most."""
    claim = _by_key(claims)
    if claim["near-one"].verdict != UNTESTED:
        return against_one(claim["near-one"], evidence.measure)
    if claim["beats-variants"].verdict != UNTESTED:
        made = [c for c in claim["beats-variants"].numbers["comparisons"] if c["enough"]]
        beaten, compared = total(made)
        return (
            f"At equal communication FedGLB-UCB has less regret than {named(made)} at {beaten} of "
            f"{compared} settings."
        )
    best = min(evidence.rows, key=lambda r: r.regret)
    return (
        f"{best.title} has the least regret, {amount(best.regret)}, with "
        f"{amount(best.cost(evidence.measure))} {evidence.measure}."
    )


def sentences(evidence: Evidence, claims: Sequence[Claim]) -> tuple[str, str, str]:
    """Say what communication buys, how the algorithms compare, and how communication is spent."""
    claim = _by_key(claims)
    return (
        _what_it_buys(evidence, claim["communication-pays"]),
        against_others(claim["beats-variants"], claim["beats-linear"]),
        _how_it_is_spent(claim["fewer-and-fewer"], claim["growth"]),
    )


def _by_key(claims: Sequence[Claim]) -> dict[str, Claim]:
    return {claim.key: claim for claim in claims}


def _what_it_buys(evidence: Evidence, claim: Claim) -> str:
    """Describe one FedGLB-UCB curve with its numbers; name the others, and those that fail."""
    found = [c for c in claim.numbers["curves"] if c["algorithm"] != "dislinucb"]
    ours = [c for c in found if c["algorithm"] == FEDGLB]
    if not ours:
        return (
            "What communication buys FedGLB-UCB is not tested here: it has fewer than "
            f"{FEWEST} settings."
        )
    shown = next((c for c in ours if c["falls"]), ours[0])
    parts = [_bought(shown, evidence.measure)]
    same = [c["curve"] for c in ours if c is not shown and c["falls"]]
    if same:
        parts.append(f"the same holds for {', '.join(same)}")
    others = [c for c in found if c is not shown and not c["falls"]]
    if others:
        said = [f"{c['curve']} (rank correlation {signed(c['rank_correlation'])})" for c in others]
        parts.append(f"regret does not fall steadily for {', '.join(said)}")
    alone = [reference(evidence.rows, name) for name in ("n-ucb-glm", "n-ons-glm")]
    without = [f"{r.curve} has {amount(r.regret)}" for r in alone if r is not None]
    parts += [f"without any, {' and '.join(without)}"] if without else []
    return "; ".join(parts) + "."


def _bought(curve: dict[str, Any], measure: str) -> str:
    least, most = from_to(curve, measure)
    if curve["falls"]:
        return f"Communication buys {curve['curve']} less regret, from {least} to {most}"
    if curve["regret_most"] < curve["regret_least"]:
        return (
            f"More communication does not steadily buy {curve['curve']} less regret (rank "
            f"correlation {signed(curve['rank_correlation'])}; {least}, {most})"
        )
    return f"More communication does not buy {curve['curve']} less regret ({least}, {most})"


def _how_it_is_spent(spent: Claim, grows: Claim) -> str:
    if spent.verdict == UNTESTED:
        text = "How the event trigger spends communication is not tested here"
    else:
        mean = spent.numbers["mean"]
        text = {
            HOLDS: "Its event trigger communicates less and less often",
            FAILS: "Its event trigger does not communicate less and less often",
        }.get(
            spent.verdict,
            "Whether its event trigger communicates less and less often is not decided",
        )
        text += (
            f": {percent(mean['first_tenth'])} of the global updates fall into the first tenth of "
            f"the steps, {percent(mean['last_half'])} into the last half"
        )
    if grows.verdict == UNTESTED:
        return f"{text}."
    both, of = grows.numbers["both"], len(grows.numbers["settings"])
    return (
        f"{text}; regret and communication both grow at most about like √t at {both} of {of} "
        f"{grows.numbers['noun']}."
    )
