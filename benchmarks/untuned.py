"""What the untuned default loses: `fedglb_auto()` beside tuned settings, on many problems.

    python -m benchmarks.untuned --out runs.jsonl --rules 'today,thompson-*' --seeds 8000-8004
    python -m benchmarks.untuned --out tuned.jsonl --rules 'tuned-*' --seeds 8000-8004
    python -m benchmarks.untuned --out runs.jsonl tuned.jsonl --seeds 8000-8004 --table

Each finished run is a line of the first file of `--out`; what any of the files has is not run
again, so start a new file when the package's numbers change. `--list` prints problems and rules.

The protocol, written before the runs that are reported:

* Problems are those of `benchmarks.problems`, N = 20 clients, T = 1000 or 2000 steps: the studies'
  three data sets in their profiles of arms (without `d118`, which has the inner products of
  another); twelve other data sets, as clusters of rows, some also as rows or scaled to norm 1;
  fixed, one-hot, grouped and new arms for three links, S = 1 and 3; four items of close means; one
  arm that always pays among nine that never do. Arms are reordered in every seed.
* A candidate is chosen on seeds 8000 to 8015, and reported on seeds 8110 to 8119. (At first it was
  8000 to 8019 and 8100 to 8119. An earlier form of the default was reported on 8100 to 8109 and
  changed after that, so these seeds are left to the tuned settings.)
* `--delay D`: a reward is known D/N steps later. `--missing P`: this share of rewards never comes.
* The tuned settings: FedGLB-UCB on the grid of the studies' searches (λ, and the factor on the
  radius; D = 1, and c_μ = 0.1 on data), FedGLB-Iterate and DisLinUCB on parts of it, and constant
  radii for the learner of `fedglb_auto`. *Best tuned* is the setting of least mean regret on the
  same problem and seeds, chosen in hindsight. With few seeds it is mostly lucky: on seeds 8000 to
  8004, choosing on four seeds and playing the fifth gives 2.6 times its mean regret (geometric mean
  over problems). `--tuned-on` chooses it on other seeds, as a user would have to: report both.
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
from collections.abc import Callable, Container, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from fnmatch import fnmatchcase
from functools import partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import fedglb as fg
from benchmarks.problems import PROBLEMS, unavailable
from fedglb.environments.datasets.fetch import FOLDER_VARIABLE

LOST, TIMES, NEAR = 500.0, 4.0, 1.3
BESIDE = Path(__file__).parents[1].parent / "shared" / "data"

#: A new candidate is one line.
RULES: dict[str, Callable[[], fg.Algorithm]] = {
    "default": fg.fedglb_auto,
    "today": partial(fg.fedglb_auto, choice=fg.Bayes()),
    "adaptive": partial(fg.fedglb_auto, memory=fg.Adaptive()),
    "personal": fg.fedglb_personal,
    "personal-adaptive": partial(fg.fedglb_personal, memory=fg.Adaptive()),
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


def left(
    wanted: Iterable[Key], done: Container[Key]
) -> dict[tuple[str, int, int, float], list[str]]:
    """Return what is left to run: the rules to run side by side, by problem and seed."""
    todo = defaultdict[tuple[str, int, int, float], list[str]](list)
    for key in wanted:
        if key not in done:
            todo[key.problem, key.seed, key.delay, key.missing].append(key.rule)
    return dict(todo)


def run_all(wanted: Sequence[Key], files: Sequence[Path], jobs: int) -> None:
    """Run what the files do not have, in order; add to the first of them."""
    whole_lines(files[0])
    todo = left(wanted, read(files))
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
            minutes = (total - finished) * rate / 60
            problem, seed, *_ = jobs_of[future]
            print(f"{finished}/{total} {problem} {seed}, {minutes:.0f} min left", file=sys.stderr)


# -- tables ------------------------------------------------------------------------------------


def table(
    runs: dict[Key, dict[str, Any]],
    problems: Sequence[str],
    rules: Sequence[str],
    seeds: Iterable[int],
    tuned_on: Iterable[int],
    delay: int = 0,
    missing: float = 0.0,
) -> str:
    """Return a Markdown table: a problem per row, a rule per column, and sums over problems."""

    def regrets(problem: str, rule: str, seeds: Iterable[int]) -> list[float]:
        keys = (Key(problem, rule, seed, delay, missing) for seed in seeds)
        return [runs[key]["regret"] for key in keys if key in runs]

    ratios: dict[str, dict[str, float]] = {rule: {} for rule in rules}
    lost, count = dict.fromkeys(rules, 0), dict.fromkeys(rules, 0)
    lines = [f"| | best tuned | {' | '.join(rules)} |", "|---|---|" + "---|" * len(rules)]
    for problem in problems:
        every = {rule: regrets(problem, rule, seeds) for rule in ALL}
        best = least({rule: regrets(problem, rule, tuned_on) for rule in TUNED})
        limit = limit_of_lost([each for each in every.values() if each])
        tuned = every[best] if best else []
        cells = [f"{cell(tuned)} ({best.removeprefix('tuned-')})" if tuned else ""]
        for rule in rules:
            own = every[rule]
            many = sum(regret > limit for regret in own)
            lost[rule] += many
            count[rule] += len(own)
            if own and tuned:
                ratios[rule][problem] = counted(own) / counted(tuned)
            cells.append(cell(own) + (f" ({many})" if many else ""))
        lines.append(f"| {problem} | {' | '.join(cells)} |")
    sums = {rule: summary(list(found.items())) for rule, found in ratios.items()}
    lines.append(f"| **lost** | | {' | '.join(f'{lost[r]} of {count[r]}' for r in rules)} |")
    for k, title in enumerate(("geometric mean of ratios", "worst ratio", f"ratio ≤ {NEAR:g}")):
        lines.append(f"| **{title}** | | {' | '.join(sums[rule][k] for rule in rules)} |")
    return "\n".join(lines)


def least(found: dict[str, list[float]]) -> str:
    """Return the setting of least mean regret, of those with the most seeds; "" without any."""
    most = max(map(len, found.values()))
    means = {name: np.mean(each) for name, each in found.items() if most and len(each) == most}
    return min(means, key=lambda name: means[name], default="")


def counted(regrets: Sequence[float]) -> float:
    """Return the mean regret as ratios count it."""
    return max(1.0, float(np.mean(regrets)))


def limit_of_lost(regrets: Sequence[Sequence[float]]) -> float:
    """Return the regret above which a run is lost, from the regrets of each rule."""
    return max(LOST, TIMES * min((float(np.median(each)) for each in regrets), default=0.0))


def summary(ratios: Sequence[tuple[str, float]]) -> tuple[str, str, str]:
    """Return the geometric mean, the worst and the number of small ones, of ratios by problem."""
    if not ratios:
        return "", "", ""
    values = np.array([ratio for _, ratio in ratios])
    problem, worst = max(ratios, key=lambda each: each[1])
    near = f"{(values <= NEAR).sum()} of {len(values)}"
    return f"{np.exp(np.log(values).mean()):.2f}", f"{worst:.1f}, {problem}", near


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


def span(seeds: str) -> range:
    """Return the seeds of FIRST-LAST, or of one number."""
    first, _, last = seeds.partition("-")
    return range(int(first), int(last or first) + 1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, nargs="+", metavar="FILE", default=[])
    parser.add_argument("--seeds", default="8000-8019", metavar="FIRST-LAST")
    parser.add_argument("--tuned-on", metavar="FIRST-LAST", help="other seeds to choose best tuned")
    parser.add_argument("--problems", default="*", metavar="NAME,…")
    parser.add_argument("--rules", default=",".join(RULES), metavar="NAME,…")
    parser.add_argument("--delay", type=int, default=0, metavar="DECISIONS")
    parser.add_argument("--missing", type=float, default=0.0, metavar="SHARE")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--table", action="store_true", help="print a table, run nothing")
    parser.add_argument("--list", action="store_true", help="print problems and rules")
    given = parser.parse_args()
    seeds, tuned_on = span(given.seeds), span(given.tuned_on or given.seeds)
    problems, rules = matching(given.problems, PROBLEMS), matching(given.rules, ALL)
    if given.list:
        print("\n".join([*problems, "", *rules]))
        return
    if not given.out:
        parser.error("--out: expected a file")
    if given.table:
        about = (given.delay, given.missing)
        runs = read(given.out)
        shown = [rule for rule in rules if any(key.rule == rule for key in runs)]
        print(table(runs, problems, shown, seeds, tuned_on, *about))
        return
    if BESIDE.is_dir():
        os.environ.setdefault(FOLDER_VARIABLE, str(BESIDE))
    os.environ["NUMBA_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # of each process
    why = {name: unavailable(name) for name in {PROBLEMS[p].source for p in problems}}
    for name in sorted(name for name in why if why[name]):
        print(f"{name} is left out: {why[name]}", file=sys.stderr)
    keys = [
        Key(problem, rule, seed, given.delay, given.missing)
        for seed, problem, rule in product(seeds, problems, rules)
        if not why[PROBLEMS[problem].source]
    ]
    run_all(keys, given.out, given.jobs)


if __name__ == "__main__":
    main()
