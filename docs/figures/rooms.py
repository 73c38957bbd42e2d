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
TARGET = Path(__file__).with_suffix(".svg")
WIDTH, HEIGHT, GAP, SIDE = 1200, 52, 8, 14
#: The rooms inside the federation, top layer first; its other files lie between them.
FEDERATION = [
    ["federation/agent", "federation/coordinator", "federation/operator"],
    ["federation/wire"],
]
COLOURS = {
    "cli": "#e8e8e8", "reproduce": "#fde7c8", "demo": "#fde7c8",
    "warm_up": "#fde7c8", "report": "#fde7c8", "sweeps": "#fde7c8", "evaluation": "#fde7c8",
    "service": "#d9ead3",
    "simulation": "#d9ead3", "federation": "#d9ead3", "protocol": "#cfe2f3",
    "environments": "#cfe2f3",
}  # fmt: skip


def layers() -> list[list[str]]:
    """Return the rooms, top layer first, as pyproject.toml has them."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = config["tool"]["importlinter"]["contracts"][0]
    return [re.findall(r"fedglb\.(\w+)", layer) for layer in contract["layers"]]


def purpose(room: str) -> str:
    """Return the first sentence of a room's docstring."""
    folder = ROOT / "src" / "fedglb"
    path = folder / room / "__init__.py"
    source = (path if path.exists() else folder / f"{room}.py").read_text(encoding="utf-8")
    text = (ast.get_docstring(ast.parse(source)) or "").splitlines()[0]
    text = re.sub(rf"^(The )?{Path(room).name.replace('_', ' ')}: ", "", text, flags=re.I)
    return text[0].upper() + text[1:]


def box(x: float, y: float, width: float, height: float, name: str, text: str, fill: str) -> str:
    """Return one room as SVG."""
    lines = textwrap.wrap(text, max(int(width / 5.7), 12))[:3]
    out = [
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}" rx="6" '
        f'fill="{fill}" stroke="#555"/>',
        f'<text x="{x + 8:.1f}" y="{y + 17:.1f}" font-weight="bold">{escape(name)}</text>',
    ]
    out += [
        f'<text x="{x + 8:.1f}" y="{y + 32 + 13 * i:.1f}" font-size="11">{escape(line)}</text>'
        for i, line in enumerate(lines)
    ]
    return "\n".join(out)


def row(rooms: list[str], x: float, y: float, width: float, height: float) -> str:
    """Return one layer: its rooms side by side."""
    each = (width - GAP * (len(rooms) - 1)) / len(rooms)
    out = []
    for i, room in enumerate(rooms):
        left, fill = x + i * (each + GAP), COLOURS.get(room, "#f3f3fb")
        out.append(box(left, y, each, height, Path(room).name, purpose(room), fill))
        if room == "federation":
            out += [
                row(inner, left + GAP, y + HEIGHT + 6 + k * (HEIGHT + GAP), each - 2 * GAP, HEIGHT)
                for k, inner in enumerate(FEDERATION)
            ]
    return "\n".join(out)


def drawing() -> str:
    """Return the whole picture."""
    rows, y = [], 40.0
    for rooms in layers():
        inner = len(FEDERATION) if "federation" in rooms else 0
        height = HEIGHT + inner * (HEIGHT + GAP) + (6 if inner else 0)
        rows.append(row(rooms, SIDE, y, WIDTH - 2 * SIDE, height))
        y += height + GAP
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 10:.0f}" '
        'font-family="sans-serif" font-size="13">\n'
        '<rect width="100%" height="100%" fill="white"/>\n'
        f'<text x="{SIDE}" y="25" font-size="15">The rooms of fedglb. A room may import those '
        "below it, and nothing beside or above it.</text>\n"
    )
    return head + "\n".join(rows) + "\n</svg>\n"


if __name__ == "__main__":
    TARGET.write_text(drawing(), encoding="utf-8")
