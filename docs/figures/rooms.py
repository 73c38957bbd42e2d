"""Draw docs/figures/rooms.svg: the rooms of the package, from the layers that import-linter checks.

`python docs/figures/rooms.py` after a change of the layers in pyproject.toml.
"""

from __future__ import annotations

import ast
import re
import textwrap
import tomllib
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[2]
WIDTH, HEIGHT, GAP = 1200, 52, 8


def layers() -> list[list[str]]:
    """Return the rooms, top layer first, as pyproject.toml has them."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = config["tool"]["importlinter"]["contracts"][0]
    return [re.findall(r"fedglb\.(\w+)", layer) for layer in contract["layers"]]


def purpose(room: str) -> str:
    """Return the first line of a room's docstring."""
    folder = ROOT / "src" / "fedglb"
    path = folder / room / "__init__.py"
    source = (path if path.exists() else folder / f"{room}.py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]


def drawing() -> str:
    """Return the picture: one row of boxes per layer."""
    out = []
    for row, rooms in enumerate(layers()):
        width = (WIDTH - GAP * (len(rooms) + 1)) / len(rooms)
        y = GAP + row * (HEIGHT + GAP)
        for column, room in enumerate(rooms):
            x = GAP + column * (width + GAP)
            out.append(
                f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{HEIGHT}" rx="6" '
                'fill="#eef3fb" stroke="#555"/>\n'
                f'<text x="{x + 8:.1f}" y="{y + 17}" font-weight="bold">{room}</text>'
            )
            for i, line in enumerate(textwrap.wrap(purpose(room), max(int(width / 5.7), 12))[:2]):
                out.append(
                    f'<text x="{x + 8:.1f}" y="{y + 32 + 13 * i}" font-size="11">'
                    f"{escape(line)}</text>"
                )
    height = GAP + len(layers()) * (HEIGHT + GAP)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="13">\n'
        '<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(out) + "\n</svg>\n"
    )


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(drawing(), encoding="utf-8")
