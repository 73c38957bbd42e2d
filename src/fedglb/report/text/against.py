"""Sentences that compare FedGLB-UCB with other algorithms; they follow from the verdicts."""

from __future__ import annotations

from typing import Any

from fedglb.report.claims import FAILS, HOLDS, UNDECIDED, UNTESTED, Claim
from fedglb.report.claims.base import VARIANTS
from fedglb.report.claims.near_one import COMPARABLE
from fedglb.report.text.numerals import amount, factor, percent, plus_minus


def against_one(claim: Claim, measure: str) -> str:
    """Say how near the cheapest comparable setting, or else the best one, is to One-UCB-GLM."""
    numbers = claim.numbers
    shown = numbers["cheapest"] or numbers["best"]
    ratio, cost = shown["regret_ratio"], shown["communication_ratio"]
    error = shown["regret_ratio_error"]
    share = f"{percent(cost)} of its" if cost < 1 else f"{amount(cost)} times its"
    if not shown["settled"] and claim.verdict == FAILS:
        dear = f" at a small part of its {measure}" if ratio <= COMPARABLE else ""
        return (
            f"FedGLB-UCB does not come near One-UCB-GLM{dear}: at best {shown['title']} has "
            f"{_ratio(ratio, error)} times its regret, with {share} {measure}."
        )
    if not shown["settled"]:
        seeds = "one seed" if error is None else "these seeds"
        return (
            f"Whether FedGLB-UCB comes near One-UCB-GLM is not decided by {seeds}: "
            f"{shown['title']} has {_ratio(ratio, error)} times its regret with {share} {measure}."
        )
    spread = f" (± {percent(error)})"
    if 0.995 <= ratio <= 1:
        near = f"has the same regret as One-UCB-GLM{spread}"
    elif ratio < 1:
        near = f"has {percent(1 - ratio)}{spread} less regret than One-UCB-GLM"
    else:
        within = percent(ratio - 1) if ratio > 1.005 else "1 %"
        near = f"comes within {within}{spread} of One-UCB-GLM’s regret"
    but = "" if claim.verdict == HOLDS else ", but"  # comparable, though not at a small part
    return f"{shown['title']} {near}{but} with {share} {measure}."


def _ratio(ratio: float, error: float | None) -> str:
    return f"{ratio:.2f}" + ("" if error is None else f" ± {error:.2f}")


def against_others(variants: Claim, linear: Claim) -> str:
    """Say how FedGLB-UCB compares with its variants and with DisLinUCB."""
    parts = []
    if variants.verdict != UNTESTED:
        parts.append(_against_variants(variants))
    if linear.verdict != UNTESTED:
        parts.append(_against_linear(linear, "it" if parts else "FedGLB-UCB"))
    if not parts:
        return "How FedGLB-UCB compares at equal communication is not tested here."
    text = ", and ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _against_variants(claim: Claim) -> str:
    every = claim.numbers["comparisons"]
    made = [c for c in every if c["enough"]]
    if claim.verdict == UNDECIDED:
        rest = _and([c["other"] for c in every if not c["enough"]])
        return (
            "whether FedGLB-UCB beats all its variants at equal communication is not decided: it "
            f"beats {named(made)} ({_settings(made)}), but {rest} cannot be compared"
        )
    does = "beats" if claim.verdict == HOLDS else "does not consistently beat"
    return f"at equal communication FedGLB-UCB {does} {named(made)} ({_settings(made)})"


def _against_linear(claim: Claim, who: str) -> str:
    numbers = claim.numbers
    mine, other = (
        plus_minus(best["regret"], best["error"])
        for best in (numbers["best_fedglb"], numbers["best_dislinucb"])
    )
    equal = _settings([c for c in numbers["comparisons"] if c["enough"]])
    equal = f"at equal communication {equal}; " if equal else ""
    inside = f"({equal}best settings: {mine} against {other})"
    if claim.verdict == UNDECIDED:
        by = "one seed" if numbers["difference_error"] is None else "these seeds"
        by = f" by {by}" if numbers["best"] == "open" else ""
        return f"whether {who} beats DisLinUCB is not decided{by} {inside}"
    return f"{who} {'beats' if claim.verdict == HOLDS else 'does not beat'} DisLinUCB {inside}"


def named(made: list[dict[str, Any]]) -> str:
    """Return "its variants", with their names unless all three are compared.

    Examples
    --------
    >>> named([{"algorithm": "fedglb-ucb-1", "other": "FedGLB-UCB1"}])
    'its variant FedGLB-UCB1'
    """
    if {c["algorithm"] for c in made} == set(VARIANTS):
        return "its variants"
    names = list(dict.fromkeys(c["other"] for c in made))
    return f"its variant{'s' if len(names) > 1 else ''} {_and(names)}"


def _and(names: list[str]) -> str:
    names = list(dict.fromkeys(names))
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def total(made: list[dict[str, Any]]) -> tuple[int, int]:
    """Return at how many settings the others are beaten, and at how many they are compared."""
    return sum(c["beaten"] for c in made), sum(c["compared"] for c in made)


def _settings(made: list[dict[str, Any]]) -> str:
    """Return at how many settings, and by how much; nothing if none were compared."""
    beaten, compared = total(made)
    ratios = [c["ratio"] for c in made if c["ratio"] is not None]
    return f"{beaten} of {compared} settings{_factors(ratios)}" if compared else ""


def _factors(ratios: list[float]) -> str:
    """Return by how much, over all comparisons."""
    if not ratios:
        return ""
    low, high = factor(min(ratios)), factor(max(ratios))
    return f", {low if low == high else f'{low} to {high}'} times its regret"
