"""What may be wrong with a built site: links that lead nowhere, assets from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """What a page has: places that links can lead to, links, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.places: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self._in_style = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what one tag names, links to or loads."""
        given = {key: value or "" for key, value in attrs}
        self.places |= {given[key] for key in ("id", "name") if key in given}
        self._in_style = tag == "style"
        if tag in ("a", "area"):
            self.links += [given[key] for key in ("href",) if key in given]
        elif tag == "link" and not {"canonical", "author"} & set(given.get("rel", "").split()):
            self.loads.append(given.get("href", ""))
        self.loads += [given[key] for key in ("src", "poster", "data") if key in given]
        self.loads += [part.split()[0] for part in given.get("srcset", "").split(",") if part]
        self.loads += css_loads(given.get("style", ""))

    def handle_endtag(self, tag: str) -> None:
        """A style sheet within the page ends."""
        self._in_style = False

    def handle_data(self, data: str) -> None:
        """Note what a style sheet within the page loads."""
        if self._in_style:
            self.loads += css_loads(data)


def css_loads(text: str) -> list[str]:
    """Return what a style sheet loads."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    found = re.findall(r"""url\(\s*(?:"([^"]*)"|'([^']*)'|([^)"']*))\s*\)""", text)
    imported = re.findall(r"""@import\s+["']([^"']*)""", text)
    return ["".join(each).strip() for each in found] + imported


def script_addresses(text: str) -> list[str]:
    """Return the addresses that stand as text in a script.

    Those in comments load nothing, and those of W3C are names of languages (SVG).
    """
    text = re.sub(r"/\*.*?\*/|^\s*//.*?$", "", text, flags=re.S | re.M)
    return re.findall(r"""["'`]((?:https?:)?//(?!www\.w3\.org/)[^"'`\s]+)""", text)


def is_elsewhere(address: str) -> bool:
    """Return whether an address is that of another host."""
    return bool(urlsplit(address).netloc)


def faults(folder: Path) -> list[str]:
    """Return one line per link that leads nowhere and per asset that is not in the folder."""
    return [*_faults(folder)]


def _faults(folder: Path) -> Iterator[str]:
    pages = {path: Page(path.read_text()) for path in sorted(folder.rglob("*.html"))}
    for path, page in pages.items():
        here = path.relative_to(folder)
        for link in page.links:
            target, place = _target(path, link)
            if target is None:
                continue
            if not target.is_file():
                yield f"{here}: the link {link} leads to no file"
            elif place and target in pages and place not in pages[target].places:
                yield f"{here}: the link {link} leads to no place in {target.name}"
        yield from _bad_loads(folder, path, page.loads)
    for path in sorted(folder.rglob("*.css")):
        yield from _bad_loads(folder, path, css_loads(path.read_text()))
    for path in sorted(folder.rglob("*.js")):
        for address in script_addresses(path.read_text()):
            yield f"{path.relative_to(folder)}: the script names {address}"


def _bad_loads(folder: Path, path: Path, loads: list[str]) -> Iterator[str]:
    for address in loads:
        target, _ = _target(path, address)
        if is_elsewhere(address):
            yield f"{path.relative_to(folder)}: {address} is loaded from elsewhere"
        elif target is not None and not target.is_file():
            yield f"{path.relative_to(folder)}: {address} is loaded, and not there"


def _target(path: Path, address: str) -> tuple[Path | None, str]:
    """Return the file and the place that an address means; None is a file of others, or data."""
    parts = urlsplit(address)
    if parts.scheme or parts.netloc:
        return None, ""
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    return target, unquote(parts.fragment)
