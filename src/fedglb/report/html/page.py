"""The page: one HTML file that needs no other file, for the screen and for print."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from html import escape
from string import Template
from typing import Any

from fedglb.report.claims import Claim, Evidence
from fedglb.report.html.tables import choice_section, claims_table, pairs, results_table
from fedglb.report.study import Study
from fedglb.report.text.numerals import amount

_CSS = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 60rem; background: #fff;
  color: #1c1c1c; font: 16px/1.55 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
header p.kind { margin: 0; color: #555; font-size: .9rem; }
h1 { margin: .1rem 0 1rem; font-size: 1.7rem; line-height: 1.25; }
h2 { margin: 2.6rem 0 .6rem; padding-top: .8rem; border-top: 1px solid #ddd; font-size: 1.25rem; }
h3 { margin: 1.4rem 0 .4rem; font-size: 1rem; }
.headline { margin: 0 0 1rem; padding: .9rem 1.1rem; border-left: 5px solid #0072b2;
  background: #eef5fa; font-size: 1.2rem; font-weight: 600; line-height: 1.4; }
figure { margin: 1.6rem 0; break-inside: avoid; }
figure img { display: block; width: 100%; height: auto; }
figcaption { margin-top: .4rem; color: #444; font-size: .88rem; }
.wide { overflow-x: auto; margin: .6rem 0; }
table { border-collapse: collapse; font-size: .86rem; line-height: 1.4; }
th, td { padding: .32rem .65rem; border-bottom: 1px solid #e3e3e3; text-align: left;
  vertical-align: top; }
thead th { border-bottom: 2px solid #888; white-space: nowrap; }
.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.pairs th { font-weight: 600; white-space: nowrap; }
.pairs td { overflow-wrap: anywhere; }
.results { font-size: .8rem; } .results td:first-child { white-space: nowrap; }
.results th, .results td { padding: .25rem .5rem; }
.claims p::first-letter { text-transform: uppercase; }
.claims { min-width: 44rem; }
.claims td:first-child { width: 34%; }
.claims td p { margin: 0 0 .35rem; }
.claims small { display: block; margin-top: .35rem; color: #555; font-size: .78rem; }
.claims td:last-child { white-space: nowrap; font-weight: 600; }
.holds { color: #00684b; } .fails { color: #a33a00; } .open { color: #555; }
.undecided { color: #6b5200; font-style: italic; }
details { margin: .6rem 0; } summary { cursor: pointer; font-weight: 600; }
pre { overflow-x: auto; padding: .8rem; background: #f6f6f6; font-size: .8rem; line-height: 1.4; }
@media print { body { max-width: none; padding: 0; font-size: 11pt; }
  .wide { overflow: visible; } table { font-size: 8pt; } .claims { min-width: 0; }
  h2 { break-after: avoid; } tr { break-inside: avoid; } }
"""

_BEST_FITTING = (
    "A best-fitting model is the fixed model that fits the mean rewards of the arms on offer best "
    "(by likelihood; least squares where it is linear), and plays the arm it thinks best; it is "
    "not the least regret that any fixed parameter could have."
)

_PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>$css</style>
</head>
<body>
<header>
<p class="kind">$kind</p>
<h1>$title</h1>
<p class="headline">$headline</p>
<p>$sentences</p>
</header>
<main>
$figures
<section><h2>The paper’s claims</h2>
$claims</section>
<section><h2>The numbers behind the figure</h2>
<p>Means over the seeds. “updates” are global updates; ● is on the Pareto front.
$baselines</p>
$results</section>
$choice
<section><h2>What was run</h2>
$run</section>
</main>
</body>
</html>
""")


def page(
    study: Study,
    evidence: Evidence,
    claims: Sequence[Claim],
    headline: str,
    sentences: Sequence[str],
    figures: Sequence[tuple[str, str, bytes]],
) -> str:
    """Return the page; `figures` are (alternative text, caption, SVG)."""
    choice = ""
    if study.choice is not None:
        choice = (
            f"<section><h2>How the parameters were chosen</h2>\n{choice_section(study.choice)}"
            "</section>"
        )
    return _PAGE.substitute(
        css=_CSS,
        title=escape(study.title),
        kind=escape(" · ".join(filter(None, ["fedglb report", study.name, study.profile]))),
        headline=escape(headline),
        sentences=" ".join(escape(s) for s in sentences),
        figures="\n".join(_figure(*figure) for figure in figures),
        claims=claims_table(claims),
        baselines=_BEST_FITTING if _has_models(study) else "",
        results=results_table(study, evidence),
        choice=choice,
        run=_run(study, evidence),
    )


def _has_models(study: Study) -> bool:
    return any(str(name).startswith("best-fitting") for name in study.baselines["name"])


def _figure(alt: str, caption: str, svg: bytes) -> str:
    data = base64.b64encode(svg).decode()
    return (
        f'<figure><img alt="{escape(alt)}" src="data:image/svg+xml;base64,{data}">'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


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
    parts += ["<h3>With what</h3>", pairs(_made_with(manifest)), _experiment(manifest)]
    return "\n".join(parts)


def _caveats(study: Study) -> list[str]:
    if "caveats" not in study.result.runs.columns:
        return []
    found = study.result.runs["caveats"].explode().drop_nulls()
    return [str(c) for c in found.unique(maintain_order=True)]


def _made_with(manifest: Mapping[str, Any]) -> dict[str, object]:
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


def _experiment(manifest: Mapping[str, Any]) -> str:
    document = manifest.get("document")
    if document is None:
        return ""
    text = json.dumps(json.loads(document), indent=2, ensure_ascii=False)
    return (
        "<details><summary>The experiment, as it was run</summary>"
        f"<pre>{escape(text)}</pre></details>"
    )
