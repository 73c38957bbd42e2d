"""What is distributed: the wheel works by itself, and its description renders anywhere."""

from __future__ import annotations

import email
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from markdown_it import MarkdownIt

import fedglb as fg

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command that knows nothing of these sources, and return what it prints."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def wheel(folder: Path) -> Path:
    """Build the sdist, and the wheel from what is in the sdist, as an index's users would."""
    build = (sys.executable, "-m", "hatchling", "build", "-d", folder, "-t")
    run(*build, "sdist", cwd=ROOT)
    (sdist,) = folder.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    run(*build, "wheel", cwd=folder / sdist.name.removesuffix(".tar.gz"))
    (built,) = folder.glob("*.whl")
    return built


def first_example() -> str:
    found = re.search(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.S | re.M)
    assert found
    return found[1]


def install(built: Path, folder: Path, *options: str) -> Path:
    """Return the Python of a new environment in which the wheel was installed."""
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder.parent)
    python = folder / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python)
    run(*pip, "install", "--quiet", *options, built, cwd=folder.parent)
    return python


def check_installed(python: Path, folder: Path) -> None:
    """Check in an empty folder that the first example and the command run, on what is installed."""
    folder.mkdir()
    place = "import fedglb; print(fedglb.__file__)"
    assert Path(run(python, "-c", place, cwd=folder).strip()).is_relative_to(python.parent.parent)
    printed = run(python, "-c", first_example(), cwd=folder)
    assert "regret" in printed
    assert fg.__version__ in run(python.parent / "fedglb", "--version", cwd=folder)
    shown = run(python.parent / "fedglb", "reproduce", "synthetic", "--show", cwd=folder)
    assert "horizon" in shown  # the experiments are in the wheel


@pytest.mark.slow
def test_the_wheel_works_in_an_environment_of_its_own(tmp_path):
    """Dependencies are those of this environment, so that nothing is fetched."""
    built = wheel(tmp_path)
    packed = set(zipfile.ZipFile(built).namelist())
    assert {"fedglb/service/templates/parts.html", "fedglb/service/static/page.css"} <= packed
    python = install(built, tmp_path / "venv", "--no-deps", "--no-index")
    (packages,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    # A folder in a .pth file is searched last, and its own .pth files (of sources that are
    # installed for editing) are not read.
    folders = dict.fromkeys([sysconfig.get_path("purelib"), *sys.path])
    listed = [each for each in folders if each.endswith("site-packages")]
    (packages / "dependencies.pth").write_text("\n".join(listed))
    check_installed(python, tmp_path / "empty")

    with zipfile.ZipFile(built) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith("dist-info/METADATA"))
        description = archive.read(metadata).decode()
    assert "fedglb/py.typed" in names
    assert all(name.split("/")[0].startswith("fedglb") for name in names)
    check_description(description)


@pytest.mark.slow
def test_the_wheel_brings_its_dependencies(tmp_path):
    """This one asks the package index, as users do."""
    python = install(wheel(tmp_path), tmp_path / "venv")
    check_installed(python, tmp_path / "empty")


def check_description(metadata: str) -> None:
    """Check that the description is the README, without what leads nowhere outside."""
    message = email.message_from_string(metadata)
    assert message["Description-Content-Type"] == "text/markdown"
    text = message.get_payload()
    assert isinstance(text, str)
    assert first_example() in text
    targets = [
        str(token.attrGet("href") or token.attrGet("src"))
        for block in MarkdownIt("commonmark").parse(text)
        for token in block.children or []
        if token.type in ("link_open", "image")
    ]
    assert [target for target in targets if "://" not in target] == []
    assert "docs/theory.md: the proof behind" in text  # a link that has become its text


def test_versions_agree():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == PROJECT["version"] == fg.__version__
    assert citation["license"] == PROJECT["license"]
    assert f"\n## {fg.__version__}\n" in (ROOT / "CHANGELOG.md").read_text()


def test_the_citation_names_the_paper():
    """The keys are those that the format requires of software and of what it refers to."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    (paper,) = citation["references"]
    assert {"type", "title", "authors", "year"} <= paper.keys()
    assert f"*{paper['title']}*" in " ".join((ROOT / "README.md").read_text().split())
