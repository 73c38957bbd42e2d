"""Links of the repository's pages, as the site needs them."""

from __future__ import annotations

import os.path
import re
from pathlib import Path

#: Files outside docs/ that are pages of the site, by their names there.
FROM_ELSEWHERE = {
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "benchmarks.md": "benchmarks/RESULTS.md",
}
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)#\s]*)(#[^)\s]*)?\)")


def relocate(text: str, source: str, page: str, root: Path) -> str:
    """Return the text of `source` with links as `page` needs them.

    Parameters
    ----------
    text
        Markdown, or a notebook in any format.
    source, page
        Where the text is in the repository, and where it will be on the site.
    root
        The repository. What looks like a link, and is the name of no file there, is left alone.

    Returns
    -------
    str
        The text. A link to a file that is not on the site has become plain text.
    """
    names = {origin: name for name, origin in FROM_ELSEWHERE.items()}

    def moved(match: re.Match[str]) -> str:
        image, words, target, anchor = match.groups(default="")
        # Paths from the root of the repository, and of the site: of a page or of a figure.
        origin = os.path.normpath(Path(source).parent / target)
        if not target or not (root / origin).is_file():
            return match[0]
        name = names.get(origin, origin.removeprefix("docs/"))
        if name == origin:
            return words
        return f"{image}[{words}]({os.path.relpath(name, Path(page).parent)}{anchor})"

    return _LINK.sub(moved, text)
