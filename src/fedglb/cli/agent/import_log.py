"""`fedglb agent import`: the samples of another system's log, for a warm start."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from fedglb.cli.agent.problem import AgentProblem
from fedglb.cli.common import Json, in_panel, print_json
from fedglb.cli.json_lines import json_lines
from fedglb.cli.progress import explain_delay
from fedglb.cli.report_errors import report_errors
from fedglb.errors import InvalidInput, names_near, number, under
from fedglb.federation.agent.ids import check_id
from fedglb.io.atomic import checksum
from fedglb.links import LINKS
from fedglb.problem_table import ProblemTable

if TYPE_CHECKING:
    import polars as pl

_problem = in_panel("The agent's problem, as in its application")
_NAMES = {
    "dim": "--dim", "link": "--link", "radius": "--radius", "noise": "--noise", "key": "--key",
    "curvature": "--curvature", "bundle": "--bundle", "path": "--into", "X": "FILE", "y": "FILE",
    "problem.dim": "--dim", "problem.link": "--link", "problem.radius": "--radius",
    "features": "--features",
}  # fmt: skip
_PARQUET = b"PAR1"  # a Parquet file's first bytes
#: What a sample's part is called in a file of records.
_PARTS = {"arms": "arm", "contexts": "context", "y": "reward", "subjects": "subject"}


@dataclass
class Samples:
    """The samples of a file: arms are records, or vectors without contexts and ids."""

    arms: Any
    rewards: Any
    left_out: int  # rows without a reward
    contexts: list[Any] = field(default_factory=list)
    ids: list[str | int] | None = None
    subjects: list[str | None] | None = None
    places: list[str] = field(default_factory=list)  # of the samples of a file of records


def import_(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="A Parquet file, or lines of JSON (NDJSON): a sample in each row."
        ),
    ],
    into: Annotated[Path, typer.Option(help="The agent's file; created if missing.")],
    dim: Annotated[int | None, _problem("d, features per arm.", "the bundle's")] = None,
    features: Annotated[
        Path | None,
        _problem("A TOML file, the schema by which records become arms.", "the bundle's"),
    ] = None,
    link: Annotated[str, _problem(f"{', '.join(LINKS)}.")] = "logistic",
    radius: Annotated[float, _problem("S, the bound on ‖θ*‖.")] = 1.0,
    noise: Annotated[float | None, _problem("R.", "the link's own")] = None,
    curvature: Annotated[float | None, _problem("c_μ.", "the link's infimum on the ball")] = None,
    bundle: Annotated[
        Path | None,
        _problem("In a federation: the client's folder, which has the problem.", "none"),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help="Vectors in a Parquet file: the column with the arm, a list of numbers, or d "
            "columns: a,b,c.",
            show_default="x, or records where there is a schema",
        ),
    ] = None,
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

    With a schema, a row is a record with its reward: {"context": {"country": "DE"}, "arm":
    {"price": 9.5}, "reward": 1, "id": "pen", "subject": "u-17"}, where context, id (the arm's) and
    subject (whom it is about, for `agent forget`) may be missing. In a Parquet file context and arm
    are structs, or columns context.NAME and arm.NAME; an agent's export will do, too. Without one,
    the default columns are those of an agent's export. Rows without a reward are left out. A file
    that was imported before is not imported again. First stop the application or service that has
    the agent's file open.

    Example: fedglb agent import last-year.ndjson --into shop-1.db --features features.toml
    """
    from fedglb.federation.agent.agent import Agent

    with report_errors(if_open="stop it, import, and start it again", **_NAMES):
        table = ProblemTable(dim, link, radius, noise, curvature)
        given = AgentProblem.of(bundle, features, table)
        found, doing = Samples([], [], 0), "reading"
        with explain_delay(lambda: f"still {doing}: {len(found.rewards):,} samples"):
            if given.features is None or columns is not None:
                found = _vectors(file, (columns or "x").split(","), reward, given.problem.dim)
            else:
                _read_records(file, reward, found)
            name, doing = key or f"file {checksum(file.read_bytes())}", "learning"
            with (
                Agent.open(into, given.problem, bundle=bundle, features=given.features) as agent,
                _in_file(found.places),
            ):
                count = agent.absorb(
                    found.arms, found.rewards, contexts=found.contexts or None, key=name,
                    ids=found.ids, subjects=found.subjects,
                )  # fmt: skip
                total, ignored = agent.status.samples, agent.status.ignored
    if as_json:
        print_json({
            "absorbed": count, "left_out": found.left_out, "samples": total, "key": name,
            "ignored": ignored,
        })  # fmt: skip
        return
    if count:
        left_out = f"{found.left_out:,} rows without a reward left out"
        typer.echo(f"{count:,} samples imported ({left_out}).")
        if ignored:
            typer.echo(f"{ignored:,} fields that the schema does not have were ignored.")
    else:
        typer.echo(f"Nothing imported: the key {name!r} was imported before.")
    typer.echo(f"{into} has {total:,} samples.")


@contextmanager
def _in_file(places: Sequence[str]) -> Iterator[None]:
    """Name the place in the file in errors about a sample: arms[3].price is arm.price in line 4."""
    try:
        yield
    except InvalidInput as error:
        match error.path:
            case (str(part), int(k), *rest) if places and part in _PARTS:
                error.path, error.source = (_PARTS[part], *rest), places[k]
        raise


# -- records ---------------------------------------------------------------------------------------


def _read_records(file: Path, reward: str, found: Samples) -> None:
    """Add the samples of a file of records."""
    ids: list[str | int | None] = []
    subjects: list[str | None] = []
    for place, row in _rows(file, reward):
        if row.get(reward) is None:
            found.left_out += 1
            continue
        with under(source=place):
            if not isinstance(row.get("arm"), dict):
                raise InvalidInput("arm", row.get("arm"), "a record: fields by name")
            found.rewards.append(number(reward, row[reward]))
            if row.get("id") is not None:
                check_id("id", row["id"])
            ids.append(row.get("id"))
        found.arms.append(row["arm"])
        found.contexts.append(row.get("context"))
        subjects.append(row.get("subject"))
        found.places.append(place)
    if not ids:
        raise InvalidInput("FILE", str(file), "a file with at least one reward")
    found.subjects = subjects
    found.ids = [each for each in ids if each is not None] or None
    if found.ids is not None and len(found.ids) < len(ids):
        with under(source=found.places[ids.index(None)]):
            raise InvalidInput("id", None, "the arm's id, as in other rows")


def _rows(file: Path, reward: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the place and the content of each row."""
    try:
        with file.open("rb") as found:
            parquet = found.read(len(_PARQUET)) == _PARQUET
        if parquet:
            yield from _parquet_rows(file, reward)
            return
        with under(source=str(file)):
            for k, row in json_lines(file):
                if not isinstance(row, dict):
                    raise InvalidInput(f"line {k}", row, "a JSON object")
                yield f"{file}: line {k}", row
    except OSError as error:
        raise InvalidInput("FILE", str(file), f"a readable file ({error.strerror})") from None


def _parquet_rows(file: Path, reward: str) -> Iterator[tuple[str, dict[str, Any]]]:
    import polars as pl

    table = _table(file, [("--reward", reward)])
    parts = {side: _side(table, side) for side in ("context", "arm")}
    if parts["arm"] is None and table.schema.get("record") == pl.String:  # an agent's export
        records = [json.loads(each or "{}") for each in table["record"]]
        parts = {side: [each.get(side) for each in records] for side in parts}
        table = table.with_columns(id=pl.col("arm_id"))
    if parts["arm"] is None:
        names = ", ".join(table.columns)
        allowed = f"a column arm of structs, or columns arm.NAME; it has {names}"
        raise InvalidInput("FILE", str(file), allowed)
    columns = {side: each for side, each in parts.items() if each is not None}
    columns |= {
        name: table[name].to_list() for name in (reward, "id", "subject") if name in table.columns
    }
    for k, values in enumerate(zip(*columns.values(), strict=True), 1):
        yield f"{file}: row {k}", dict(zip(columns, values, strict=True))


def _side(table: pl.DataFrame, side: str) -> list[Any] | None:
    """Return the records of context or arm; None: the file has none."""
    import polars as pl

    if isinstance(table.schema.get(side), pl.Struct):
        return table[side].to_list()
    names = [name for name in table.columns if name.startswith(f"{side}.")]
    if not names:
        return None
    return table.select(pl.col(name).alias(name.partition(".")[2]) for name in names).to_dicts()


# -- vectors ---------------------------------------------------------------------------------------


def _vectors(file: Path, columns: list[str], reward: str, dim: int) -> Samples:
    """Return the samples of a Parquet file of vectors."""
    import polars as pl

    table = _table(file, [("--columns", name) for name in columns] + [("--reward", reward)])
    kept = table.filter(table[reward].is_not_null())
    if kept.is_empty():
        raise InvalidInput("FILE", str(file), "a file with at least one reward")
    lists = len(columns) == 1 and isinstance(kept[columns[0]].dtype, pl.List | pl.Array)
    try:
        if lists:
            X = np.array(kept[columns[0]].to_list(), dtype=np.float64)
        else:
            X = kept.select(pl.col(columns).cast(pl.Float64)).to_numpy()
        y = kept[reward].cast(pl.Float64).to_numpy()
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise InvalidInput("FILE", str(file), f"numbers in these columns ({error})") from None
    if X.ndim != 2 or X.shape[1] != dim:
        found = X.shape[1] if X.ndim == 2 else "another number of"
        raise InvalidInput("--columns", ",".join(columns), f"{dim} numbers per row; found {found}")
    return Samples(X, y, table.height - kept.height)


def _table(file: Path, wanted: list[tuple[str, str]]) -> pl.DataFrame:
    """Return a Parquet file that has these columns, each named by an option."""
    import polars as pl

    try:
        table = pl.read_parquet(file)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InvalidInput("FILE", str(file), f"a Parquet file ({error})") from None
    for option, name in wanted:
        if name not in table.columns:
            raise InvalidInput(option, name, names_near(name, table.columns))
    return table
