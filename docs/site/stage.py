"""Put together the pages of the site: those in docs/, some from elsewhere, and the API's."""

from __future__ import annotations

import shutil
from pathlib import Path

from api import api_pages
from links import FROM_ELSEWHERE, relocate

#: What is in the navigation. A page that is named nowhere is a how-to.
SECTIONS = {
    "Tutorial": ["tutorial/*"],
    "How-tos": ["experiments", "sweeps"],
    "Theory": ["theory", "errata", "realdata"],
    "Results": ["results", "Benchmarks <benchmarks>"],
    "Operation": [
        "service",
        "recipes",
        "deploy",
        "operate",
        "security",
        "privacy",
        "protocol",
        "wire",
        "scale",
    ],
    "Reference": ["api/index", "architecture", "contributing", "changelog"],
}


def navigation(pages: list[str]) -> str:
    """Return the tables of contents that make the navigation, for these names of pages."""
    named = {page.split("<")[-1].strip(">") for section in SECTIONS.values() for page in section}
    others = [page for page in pages if page not in named and page != "index"]
    text = ""
    for title, section in SECTIONS.items():
        entries = section + (others if title == "How-tos" else [])
        text += f"\n```{{toctree}}\n:hidden:\n:glob:\n:caption: {title}\n\n"
        text += "".join(f"{entry}\n" for entry in entries) + "```\n"
    return text


def stage(root: Path, folder: Path) -> None:
    """Write the pages of the repository in `root` to `folder`, as Sphinx will read them."""
    docs = root / "docs"
    sources = {path.name: f"docs/{path.name}" for path in sorted(docs.glob("*.md"))}
    sources |= FROM_ELSEWHERE
    for path in sorted((docs / "tutorial").iterdir()):
        if path.suffix in (".md", ".py", ".ipynb"):
            sources[f"tutorial/{path.name}"] = f"docs/tutorial/{path.name}"
    (folder / "tutorial").mkdir(parents=True)
    for page, source in sources.items():
        (folder / page).write_text(relocate((root / source).read_text(), source, page, root))
    shutil.copytree(docs / "figures", folder / "figures", ignore=shutil.ignore_patterns("*.py"))
    with (folder / "index.md").open("a") as index:
        index.write(navigation([page[:-3] for page in sources if "/" not in page]))
    (folder / "api").mkdir()
    for name, text in api_pages().items():
        (folder / "api" / name).write_text(text)
