"""`fedglb features`: look at a schema of records, or propose one from past decisions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedglb.cli.common import Json, console, print_json, say
from fedglb.cli.json_lines import json_lines
from fedglb.cli.report_errors import report_errors
from fedglb.errors import InvalidInput, Place, relocated, under
from fedglb.features import Features
from fedglb.features.infer import Proposal, propose

if TYPE_CHECKING:
    import polars as pl

app = typer.Typer(no_args_is_help=True, help="Look at a schema of records, or propose one.")

_LARGE = 300  # features: more are worth a thought
_QUIET = 2.0  # seconds without a word


@app.command()
def show(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The schema, a TOML file.")],
    names: Annotated[bool, typer.Option("--names", help="List the features' names.")] = False,
    as_json: Json = False,
) -> None:
    """Show the fields and crosses of a schema, and the number d of an arm's features.

    Example: fedglb features show features.toml --names
    """
    with report_errors(features="FILE"):
        features = Features.read(file)
    unused = _unused(features)
    if as_json:
        answer = {
            "dim": features.dim, "digest": features.digest, "fields": _fields(features),
            "crosses": _crosses(features), "without_effect": unused,
        }  # fmt: skip
        print_json({**answer, "names": features.names} if names else answer)
        return
    if names:
        for place, name in enumerate(features.names):
            typer.echo(f"{place:>5}  {name}")
        return
    from rich.table import Table

    table = Table()
    table.add_column("field or cross", overflow="fold")
    table.add_column("kind", no_wrap=True)
    for column in ("places", "weight"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in (*_fields(features), *_crosses(features)):
        table.add_row(row["name"], row["kind"], f"{row['places']:,}", f"{row['weight']:g}")
    console().print(table, soft_wrap=False)
    typer.echo(
        f"An arm has d = {features.dim:,} features: the constant, the arm's fields, crosses."
    )
    if unused:
        typer.echo(f"Without effect, because in no cross: {', '.join(unused)}")
    if features.dim > _LARGE:
        typer.echo(
            f"d is above {_LARGE}: a decision among K arms takes about K·d² = "
            f"K·{features.dim**2:,} steps, a message has about d²/2 = {features.dim**2 // 2:,} "
            "numbers. A federation takes d up to 1,400, or 745 with 1,024 effects. Fewer levels, "
            "buckets and knots make it smaller, and so does a smaller budget of crosses."
        )


def _fields(features: Features) -> list[dict[str, Any]]:
    sides = {"context": features.context, "arm": features.arm}
    return [
        {"name": f"{side}.{name}", "kind": f.kind, "places": len(f.places), "weight": f.weight}
        for side, fields in sides.items()
        for name, f in fields.items()
    ]


def _crosses(features: Features) -> list[dict[str, Any]]:
    return [
        {
            "name": f"{cross.first} * {cross.second}",
            "kind": "hashed cross" if cross.hashed else "direct cross",
            "places": cross.size, "weight": 1.0,
        }
        for cross in features.cross_blocks
    ]  # fmt: skip


def _unused(features: Features) -> list[str]:
    """Return the fields of the context that are in no cross."""
    crossed = {name for pair in features.crosses for name in pair}
    return [f"context.{n}" for n in features.context if f"context.{n}" not in crossed]


@app.command()
def infer(
    log: Annotated[
        Path,
        typer.Argument(
            metavar="LOG.ndjson",
            help='Past decisions, one JSON object per line: {"context": {…}, "arm": {…}}, or '
            '"arms": [{…}, …]. Or a Parquet file (.parquet) with such columns, or with columns '
            "context.NAME and arm.NAME.",
        ),
    ],
    cross: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD,FIELD",
            help="Cross two fields: context.country,arm.category. May be repeated.",
            show_default="none",
        ),
    ] = None,
) -> None:
    """Propose a schema for past decisions, as TOML: read it, edit it, and keep it.

    Comments say what each field's values are like. Fields of no use are left out, and listed at
    the end: those that are always equal, and texts of which none is frequent, such as ids.

    Example: fedglb features infer log.ndjson --cross context.country,arm.category > features.toml
    """
    pairs = [_pair(text) for text in cross or ()]
    lines: list[int] = []  # of each record
    with report_errors():
        parquet = log.suffix.lower() == ".parquet"
        records = _parquet(log) if parquet else _records(log, lines)
        with under(source=str(log)), relocated(lambda path: _line(path, lines)):
            found = propose(records)
            found.features()  # raises without an arm
    with relocated(lambda path: ("--cross",) if path[0] == "crosses" else path):
        features = found.features(pairs)
    typer.echo(_commented(features, found), nl=False)
    for name, why in found.left_out.items():
        say(f"left out: {name}: {why}")
    unused = _unused(features)
    if unused:
        say(f"without effect until crossed with a field of the arm: {', '.join(unused)}")
    say(f"d = {features.dim:,}, {len(features.arm)} fields of the arm, {len(pairs)} crosses")


def _pair(text: str) -> tuple[str, str]:
    first, comma, second = text.partition(",")
    if not comma or "," in second:
        raise InvalidInput("--cross", text, "two fields: context.country,arm.category")
    return first.strip(), second.strip()


def _records(path: Path, lines: list[int]) -> Iterator[Any]:
    """Yield the objects of a file, and note the line of each."""
    said = time.monotonic()
    for k, record in json_lines(path):
        lines.append(k)
        yield record
        if k % 10_000 == 0 and time.monotonic() - said > _QUIET:
            said = time.monotonic()
            say(f"{k:,} lines read")


def _line(path: Place, lines: list[int]) -> Place:
    """Return the place of a fault: `records[k]` is a line."""
    match path:
        case ("records", int(k), *rest) if lines:
            return f"line {lines[k]}", *rest
    return path


def _parquet(path: Path) -> pl.DataFrame:
    import polars as pl

    try:
        return pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InvalidInput("LOG", str(path), f"a Parquet file ({error})") from None


def _commented(features: Features, found: Proposal) -> str:
    """Return the schema's file with comments: the fields' in their order, then what is left out."""
    fields = {"context": features.context, "arm": features.arm}
    notes = iter([found.notes[f"{side}.{n}"] for side, names in fields.items() for n in names])
    lines = []
    for line in features.to_toml().split("\n"):
        lines.append(line)
        if line.startswith(("[context.", "[arm.")):
            lines.append(_comment(next(notes)))
    if found.left_out:
        lines += [
            "# Left out:",
            *(_comment(f"{n}: {why}") for n, why in found.left_out.items()),
            "",
        ]
    return "\n".join(lines)


def _comment(text: str) -> str:
    """Return a line of TOML; a name may have characters that end a line."""
    return "# " + "".join(each if each.isprintable() else "?" for each in text)
