"""`fedglb agent import`, `backup` and `accept`: commands on an agent's file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import polars as pl
import typer

from fedglb.cli.common import AgentFile, CopyFile, Json, in_panel, print_copied, print_json
from fedglb.cli.report_errors import extra, report_errors
from fedglb.errors import InvalidInput, names_near
from fedglb.io.atomic import checksum
from fedglb.links import LINKS
from fedglb.problem_table import ProblemTable
from fedglb.typing import FloatArray

_problem = in_panel("The agent's problem, as in its application")
_NAMES = {
    "dim": "--dim", "link": "--link", "radius": "--radius", "noise": "--noise", "key": "--key",
    "curvature": "--curvature", "bundle": "--bundle", "path": "--into", "X": "FILE", "y": "FILE",
    "problem.dim": "--dim", "problem.link": "--link", "problem.radius": "--radius",
}  # fmt: skip


def import_(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A Parquet file, one row per sample.")
    ],
    into: Annotated[Path, typer.Option(help="The agent's file; created if missing.")],
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
    as_json: Json = False,
) -> None:
    """Import the samples of a log into an agent's file: all of them, or none if one is invalid.

    The default columns are those of an agent's export. Rows without a reward are left out. A file
    that was imported before is not imported again. First stop the application or service that has
    the agent's file open.

    Example: fedglb agent import last-year.parquet --into shop-1.db --dim 10
    """
    from fedglb.federation.agent.agent import Agent

    with report_errors(if_open="stop it, import, and start it again", **_NAMES):
        if bundle is None:
            problem = ProblemTable(dim, link, radius, noise, curvature).build()
        else:
            with extra():
                from fedglb.federation.bundle import Bundle
            problem = Bundle.read(bundle).agreement.problem
        X, y, left_out = _read(file, features.split(","), reward, problem.dim)
        name = key or f"file {checksum(file.read_bytes())}"
        with Agent.open(into, problem, bundle=bundle) as agent:
            count = agent.absorb(X, y, key=name)
            total = agent.status.samples
    if as_json:
        print_json({"absorbed": count, "left_out": left_out, "samples": total, "key": name})
        return
    if count:
        typer.echo(f"{count:,} samples imported ({left_out:,} rows without a reward left out).")
    else:
        typer.echo(f"Nothing imported: the key {name!r} was imported before.")
    typer.echo(f"{into} has {total:,} samples.")


def _read(
    file: Path, features: list[str], reward: str, dim: int
) -> tuple[FloatArray, FloatArray, int]:
    """Return the samples of a file, and the number of rows without a reward."""
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
        found = X.shape[1] if X.ndim == 2 else "another number of"
        raise InvalidInput(
            "--features", ",".join(features), f"{dim} numbers per row; found {found}"
        )
    return X, y, table.height - kept.height


def backup(file: AgentFile, to: CopyFile, as_json: Json = False) -> None:
    """Copy an agent's file atomically. The copy is an agent's file, too.

    The application or service that has the file open may keep running.

    Example: fedglb agent backup shop-1.db /backup/shop-1-monday.db
    """
    from fedglb.federation.sqlite import backup as copy

    with report_errors(source="AGENT.db", path="COPY.db"):
        if not file.is_file():
            raise InvalidInput("source", str(file), "an agent's file that exists")
        copy("agent", file, to)
    print_copied(to, as_json)


def accept(
    file: AgentFile,
    bundle: Annotated[
        Path,
        typer.Argument(metavar="BUNDLE", help="The agent's folder, with the new roster.json."),
    ],
    roster: Annotated[
        str | None,
        typer.Option(
            help="The digest of the roster to accept. Compare it with the owners of the other "
            "agents, not only with the operator.",
            show_default="none: only show the roster",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Accept a changed list of members of secure sums (the roster).

    An agent refuses a changed roster: an attacker who adds enough members could subtract
    their sums from the total, and see the agent's. (`fedglb agent serve --follow-roster` accepts
    one that only got smaller by itself.)

    Example: fedglb agent accept shop-1.db ./shop-1 --roster 3f6c…
    """
    from fedglb.federation.agent.roster import accept_roster, roster_to_accept

    names = {"path": "AGENT.db", "bundle": "BUNDLE", "roster": "--roster"}
    with report_errors(if_open="stop its application or service first", **names):
        found = roster_to_accept(bundle) if roster is None else accept_roster(file, bundle, roster)
    accepted, digest = roster is not None, found.digest.hex()
    if as_json:
        print_json({"roster": digest, "members": list(found.names), "accepted": accepted})
        return
    typer.echo(f"{len(found.names)} members: {', '.join(found.names)}")
    typer.echo(f"roster: {digest}")
    typer.echo("accepted" if accepted else "not accepted: to accept it, add --roster DIGEST")
