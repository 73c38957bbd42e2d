"""`fg.plot`: runs over time, as a figure of matplotlib."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from fedglb.errors import InvalidInput, one_of
from fedglb.simulation import Run
from fedglb.studies.report.figures.style import LOOKS, Look, saved, setting_look, styled
from fedglb.studies.report.numerals import brief
from fedglb.studies.results.store import SweepResult
from fedglb.studies.results.tables import distinct, recorded_steps
from fedglb.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Columns that can be drawn over time.
Column: TypeAlias = Literal["regret", "reward", "syncs", "rounds", "transfers", "scalars", "bits"]
_WORDS: dict[str, str] = {
    "regret": "regret", "reward": "reward", "syncs": "global updates", "rounds": "rounds",
    "transfers": "messages with numbers", "scalars": "numbers sent", "bits": "bits sent",
}  # fmt: skip
#: What is no setting: runs of one curve may differ in it, or it follows from the others.
_NO_SETTING = ("seed", "engine", "randomised")
_ALLOWED = "runs, e.g. fg.simulate(...), a list of them, {'a': [run, run]} or a sweep's result"


@dataclass(frozen=True)
class _Curve:
    """The runs of one setting: the steps, shape (n,), and a row of values per run that differs."""

    name: str
    algorithm: str
    t: FloatArray
    values: FloatArray
    seeds: int  # more than rows of values, where all seeds are the same run


def plot(
    runs: Run | Iterable[Run] | Mapping[str, Run | Iterable[Run]] | SweepResult,
    column: Column = "regret",
    *,
    title: str | None = None,
) -> Figure:
    """Draw runs over time: one curve per setting, the mean over its seeds ± 1 standard error.

    Where all seeds are the same run (`fg.Recorded`, and an algorithm that draws nothing), it is
    drawn once, without an error, and the figure says so.

    Parameters
    ----------
    runs
        One run; several, where runs that differ only in the seed make one curve; a dict with the
        runs of each curve by its name; or the result of `fg.sweep`.
    column
        The column: regret, reward, syncs, rounds, transfers, scalars or bits, each the total
        up to a step.
    title
        The title; None: the parameters that all runs share.

    Returns
    -------
    matplotlib.figure.Figure
        The figure, which notebooks show; `figure.savefig("regret.png")` saves it, and
        `figure.axes[0]` can be drawn on.

    Raises
    ------
    InvalidInput
        If there are no runs, or runs of one curve differ in length or are the same run.

    Examples
    --------
    >>> import fedglb as fg
    >>> env = fg.Synthetic(fg.Problem(dim=3), clients=5, arms=4)
    >>> algorithms = [fg.fedglb_auto(), fg.n_ons_glm()]
    >>> runs = [run for seed in range(3) for run in fg.compare(algorithms, env, 50, seed)]
    >>> figure = fg.plot(runs)
    >>> [text.get_text() for text in figure.legends[0].get_texts()]
    ['FedGLB-Auto', 'N-ONS-GLM']
    """
    one_of("column", column, get_args(Column))
    if isinstance(runs, SweepResult):
        curves = _of_sweep(runs, column)
        common = str(runs.manifest["name"])
    else:
        groups = _grouped(runs)
        curves = [_curve(name, group, column) for name, group in groups.items()]
        common = _common([run for group in groups.values() for run in group])
    return _drawn(curves, column, common if title is None else title)


def _grouped(runs: Any) -> dict[str, list[Run]]:
    """Return the runs of each curve by its name."""
    if isinstance(runs, Mapping):
        groups = {str(name): _runs(f"runs[{name!r}]", some) for name, some in runs.items()}
    else:
        groups = _by_setting(_runs("runs", runs))
    if not groups:
        raise InvalidInput("runs", runs, _ALLOWED)
    for name, group in groups.items():
        seen: list[dict[str, Any]] = []
        for run in group:
            told = {key: value for key, value in run.parameters.items() if key != "engine"}
            if told in seen:
                allowed = "each run once: use other seeds for a standard error"
                raise InvalidInput(f"runs of {name!r} with seed", told["seed"], allowed)
            seen.append(told)
    return groups


def _runs(argument: str, runs: Any) -> list[Run]:
    found = [runs] if isinstance(runs, Run) else runs
    if isinstance(found, str) or not isinstance(found, Iterable):
        raise InvalidInput(argument, runs, _ALLOWED)
    found = list(found)
    if not found or not all(isinstance(run, Run) for run in found):
        raise InvalidInput(argument, runs, _ALLOWED)
    return found


def _by_setting(runs: list[Run]) -> dict[str, list[Run]]:
    """Group runs by all parameters but the seed; name each by the parameters that differ."""
    settings: list[dict[str, Any]] = []
    groups: list[list[Run]] = []
    for run in runs:
        own = {key: value for key, value in run.parameters.items() if key not in _NO_SETTING}
        if own not in settings:
            settings.append(own)
            groups.append([])
        groups[settings.index(own)].append(run)
    named = {}
    for own, group in zip(settings, groups, strict=True):
        others = [s for s in settings if s["algorithm"] == own["algorithm"]]
        differ = [key for key in own if any(s.get(key) != own[key] for s in others)]
        words = ", ".join(f"{key} {own[key]}" for key in differ)
        named[f"{own['algorithm']}: {words}" if words else str(own["algorithm"])] = group
    return named


def _curve(name: str, runs: Sequence[Run], column: str) -> _Curve:
    horizons = [run.trace.height for run in runs]
    if len(set(horizons)) > 1:
        allowed = "runs of the same length in one curve"
        raise InvalidInput(f"steps of the runs of {name!r}", horizons, allowed)
    t = recorded_steps(horizons[0])
    kept = [run for i, run in enumerate(runs) if not any(_same(run, b) for b in runs[:i])]
    values = np.array([run.trace[column].to_numpy()[t - 1] for run in kept], dtype=np.float64)
    algorithms = {str(run.parameters["algorithm"]) for run in runs}
    algorithm = algorithms.pop() if len(algorithms) == 1 else ""
    return _Curve(name, algorithm, t.astype(float), values, len(runs))


def _same(run: Run, other: Run) -> bool:
    """Return whether two runs that draw nothing are the same, whatever their seeds.

    The traces tell several recordings apart, which the parameters do not.
    """
    return not run.parameters["randomised"] and run.trace.equals(other.trace)


def _of_sweep(result: SweepResult, column: str) -> list[_Curve]:
    curves = []
    for (label,), every in result.runs.group_by(["label"], maintain_order=True):
        runs = distinct(every)
        traces = result.traces.join(runs, on=["label", "seed"], how="semi").sort("seed", "t")
        t = traces["t"].unique().sort().to_numpy().astype(float)
        values = traces[column].to_numpy().astype(float).reshape(runs.height, len(t))
        curves.append(_Curve(str(label), str(runs["algorithm"][0]), t, values, every.height))
    if not curves:
        raise InvalidInput("runs", result, "a sweep with at least one finished run")
    return curves


def _common(runs: Sequence[Run]) -> str:
    """Return the parameters that all runs share, as a title."""
    words = {
        "algorithm": "{}", "environment": "{}", "link": "{} link", "clients": "{:,} clients",
        "arms": "{} arms", "dim": "d = {}",
    }  # fmt: skip
    same = {k: {run.parameters.get(k) for run in runs} for k in words}
    return ", ".join(
        form.format(*same[key]) for key, form in words.items() if len(same[key] - {None}) == 1
    )


def _looks(curves: Sequence[_Curve]) -> list[Look]:
    """Return a look for each curve: fixed for the paper's algorithms, else a free one."""
    presets = {name.replace("-", ""): name for name in LOOKS}  # runs have the name FedGLB-UCB1
    names = [curve.algorithm.lower() for curve in curves]
    keys = [presets.get(name.replace("-", ""), name) for name in names]
    free = [look for name, look in LOOKS.items() if name not in keys]
    made: list[Look] = []
    for i, key in enumerate(keys):
        if key in LOOKS and key not in keys[:i]:
            made.append(LOOKS[key])
        else:
            made.append(free.pop(0) if free else setting_look(i))
    return made


def _drawn(curves: Sequence[_Curve], column: Column, title: str) -> Figure:
    from matplotlib.ticker import FuncFormatter

    with styled():
        figure = _figure()
        axes: Axes = figure.subplots()
        for i, (curve, own) in enumerate(zip(curves, _looks(curves), strict=True)):
            _line(axes, curve, own, 0.04 + 0.16 * i / len(curves))
        numbers = FuncFormatter(lambda value, _: brief(value))
        axes.xaxis.set_major_formatter(numbers)
        axes.yaxis.set_major_formatter(numbers)
        last = max(float(curve.t[-1]) for curve in curves)
        axes.set_xlim(0.0, 1.01 * last)
        if all(curve.values.min() >= 0.0 for curve in curves):
            axes.set_ylim(bottom=0.0)
        axes.set_xlabel("step t")
        axes.set_ylabel(_WORDS[column])
        axes.grid()
        axes.set_axisbelow(True)
        axes.set_title(title, loc="left", fontsize=10.5, weight="bold", pad=20)
        axes.text(
            0.0, 1.015, _subtitle(curves), transform=axes.transAxes, fontsize=8.5, color="#555555"
        )
        if len(curves) > 1:
            longest = max(len(curve.name) for curve in curves)
            figure.legend(
                loc="outside lower left", frameon=False, fontsize=8.5, handlelength=4.0,
                ncols=max(1, min(3, 78 // (longest + 8))),
            )  # fmt: skip
    return figure


def _line(axes: Axes, curve: _Curve, own: Look, first: float) -> None:
    """Draw a curve; each starts its markers at another place, so that none covers another."""
    mean = curve.values.mean(axis=0)
    axes.plot(
        curve.t, mean, color=own.colour, linestyle=own.line, linewidth=1.6, label=curve.name,
        marker=own.marker, markersize=5.0, markerfacecolor=own.face, markevery=(first, 0.17),
        zorder=3,
    )  # fmt: skip
    runs = len(curve.values)
    if runs > 1:
        error = curve.values.std(axis=0, ddof=1) / np.sqrt(runs)
        axes.fill_between(
            curve.t, mean - error, mean + error, color=own.colour, alpha=0.18, linewidth=0
        )


def _subtitle(curves: Sequence[_Curve]) -> str:
    """Return the meaning of lines and bands."""
    counts = sorted({len(curve.values) for curve in curves})
    others = [curve for curve in curves if len(curve.values) == curve.seeds]
    if not others:
        return "every seed gives the same run: no standard error"
    if len(others) < len(curves):
        return f"{_subtitle(others)}; no band: every seed gives the same run"
    if counts == [1]:
        return "one run each" if len(curves) > 1 else "one run"
    number = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"mean of {number} runs ± 1 standard error"


def _figure() -> Figure:
    from matplotlib.figure import Figure

    class Plot(Figure):
        """A figure that notebooks show."""

        def _repr_png_(self) -> bytes:
            return saved(self)["png"]

    return Plot(figsize=(7.2, 4.4), layout="constrained")
