"""The tables of the page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import polars as pl

from fedglb.studies.report.claims import FAILS, HOLDS, UNDECIDED, Claim, Evidence
from fedglb.studies.report.study import Study
from fedglb.studies.report.summary import NAMES
from fedglb.studies.report.summary import spread as _spread
from fedglb.studies.report.text.numerals import amount, plus_minus

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


def claims_list(claims: Sequence[Claim]) -> str:
    """Return the claims: verdict and what decided it, the text, what was measured, the rule."""
    parts = []
    for claim in claims:
        mark, kind = _MARKS.get(claim.verdict, ("–", "open"))
        why = f' <span class="why">{escape(claim.decided)}</span>' if claim.decided else ""
        found = claim.measured.rstrip(".").split("; ")
        parts.append(
            f'<article class="claim"><h3>{escape(claim.text)}</h3>'
            f'<p><span class="verdict {kind}">{mark} {escape(claim.verdict)}</span>{why}</p>'
            f"<ul>{''.join(f'<li>{escape(p)}</li>' for p in found)}</ul>"
            f"<details><summary>The rule</summary><p>{escape(claim.rule)}</p></details></article>"
        )
    return "\n".join(parts)


def results_table(study: Study, evidence: Evidence) -> str:
    """Return the numbers behind the figures; errors, medians and stuck runs from 5 seeds on."""
    spread = not evidence.is_look
    head = ["configuration", *(["regret ± s.e.", "median", "stuck", "95 % interval"] if spread
            else ["regret"]), "transfers", "scalars", "updates", "rounds", "reward",
            "front"]  # fmt: skip
    rows = []
    for r in evidence.rows:
        more = [amount(r.median), f"{r.stuck} of {r.seeds}", f"{amount(r.low)} to {amount(r.high)}"]
        rows.append(
            [
                escape(r.title), plus_minus(r.regret, r.error), *(more if spread else []),
                amount(r.transfers), amount(r.scalars), amount(r.syncs), amount(r.rounds),
                amount(r.reward), "●" if r.front else "",
            ]
        )  # fmt: skip
    grouped = study.baselines.group_by("name", maintain_order=True).agg(
        pl.col("regret", "reward").mean(), *_spread(), pl.len().alias("seeds")
    )
    for b in grouped.to_dicts():
        enough = b["median"] is not None
        more = [amount(b["median"]), f"{b['stuck']} of {b['seeds']}" if enough else "", ""]
        rows.append(
            [f"<em>{escape(str(b['name']))}</em>", plus_minus(b["regret"], b["error"]),
             *(more if spread else []), "", "", "", "", amount(b["reward"]), ""]
        )  # fmt: skip
    return table(head, rows, kind="results")


def choice_section(choice: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """Return how the parameters were chosen; `names` are those of algorithms, by preset."""
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
            escape(_named(str(a["label"]), names)),
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
        shown = ", ".join(escape(_named(str(label), names)) for label in left_out)
        text += f"<p>Reported, but not part of the search: {shown}.</p>"
    if rows:
        head = ["algorithm", "its own best values", "regret at the chosen values"]
        text += table([*head, "at its own best"], rows, numbers_from=2)
    return text


def _named(label: str, names: Mapping[str, str]) -> str:
    """Return "FedGLB-UCB (D=1)" for "fedglb-ucb D=1": names are the same everywhere.

    Examples
    --------
    >>> _named("fedglb-ucb D=1", {"fedglb-ucb": "FedGLB-UCB"}), _named("mine", {})
    ('FedGLB-UCB (D=1)', 'mine')
    """
    preset, _, rest = label.partition(" ")
    name = names.get(preset, NAMES.get(preset))
    if name is None:
        return label
    return f"{name} ({rest})" if rest else name
