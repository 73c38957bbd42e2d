"""The same small program on these sources and on older ones, in turns: before and after in one run.

A benchmark that compares with an older release takes `--before FOLDER`, a checkout of it:
`git worktree add FOLDER COMMIT`. Each program is a process of its own that imports `fedglb` from
one of the two, and prints one line of JSON: its numbers by name.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).parents[1]


def run(program: str, root: Path = HERE, *arguments: str, **environment: str) -> dict[str, float]:
    """Run a program with the `fedglb` and `tests` of a checkout; return the numbers it prints."""
    paths = os.pathsep.join([str(root / "src"), str(root)])
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "PYTHONPATH": paths, **environment},
        cwd=root, check=True, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    numbers: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return numbers


def in_turns(
    program: str, before: Path | None, *arguments: str, repeats: int = 3
) -> dict[str, dict[str, float]]:
    """Run a program on both checkouts, in turns; return each number's median, by checkout.

    The keys are "before", where there is such a checkout, and "after".
    """
    roots = {"after": HERE} if before is None else {"before": before.resolve(), "after": HERE}
    seen: dict[str, list[dict[str, float]]] = {name: [] for name in roots}
    for _ in range(repeats):
        for name, root in roots.items():
            seen[name].append(run(program, root, *arguments))
    return {
        name: {key: statistics.median(one[key] for one in every) for key in every[0]}
        for name, every in seen.items()
    }


def rows(medians: Mapping[str, Mapping[str, float]], form: str = ".3g") -> str:
    """Return rows of a table: name, before, after, before / after."""
    lines = []
    for key, after in medians["after"].items():
        cells = [key, f"{after:{form}}"]
        if "before" in medians:
            before = medians["before"].get(key, float("nan"))
            cells[1:1] = [f"{before:{form}}"]
            cells.append(f"{before / after:.2f}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
