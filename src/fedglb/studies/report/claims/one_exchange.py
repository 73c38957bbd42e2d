"""A global update of FedGLB-Auto and FedGLB-Mix is one exchange of messages."""

from __future__ import annotations

from fedglb.studies.report.claims.base import FEDGLB, UNTESTED, Claim, Evidence, verdict
from fedglb.studies.report.summary import Curve

#: The most rounds per global update that count as one exchange, and from where on they do not.
ONE, MORE = 1.1, 1.5
_TEXT = "A global update of FedGLB-Auto and FedGLB-Mix is one exchange of messages."
_RULE = (
    f"Holds if all settings of each curve together have at most {ONE:g} rounds per global update; "
    f"does not hold if those of one curve have {MORE:g} or more; otherwise not decided. A round is "
    "one message to all clients and their answers."
)


def one_exchange(evidence: Evidence) -> Claim:
    """Hold the claim against the mean number of rounds per global update of each curve."""
    ours = [c for c in evidence.of("fedglb-auto", "fedglb-mix") if _updates(c) > 0]
    if not ours:
        text = "Neither FedGLB-Auto nor FedGLB-Mix made a global update here."
        return Claim("one-exchange", _TEXT, _RULE, text, UNTESTED)
    each = {c.name: _rounds(c) for c in ours}
    others = {c.name: _rounds(c) for c in evidence.of(FEDGLB) if _updates(c) > 0}
    most = max(each, key=lambda name: each[name])
    said = [f"{name}: {value:.2f} rounds per global update" for name, value in each.items()]
    said += [f"for comparison, {name}: {value:.2f}" for name, value in others.items()]
    holds, fails = each[most] <= ONE, each[most] >= MORE
    than = f"≤ {ONE:g}" if holds else f"≥ {MORE:g}" if fails else f"> {ONE:g}, but < {MORE:g}"
    return Claim(
        "one-exchange", _TEXT, _RULE, "; ".join(said) + ".", verdict(holds, fails),
        f"{most}: {each[most]:.2f} {than}", {"rounds_per_update": {**each, **others}},
    )  # fmt: skip


def _updates(curve: Curve) -> float:
    return sum(row.syncs for row in curve.rows)


def _rounds(curve: Curve) -> float:
    return sum(row.rounds for row in curve.rows) / _updates(curve)
