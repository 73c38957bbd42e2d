"""The tables of the page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from fedglb.report.claims import FAILS, HOLDS, UNDECIDED, Claim, Evidence
from fedglb.report.study import Study
from fedglb.report.text.numerals import amount, plus_minus

_MARKS = {HOLDS: ("✓", "holds"), FAILS: ("✗", "fails"), UNDECIDED: ("?", "undecided")}


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers_from: int = 1, kind: str = ""
) -> str:
    """Return a table. Cells are HTML; columns from index `numbers_from` on are numbers.

    Examples
    --------
    >>> table(["a", "b"], [["x", "1"]])[:45]
    '<div class="wide"><table class=""><thead><tr>'
    """
    cells = [_cells("th", head, numbers_from)]
    body = "".join(f"<tr>{_cells('td', row, numbers_from)}</tr>" for row in rows)
    return (
        f'<div class="wide"><table class="{kind}"><thead><tr>{cells[0]}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _cells(tag: str, cells: Sequence[str], numbers_from: int) -> str:
    number = ' class="n"'
    scope = ' scope="col"' if tag == "th" else ""
    return "".join(
        f"<{tag}{scope}{number if i >= numbers_from else ''}>{cell}</{tag}>"
        for i, cell in enumerate(cells)
    )


def pairs(facts: Mapping[str, object]) -> str:
    """Return names and values, one per line."""
    rows = [[escape(str(k)), _value(v)] for k, v in facts.items()]
    body = "".join(f'<tr><th scope="row">{k}</th><td>{v}</td></tr>' for k, v in rows)
    return f'<div class="wide"><table class="pairs"><tbody>{body}</tbody></table></div>'


def _value(value: object) -> str:
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, float):
        return f"{value:g}"
    if value is None:
        return "–"
    return escape(json.dumps(value, ensure_ascii=False, default=str))


def claims_table(claims: Sequence[Claim]) -> str:
    """Return the claims: text and rule, what was measured, verdict."""
    rows = []
    for claim in claims:
        mark, kind = _MARKS.get(claim.verdict, ("–", "open"))
        rows.append(
            [
                f"<strong>{escape(claim.text)}</strong><small>{escape(claim.rule)}</small>",
                "".join(f"<p>{escape(p)}</p>" for p in claim.measured.rstrip(".").split("; ")),
                f'<span class="{kind}">{mark} {escape(claim.verdict)}</span>',
            ]
        )
    return table(["claim", "measured", "verdict"], rows, numbers_from=3, kind="claims")


def results_table(study: Study, evidence: Evidence) -> str:
    """Return the numbers behind the figure."""
    head = ["configuration", "regret ± s.e.", "95 % interval", "transfers", "scalars",
            "updates", "rounds", "reward", "front"]  # fmt: skip
    rows = [
        [
            escape(r.label), plus_minus(r.regret, r.error),
            "" if r.low is None else f"{amount(r.low)} to {amount(r.high)}",
            amount(r.transfers), amount(r.scalars), amount(r.syncs), amount(r.rounds),
            amount(r.reward), "●" if r.front else "",
        ]
        for r in evidence.rows
    ]  # fmt: skip
    for frame in study.baselines.partition_by("name", maintain_order=True):
        regret, reward = frame["regret"], frame["reward"]
        spread = regret.std()
        error = spread / len(regret) ** 0.5 if isinstance(spread, float) else None
        rows.append(
            [f"<em>{escape(str(frame['name'][0]))}</em>", plus_minus(_mean(regret), error), "",
             "", "", "", "", amount(_mean(reward)), ""]
        )  # fmt: skip
    return table(head, rows, kind="results")


def _mean(column: Any) -> float:
    values = column.drop_nulls()
    return float(values.mean()) if len(values) else float("nan")


def choice_section(choice: Mapping[str, Any]) -> str:
    """Return how the parameters were chosen."""
    seeds = ", ".join(str(s) for s in choice.get("seeds", ()))
    used = {k: v for k, v in choice.get("chosen", {}).items() if v is not None}
    facts: dict[str, object] = {
        "candidates": choice.get("candidates"),
        **({"of these stopped early": choice["stopped"]} if choice.get("stopped") else {}),
        "seeds": seeds, "horizon": choice.get("horizon"), **used,
    }  # fmt: skip
    text = f"<p>{escape(str(choice.get('rule', '')))}</p>{pairs(facts)}"
    rows = [
        [
            escape(str(a["label"])),
            ", ".join(f"{escape(str(k))} {_value(v)}"
                      for k, v in (a.get("own_best") or {}).items() if v is not None),
            amount(a.get("regret_at_chosen")),
            ("" if a.get("own_best_is_sure", True) else "at most ")
            + amount(a.get("regret_at_own_best")),
        ]
        for a in choice.get("algorithms", ())
    ]  # fmt: skip
    left_out = choice.get("not_searched") or ()
    if left_out:
        names = ", ".join(escape(str(label)) for label in left_out)
        text += f"<p>Reported, but not part of the search: {names}.</p>"
    if rows:
        head = ["algorithm", "its own best values", "regret at the chosen values"]
        text += table([*head, "at its own best"], rows, numbers_from=2)
    return text
