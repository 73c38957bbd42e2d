"""The page: one self-contained HTML file, for screen and print."""

from __future__ import annotations

import base64
import functools
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from fedglb.studies.report.claims.base import FAILS, HOLDS, UNDECIDED, Claim
from fedglb.studies.report.figures.style import COLUMN, PAGE, WIDE, Medium, saved
from fedglb.studies.report.numerals import amount
from fedglb.studies.report.summary import ENOUGH, NAMES
from fedglb.studies.results.study import Study
from fedglb.studies.results.tables import distinct, repeated
from fedglb.studies.spec.plan import QUICK

if TYPE_CHECKING:
    from collections.abc import Callable

    import jinja2
    from matplotlib.figure import Figure

PAPER = (
    "Chuanhao Li and Hongning Wang (2022), “Communication Efficient Federated Learning for "
    "Generalized Linear Bandits”."
)
_MARKS = {HOLDS: ("✓", "holds"), FAILS: ("✗", "fails"), UNDECIDED: ("?", "undecided")}
#: The figures of papers, by the end of their files' names.
PAPERS = {"column": COLUMN, "page": PAGE}
#: The pages that figures are drawn for, with the browser's condition for each but the first.
_MEDIA = {
    Medium(narrow=True, dark=True): "(max-width: 640px) and (prefers-color-scheme: dark)",
    Medium(narrow=True): "(max-width: 640px)",
    Medium(dark=True): "(prefers-color-scheme: dark)",
}


@dataclass(frozen=True)
class PageTable:
    """A table of the page; the second text of a cell is small print below the first."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str | tuple[str, str]]]
    numbers_from: int = 1
    bold: Collection[int] = ()  # rows


@dataclass(frozen=True)
class Drawn:
    """A figure: its files by name, and one SVG for each page."""

    name: str
    alt: str
    caption: str
    files: dict[str, bytes] = field(repr=False)
    svg: dict[Medium, bytes] = field(repr=False)

    @property
    def source(self) -> str:
        """The wide and light one, as an address."""
        return _address(self.files[f"{self.name}.svg"])

    @property
    def sources(self) -> list[tuple[str, str]]:
        """The others: the browser's condition for each, and its address."""
        return [(_MEDIA[medium], _address(svg)) for medium, svg in self.svg.items()]


def drawn(name: str, alt: str, caption: str, draw: Callable[[Medium], Figure]) -> Drawn:
    """Draw a figure for each page, wide and narrow, light and dark; and for a paper."""
    others = {medium: saved(draw(medium), ("svg",))["svg"] for medium in _MEDIA}
    files = {f"{name}.{kind}": content for kind, content in saved(draw(WIDE)).items()}
    for where, medium in PAPERS.items():
        for kind, content in saved(draw(medium), ("pdf", "svg"), medium).items():
            files[f"{name}-{where}.{kind}"] = content
    return Drawn(name, alt, caption, files, others)


def _address(svg: bytes) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"


def page(
    study: Study,
    headline: str,
    figures: Sequence[Drawn],
    claims: Sequence[Claim],
    notes: Sequence[str],
    tables: Sequence[PageTable],
) -> str:
    """Return the page."""
    groups = [
        (title, [(claim, *_MARKS.get(claim.verdict, ("–", "open"))) for claim in own])
        for whose, title in (("the paper", "The paper’s claims"),
                             ("this package", "Claims of this package"))
        if (own := [claim for claim in claims if claim.whose == whose])
    ]  # fmt: skip
    return _template().render(
        study=study, headline=headline, figures=figures, claims=groups, notes=notes,
        tables=tables, paper=PAPER, notice=_notice(study), choice=_choice(study),
        blocks=_blocks(study), documents=_documents(study), caveats=_caveats(study),
    )  # fmt: skip


@functools.cache
def _template() -> jinja2.Template:
    import jinja2

    places = jinja2.PackageLoader("fedglb.studies.report", ".")
    environment = jinja2.Environment(
        loader=places, autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined, keep_trailing_newline=True,
    )  # fmt: skip
    return environment.get_template("page.html.j2")


def _notice(study: Study) -> dict[str, Any] | None:
    """Return the notice at the top of the page: a quick study, few seeds, or no replicates."""
    manifest = study.result.manifest
    columns = ("label", "seed", "randomised")
    repeats = repeated(pl.concat([cell.result.runs.select(columns) for cell in study.cells]))
    runs = distinct(study.result.runs).partition_by("label")
    counts = [len(own) for own in runs]
    seeds = min(counts)
    few = any(len(own) < ENOUGH for own in runs if own["randomised"][0] or not repeats)
    if study.profile != QUICK and not few and not repeats:
        return None
    size = {"seeds": seeds, "horizon": manifest["horizon"], "clients": manifest["clients"],
            "configurations": len(counts)}  # fmt: skip
    return {
        "quick": study.profile == QUICK, "size": _size(size), "few": ENOUGH if few else 0,
        "repeats": repeats,
        "full": _size(study.full), "command": study.full.get("command", ""),
    }  # fmt: skip


def _size(size: Mapping[str, Any]) -> str:
    """Return "10 seeds, 2,000 steps, 200 clients"."""
    words = {"seeds": "seed", "horizon": "step", "clients": "client",
             "configurations": "configuration"}  # fmt: skip
    given = [(size[key], word) for key, word in words.items() if size.get(key) is not None]
    return ", ".join(f"{count:,} {word}{'s' if count != 1 else ''}" for count, word in given)


def _blocks(study: Study) -> list[tuple[str, dict[str, str]]]:
    """Return the facts about runs, data and software, with titles."""
    blocks: list[tuple[str, dict[str, object]]] = []
    for title in dict.fromkeys(cell.panel for cell in study.cells):
        cells = [cell for cell in study.cells if cell.panel == title]
        manifest, runs = cells[0].result.manifest, cells[0].result.runs
        first = runs.row(0, named=True)
        values = [f"{cell.value:g}" for cell in cells if cell.value is not None]
        problem: dict[str, object] = {
            "clients N": manifest["clients"], "steps T": manifest["horizon"],
            "arms K": manifest["arms"],
            **{k: first[k] for k in ("dim", "link", "radius", "noise", "curvature") if k in first},
            **({study.axis: ", ".join(values)} if values else {}),
            "seeds": ", ".join(map(str, manifest["seeds"])),
            "configurations": runs["label"].n_unique(),
            "runs": sum(cell.result.runs.height for cell in cells),
        }  # fmt: skip
        blocks.append((title or "Problem", problem))
    if facts := study.result.manifest["data"]:
        blocks.append(("Data", facts))
    blocks.append(("Software and machine", _made_with(study.result.manifest)))
    return [(title, {k: _text(v) for k, v in facts.items()}) for title, facts in blocks]


def _made_with(manifest: Mapping[str, Any]) -> dict[str, object]:
    software = manifest["software"]
    machines = list(dict.fromkeys(_machine(session["machine"]) for session in manifest["sessions"]))
    facts: dict[str, object] = {
        "fedglb": software["fedglb"], "digest of the sources": software["sources"],
        "Python": software["python"],
        "packages": ", ".join(f"{k} {v}" for k, v in software["dependencies"].items()),
        "started": manifest["started"], "wall time": _seconds(manifest["wall_seconds"]),
        "time of all runs": _seconds(manifest["run_seconds"]),
        "machine" if len(machines) < 2 else "machines": "; ".join(machines),
        "identity of the sweep": manifest["identity"],
        **{f"SHA-256 of {name}": digest for name, digest in manifest["files"].items()},
    }  # fmt: skip
    return {k: v for k, v in facts.items() if v not in (None, "")}


def _machine(machine: Mapping[str, Any]) -> str:
    memory = machine["memory_bytes"]
    parts = [
        machine["processor"], f"{machine['cores']} cores",
        None if memory is None else f"{memory / 2**30:.0f} GiB", machine["system"],
    ]  # fmt: skip
    return ", ".join(str(p) for p in parts if p)


def _seconds(value: float) -> str:
    return f"{amount(value)} s" if value < 600 else f"{value / 60:.0f} min"


def _documents(study: Study) -> list[tuple[str, str]]:
    """Return the experiments: the panel, and the tables as JSON."""
    found: dict[str, str] = {}
    for cell in study.cells:  # only the first value of an axis
        found.setdefault(cell.panel, cell.result.manifest["document"])
    return [
        (panel, json.dumps(json.loads(document), indent=2, ensure_ascii=False))
        for panel, document in found.items()
    ]


def _caveats(study: Study) -> list[str]:
    columns = (cell.result.runs["caveats"].explode().drop_nulls() for cell in study.cells)
    return list(dict.fromkeys(str(caveat) for column in columns for caveat in column))


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return f"{value:g}"
    return "–" if value is None else json.dumps(value, ensure_ascii=False, default=str)


def _choice(study: Study) -> dict[str, Any] | None:
    """Return the choice of parameters: rule, facts, table, algorithms not searched."""
    choice = study.choice
    if choice is None:
        return None
    facts: dict[str, object] = {
        "candidates": choice.get("candidates"),
        **({"of these stopped early": choice["stopped"]} if choice.get("stopped") else {}),
        "seeds": ", ".join(str(s) for s in choice.get("seeds", ())),
        "horizon": choice.get("horizon"),
        **{k: v for k, v in choice.get("chosen", {}).items() if v is not None},
    }  # fmt: skip
    rows = [
        [
            _named(str(a["label"])),
            ", ".join(f"{k} {_text(v)}" for k, v in (a.get("own_best") or {}).items()
                      if v is not None),
            amount(a.get("regret_at_chosen")),
            ("" if a.get("own_best_is_sure", True) else "at most ")
            + amount(a.get("regret_at_own_best")),
        ]
        for a in choice.get("algorithms", ())
    ]  # fmt: skip
    head = ["algorithm", "best values for it alone", "regret at the chosen values", "at its best"]
    return {
        "rule": choice.get("rule", ""), "facts": {k: _text(v) for k, v in facts.items()},
        "not_searched": ", ".join(_named(str(x)) for x in choice.get("not_searched") or ()),
        "table": PageTable("", head, rows, numbers_from=2) if rows else None,
    }  # fmt: skip


def _named(label: str) -> str:
    """Return "FedGLB-UCB (D=1)" for "fedglb-ucb D=1": the same names as everywhere."""
    preset, _, rest = label.partition(" ")
    if preset not in NAMES:
        return label
    return f"{NAMES[preset]} ({rest})" if rest else NAMES[preset]
