"""Tables as Markdown, and as LaTeX with booktabs."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence

from fedglb.studies.report.page import PageTable


def _greek(sign: str) -> str:
    """Return a Greek letter's name in LaTeX."""
    words = unicodedata.name(sign).replace("LAMDA", "LAMBDA").lower().split()
    return f"$\\{words[-1] if 'small' in words else words[-1].capitalize()}$"


#: What LaTeX reads otherwise than it looks, and the package's own signs.
_TEX = str.maketrans(
    {
        "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$",
        "#": r"\#", "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
        "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': "''", "−": "$-$",
        "±": r"$\pm$", "×": r"$\times$", "≤": r"$\leq$", "≥": r"$\geq$", "≈": r"$\approx$",
        "∞": r"$\infty$", "√": r"$\surd$", "·": r"$\cdot$", "●": r"$\bullet$", "–": "--",
        "…": r"\ldots{}", "“": "``", "”": "''", "‘": "`", "’": "'",
        **{sign: _greek(sign) for sign in "αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΦΨΩ"},
        **{sign: f"$_{i}$" for i, sign in enumerate("₀₁₂₃₄₅₆₇₈₉")},
        **{sign: f"$^{i}$" for i, sign in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")},
    }
)  # fmt: skip


def to_markdown(tables: Sequence[PageTable], notes: Sequence[str]) -> str:
    """Return the tables, columns padded, and the notes below them."""
    parts = []
    for table in tables:
        if table.title:
            parts.append(f"**{_marked(table.title)}**")
        rows = [[_marked(name) for name in table.head], *_cells(table, _marked, "**{}**")]
        widths = [max(3, *map(len, column)) for column in zip(*rows, strict=True)]
        numbers = [i >= table.numbers_from for i in range(len(widths))]
        rule = ["-" * (w - n) + ":" * n for w, n in zip(widths, numbers, strict=True)]
        lines = [
            "| " + " | ".join(
                text.rjust(w) if n else text.ljust(w)
                for text, w, n in zip(row, widths, numbers, strict=True)
            ) + " |"
            for row in (rows[0], rule, *rows[1:])
        ]  # fmt: skip
        parts.append("\n".join(lines))
    return "\n\n".join([*parts, *filter(None, [_marked(" ".join(notes))])]) + "\n"


def to_latex(tables: Sequence[PageTable], notes: Sequence[str]) -> str:
    r"""Return a `tabular` for each table, and the notes as a comment.

    It needs `\usepackage{booktabs}`. Signs that pdfLaTeX does not know are left for other engines.
    """
    lines = [r"% \usepackage{booktabs}", *(f"% {_tex(note)}" for note in notes)]
    for table in tables:
        if table.title:
            lines.append(f"% {_tex(table.title)}")
        columns = "".join("lr"[i >= table.numbers_from] for i in range(len(table.head)))
        rows = _cells(table, _tex, r"\textbf{{{}}}")
        lines += [rf"\begin{{tabular}}{{@{{}}{columns}@{{}}}}", r"\toprule"]
        lines += [_line([_tex(name) for name in table.head]), r"\midrule", *map(_line, rows)]
        lines += [r"\bottomrule", r"\end{tabular}"]
    return "\n".join(lines) + "\n"


def _cells(table: PageTable, escape: Callable[[str], str], bold: str) -> list[list[str]]:
    """Return the rows; small print is in parentheses."""
    made = []
    for i, row in enumerate(table.rows):
        texts = [escape(cell if isinstance(cell, str) else "{} ({})".format(*cell)) for cell in row]
        made.append([bold.format(t) if t and i in table.bold else t for t in texts])
    return made


def _line(cells: Sequence[str]) -> str:
    r"""Return a row; an asterisk or a bracket after the former row's ``\\`` would belong to it."""
    text = " & ".join(cells)
    return ("{}" if text.startswith(("[", "*")) else "") + text + r" \\"


def _marked(text: str) -> str:
    text = re.sub(r"[\\`*|]|<(?=[\w/!?])", r"\\\g<0>", " ".join(text.split()))
    return re.sub(r"(?<!\w)_|_(?!\w)", r"\_", text)


def _tex(text: str) -> str:
    return " ".join(text.split()).translate(_TEX)
