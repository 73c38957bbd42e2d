"""`fedglb_mix` and `fedglb_auto` beside tuned competitors: regret, communication, time.

Run from the repository's root: `python -m benchmarks.past_the_paper mix|auto|speed|report`.
Every finished run is a line in a file of the folder `--results`; a run that is there is not made
again, so that a study can be stopped and continued. Real data is found as `fedglb data` finds it.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import fedglb as fg
from fedglb.environments.base import generator
from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import CENTRE, INVERSE, SCORES, WIDTHS
from fedglb.kernels.quantiles import normal_quantile
from fedglb.kernels.scoring import upper_bounds
from fedglb.parts.choice import Choice
from fedglb.parts.confidence import Iterate
from fedglb.parts.trigger import Clock
from fedglb.setting import Setting
from fedglb.simulation.compiled import CompiledEngine, block_arrays
from fedglb.typing import FloatArray

Algorithms = dict[str, fg.Algorithm]

# ---------------------------------------------------------------------- runs that are kept


def kept(path: Path) -> list[dict[str, Any]]:
    """Return the finished runs of a file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]


def play(path: Path, env: fg.Environment, T: int, seeds: Iterable[int], every: Algorithms) -> None:
    """Play what is missing, all algorithms of a seed side by side."""
    done = {(run["setting"], run["seed"]) for run in kept(path)}
    for seed in seeds:
        missing = {name: made for name, made in every.items() if (name, seed) not in done}
        if not missing:
            continue
        start = time.process_time()
        runs = fg.compare(missing.values(), env, T, seed)
        took = time.process_time() - start
        lines = [
            json.dumps({"setting": name, "seed": seed, **_row(run)}) + "\n"
            for name, run in zip(missing, runs, strict=True)
        ]
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.writelines(lines)
        print(f"{path.stem}, seed {seed}: {len(missing)} runs, {took:.1f} s", flush=True)


def _row(run: fg.Run) -> dict[str, Any]:
    inside = run.updates["theta_star_inside"].drop_nulls()
    return {
        "regret": run.regret, "syncs": run.syncs, "rounds": run.rounds,
        "transfers": run.transfers, "scalars": run.scalars,
        "inside": bool(inside.all()) if inside.len() > 0 else None,
    }  # fmt: skip


# ---------------------------------------------------------------------- the paper's problem

THRESHOLDS = (0.1, 1.0, 10.0, 100.0)
MULTIPLIERS = (1.0, 0.3, 0.1, 0.03, 0.01)
SLACKS = (0.05, 0.2)
CONSTANTS = (0.0, 0.1, 0.3, 1.0, 3.0)


def mix_settings() -> Algorithms:
    """`fedglb_mix` and ten settings of `fedglb_ucb`, for each threshold."""
    every: Algorithms = {}
    for D in THRESHOLDS:
        for slack in SLACKS:
            solver = fg.OneExchange(slack)
            every[f"mix D={D:g} slack={slack:g}"] = fg.fedglb_mix(D, solver=solver)
        for m in MULTIPLIERS:
            every[f"ucb D={D:g} m={m:g}"] = fg.fedglb_ucb(D, fg.Newton(), exploration=m)
        for a in CONSTANTS:
            fixed = fg.Fixed(a)
            every[f"ucb D={D:g} a={a:g}"] = fg.fedglb_ucb(D, fg.Newton(), confidence=fixed)
    return every


def mix(folder: Path, names: Sequence[str]) -> None:
    """N=200, T=2000, d=10, K=25, ten seeds."""
    for S in (1.0, 3.0):
        if names and f"S={S:g}" not in names:
            continue
        env = fg.Synthetic(fg.Problem(10, radius=S), 200, 25)
        play(folder / f"mix S={S:g}.jsonl", env, 2000, range(10), mix_settings())


# ---------------------------------------------------------------------- any problem, untuned


@dataclass(frozen=True)
class FixedArms(fg.Environment):
    """Arms that stay the same, all or some of them on offer; θ* and the arms are the seed's.

    Parameters
    ----------
    problem
        The problem; θ* is uniform on the sphere of radius S.
    clients
        N.
    pool
        How many arms there are, uniform on the unit sphere; None: the d unit vectors.
    offered
        How many of them a client is offered in a step, drawn without replacement; None: all.
    """

    problem: fg.Problem
    clients: int
    pool: int | None = None
    offered: int | None = None
    arms: int = field(init=False)

    def __post_init__(self) -> None:
        K = self.problem.dim if self.pool is None else self.pool
        object.__setattr__(self, "arms", K if self.offered is None else self.offered)

    def parameter(self, seed: int) -> FloatArray:
        """Return θ*."""
        direction = generator(seed, "parameter").standard_normal(self.problem.dim)
        return direction * (self.problem.S / float(np.linalg.norm(direction)))

    def blocks(self, horizon: int, seed: int) -> Iterator[fg.Block]:
        """Yield the steps 1 … horizon."""
        draw_arms, draw_noise = generator(seed, "arms"), generator(seed, "noise")
        pool = np.eye(self.problem.dim)
        if self.pool is not None:
            pool = draw_arms.standard_normal((self.pool, self.problem.dim))
            pool /= np.linalg.norm(pool, axis=1, keepdims=True) * (1.0 + 1e-12)
        means = self.problem.link.mean(pool @ self.parameter(seed))
        size, N, K = self.block_steps(), self.clients, self.arms
        for first in range(1, horizon + 1, size):
            steps = min(size, horizon - first + 1)
            on_offer = np.broadcast_to(np.arange(len(pool)), (steps, N, len(pool)))
            if len(pool) > K:
                order = draw_arms.random((steps, N, len(pool)))
                on_offer = np.sort(np.argpartition(order, K - 1, axis=-1)[..., :K], axis=-1)
            noise = draw_noise.random((steps, N))
            yield fg.Block(first, pool[on_offer], means[on_offer], uniforms=noise)


@dataclass(frozen=True)
class Case:
    """A problem of the comparison, and what competitors are tuned over.

    Parameters
    ----------
    environment
        Makes the environment for S and c_μ (None: the link's own).
    T
        The number of steps.
    S
        The bound on ‖θ*‖ that competitors are told.
    curvatures, ridges, multipliers
        c_μ, λ and `exploration` of the competitors.
    """

    environment: Callable[[float, float | None], fg.Environment]
    T: int
    S: float
    curvatures: tuple[float | None, ...] = (None,)
    ridges: tuple[float, ...] = (1.0,)
    multipliers: tuple[float, ...] = MULTIPLIERS


def _paper(S: float, c: float | None) -> fg.Environment:
    return fg.Synthetic(fg.Problem(10, radius=S, curvature=c), 50, 25)


def _fixed(pool: int | None, offered: int | None) -> Callable[..., fg.Environment]:
    return lambda S, c: FixedArms(fg.Problem(10, radius=S, curvature=c), 20, pool, offered)


@functools.cache
def _clusters(name: str) -> fg.Clustered:
    if name != "covertype-11":
        return fg.clustered(name)
    table = fg.load_table("covertype")
    numbers = {key: column for key, column in table.columns.items() if column.dtype.kind == "f"}
    return fg.clustered(fg.Table(numbers, table.labels, "covertype-11", table.sha256))


def _real(name: str, offered: int | None) -> Callable[..., fg.Environment]:
    def environment(S: float, c: float | None) -> fg.Environment:
        data = _clusters(name)
        return fg.Classification(fg.Problem(data.dim, radius=S, curvature=c), 20, data, offered)

    return environment


def _data(name: str, offered: int | None, T: int, ridges: tuple[float, ...]) -> Case:
    multipliers = (0.3, 0.2, 0.1, 0.03, 0.01)
    return Case(_real(name, offered), T, 30.0, (0.1, 0.25), ridges, multipliers)


CASES = {
    "magic 32": _data("magic", None, 2000, (0.01, 0.1)),
    "magic 16 of 32": _data("magic", 16, 2000, (0.01, 0.1)),
    "covertype-11 32": _data("covertype-11", None, 2000, (0.01, 0.1)),
    "covertype-55 16 of 32": _data("covertype", 16, 1000, (0.1,)),
    "mushroom 16 of 32": _data("mushroom", 16, 300, (0.1,)),
    "paper S=1": Case(_paper, 500, 1.0),
    "paper S=3": Case(_paper, 500, 3.0),
    "one-hot S=1": Case(_fixed(None, None), 1000, 1.0),
    "one-hot S=3": Case(_fixed(None, None), 1000, 3.0),
    "fixed S=1": Case(_fixed(25, None), 1000, 1.0),
    "fixed S=3": Case(_fixed(25, None), 1000, 3.0),
    "clusters S=1": Case(_fixed(32, 16), 1000, 1.0),
    "clusters S=3": Case(_fixed(32, 16), 1000, 3.0),
}
TUNING, CHOOSING, REPORTING = range(1000, 1010), range(30), range(100, 130)
HEAT, FINALISTS = 3, 3  # all settings play on the first seeds, each algorithm's best on the others
D = 0.1  # of all competitors
OWN: Clock = "own samples"


def competitors(case: Case) -> dict[float | None, Algorithms]:
    """Return the settings that competitors are tuned over, by c_μ."""
    out: dict[float | None, Algorithms] = {}
    newton, own = fg.Newton(), OWN
    for c, ridge, m in itertools.product(case.curvatures, case.ridges, case.multipliers):
        every = out.setdefault(c, {})
        told = ("" if c is None else f" c={c:g}") + f" λ={ridge:g} m={m:g}"
        every["ucb" + told] = fg.fedglb_ucb(D, newton, m, ridge)
        every["iterate" + told] = fg.fedglb_ucb(
            D, newton, m, ridge, confidence=Iterate(), clock=own
        )
        if c == case.curvatures[0]:  # they have no use for c_μ
            linear = f" λ={ridge:g} m={m:g}"
            every["dislin" + linear] = fg.dislinucb(D, m, ridge)
            every["dislin own" + linear] = fg.dislinucb(D, m, ridge, clock=own)
    return out


def references(case: Case) -> dict[float | None, Algorithms]:
    """Return the settings of One-UCB-GLM, which sees all samples at once."""
    c, ridge = case.curvatures[0], case.ridges[0]
    given = "" if c is None else f" c={c:g}"
    return {
        c: {
            f"one{given} λ={ridge:g} m={m:g}": fg.one_ucb_glm(m, ridge)
            for m in case.multipliers[1:4]
        }
    }


QUANTILE, CLIENTS = range(2)


@kernel
def bayes_index_of_all(
    arms: FloatArray,
    vectors: FloatArray,
    matrices: FloatArray,
    work: FloatArray,
    factor: FloatArray,
    constants: FloatArray,
    t: int,
    key: int,
    number: int,
    client: int,
    draw: int,
) -> int:
    """xᵀθ + Φ⁻¹(1 − 1/(tN + 1))·sd(x)."""
    multiple = -normal_quantile(1.0 / (t * constants[CLIENTS] + 1.0)) * constants[QUANTILE]
    upper_bounds(arms, vectors[CENTRE], matrices[INVERSE], multiple, work[SCORES], work[WIDTHS])
    return 0


@dataclass(frozen=True)
class BayesOfAll(Choice):
    """`Bayes` with the number of all clients' samples in place of the step."""

    stored_name = "BayesOfAll"
    formula = staticmethod(bayes_index_of_all)

    def constants(self, setting: Setting, dispersion: float) -> tuple[float, ...]:
        """Return √D and N."""
        return math.sqrt(dispersion), float(setting.clients)

    def caveats(self) -> tuple[str, ...]:
        """Return that the index is not proven."""
        return (f"{self}: the index is calibrated, not proven",)


def spread(env: fg.Environment) -> float:
    """V, the mean squared distance of the arms of a step from their mean."""
    arms = next(iter(env.blocks(20, 0))).arms
    away = arms - arms.mean(axis=2, keepdims=True)
    return float(np.mean(np.sum(away**2, axis=-1)))


def auto(
    choice: Choice | None = None,
    threshold: float = 0.1,
    clock: Clock = OWN,
    start: float = 1 / 64,
    slack: float = 0.1,
) -> fg.Algorithm:
    """`fedglb_auto` with everything given."""
    solver = fg.OneExchange(slack, "deviation")
    rule = fg.Bayes() if choice is None else choice
    return fg.fedglb_auto(threshold, rule, clock, solver, fg.Evidence(start))


def variants(env: fg.Environment, first: bool) -> Algorithms:
    """Return the settings that the defaults of `fedglb_auto` are chosen from.

    Those that are clearly worse on the first problem, Magic, are not tried on the others.
    """
    every = {
        "auto": auto(),
        "auto Sigma(2)": auto(fg.Sigma(2.0)),
        "auto Sigma(3)": auto(fg.Sigma(3.0)),
        "auto BayesOfAll": auto(BayesOfAll()),
        "auto D=0.3": auto(threshold=0.3),
        "auto λ₀=V/16": auto(start=spread(env) / 16),
        "auto slack=0.3": auto(slack=0.3),
        "auto slack=0.5": auto(slack=0.5),
        "auto slack=1": auto(slack=1.0),
        "auto D=0.3 slack=1": auto(threshold=0.3, slack=1.0),
        "auto slack=inf": auto(slack=math.inf),
        "auto D=0.3 slack=inf": auto(threshold=0.3, slack=math.inf),
    }
    if first:
        every |= {
            "auto D=1": auto(threshold=1.0),
            "auto D=0.1 steps": auto(clock="steps"),
            "auto D=1 steps": auto(threshold=1.0, clock="steps"),
            "auto λ₀=1/16": auto(start=1 / 16),
            "auto D=0.3 slack=0.5": auto(threshold=0.3, slack=0.5),
        }
    return every


def study(folder: Path, part: str, names: Sequence[str], count: int) -> None:
    """Tune competitors, choose our defaults, or compare both on other seeds."""
    for name in names or CASES:
        case = CASES[name]
        path, env = folder / f"{name}.jsonl", case.environment(case.S, case.curvatures[0])
        if part == "choose":
            play(path, env, case.T, CHOOSING[:count], variants(env, name == "magic 32"))
            continue
        groups = competitors(case)
        for c, every in references(case).items():
            groups[c].update(every)
        if part == "tune":
            for c, every in groups.items():
                play(path, case.environment(case.S, c), case.T, TUNING[:HEAT], every)
            best = {key for keys in tuned(kept(path), HEAT).values() for key in keys[:FINALISTS]}
            seeds = TUNING[HEAT:]
        else:
            best = {keys[0] for keys in tuned(kept(path), len(TUNING)).values()}
            play(path, env, case.T, REPORTING[:count], {"default": fg.fedglb_auto()})
            seeds = REPORTING[:count]
        for c, every in groups.items():
            picked = {key: made for key, made in every.items() if key in best}
            if picked:
                play(path, case.environment(case.S, c), case.T, seeds, picked)


def tuned(runs: list[dict[str, Any]], count: int) -> dict[str, list[str]]:
    """Return each algorithm's settings by mean regret on the first `count` tuning seeds."""
    regrets: dict[str, list[float]] = {}
    for run in runs:
        if run["seed"] in TUNING[:count]:
            regrets.setdefault(run["setting"], []).append(run["regret"])
    best: dict[str, list[str]] = {}
    for setting in sorted(regrets, key=lambda key: float(np.mean(regrets[key]))):
        if len(regrets[setting]) == count:
            best.setdefault(family(setting), []).append(setting)
    return best


def family(setting: str) -> str:
    """Return the algorithm of a setting's name."""
    return re.split(r" [cλmD]=", setting)[0]


# ---------------------------------------------------------------------- time

SETTINGS = 16


def speed(T: int = 500, turns: int = 3) -> None:
    """An interaction of each preset beside one of `fedglb_ucb`, 16 settings side by side."""
    N, K, d = 200, 25, 10
    env = fg.Synthetic(fg.Problem(d), N, K)
    usual = fg.fedglb_auto().trigger.level
    presets: dict[str, Callable[[int], fg.Algorithm]] = {
        "fedglb_ucb, Newton, D = 10": lambda k: fg.fedglb_ucb(
            10.0, fg.Newton(), exploration=0.1 * (1.0 + k / SETTINGS)
        ),
        "fedglb_ucb, Newton, D = 0.1, own samples": lambda k: fg.fedglb_ucb(
            D * (1.0 + 0.01 * k), fg.Newton(), exploration=0.1, clock=OWN
        ),
        "fedglb_mix, D = 10": lambda k: fg.fedglb_mix(10.0 * (1.0 + 0.01 * k)),
        "fedglb_auto, D = 10, steps": lambda k: fg.fedglb_auto(
            10.0 * (1.0 + 0.01 * k), clock="steps"
        ),
        "fedglb_auto, D = 1, steps": lambda k: fg.fedglb_auto(1.0 + 0.01 * k, clock="steps"),
        "fedglb_auto": lambda k: fg.fedglb_auto(usual * (1.0 + 0.01 * k)),
    }
    _in_turn(env, presets, 50)  # compile
    drawing, playing = np.inf, dict.fromkeys(presets, np.inf)
    for _ in range(turns):
        drawn, played, syncs = _in_turn(env, presets, T)
        drawing = min(drawing, drawn)
        playing = {name: min(playing[name], played[name]) for name in presets}
    print(f"d={d} K={K} N={N} T={T}, {SETTINGS} settings side by side; best of {turns} turns")
    print("| | µs per interaction | ratio | without drawing, µs | ratio | updates |")
    print("|---|---|---|---|---|---|")
    shared, base = drawing / SETTINGS, playing["fedglb_ucb, Newton, D = 10"]
    for name, own in playing.items():
        whole = shared + own
        print(
            f"| {name} | {whole * 1e6:.3f} | {whole / (shared + base):.2f} "
            f"| {own * 1e6:.3f} | {own / base:.2f} | {syncs[name]:.0f} |"
        )


def _in_turn(
    env: fg.Environment, presets: dict[str, Callable[[int], fg.Algorithm]], T: int
) -> tuple[float, dict[str, float], dict[str, float]]:
    """Return seconds per interaction: drawing, and playing with each preset; and its updates.

    Block by block in turn, so that all of them meet the same moments of a shared machine.
    """
    engines = {
        name: [CompiledEngine(made(k), env, T, 1) for k in range(SETTINGS)]
        for name, made in presets.items()
    }
    drawing, playing = 0.0, dict.fromkeys(presets, 0.0)
    start = time.process_time()
    for block in env.checked_blocks(T, seed=1):
        shared = block_arrays(block)
        drawing += time.process_time() - start
        for name, group in engines.items():
            start = time.process_time()
            for engine in group:
                engine.play(shared)
            playing[name] += time.process_time() - start
        start = time.process_time()
    n = env.clients * T
    syncs = {
        name: float(np.mean([engine.result().syncs for engine in group]))
        for name, group in engines.items()
    }
    return drawing / n, {k: v / n / SETTINGS for k, v in playing.items()}, syncs


# ---------------------------------------------------------------------- tables


def cell(values: Sequence[float]) -> str:
    """Return mean ± standard error (median)."""
    mean, error = np.mean(values), np.std(values, ddof=1) / math.sqrt(len(values))
    digits = 0 if mean >= 20 else 1
    return f"{mean:,.{digits}f} ± {error:,.{digits}f} ({np.median(values):,.{digits}f})"


def by_setting(path: Path, seeds: Sequence[int]) -> dict[str, list[dict[str, Any]]]:
    """Return the runs on these seeds, by setting."""
    out: dict[str, list[dict[str, Any]]] = {}
    for run in kept(path):
        if run["seed"] in seeds:
            out.setdefault(run["setting"], []).append(run)
    return out


def total(runs: list[dict[str, Any]], key: str) -> float:
    return float(sum(run[key] for run in runs))


def report_mix(folder: Path) -> None:
    """`fedglb_mix` over the best of ten settings of `fedglb_ucb` on the same seeds."""
    print(
        "| S | D | seeds | best of ten | its setting | slack | `fedglb_mix` | ratio "
        "| proven, m = 1 | rounds per update | transfers | of the best | θ* lost, runs |"
    )
    print("|" + "---|" * 13)
    for S in (1.0, 3.0):
        runs = by_setting(folder / f"mix S={S:g}.jsonl", range(10))
        for threshold, slack in itertools.product(THRESHOLDS, SLACKS):
            ours = runs.get(f"mix D={threshold:g} slack={slack:g}", [])
            if not ours:
                continue
            n = len(ours)
            others = [
                key
                for key, made in runs.items()
                if key.startswith(f"ucb D={threshold:g} ") and len(made) == n
            ]
            best = min(others, key=lambda key: total(runs[key], "regret"))
            least, own = (total(made, "regret") / n for made in (runs[best], ours))
            proven = total(runs[f"ucb D={threshold:g} m=1"], "regret") / n
            print(
                f"| {S:g} | {threshold:g} | {n} | {least:,.0f} | {best.split()[-1]} | {slack:g} "
                f"| {cell([run['regret'] for run in ours])} | {own / least:.2f} | {proven:,.0f} "
                f"| {total(ours, 'rounds') / total(ours, 'syncs'):.2f} "
                f"| {total(ours, 'transfers') / n:,.0f} | {total(runs[best], 'transfers') / n:,.0f}"
                f" | {sum(run['inside'] is False for run in ours)} |"
            )


def report_choice(folder: Path) -> None:
    """Variants of `fedglb_auto`, on the seeds on which its defaults were chosen."""
    for name in CASES:
        runs = by_setting(folder / f"{name}.jsonl", CHOOSING)
        if not runs:
            continue
        print(f"\n{name}, seeds 0 to {max(run['seed'] for run in runs['auto'])}\n")
        print("| | regret | > 3 medians of the first | updates | rounds per update | transfers |")
        print("|---|---|---|---|---|---|")
        limit = 3.0 * float(np.median([run["regret"] for run in runs["auto"]]))
        for setting, made in runs.items():
            regrets = [run["regret"] for run in made]
            print(
                f"| {setting} | {cell(regrets)} | {sum(value > limit for value in regrets)} "
                f"| {total(made, 'syncs') / len(made):.0f} "
                f"| {total(made, 'rounds') / total(made, 'syncs'):.2f} "
                f"| {total(made, 'transfers') / len(made):,.0f} |"
            )


def report_auto(folder: Path) -> None:
    """`fedglb_auto` beside tuned competitors, on seeds on which nothing was chosen.

    The best tuned one is the competitor of least mean regret on the tuning seeds. A run is stuck
    if its regret is above three times that one's median; in brackets, above three times the
    median of its own algorithm.
    """
    print("| problem | seeds | `fedglb_auto` | stuck | best tuned | regret | stuck | ratio "
          "| least of all in hindsight | ratio | One-UCB-GLM | rounds per update |")  # fmt: skip
    print("|" + "---|" * 12)
    for name in CASES:
        path = folder / f"{name}.jsonl"
        runs = by_setting(path, REPORTING)
        if "default" not in runs:
            continue
        first = {kind: keys[0] for kind, keys in tuned(kept(path), len(TUNING)).items()}
        tuning = by_setting(path, TUNING)
        rivals = [key for kind, key in first.items() if kind != "one" and key in runs]
        if not rivals:
            continue
        best = min(rivals, key=lambda key: total(tuning[key], "regret"))
        values = {key: [run["regret"] for run in made] for key, made in runs.items()}
        least = min(rivals, key=lambda key: float(np.mean(values[key])))
        limit, ours = 3.0 * float(np.median(values[best])), values["default"]
        stuck = {}
        for key in ("default", best):
            above = 3.0 * float(np.median(values[key]))
            counts = (sum(value > level for value in values[key]) for level in (limit, above))
            stuck[key] = "{} ({})".format(*counts)
        one = cell(values[first["one"]]) if first.get("one") in values else "–"
        print(
            f"| {name} | {len(ours)} | {cell(ours)} | {stuck['default']} | {best} "
            f"| {cell(values[best])} | {stuck[best]} | {np.mean(ours) / np.mean(values[best]):.2f} "
            f"| {least}: {np.mean(values[least]):,.0f} "
            f"| {np.mean(ours) / np.mean(values[least]):.2f} | {one} "
            f"| {total(runs['default'], 'rounds') / total(runs['default'], 'syncs'):.2f} |"
        )


def report(folder: Path) -> None:
    """Print the tables."""
    for made in (report_mix, report_auto, report_choice):
        print(f"\n### {made.__name__}\n")
        made(folder)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", choices=["mix", "tune", "choose", "compare", "speed", "report"])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--results", type=Path, default=Path("past-the-paper"))
    parser.add_argument("--seeds", type=int, default=30, help="of choosing and of comparing")
    given = parser.parse_args(arguments)
    if given.study == "mix":
        mix(given.results, given.names)
    elif given.study == "speed":
        speed()
    elif given.study == "report":
        report(given.results)
    else:
        study(given.results, given.study, given.names, given.seeds)


if __name__ == "__main__":
    main()
