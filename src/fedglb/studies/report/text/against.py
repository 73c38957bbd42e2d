"""Sentences that compare FedGLB-UCB with other algorithms; they follow from the verdicts."""

from __future__ import annotations

from typing import Any

from fedglb.studies.report.claims import FAILS, HOLDS, LOOK, UNDECIDED, Claim
from fedglb.studies.report.claims.base import VARIANTS
from fedglb.studies.report.text.numerals import amount, factor, percent, plus_minus


def against_one(claim: Claim, measure: str) -> str:
    """Say how near the setting that decided, or else the cheapest one, is to One-UCB-GLM."""
    numbers = claim.numbers
    open_or_look = claim.verdict in (UNDECIDED, LOOK)
    shown = (numbers["cheapest"] or numbers["best"]) if open_or_look else numbers["decider"]
    ratio, cost = shown["regret_ratio"], shown["communication_ratio"]
    error = shown["regret_ratio_error"]
    share = f"{percent(cost)} of its" if cost < 1 else f"{amount(cost)} times its"
    if claim.verdict == LOOK:
        return (
            f"{shown['title']} has {_ratio(ratio, None)} times One-UCB-GLM’s regret with {share} "
            f"{measure}."
        )
    if claim.verdict == FAILS:
        dear = f" at a small part of its {measure}" if _only_dear(numbers) else ""
        return (
            f"FedGLB-UCB does not come near One-UCB-GLM{dear}: at best {shown['title']} has "
            f"{_ratio(ratio, error)} times its regret, with {share} {measure}."
        )
    if not shown["settled"]:
        return (
            f"Whether FedGLB-UCB comes near One-UCB-GLM is not decided by these seeds: "
            f"{shown['title']} has {_ratio(ratio, error)} times its regret with {share} {measure}."
        )
    spread = f" (± {percent(error)})"
    if abs(1 - ratio) < 2 * error and ratio < 0.995:  # not clearly less
        near = f"has about One-UCB-GLM’s regret ({_ratio(ratio, error)} times)"
    elif 0.995 <= ratio <= 1:
        near = f"has the same regret as One-UCB-GLM{spread}"
    elif ratio < 1:
        near = f"has {percent(1 - ratio)}{spread} less regret than One-UCB-GLM"
    else:
        within = percent(ratio - 1) if ratio > 1.005 else "1 %"
        near = f"comes within {within}{spread} of One-UCB-GLM’s regret"
    but = "" if claim.verdict == HOLDS else ", but"  # comparable, though not at a small part
    return f"{shown['title']} {near}{but} with {share} {measure}."


def _only_dear(numbers: dict[str, Any]) -> bool:
    """Return whether a setting that was not the decider has less regret: it is too dear."""
    best: float = numbers["best"]["regret_ratio"]
    decider: float = numbers["decider"]["regret_ratio"]
    return best < decider


def _ratio(ratio: float, error: float | None) -> str:
    return f"{ratio:.2f}" + ("" if error is None else f" ± {error:.2f}")


def against_others(variants: Claim | None, linear: Claim | None) -> str:
    """Say how FedGLB-UCB compares with its variants and with DisLinUCB; "" if that is not there."""
    parts = []
    if variants is not None:
        parts.append(_against_variants(variants))
    if linear is not None:
        parts.append(_against_linear(linear, "it" if parts else "FedGLB-UCB"))
    if not parts:
        return ""
    text = ", and ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _against_variants(claim: Claim) -> str:
    every = claim.numbers["comparisons"]
    made = [c for c in every if c["enough"]]
    if claim.verdict == LOOK:
        beaten, compared = total(made)
        return (
            f"at equal communication FedGLB-UCB has less regret than {named(made)} at {beaten} of "
            f"{compared} settings"
        )
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
    if claim.verdict == LOOK:
        return f"{who} against DisLinUCB: {inside[1:-1]}"
    if claim.verdict == UNDECIDED:
        by = " by these seeds" if numbers["best"] == "open" else ""
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
