"""The page: one HTML file that needs no other file, for the screen and for print."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from string import Template
from typing import Any

from fedglb.studies.report.claims import Claim, Evidence
from fedglb.studies.report.figures.style import Medium
from fedglb.studies.report.html.css import DARK, NARROW
from fedglb.studies.report.html.shell import shell
from fedglb.studies.report.html.tables import choice_section, claims_list, pairs, results_table
from fedglb.studies.report.study import PAPER, QUICK, Study
from fedglb.studies.report.summary import ENOUGH, STUCK_MEANS
from fedglb.studies.report.text.numerals import amount

_BEST_FITTING = (
    "A best-fitting model is the fixed model that fits the mean rewards of the arms on offer best "
    "(by likelihood; least squares where it is linear), and plays the arm it thinks best; it is "
    "not the least regret that any fixed parameter could have."
)

#: What a look does not have.
FEW = f"With fewer than {ENOUGH} seeds there are no intervals and no verdicts."

_MAIN = Template("""$figures
$claims
<section><h2>The numbers behind the figures</h2>
<p>$meaning $baselines</p>
$results</section>
$choice
<section><h2>What was run</h2>
$run</section>""")


@dataclass(frozen=True)
class FigureOnPage:
    """A figure as the page shows it: one SVG for each medium."""

    alt: str
    caption: str
    svg: Mapping[Medium, bytes]


def page(
    study: Study,
    evidence: Evidence,
    claims: Sequence[Claim],
    headline: str,
    sentences: Sequence[str],
    figures: Sequence[FigureOnPage],
) -> str:
    """Return the page."""
    choice = ""
    if study.choice is not None:
        names = {row.algorithm: row.name for row in evidence.rows}
        choice = (
            "<section><h2>How the parameters were chosen</h2>\n"
            f"{choice_section(study.choice, names)}</section>"
        )
    main = _MAIN.substitute(
        figures="\n".join(figure_on_page(figure) for figure in figures),
        claims=_claims(claims),
        meaning=escape(_meaning(evidence)),
        baselines=_BEST_FITTING if _has_models(study) else "",
        results=results_table(study, evidence),
        choice=choice,
        run=_run(study, evidence),
    )
    look = _look(study, evidence)
    return shell(study.title, study.name, study.profile, look, headline, sentences, main)


def _look(study: Study, evidence: Evidence) -> str:
    """Return the first line of a report that is only a look: that it is one, and what is not."""
    seeds = f"{evidence.seeds} seed{'s' if evidence.seeds > 1 else ''}"
    if study.profile == QUICK:
        manifest = study.result.manifest
        here = _size({"seeds": evidence.seeds, "horizon": manifest.get("horizon"),
                      "clients": manifest.get("clients"),
                      "configurations": len(evidence.rows)})  # fmt: skip
        command = study.full.get("command", f"fedglb reproduce {study.name} --full")
        full = _size(study.full)
        text = (
            f"<strong>This is a quick look</strong>: {escape(here)}. The full study"
            f"{' has ' + escape(full) if full else ' is larger'}: "
            f"<code>{escape(command)}</code>. {FEW if evidence.is_look else ''} "
            f"The paper: {PAPER}"
        )
    elif evidence.is_look:
        text = f"<strong>This is a look</strong> at {seeds}. {FEW}"
    else:
        return ""
    return text


def _size(size: Mapping[str, Any]) -> str:
    """Return "10 seeds, 2,000 steps, 200 clients"."""
    words = {"seeds": "seed", "horizon": "step", "clients": "client",
             "configurations": "configuration"}  # fmt: skip
    said = [(size[key], word) for key, word in words.items() if size.get(key) is not None]
    return ", ".join(f"{count:,} {word}{'s' if count != 1 else ''}" for count, word in said)


def _claims(claims: Sequence[Claim]) -> str:
    """Return the paper's claims and ours, each where there are any."""
    parts = []
    for whose, title, about in (
        ("the paper", "The paper’s claims", f"<p>The paper: {PAPER}</p>"),
        ("this package", "Claims of this package", ""),
    ):
        own = [claim for claim in claims if claim.whose == whose]
        if own:
            parts.append(f"<section><h2>{title}</h2>\n{about}{claims_list(own)}</section>")
    return "\n".join(parts)


def _meaning(evidence: Evidence) -> str:
    text = "Means over the seeds. “updates” are global updates; ● is on the Pareto front."
    if evidence.is_look:
        return f"{text} Errors, medians and stuck runs are shown from {ENOUGH} seeds on."
    return f"{text} {STUCK_MEANS}"


def _has_models(study: Study) -> bool:
    return any(str(name).startswith("best-fitting") for name in study.baselines["name"])


def figure_on_page(figure: FigureOnPage) -> str:
    """Return the figure; the browser takes the one for its screen."""
    sources = "".join(
        f'<source media="{" and ".join(asked)}" srcset="{_data(figure.svg[medium])}">'
        for medium, asked in (
            (Medium(True, True), (NARROW, DARK)), (Medium(True, False), (NARROW,)),
            (Medium(False, True), (DARK,)),
        )
    )  # fmt: skip
    return (
        f"<figure><picture>{sources}"
        f'<img alt="{escape(figure.alt)}" src="{_data(figure.svg[Medium()])}"></picture>'
        f"<figcaption>{escape(figure.caption)}</figcaption></figure>"
    )


def _data(svg: bytes) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"


def _run(study: Study, evidence: Evidence) -> str:
    manifest = study.result.manifest
    seeds = manifest.get("seeds") or sorted(study.result.runs["seed"].unique().to_list())
    first = study.result.runs.row(0, named=True)
    problem: dict[str, object] = {
        "clients N": manifest.get("clients"), "steps T": manifest.get("horizon"),
        "arms K": manifest.get("arms"),
        **{k: first[k] for k in ("dim", "link", "radius", "noise", "curvature") if k in first},
        "seeds": ", ".join(str(s) for s in seeds), "configurations": len(evidence.rows),
        "runs": study.result.runs.height,
    }  # fmt: skip
    parts = ["<h3>Problem</h3>", pairs(problem)]
    if study.facts:
        parts += ["<h3>Data</h3>", pairs(study.facts)]
    caveats = _caveats(study)
    if caveats:
        items = "".join(f"<li>{escape(c)}</li>" for c in caveats)
        parts += ["<h3>Caveats that runs noted</h3>", f"<ul>{items}</ul>"]
    parts += ["<h3>With what</h3>", pairs(made_with(manifest)), experiment(manifest)]
    return "\n".join(parts)


def _caveats(study: Study) -> list[str]:
    if "caveats" not in study.result.runs.columns:
        return []
    found = study.result.runs["caveats"].explode().drop_nulls()
    return [str(c) for c in found.unique(maintain_order=True)]


def made_with(manifest: Mapping[str, Any]) -> dict[str, object]:
    """Return what a sweep was made with, for a list on the page."""
    software = manifest.get("software", {})
    facts: dict[str, object] = {
        "fedglb": software.get("fedglb"), "digest of the sources": software.get("sources"),
        "Python": software.get("python"),
        "packages": ", ".join(f"{k} {v}" for k, v in software.get("dependencies", {}).items()),
        "started": manifest.get("started"), "wall time": _seconds(manifest.get("wall_seconds")),
        "time of all runs": _seconds(manifest.get("run_seconds")),
    }  # fmt: skip
    machines = [s["machine"] for s in manifest.get("sessions", ()) if s.get("machine")]
    told = [_machine(m) for m in machines]
    facts["machine" if len(set(told)) < 2 else "machines"] = "; ".join(dict.fromkeys(told))
    facts["identity of the sweep"] = manifest.get("identity")
    for name, digest in manifest.get("files", {}).items():
        facts[f"SHA-256 of {name}"] = digest
    return {k: v for k, v in facts.items() if v not in (None, "")}


def _machine(machine: Mapping[str, Any]) -> str:
    memory = machine.get("memory_bytes")
    parts = [
        machine.get("processor"), f"{machine.get('cores')} cores",
        None if memory is None else f"{memory / 2**30:.0f} GiB", machine.get("system"),
    ]  # fmt: skip
    return ", ".join(str(p) for p in parts if p)


def _seconds(value: float | None) -> str | None:
    if value is None:
        return None
    return f"{amount(value)} s" if value < 600 else f"{value / 60:.0f} min"


def experiment(manifest: Mapping[str, Any]) -> str:
    """Return the experiment's file, to be unfolded on the page."""
    document = manifest.get("document")
    if document is None:
        return ""
    text = json.dumps(json.loads(document), indent=2, ensure_ascii=False)
    return (
        "<details><summary>The experiment, as it was run</summary>"
        f"<pre>{escape(text)}</pre></details>"
    )
