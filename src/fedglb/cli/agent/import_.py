"""`fedglb agent import`: a warm start with past samples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer

from fedglb.cli.report_errors import extra, report_errors
from fedglb.errors import InvalidInput, names_near
from fedglb.io.atomic import checksum
from fedglb.links import LINKS
from fedglb.problem import Problem
from fedglb.typing import FloatArray

_IF_OPEN = "stop it, import, and start it again"
_PROBLEM = "The agent's problem, as in its application"
_NAMES = {
    "dim": "--dim", "link": "--link", "radius": "--radius", "noise": "--noise", "key": "--key",
    "curvature": "--curvature", "bundle": "--bundle", "path": "--into", "X": "FILE", "y": "FILE",
    "problem.dim": "--dim", "problem.link": "--link", "problem.radius": "--radius",
}  # fmt: skip


def _problem(text: str, default: str | None = None) -> Any:
    return typer.Option(help=text, rich_help_panel=_PROBLEM, show_default=default or True)


def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A Parquet file, a row per sample.")],
    into: Annotated[Path, typer.Option(help="The agent's file; it is made if it is not there.")],
    dim: Annotated[int | None, _problem("d, features per arm.", "the bundle's")] = None,
    link: Annotated[str, _problem(f"{', '.join(LINKS)}.")] = "logistic",
    radius: Annotated[float, _problem("S, the bound on ‖θ*‖.")] = 1.0,
    noise: Annotated[float | None, _problem("R.", "the link's own")] = None,
    curvature: Annotated[float | None, _problem("c_μ.", "the link's infimum on the ball")] = None,
    bundle: Annotated[
        Path | None,
        _problem("In a federation: the client's folder, which has the problem.", "none"),
    ] = None,
    features: Annotated[
        str, typer.Option(help="The column with the arm, a list of numbers, or d columns: a,b,c.")
    ] = "x",
    reward: Annotated[str, typer.Option(help="The column with the reward.")] = "reward",
    key: Annotated[
        str | None,
        typer.Option(
            help="A name under which the samples are imported once.", show_default="a digest"
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
) -> None:
    """Teach an agent the samples of a log: all of them, or none if one is not allowed.

    The default columns are those of an agent's export. Rows without a reward are left out. A file
    that was imported before is not imported again. Stop the application or service that has the
    agent's file open first.

    Example: fedglb agent import last-year.parquet --into shop-1.db --dim 10
    """
    from fedglb.federation.agent.agent import Agent

    with report_errors(if_open=_IF_OPEN, **_NAMES):
        problem = _read_problem(dim, link, radius, noise, curvature, bundle)
        X, y, left_out = _read(file, features.split(","), reward, problem.dim)
        name = key or f"file {checksum(file.read_bytes())}"
        with Agent.open(into, problem, bundle=bundle) as agent:
            count = agent.absorb(X, y, key=name)
            total = agent.status.samples
    found = {"absorbed": count, "left_out": left_out, "samples": total, "key": name}
    if as_json:
        typer.echo(json.dumps(found))
        return
    if count:
        typer.echo(f"{count:,} samples imported ({left_out:,} rows without a reward left out).")
    else:
        typer.echo(f"Nothing imported: the key {name!r} was imported before.")
    typer.echo(f"{into} has {total:,} samples.")


def _read_problem(
    dim: int | None,
    link: str,
    radius: float,
    noise: float | None,
    curvature: float | None,
    bundle: Path | None,
) -> Problem:
    from fedglb.problem_table import ProblemTable

    if bundle is None:
        return ProblemTable(dim, link, radius, noise, curvature).build()
    with extra():
        from fedglb.federation.bundle import Bundle
    return Bundle.read(bundle).agreement.problem


def _read(
    file: Path, features: list[str], reward: str, dim: int
) -> tuple[FloatArray, FloatArray, int]:
    """Return the samples of a file, and how many rows have no reward."""
    try:
        table = pl.read_parquet(file)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InvalidInput("FILE", str(file), f"a Parquet file ({error})") from None
    for option, names in (("--features", features), ("--reward", [reward])):
        for name in names:
            if name not in table.columns:
                raise InvalidInput(option, name, names_near(name, table.columns))
    kept = table.filter(table[reward].is_not_null())
    if kept.is_empty():
        raise InvalidInput("FILE", str(file), "a file with at least one reward")
    lists = len(features) == 1 and isinstance(kept[features[0]].dtype, pl.List | pl.Array)
    try:
        if lists:
            X = np.array(kept[features[0]].to_list(), dtype=np.float64)
        else:
            X = kept.select(pl.col(features).cast(pl.Float64)).to_numpy()
        y = kept[reward].cast(pl.Float64).to_numpy()
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise InvalidInput("FILE", str(file), f"numbers in these columns ({error})") from None
    if X.ndim != 2 or X.shape[1] != dim:
        given = X.shape[1] if X.ndim == 2 else "another number of"
        raise InvalidInput(
            "--features", ",".join(features), f"{dim} numbers per row; it has {given}"
        )
    return X, y, table.height - kept.height
