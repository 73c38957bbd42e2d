"""What a study says in a headline and a few sentences; every word follows from the numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedglb.studies.report.claims import FAILS, HOLDS, LOOK, Claim, Evidence
from fedglb.studies.report.claims.base import FEDGLB
from fedglb.studies.report.claims.communication_pays import from_to, signed
from fedglb.studies.report.summary import reference
from fedglb.studies.report.text.against import against_one, against_others, named, total
from fedglb.studies.report.text.numerals import amount, percent, plus_minus, setting
from fedglb.studies.report.varied import Varied


def headline(evidence: Evidence, claims: Sequence[Claim], *, own: bool = False) -> str:
    """Return the one line that matters most; of one's own sweep, its best setting."""
    claim = _by_key(claims)
    look = ""
    if evidence.is_look:
        look = f"A look at {evidence.seeds} seed{'s' if evidence.seeds > 1 else ''}: "
    if "near-one" in claim and not own:
        return look + against_one(claim["near-one"], evidence.measure)
    if "beats-variants" in claim and not own:
        made = [c for c in claim["beats-variants"].numbers["comparisons"] if c["enough"]]
        beaten, compared = total(made)
        at = "at equal communication" if look else "At equal communication"
        return (
            f"{look}{at} FedGLB-UCB has less regret than {named(made)} at {beaten} of "
            f"{compared} settings."
        )
    best = min(evidence.rows, key=lambda r: r.regret)
    of = f" of {len(evidence.rows)} settings" if len(evidence.rows) > 1 else ""
    return (
        f"{look}{best.title} has the least regret{of}, {plus_minus(best.regret, best.error)}, with "
        f"{amount(best.cost(evidence.measure))} {evidence.measure}."
    )


def sentences(
    evidence: Evidence, claims: Sequence[Claim], varied: Sequence[Varied] = ()
) -> tuple[str, ...]:
    """Say what was varied, what communication buys, how algorithms compare, how it is spent.

    What the study does not test is not mentioned.
    """
    claim = _by_key(claims)
    said = [_varied(v) for v in varied]
    if "communication-pays" in claim:
        said.append(_what_it_buys(evidence, claim["communication-pays"]))
    said.append(against_others(claim.get("beats-variants"), claim.get("beats-linear")))
    said.append(_how_it_is_spent(claim.get("fewer-and-fewer"), claim.get("growth")))
    if "nothing-to-tune" in claim:
        said.append(_untuned(claim["nothing-to-tune"], evidence.measure))
    return tuple(text for text in said if text)


def _by_key(claims: Sequence[Claim]) -> dict[str, Claim]:
    return {claim.key: claim for claim in claims}


def _varied(varied: Varied) -> str:
    """Say where a parameter has the least and the most regret, on the curve of least regret."""
    curve = min(varied.curves, key=lambda c: min(row.regret for _, row in c.points))
    (best, low), (worst, high) = (
        pick(curve.points, key=lambda p: p[1].regret) for pick in (min, max)
    )
    return (
        f"Of {varied.symbol} from {setting(varied.low)} to {setting(varied.high)}, {curve.name} "
        f"has the least regret at {setting(best)} ({plus_minus(low.regret, low.error)}) and the "
        f"most at {setting(worst)} ({plus_minus(high.regret, high.error)})."
    )


def _what_it_buys(evidence: Evidence, claim: Claim) -> str:
    """Describe one FedGLB-UCB curve with its numbers; name the others, and those that fail."""
    found = [c for c in claim.numbers["curves"] if c["algorithm"] != "dislinucb"]
    ours = [c for c in found if c["algorithm"] == FEDGLB]
    if not ours:
        return ""
    shown = next((c for c in ours if c["falls"]), ours[0])
    if claim.verdict == LOOK:
        parts = [f"{shown['curve']} has a regret of " + " and ".join(
            from_to(shown, evidence.measure))]  # fmt: skip
    else:
        parts = [_bought(shown, evidence.measure), *_other_curves(found, shown)]
    alone = [reference(evidence.rows, name) for name in ("n-ucb-glm", "n-ons-glm")]
    without = [f"{r.curve} has {amount(r.regret)}" for r in alone if r is not None]
    parts += [f"without any, {' and '.join(without)}"] if without else []
    return "; ".join(parts) + "."


def _other_curves(found: list[dict[str, Any]], shown: Mapping[str, Any]) -> list[str]:
    same = [c["curve"] for c in found if c is not shown and c["falls"] and c["algorithm"] == FEDGLB]
    others = [c for c in found if c is not shown and not c["falls"]]
    said = [f"{c['curve']} (rank correlation {signed(c['rank_correlation'])})" for c in others]
    return [
        *([f"the same holds for {', '.join(same)}"] if same else []),
        *([f"regret does not fall steadily for {', '.join(said)}"] if said else []),
    ]


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


def _how_it_is_spent(spent: Claim | None, grows: Claim | None) -> str:
    parts = []
    if spent is not None:
        mean = spent.numbers["mean"]
        shares = (
            f"{percent(mean['first_tenth'])} of the global updates fall into the first tenth of "
            f"the steps, {percent(mean['last_half'])} into the last half"
        )
        said = {
            HOLDS: "FedGLB-UCB’s event trigger communicates less and less often: ",
            FAILS: "FedGLB-UCB’s event trigger does not communicate less and less often: ",
            LOOK: "Of FedGLB-UCB’s event trigger, ",
        }.get(
            spent.verdict,
            "Whether FedGLB-UCB’s event trigger communicates less and less often is not decided: ",
        )
        parts.append(said + shares)
    if grows is not None:
        both, of = grows.numbers["both"], len(grows.numbers["settings"])
        whose = "regret" if parts else "FedGLB-UCB’s regret"
        parts.append(
            f"{whose} and communication both grow at most about like √t at {both} of {of} "
            f"{grows.numbers['noun']}"
        )
    return "; ".join(parts) + "." if parts else ""


def _untuned(claim: Claim, measure: str) -> str:
    """Say how FedGLB-Auto compares, untuned, with the best tuned setting of the paper's."""
    ratio, best = claim.numbers["ratio"], claim.numbers["best"]
    error = ratio["regret_ratio_error"]
    spread = "" if error is None else f" ± {error:.2f}"
    return (
        f"Untuned, {ratio['title']} has {ratio['regret_ratio']:.2f}{spread} times the regret of "
        f"{best['title']}, the best tuned setting of the paper’s, with "
        f"{amount(ratio['communication_ratio'])} times its {measure}."
    )
