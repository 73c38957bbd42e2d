"""`fg.plot`: runs over time, as a figure of matplotlib."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from fedglb.errors import InvalidInput, one_of
from fedglb.simulation import Run
from fedglb.studies.report.figures.style import (
    PAGE,
    WIDE,
    Look,
    in_inches,
    legend,
    looks,
    preset,
    styled,
    wrapped,
)
from fedglb.studies.report.numerals import brief
from fedglb.studies.report.summary import numbers_apart
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
_ROOM = 0.6  # the share of a figure's height that title and legend may take
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
    ax: Axes | None = None,
    figsize: tuple[float, float] | None = None,
) -> Figure:
    """Draw runs over time: one curve per setting, the mean over its seeds ± 1 standard error.

    Where all seeds are the same run (`fg.Recorded`, and an algorithm that draws nothing), it is
    drawn once, without an error, and the figure says so.

    What you set in `matplotlib.rcParams` wins over the look of this package: fonts, sizes, widths
    of lines, grids. With `axes.prop_cycle` set, curves have its colours. The settings themselves
    stay as they are. Saved as a PDF, letters are TrueType.

    Parameters
    ----------
    runs
        One run; several, where runs that differ only in the seed make one curve; a dict with the
        runs of each curve by its name; or the result of `fg.sweep`.
    column
        The column: regret, reward, syncs, rounds, transfers, scalars or bits, each the total
        up to a step.
    title
        The title; None: the parameters that all runs share, or no title with `figsize` or `ax`,
        as papers have captions.
    ax
        Axes to draw into, with a legend of their own and your settings alone; None: a new figure.
    figsize
        Width and height in inches, as printed: text has at least 7 points, unless you set
        `font.size`. None: a figure for the screen, or of your `figure.figsize`, and the legend
        below.

    Returns
    -------
    matplotlib.figure.Figure
        The figure, which notebooks show; `figure.savefig("regret.pdf")` saves it, and
        `figure.axes[0]` can be drawn on. With `ax`, its figure.

    Raises
    ------
    InvalidInput
        If there are no runs, or runs of one curve differ in length or are the same run; if
        `figsize` has no room for the legend, or is given together with `ax`.

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
    size = _size(ax, figsize)
    if isinstance(runs, SweepResult):
        curves = _of_sweep(runs, column)
        common = str(runs.manifest["name"])
    else:
        groups = _grouped(runs)
        curves = [_curve(name, group, column) for name, group in groups.items()]
        common = _common([run for group in groups.values() for run in group])
    if ax is not None:
        return _drawn_into(ax, curves, column, title or "")
    common = "" if size else common
    return _drawn(curves, column, common if title is None else title, size)


def _size(ax: Any, figsize: Any) -> tuple[float, float] | None:
    """Return the size; refuse what is no pair of axes, or no size, or both at once."""
    from matplotlib.axes import Axes

    if ax is not None and not isinstance(ax, Axes):
        raise InvalidInput("ax", ax, "one pair of axes, e.g. plt.subplots()[1]")
    if figsize is None:
        return None
    try:
        width, height = (float(length) for length in figsize)
    except (TypeError, ValueError):
        width = height = np.nan
    if not (0.0 < width < np.inf and 0.0 < height < np.inf):
        raise InvalidInput("figsize", figsize, "width and height in inches, e.g. (3.3, 2.3)")
    if ax is not None:
        allowed = "nothing where ax is given: the figure of these axes has its size"
        raise InvalidInput("figsize", figsize, allowed)
    return width, height


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
        own = numbers_apart(own)
        if own not in settings:
            settings.append(own)
            groups.append([])
        groups[settings.index(own)].append(run)
    named = {}
    for own, group in zip(settings, groups, strict=True):
        others = [s for s in settings if s["algorithm"] == own["algorithm"]]
        differ = [key for key in own if any(s.get(key) != own[key] for s in others)]
        words = ", ".join(f"{key} {_value(own[key])}" for key in differ)
        named[f"{own['algorithm']}: {words}" if words else str(own["algorithm"])] = group
    return named


def _value(value: Any) -> str:
    short = f"{value:g}" if isinstance(value, float) else ""
    return short if short and float(short) == value else str(value)


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
    """Return a look for each curve: that of its preset for the first, else a free one."""
    keys: list[str] = []
    for curve in curves:
        known = preset(curve.algorithm)
        keys.append(f"curve {curve.name}" if known is None or known in keys else known)
    return list(looks(list(zip(keys, keys, strict=True))).values())


def _drawn_into(axes: Axes, curves: Sequence[_Curve], column: Column, title: str) -> Figure:
    """Draw into the user's axes, with the user's settings."""
    from matplotlib.figure import Figure

    _lines(axes, curves, column)
    if title:
        axes.set_title(title)
    if len(curves) > 1:
        axes.legend()
    figure = axes.figure.figure  # of a subfigure, the whole one
    assert isinstance(figure, Figure)
    return figure


def _drawn(
    curves: Sequence[_Curve], column: Column, title: str, size: tuple[float, float] | None
) -> Figure:
    import matplotlib
    from matplotlib.ticker import FuncFormatter

    with styled(PAGE if size else WIDE, users=True):
        width, height = size or matplotlib.rcParams["figure.figsize"]
        figure = _figure()
        axes: Axes = figure.subplots()
        _lines(axes, curves, column)
        numbers = FuncFormatter(lambda value, _: brief(value))
        axes.xaxis.set_major_formatter(numbers)
        axes.yaxis.set_major_formatter(numbers)
        last = max(float(curve.t[-1]) for curve in curves)
        axes.set_xlim(0.0, 1.01 * last)
        if all(curve.values.min() >= 0.0 for curve in curves):
            axes.set_ylim(bottom=0.0)
        room = 0.0
        if title:
            above = wrapped(title, width - 1.0, "medium", "bold")
            below = wrapped(_subtitle(curves), width - 1.0)
            room = in_inches(below.count("\n") + 1.2)
            axes.set_title(above, weight="bold", pad=72 * room)
            axes.text(0.0, 1.015, below, transform=axes.transAxes, fontsize="small")
            room += in_inches(above.count("\n") + 1, "medium")
        if len(curves) > 1:
            key = legend(figure, axes.get_lines(), width)
            height += 0.0 if size else key
            room += key
        if size and room > _ROOM * height:
            least = math.ceil(10 * room / _ROOM) / 10
            allowed = f"a height of {least} inches or more, for title, legend and curves"
            raise InvalidInput("figsize", size, allowed)
        figure.set_size_inches(width, height)
    return figure


def _lines(axes: Axes, curves: Sequence[_Curve], column: Column) -> None:
    """Draw the curves; each starts its markers at another place, so that none covers another."""
    import matplotlib

    cycle = matplotlib.rcParams["axes.prop_cycle"]
    theirs = {} if cycle == matplotlib.rcParamsDefault["axes.prop_cycle"] else cycle.by_key()
    for i, (curve, own) in enumerate(zip(curves, _looks(curves), strict=True)):
        look: dict[str, Any] = {"color": own.colour, "linestyle": own.line, "marker": own.marker}
        mean = curve.values.mean(axis=0)
        (line,) = axes.plot(
            curve.t, mean, label=curve.name, markerfacecolor=own.inside or "auto",
            markevery=(0.04 + 0.16 * i / len(curves), 0.17), zorder=3,
            **{key: value for key, value in look.items() if key not in theirs},
        )  # fmt: skip
        runs = len(curve.values)
        if runs > 1:
            error = curve.values.std(axis=0, ddof=1) / np.sqrt(runs)
            axes.fill_between(
                curve.t, mean - error, mean + error, color=line.get_color(), alpha=0.18, linewidth=0
            )
    axes.set_xlabel("step t")
    axes.set_ylabel(_WORDS[column])


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
        """A figure that notebooks show, and whose files have the letters of the printed ones."""

        def savefig(self, *given: Any, **more: Any) -> None:
            with styled(PAGE, users=True):
                super().savefig(*given, **more)

        def _repr_png_(self) -> bytes:
            buffer = io.BytesIO()
            self.savefig(buffer, format="png")
            return buffer.getvalue()

    return Plot(layout="constrained")
