"""Every block of Python on the pages runs alone; every relative link leads somewhere."""

from __future__ import annotations

import doctest
import re
import runpy
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

import fedglb as fg

ROOT = Path(__file__).parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), flags=re.S | re.M)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_python_examples_run(page, tmp_path, monkeypatch, capsys):
    for i, block in enumerate(blocks(page, "python")):
        (tmp_path / str(i)).mkdir()
        monkeypatch.chdir(tmp_path / str(i))
        exec(compile(block, f"{page.name}, block {i}", "exec"), {"__name__": "__main__"})


SCRIPTS = {
    "user": """
import numpy as np
import polars as pl

import fedglb as fg

problem: fg.Problem = fg.Problem(dim=3, link=fg.Logistic(), radius=1.0)
env: fg.Environment = fg.Synthetic(problem, clients=2, arms=4)
algorithms: list[fg.Algorithm] = [preset() for preset in (fg.one_ucb_glm, fg.n_ons_glm)]
runs: list[fg.Run] = fg.compare(algorithms, env, horizon=5)
trace: pl.DataFrame = fg.simulate(fg.dislinucb(1.0), env, 5, engine="reference").trace
table: fg.Table = fg.Table({"x": [0.0, 1.0], "c": np.array(["a", "b"])}, labels=[0, 1])
data: fg.Clustered = fg.clustered(table, clusters=2, mode="member", scale="each")
agent: fg.Agent = fg.Agent.open("shop.db", problem)
""",
    "misspelt": "import fedglb as fg\n\nfg.Agnt\n",
    "no_choice": "import fedglb as fg\n\nfg.clustered('magic', mode='centre')\n",
}


def scripts() -> dict[str, str]:
    """Return by name what users write or copy: scripts, the pages' examples, the docstrings'."""
    found = dict(SCRIPTS)
    named = ("README.md", "CONTRIBUTING.md", "docs/research.md", "docs/own_parts.md")
    for page in map(ROOT.joinpath, named):
        for i, block in enumerate(blocks(page, "python")):
            found[f"{page.stem}_{i}"] = block
    stub = "from pathlib import Path\ndef getfixture(name: str) -> Path:\n    return Path()\n"
    for name in fg.__all__:
        if callable(getattr(fg, name)):
            for case in doctest.DocTestFinder().find(getattr(fg, name), name):
                if case.examples:
                    source = "".join(example.source for example in case.examples)
                    found[f"doc_{case.name.replace('.', '_')}"] = stub + source
    return found


@pytest.fixture(scope="module")
def mypy_errors(tmp_path_factory):
    """Return the errors that `mypy --strict` finds, by script: one run for all."""
    folder = tmp_path_factory.mktemp("scripts")
    for name, text in scripts().items():
        (folder / f"{name}.py").write_text(text)
    command = [
        sys.executable, "-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml"),
        "--no-error-summary", "--hide-error-context", *map(str, sorted(folder.glob("*.py"))),
    ]  # fmt: skip
    # In this folder `make lint` has left what it knows of the package.
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.stderr == ""
    errors = defaultdict(list)
    for line in done.stdout.splitlines():
        errors[Path(line.partition(":")[0]).stem].append(line)
    assert set(errors) <= set(scripts()), done.stdout
    return errors


def test_examples_pass_mypy_strict(mypy_errors):
    wrong = mypy_errors.keys() - {"misspelt", "no_choice"}
    assert {name: mypy_errors[name] for name in wrong} == {}


@pytest.mark.parametrize(
    ("name", "said"), [("misspelt", "attr-defined"), ("no_choice", "arg-type")]
)
def test_mypy_finds_mistakes(name, said, mypy_errors):
    assert len(mypy_errors[name]) == 1
    assert said in mypy_errors[name][0]


def test_there_are_examples():
    assert sum(len(blocks(page, "python")) for page in PAGES) >= 4


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as code hosts and the site make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.S | re.M)
    titles = re.findall(r"^##* (.*)$", text, flags=re.M)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    text = re.sub(r"\$\$.*?\$\$|\$[^$\n]*\$|```.*?```", "", page.read_text(), flags=re.S)
    for target, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", text):
        if "://" not in target:
            found = page.parent / target if target else page
            assert found.exists(), target
            assert not anchor or anchor in anchors(found), (target, anchor)


def test_the_walks_through_the_code_name_what_is_there():
    text = (ROOT / "docs" / "architecture.md").read_text()
    walked = re.findall(r"`([\w/]+\.py)`(?:\s+`(\w+)`)?", text.partition("three walks")[2])
    assert len(walked) > 30
    for file, name in walked:
        source = (ROOT / "src" / "fedglb" / file).read_text()
        assert not name or re.search(rf"^ *(class|(async )?def) {name}\b", source, re.M), (
            file,
            name,
        )


def test_the_picture_of_the_rooms_is_that_of_the_layers():
    drawn = runpy.run_path(str(ROOT / "docs" / "figures" / "rooms.py"))["drawing"]()
    assert (ROOT / "docs" / "figures" / "rooms.svg").read_text() == drawn
