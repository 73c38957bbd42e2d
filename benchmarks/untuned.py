"""What the untuned default loses: `fedglb_auto()` beside tuned settings, on many problems.

    python -m benchmarks.untuned --out runs.jsonl --rules 'today,thompson-*' --seeds 8000-8004
    python -m benchmarks.untuned --out tuned.jsonl --rules 'tuned-*' --seeds 8000-8004
    python -m benchmarks.untuned --out runs.jsonl tuned.jsonl --seeds 8000-8004 --table

Each finished run is a line of the first file of `--out`; what any of the files has is not run
again, so start a new file when the package's numbers change. `--list` prints problems and rules.

The protocol, written before the runs that are reported:

* Problems are those of `benchmarks.problems`, N = 20 clients, T = 1000 or 2000 steps: the studies'
  three data sets in all their profiles; twelve other data sets, as clusters of rows and as rows;
  fixed, one-hot, grouped and new arms for three links, S = 1 and 3; four items of close means; one
  arm that always pays among nine that never do. Arms are reordered in every seed.
* A candidate is chosen on seeds 8000 to 8019, and reported on seeds 8100 to 8119.
* `--delay D`: a reward is known D/N steps later. `--missing P`: this share of rewards never comes.
* The tuned settings are the grids of the studies' searches of λ and of the factor on the radius
  (c_μ = 0.1 on data), with D = 1, for FedGLB-UCB, FedGLB-Iterate and DisLinUCB, and constant radii
  for the learner of `fedglb_auto`. *Best tuned* is the setting of least mean regret on the same
  problem and seeds: chosen in hindsight, which favours it.
* A run is *lost* if its regret is above 500 and above 4 times the median of the best rule, tuned
  or not, on its problem and these seeds (that of the least median).
* A rule's *ratio* on a problem is its mean regret over that of best tuned (a mean below 1 counts as
  1, as in the studies' search). Tables have its geometric mean over problems, the worst one, and
  the number of problems with a ratio of at most 1.3.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from fnmatch import fnmatchcase
from functools import partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

os.environ["NUMBA_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np

import fedglb as fg
from benchmarks.problems import PROBLEMS, unavailable

LOST, TIMES, NEAR = 500.0, 4.0, 1.3

#: A new candidate is one line.
RULES: dict[str, Callable[[], fg.Algorithm]] = {
    "default": fg.fedglb_auto,
    "today": partial(fg.fedglb_auto, choice=fg.Bayes()),
}
for _c in (1.0, 1.5, 2.0, 3.0):
    RULES[f"sigma-{_c:g}"] = partial(fg.fedglb_auto, choice=fg.Sigma(_c))
for _c in (0.5, 0.7, 1.0, 1.4):
    RULES[f"thompson-{_c:g}"] = partial(fg.fedglb_auto, choice=fg.Thompson(_c, draws=0))

_RIDGES, _FACTORS = (0.001, 0.01, 0.1), (0.01, 0.03, 0.1, 0.2, 0.5)
TUNED: dict[str, Callable[[], fg.Algorithm]] = {}
for _r, _c in product(_RIDGES, _FACTORS):
    TUNED[f"tuned-ucb-{_r:g}-{_c:g}"] = partial(fg.fedglb_ucb, 1.0, fg.Newton(), _c, _r)
for _r, _c in product(_RIDGES, (0.03, 0.1, 0.5)):
    TUNED[f"tuned-iterate-{_r:g}-{_c:g}"] = partial(fg.fedglb_iterate, 1.0, fg.Newton(), _c, _r)
for _r, _c in product((0.01, 0.1), (0.03, 0.1, 0.5)):
    TUNED[f"tuned-dislinucb-{_r:g}-{_c:g}"] = partial(fg.dislinucb, 1.0, _c, _r)
for _r, _c in product((0.01, 0.1, 1.0), (0.3, 1.0, 2.0)):
    TUNED[f"tuned-radius-{_r:g}-{_c:g}"] = partial(
        fg.fedglb_auto, choice=fg.Ucb(), confidence=fg.Fixed(_c), ridge=_r
    )
ALL = RULES | TUNED


class Key(NamedTuple):
    """What identifies a run."""

    problem: str
    rule: str
    seed: int
    delay: int
    missing: float


# -- running -----------------------------------------------------------------------------------


def play(
    problem: str, seed: int, delay: int, missing: float, rules: Sequence[str]
) -> list[dict[str, Any]]:
    """Run rules side by side on one problem."""
    start, entry = time.perf_counter(), PROBLEMS[problem]
    env = entry.environment(delay, missing)
    runs = fg.compare([ALL[rule]() for rule in rules], env, entry.horizon, seed)
    seconds = (time.perf_counter() - start) / len(rules)
    return [
        {**Key(problem, rule, seed, delay, missing)._asdict(), "regret": run.regret,
         "updates": run.syncs, "seconds": round(seconds, 3)}
        for rule, run in zip(rules, runs, strict=True)
    ]  # fmt: skip


def read(files: Iterable[Path]) -> dict[Key, dict[str, Any]]:
    """Return all runs of files; a line that was cut off is not a run."""
    found = {}
    for path in files:
        for line in path.read_text().splitlines(keepends=True) if path.exists() else ():
            if line.endswith("\n"):
                run = json.loads(line)
                found[Key(*(run[name] for name in Key._fields))] = run
    return found


def whole_lines(path: Path) -> None:
    """Remove a last line that was cut off."""
    if path.exists() and not (content := path.read_bytes()).endswith(b"\n"):
        os.truncate(path, content.rfind(b"\n") + 1)


def run_all(wanted: Sequence[Key], files: Sequence[Path], jobs: int) -> None:
    """Run what the files do not have, seed by seed; add to the first of them."""
    whole_lines(files[0])
    done, todo = read(files), defaultdict[tuple[str, int, int, float], list[str]](list)
    for key in sorted(wanted, key=lambda key: key.seed):
        if key not in done:
            todo[key.problem, key.seed, key.delay, key.missing].append(key.rule)
    start, total = time.perf_counter(), sum(map(len, todo.values()))
    print(f"{len(wanted) - total} of {len(wanted)} runs are there", file=sys.stderr)
    finished = 0
    with (
        files[0].open("a") as out,
        ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool,
    ):
        jobs_of = {pool.submit(play, *where, rules): where for where, rules in todo.items()}
        for future in as_completed(jobs_of):
            runs = future.result()
            out.write("".join(json.dumps(run) + "\n" for run in runs))
            out.flush()
            finished += len(runs)
            rate = (time.perf_counter() - start) / finished
            left = (total - finished) * rate / 60
            problem, seed, *_ = jobs_of[future]
            print(f"{finished}/{total} {problem} {seed}, {left:.0f} min left", file=sys.stderr)


# -- tables ------------------------------------------------------------------------------------


def tables(runs: dict[Key, dict[str, Any]], wanted: set[Key]) -> str:
    """Return a Markdown table: a problem per row, a rule per column, and sums over problems."""
    regrets: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for key, run in runs.items():
        if key in wanted:
            regrets[key.problem][key.rule].append(run["regret"])
    rules = [rule for rule in RULES if any(rule in found for found in regrets.values())]
    ratios: dict[str, dict[str, float]] = {rule: {} for rule in rules}
    lost, count = dict.fromkeys(rules, 0), dict.fromkeys(rules, 0)
    lines = [f"| | best tuned | {' | '.join(rules)} |", "|---|---|" + "---|" * len(rules)]
    for problem in (problem for problem in PROBLEMS if problem in regrets):
        found = regrets[problem]
        tuned = {name: mean for name, mean in best_first(found) if name in TUNED}
        best = next(iter(tuned), "")
        limit = max(LOST, TIMES * min(float(np.median(each)) for each in found.values()))
        cells = [f"{tuned[best]:.0f} ({best.removeprefix('tuned-')})" if best else ""]
        for rule in rules:
            own = found.get(rule, [])
            many = sum(regret > limit for regret in own)
            lost[rule] += many
            count[rule] += len(own)
            if own and best:
                ratios[rule][problem] = max(1.0, float(np.mean(own))) / max(1.0, tuned[best])
            cells.append(cell(own) + (f" ({many})" if many else ""))
        lines.append(f"| {problem} | {' | '.join(cells)} |")
    sums: dict[str, Callable[[str], str]] = {
        "lost": lambda rule: f"{lost[rule]} of {count[rule]}",
        "geometric mean of ratios": lambda rule: f"{np.exp(np.mean(np.log(of(rule)))):.2f}",
        "worst ratio": lambda rule: "{1:.1f}, {0}".format(
            *max(ratios[rule].items(), key=lambda r: r[1])
        ),
        f"ratio ≤ {NEAR:g}": lambda rule: f"{sum(r <= NEAR for r in of(rule))} of {len(of(rule))}",
    }

    def of(rule: str) -> list[float]:
        return list(ratios[rule].values())

    for title, say in sums.items():
        said = [say(rule) if ratios[rule] or title == "lost" else "" for rule in rules]
        lines.append(f"| **{title}** | | {' | '.join(said)} |")
    return "\n".join(lines)


def best_first(found: dict[str, list[float]]) -> list[tuple[str, float]]:
    """Return rules with their mean regret, the least first; those with the most seeds only."""
    most = max((len(each) for name, each in found.items() if name in TUNED), default=0)
    means = [(name, float(np.mean(each))) for name, each in found.items() if len(each) >= most]
    return sorted(means, key=lambda each: each[1])


def cell(regrets: Sequence[float]) -> str:
    """Return mean ± standard error."""
    if len(regrets) < 2:
        return "".join(f"{regret:.0f}" for regret in regrets)
    return f"{np.mean(regrets):.0f} ± {np.std(regrets, ddof=1) / np.sqrt(len(regrets)):.0f}"


# -- the command -------------------------------------------------------------------------------


def matching(patterns: str, names: Iterable[str]) -> list[str]:
    """Return the names that match one of the patterns, which are separated by commas."""
    every = list(names)
    for pattern in patterns.split(","):
        if not any(fnmatchcase(name, pattern) for name in every):
            raise SystemExit(f"{pattern}: expected one of {', '.join(every)}, or a pattern")
    return [name for name in every if any(fnmatchcase(name, p) for p in patterns.split(","))]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, nargs="+", metavar="FILE", default=[])
    parser.add_argument("--seeds", default="8000-8019", metavar="FIRST-LAST")
    parser.add_argument("--problems", default="*", metavar="NAME,…")
    parser.add_argument("--rules", default=",".join(RULES), metavar="NAME,…")
    parser.add_argument("--delay", type=int, default=0, metavar="DECISIONS")
    parser.add_argument("--missing", type=float, default=0.0, metavar="SHARE")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--table", action="store_true", help="print a table, run nothing")
    parser.add_argument("--list", action="store_true", help="print problems and rules")
    given = parser.parse_args()
    first, _, last = given.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    problems, rules = matching(given.problems, PROBLEMS), matching(given.rules, ALL)
    if given.list:
        print("\n".join([*problems, "", *rules]))
        return
    if not given.out:
        parser.error("--out: expected a file")
    if given.table:
        rules = [*rules, *TUNED]
    else:
        why = {name: unavailable(name) for name in {PROBLEMS[p].source for p in problems} if name}
        for name in sorted(name for name in why if why[name]):
            print(f"{name} is left out: {why[name]}", file=sys.stderr)
        problems = [p for p in problems if not why.get(PROBLEMS[p].source)]
    wanted = [
        Key(problem, rule, seed, given.delay, given.missing)
        for problem, rule, seed in product(problems, rules, seeds)
    ]
    if given.table:
        print(tables(read(given.out), set(wanted)))
    else:
        run_all(wanted, given.out, given.jobs)


if __name__ == "__main__":
    main()
