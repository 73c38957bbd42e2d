"""The site builds; it has every page and public name, fits its screen, and loads nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import fedglb as fg
from tests.federation.helpers.browser import chromium

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parent.parent
ELSEWHERE = re.compile(
    r"""<(?:script|img|link rel="stylesheet")[^>]*?(?:src|href)="(?:https?:)?//|url\(['"]?https?:"""
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return the site's folder; a warning of Sphinx or a failing notebook is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", "docs/site"]
    done = subprocess.run(
        [*command, ".", folder], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_navigation_has_every_page(site):
    start = (site / "index.html").read_text()
    assert "synthetic.png" in start
    for page in (ROOT / "docs").glob("*.md"):
        assert f'href="docs/{page.stem}.html"' in start, page.name


def test_the_reference_explains_every_public_name(site):
    reference = (site / "docs" / "api.html").read_text()
    for name in fg.__all__:
        entry = re.search(
            rf'<dt[^>]* id="fedglb\.{name}">.*?</dt>\s*<dd>(.*?)</dd>', reference, re.S
        )
        assert entry, name
        assert len(re.sub(r"<[^>]*>", "", entry[1]).split()) > 3, name


def test_formulas_are_mathml_and_notebooks_were_executed(site):
    assert re.search(r"<math[^>]*>", (site / "docs" / "theory.html").read_text())
    for notebook in (ROOT / "docs" / "tutorial").glob("*.py"):
        page = site / "docs" / "tutorial" / f"{notebook.stem}.html"
        assert "cell_output" in page.read_text()


def test_nothing_is_loaded_from_elsewhere(site):
    for path in [*site.rglob("*.html"), *site.rglob("*.css")]:
        assert not ELSEWHERE.search(path.read_text()), path.name


def test_no_page_scrolls_sideways(site):
    with chromium() as browser:
        for width in (390, 1400):
            view = browser.new_page(viewport={"width": width, "height": 900})
            for path in sorted(site.rglob("*.html")):
                view.goto(path.as_uri(), wait_until="domcontentloaded")
                wide = view.evaluate("document.documentElement.scrollWidth")
                assert wide <= width, (path.name, wide, width)
            view.close()
