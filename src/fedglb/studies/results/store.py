"""The folder of a sweep.

* `manifest.json`: experiment, software, machine; whether it is complete.
* `parts/`: every run that was ever finished here, under its key (`studies/spec/keys.py`): one
  Parquet file per finished task, named by a checksum; at the end all are put into one.
* `runs.parquet`, `traces.parquet`: the result, the runs of the experiment, always in its order.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import polars as pl

from fedglb.errors import InvalidInput, one_of
from fedglb.io.atomic import (
    LOCK,
    UNFINISHED,
    atomic_write,
    checksum,
    exclusive_lock,
    remove_unfinished,
)
from fedglb.provenance import machine, software
from fedglb.simulation.results import as_pandas
from fedglb.studies.results.card import sweep_card
from fedglb.studies.results.tables import (
    asked_for,
    from_bytes,
    nothing_kept,
    runs_table,
    to_bytes,
    traces_table,
    under_keys,
)
from fedglb.studies.spec.experiment import Experiment
from fedglb.studies.spec.keys import keys_of

if TYPE_CHECKING:
    import pandas as pd

    from fedglb.studies.report.comparison import Comparison
    from fedglb.studies.report.paired import Interval

#: The tables of a sweep, by the names of `SweepResult.to_pandas`.
SweepTable: TypeAlias = Literal["runs", "traces"]
MANIFEST, PARTS, RUNS, TRACES = "manifest.json", "parts", "runs.parquet", "traces.parquet"
#: The version of these files. A folder of another version is refused: run the sweep again.
FORMAT = 3
_KEYS = {
    "name", "identity", "complete", "started", "wall_seconds", "run_seconds", "software", "horizon",
    "clients", "arms", "problem", "seeds", "configurations", "keys", "shared", "document", "own",
    "data", "sessions", "files",
}  # fmt: skip


@dataclass
class Store:
    """The folder of a running sweep; made by `opened`."""

    folder: Path
    experiment: Experiment
    manifest: dict[str, Any]
    complete: SweepResult | None  # the result, if it is complete and undamaged
    _since: float = field(default_factory=time.monotonic)
    _kept: list[pl.DataFrame] = field(default_factory=list)

    def kept(self) -> pl.DataFrame:
        """Read the runs of this experiment that earlier sessions have finished."""
        self._kept = [_kept(self.folder)]
        found = asked_for(self.manifest, self._kept[0])
        self.manifest["sessions"][-1]["kept"] = found.height
        return found

    def add(self, content: bytes) -> pl.DataFrame:
        """Keep the runs of a finished task, and return them."""
        part = from_bytes(content)
        self._kept.append(under_keys(part, self.manifest["keys"]))
        self._write(self._kept[-1])
        return part

    def _write(self, kept: pl.DataFrame) -> str:
        content = to_bytes(kept)
        name = f"{checksum(content)}.parquet"
        atomic_write(self.folder / PARTS / name, content)
        return name

    def finish(self) -> SweepResult:
        """Put all kept runs into one file, write the result, then mark it complete."""
        kept = _each_once(self._kept)
        whole = self._write(kept.sort("key", "seed"))  # the same file after every kill
        parts = asked_for(self.manifest, kept)
        result = _result(self.manifest, parts)
        files = {RUNS: to_bytes(result.runs), TRACES: to_bytes(result.traces)}
        for name, content in files.items():
            atomic_write(self.folder / name, content)
        self.manifest["files"] = {name: checksum(content) for name, content in files.items()}
        self.manifest["run_seconds"] = math.fsum(parts["seconds"])
        self.manifest["complete"] = True
        self.note_time()
        for path in (self.folder / PARTS).glob("*.parquet"):
            if path.name != whole:
                path.unlink()
        return result

    def note_time(self) -> None:
        """Record the wall time of this session."""
        session = self.manifest["sessions"][-1]
        session["wall_seconds"] = time.monotonic() - self._since
        known = (s["wall_seconds"] for s in self.manifest["sessions"])
        self.manifest["wall_seconds"] = math.fsum(s for s in known if s is not None)
        self.save()

    def save(self) -> None:
        """Write the manifest."""
        text = json.dumps(self.manifest, indent=1, ensure_ascii=False)
        atomic_write(self.folder / MANIFEST, text.encode())


@dataclass(frozen=True)
class SweepResult:
    """The result of a sweep.

    Attributes
    ----------
    runs
        One row per run: label, algorithm and its parameters, problem, seed, totals, caveats,
        the regret of each client.
    traces
        One row per recorded step of a run, cumulative; at most 500 per run.
    manifest
        Experiment, software, machine and duration.

    Examples
    --------
    >>> import fedglb as fg
    >>> tables = {
    ...     "name": "example", "horizon": 20, "seeds": 2,
    ...     "problem": {"dim": 3}, "environment": {"clients": 2, "arms": 4},
    ...     "algorithm": [{"name": "n-ons-glm"}],
    ... }
    >>> result = fg.sweep(tables, getfixture("tmp_path") / "results", jobs=1)
    >>> result.runs["label", "seed"].rows()
    [('N-ONS-GLM', 1), ('N-ONS-GLM', 2)]
    >>> result.manifest["complete"]
    True
    """

    runs: pl.DataFrame
    traces: pl.DataFrame
    manifest: dict[str, Any] = field(repr=False)

    def to_pandas(self, name: SweepTable = "runs") -> pd.DataFrame:
        """Return one of the tables as a pandas frame; it needs pandas, and not pyarrow.

        Parameters
        ----------
        name
            "runs" or "traces".

        Returns
        -------
        pandas.DataFrame
            The table; missing whole numbers are `pd.NA`, other missing numbers nan.

        Raises
        ------
        InvalidInput
            If the name is unknown, or pandas is not installed.

        Examples
        --------
        >>> import fedglb as fg
        >>> tables = {
        ...     "name": "example", "horizon": 20, "seeds": 2,
        ...     "problem": {"dim": 3}, "environment": {"clients": 2, "arms": 4},
        ...     "algorithm": [{"name": "n-ons-glm"}],
        ... }
        >>> result = fg.sweep(tables, getfixture("tmp_path") / "results", jobs=1)
        >>> result.to_pandas().groupby("label")["seed"].count().to_dict()
        {'N-ONS-GLM': 2}
        """
        frame: pl.DataFrame = getattr(self, one_of("name", name, get_args(SweepTable)))
        whole = (c.name for c in frame.iter_columns() if c.dtype.is_integer() and c.null_count())
        return as_pandas(frame, dict.fromkeys(whole, "Int64"))

    def compare(
        self,
        setting: str | None = None,
        against: str | None = None,
        column: str = "regret",
        interval: Interval = "t",
        level: float = 0.95,
    ) -> Comparison:
        """Compare settings seed by seed: at a seed all of them meet the same arms and noise.

        Parameters
        ----------
        setting
            Its label; None: every other setting.
        against
            The label of the setting to compare with; None: the best of the others by its mean,
            which is the least, or the largest `"reward"`.
        column
            A total of `runs`, such as "regret", or "update_seconds" over a network.
        interval
            "t": paired t. "bootstrap": the BCa bootstrap of the paired differences, and p from the
            permutation test that flips their signs; with few seeds that decides less, as it has no
            p below 2/2ⁿ with n of them.
        level
            Of the intervals of all comparisons together; 1 − level is the chance of a wrong
            verdict among all of them.

        Returns
        -------
        Comparison
            Differences with intervals, p-values and verdicts; `to_markdown` and `to_latex` make a
            table for a paper. Intervals (Bonferroni) and p-values (Holm) are corrected for all
            comparisons; with `against=None` for all that could have been made, because the best is
            known only from these seeds.

        Raises
        ------
        InvalidInput
            If a label or the column is unknown, the two labels are the same, or there is no
            other setting.

        Examples
        --------
        >>> import fedglb as fg
        >>> tables = {
        ...     "name": "example", "horizon": 30, "seeds": 5,
        ...     "problem": {"dim": 3}, "environment": {"clients": 2, "arms": 4},
        ...     "algorithm": [{"name": "n-ons-glm"}, {"name": "n-ucb-glm"}],
        ... }
        >>> result = fg.sweep(tables, getfixture("tmp_path") / "results", jobs=1)
        >>> made = result.compare("N-ONS-GLM", "N-UCB-GLM")
        >>> made.frame["setting", "verdict"].rows()
        [('N-UCB-GLM', None), ('N-ONS-GLM', 'undecided')]
        """
        from fedglb.studies.report.comparison import compare  # imports SciPy

        return compare(self.runs, setting, against, column, interval, level)

    def _repr_html_(self) -> str:
        """Return the HTML for notebooks."""
        return sweep_card(self.manifest["name"], self.runs, self.traces)


@contextlib.contextmanager
def opened(folder: Path, experiment: Experiment, how: dict[str, Any]) -> Iterator[Store]:
    """Create or reopen the folder of a sweep, locked for this process.

    `how` (jobs, cluster) is noted in the manifest.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise InvalidInput("folder", str(folder), "a folder, not a file") from None
    ours = {LOCK, MANIFEST}
    strangers = [p.name for p in folder.iterdir() if p.name not in ours]
    strangers = [name for name in strangers if not name.startswith(UNFINISHED)]
    if strangers and not (folder / MANIFEST).exists():
        allowed = f"an empty folder: this one has {min(strangers)!r} and is not a sweep's"
        raise InvalidInput("folder", str(folder), allowed)
    with exclusive_lock(folder):
        manifest, found = _continued(folder, experiment)
        store = Store(folder, experiment, manifest, found)
        if found is None:
            manifest |= {"complete": False, "files": {}}
            begun = {"started": _now(), "wall_seconds": None, **how, "machine": machine()}
            manifest["sessions"].append(begun)
            remove_unfinished(folder)
            store.save()  # first: it says which runs belong here, and which are asked for
            (folder / PARTS).mkdir(exist_ok=True)
            remove_unfinished(folder / PARTS)
        yield store


def count_kept(folder: Path, experiment: Experiment) -> int:
    """Return how many runs of an experiment its folder has; raise if they do not belong there."""
    manifest, found = _continued(folder, experiment)
    return experiment.runs if found else asked_for(manifest, _kept(folder)).height


def _continued(folder: Path, experiment: Experiment) -> tuple[dict[str, Any], SweepResult | None]:
    """Return the manifest for an experiment in a folder, and the result if nothing is missing."""
    manifest, new = _manifest(folder), _new_manifest(experiment)
    if manifest is None:
        return new, None
    if manifest["shared"] != new["shared"]:
        raise InvalidInput("folder", str(folder), _another(manifest, new))
    if manifest["identity"] != new["identity"]:
        return {**new, **{key: manifest[key] for key in ("started", "software", "sessions")}}, None
    found = _complete_result(folder, manifest) if manifest["complete"] else None
    return manifest, found if isinstance(found, SweepResult) else None


def load(folder: str | Path, *, partial: bool = False) -> SweepResult:
    """Read the result of a sweep.

    Parameters
    ----------
    folder
        The folder of the sweep.
    partial
        Whether to return the finished runs of an incomplete sweep; else it is refused.

    Returns
    -------
    SweepResult
        The result of `sweep`, or the finished runs.

    Raises
    ------
    InvalidInput
        If the folder is not a sweep's, or the sweep is incomplete (without `partial`), has another
        version of these files, or is damaged.

    Examples
    --------
    >>> import fedglb as fg
    >>> tables = {
    ...     "name": "example", "horizon": 20, "seeds": 1,
    ...     "problem": {"dim": 3}, "environment": {"clients": 2, "arms": 4},
    ...     "algorithm": [{"name": "n-ons-glm"}],
    ... }
    >>> folder = getfixture("tmp_path") / "results"
    >>> result = fg.sweep(tables, folder, jobs=1)
    >>> fg.load_sweep(folder).runs.equals(result.runs)
    True
    """
    path = Path(folder)
    before: dict[str, Any] | None = {}
    while before != (manifest := _manifest(path)):  # else a sweep has begun or ended meanwhile
        if manifest is None:
            allowed = f"the folder of a sweep: it has no {MANIFEST}"
            raise InvalidInput("folder", str(folder), allowed)
        found, before = _read(path, manifest, partial), manifest
    if isinstance(found, str):
        raise InvalidInput("folder", str(folder), found)
    return found


def _read(folder: Path, manifest: dict[str, Any], partial: bool) -> SweepResult | str:
    """Return the result, or what a folder with one would be."""
    if manifest["complete"]:
        found = _complete_result(folder, manifest)
        if isinstance(found, SweepResult):
            return found
        return f"an undamaged sweep: {found} is damaged; run the sweep again to repair it"
    if not partial:
        return "a complete sweep: this one was interrupted; run it again to resume"
    return _result(manifest, asked_for(manifest, _kept(folder)))


def _result(manifest: dict[str, Any], parts: pl.DataFrame) -> SweepResult:
    return SweepResult(runs_table(manifest, parts), traces_table(manifest, parts), manifest)


def _complete_result(folder: Path, manifest: dict[str, Any]) -> SweepResult | str:
    """Return the result, or the name of a missing or changed file."""
    frames = []
    for name in (RUNS, TRACES):
        path = folder / name
        content = path.read_bytes() if path.is_file() else b""
        if checksum(content) != manifest["files"].get(name):
            return name
        frames.append(from_bytes(content))
    runs, traces = frames
    return SweepResult(runs, traces, manifest)


def _kept(folder: Path) -> pl.DataFrame:
    """Return all runs that a folder keeps, without damaged files."""
    frames = [nothing_kept()]
    for path in sorted((folder / PARTS).glob("*.parquet")):
        try:
            content = path.read_bytes()
        except FileNotFoundError:  # the sweep is finished, and its runs are in one file
            continue
        if f"{checksum(content)}.parquet" == path.name:
            frames.append(from_bytes(content))
    return _each_once(frames)


def _each_once(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return all runs of some frames; of a run finished twice, the first."""
    return pl.concat(frames).unique(["key", "seed"], keep="first", maintain_order=True)


def _manifest(folder: Path) -> dict[str, Any] | None:
    try:
        found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if found["format"] != FORMAT:
            what = f"its {MANIFEST} has format {found['format']!r}, this version requires {FORMAT}"
        elif set(found) >= _KEYS and found["sessions"]:
            return dict(found)
        else:
            what = f"its {MANIFEST} is incomplete"
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, KeyError, TypeError):
        what = f"its {MANIFEST} is not a sweep's"
    raise InvalidInput("folder", str(folder), f"another folder, or delete this one: {what}")


def _new_manifest(experiment: Experiment) -> dict[str, Any]:
    env, problem, keys = experiment.env, experiment.env.problem, keys_of(experiment)
    return {
        "format": FORMAT,
        "name": experiment.name,
        "identity": experiment.identity,
        "complete": False,
        "started": _now(),
        "wall_seconds": None,
        "run_seconds": None,
        "software": software(),
        "horizon": experiment.horizon,
        "clients": env.clients,
        "arms": env.arms,
        "problem": {
            "link": problem.link.name, "dim": problem.dim, "radius": problem.S,
            "noise": None if math.isnan(problem.R) else problem.R, "curvature": problem.c_mu,
        },
        "seeds": list(experiment.seeds),
        "configurations": [
            {"label": c.label, "algorithm": c.preset}
            | {key: _plain(value) for key, value in c.parameters.items()}
            for c in experiment.configurations
        ],
        "keys": list(keys.runs),
        "shared": keys.shared,
        "document": experiment.document,
        "own": experiment.own,
        "data": env.facts(),
        "sessions": [],
        "files": {},
    }  # fmt: skip


def _plain(value: float | int | str | None) -> float | int | str | None:
    """Return the value for JSON, which has neither infinity nor nan: they become text."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _another(manifest: dict[str, Any], new: dict[str, Any]) -> str:
    """Return why an experiment does not belong into a folder, and the remedy."""
    other = {key for key, value in new["shared"].items() if manifest["shared"].get(key) != value}
    before, now = (json.loads(each["document"]) for each in (manifest, new))
    said = ["environment", "problem"] if "environment" in other else []
    keys = [key for key in (*said, "horizon") if before.get(key) != now.get(key)]
    if "code" in other:
        what = "it was started with another version of fedglb, NumPy, SciPy or numba"
    elif keys:
        what = f"it has another experiment, {manifest['name']!r}, with other {' and '.join(keys)}"
    elif "data" in other:
        what = "it was started with other data, or with other clusters of the same data"
    else:
        what = (
            f"it has another experiment, {manifest['name']!r}: its environment is another one, by "
            "its code or by what it holds"
        )
    return f"another folder (--out), or delete this one: {what}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
