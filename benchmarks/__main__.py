"""Run the quick benchmarks, or those named; with older sources beside these, for ratios.

    python -m benchmarks [NAME ...] [--before FOLDER] [--repeats 3]

FOLDER is a checkout of older sources (`git worktree add FOLDER COMMIT`). Each script then runs
with those and with these sources in turns, and the table has the medians and their ratio. The other
scripts of this folder take longer and print tables of their own: `python -m benchmarks.agent`,
`effects`, `figure`, `flood`, `growth`, `personal`, `secure_sums`, `service`, `shop`, `silence`,
`untuned` and `updates`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

QUICK = ("first_minute", "first_answer", "simulation", "own_rule")
HERE = Path(__file__).parents[1]


def run(name: str, sources: Path) -> dict[str, float]:
    """Return the numbers that a script prints with the sources of a checkout."""
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}"], cwd=HERE, check=True,
        env={**os.environ, "PYTHONPATH": str(sources / "src")},
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    numbers: dict[str, float] = json.loads(done.stdout)
    return numbers


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(QUICK))
    parser.add_argument("--before", type=Path, help="a checkout of older sources")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    if unknown := set(given.names) - set(QUICK):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(QUICK)}")
    checkouts = {"these sources": HERE}
    if given.before is not None:
        checkouts = {"before": given.before.resolve(), **checkouts}
    for name in given.names or QUICK:
        seen: dict[str, list[dict[str, float]]] = {title: [] for title in checkouts}
        for turn in range(given.repeats):
            print(f"{name}: turn {turn + 1} of {given.repeats}", file=sys.stderr)
            for title, sources in checkouts.items():
                seen[title].append(run(name, sources))
        titles = [*checkouts, *(["before / these"] if given.before else [])]
        print(f"\n| {name} | {' | '.join(titles)} |\n|{'---|' * (len(titles) + 1)}")
        for key in seen["these sources"][0]:
            medians = [statistics.median(one[key] for one in every) for every in seen.values()]
            cells = [f"{value:.3g}" for value in medians]
            if given.before:
                cells.append(f"{medians[0] / medians[1]:.2f}")
            print(f"| {key} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
