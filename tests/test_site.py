"""The documentation builds: every public name is in it, and it needs nothing from elsewhere."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import fedglb as fg

ROOT = Path(__file__).parent.parent
SITE = ROOT / "docs" / "site"


@pytest.mark.slow
def test_the_site_builds(tmp_path):
    """One test, so that the site is built once; links and assets are checked by the build."""
    site = tmp_path / "site"
    done = subprocess.run(
        [sys.executable, SITE / "build.py", site], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr

    start = (site / "index.html").read_text()
    assert "synthetic.png" in start
    for page in (ROOT / "docs").glob("*.md"):
        assert f'href="{page.stem}.html"' in start, "not in the navigation"

    reference = "".join(page.read_text() for page in (site / "api").glob("*.html"))
    for name in fg.__all__:
        entry = re.search(
            rf'<dt[^>]* id="fedglb\.{name}">.*?</dt>\s*<dd>(.*?)</dd>', reference, re.S
        )
        assert entry, name
        assert len(re.sub(r"<[^>]*>", "", entry[1]).split()) > 3, "an entry explains its name"

    index = (site / "searchindex.js").read_text()
    assert '"simulate"' in index  # search is a script beside the pages, which file:// can load

    assert re.search(r"<math[^>]*>", (site / "theory.html").read_text())
    notebooks = [path for path in (ROOT / "docs" / "tutorial").iterdir() if path.is_file()]
    assert notebooks
    for notebook in notebooks:
        assert "cell_output" in (site / "tutorial" / f"{notebook.stem}.html").read_text()


FAULTS = {
    "no file": '<a href="gone.html">',
    "no place": '<a href="other.html#gone">',
    "elsewhere": '<script src="https://cdn.example/a.js"></script>',
    "loaded from elsewhere": '<link rel="stylesheet" href="//fonts.example/css">',
    "https://img.example/a.png": "<style>p { background: url(https://img.example/a.png) }</style>",
    "b.png is loaded from elsewhere": '<img src="a.png" srcset="https://img.example/b.png 2x">',
    "not there": '<img src="gone.png">',
}


@pytest.mark.parametrize(("said", "text"), FAULTS.items(), ids=FAULTS)
def test_faults_of_pages_are_found(said, text, tmp_path):
    faults = runpy.run_path(str(SITE / "check.py"))["faults"]
    (tmp_path / "a.png").touch()
    (tmp_path / "other.html").write_text('<p id="here">')
    fine = '<a href="other.html#here"><a href="#top"><h1 id="top"><img src="a.png">'
    fine += '<a href="https://elsewhere.example/"><img src="data:image/png;base64,AA==">'
    (tmp_path / "index.html").write_text(fine)
    assert faults(tmp_path) == []
    (tmp_path / "index.html").write_text(fine + text)
    found = faults(tmp_path)
    assert len(found) == 1
    assert said in found[0]


@pytest.mark.parametrize(
    ("file", "fine", "wrong"),
    [
        ("a.css", "/* url(https://a.example/) */ p {}", '@import "https://a.example/b.css";'),
        ("a.js", '// see "https://a.example/"\nns = "http://www.w3.org/2000/svg"',
         'fetch("https://a.example/")'),
    ],
)  # fmt: skip
def test_faults_of_style_sheets_and_scripts_are_found(file, fine, wrong, tmp_path):
    faults = runpy.run_path(str(SITE / "check.py"))["faults"]
    (tmp_path / file).write_text(fine)
    assert faults(tmp_path) == []
    (tmp_path / file).write_text(f"{fine}\n{wrong}")
    assert len(faults(tmp_path)) == 1


def test_links_follow_the_pages():
    relocate = runpy.run_path(str(SITE / "links.py"))["relocate"]
    text = (
        "[a](docs/theory.md#1) ![b](docs/figures/synthetic.png) [c](benchmarks/RESULTS.md) "
        "[d](pyproject.toml) [e](https://a.example/) [f](#g) `rules[h](i)`"
    )
    assert relocate(text, "README.md", "index.md", ROOT) == (
        "[a](theory.md#1) ![b](figures/synthetic.png) [c](benchmarks.md) "
        "d [e](https://a.example/) [f](#g) `rules[h](i)`"
    )
    text = "[a](../results.md) [b](../../CONTRIBUTING.md)"
    assert relocate(text, "docs/tutorial/t.py", "tutorial/t.py", ROOT) == (
        "[a](../results.md) [b](../contributing.md)"
    )
