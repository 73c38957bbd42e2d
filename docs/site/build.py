"""Build the documentation: `python docs/site/build.py FOLDER`, or `make docs`.

Every warning fails the build, and so does a link that leads nowhere or an asset from elsewhere.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# The site is about these sources, wherever else the package is installed: notebooks, too, run in
# processes that import it.
SOURCES = str(ROOT / "src")
os.environ["PYTHONPATH"] = os.pathsep.join([SOURCES, os.environ.get("PYTHONPATH", "")])
sys.path.insert(0, SOURCES)

from check import faults  # noqa: E402
from sphinx.cmd.build import build_main  # noqa: E402
from stage import stage  # noqa: E402


def build(folder: Path) -> list[str]:
    """Write the site to `folder`, and return what is wrong with it."""
    with tempfile.TemporaryDirectory() as scratch:
        pages = Path(scratch) / "pages"
        stage(ROOT, pages)
        # All warnings are told, and any is an error; doctrees are of no use afterwards.
        options = ["-W", "--keep-going", "-q", "-c", str(HERE), "-d", f"{scratch}/doctrees"]
        failed = build_main([*options, str(pages), str(folder)])
    return ["Sphinx warned: see above"] if failed else faults(folder)


def main() -> None:
    """Build, and leave with an error if anything is wrong."""
    parser = argparse.ArgumentParser(description="Build the documentation as a static site.")
    parser.add_argument("folder", type=Path, help="where the site is written")
    folder = parser.parse_args().folder
    wrong = build(folder)
    if wrong:
        sys.exit("\n".join(wrong))
    sys.stdout.write(f"{folder / 'index.html'}\n")


if __name__ == "__main__":
    main()
