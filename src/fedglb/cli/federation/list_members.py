"""`fedglb federation list`: the members, and when their certificates expire."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedglb.cli.federation.add import FOLDER, JSON
from fedglb.cli.report_errors import extra, report_errors

if TYPE_CHECKING:
    from fedglb.federation.operator.listing import ListedMember


def list_members(folder: Annotated[Path, FOLDER], as_json: Annotated[bool, JSON] = False) -> None:
    """List the members: since when, until when, of which generation, and who was revoked.

    It only reads the folder; `doctor` checks the connection to the server.

    Example: fedglb federation list ./demo
    """
    with extra():
        from fedglb.federation.operator import listing
    with report_errors(folder="FOLDER"):
        found = listing.members(folder)
    if as_json:
        typer.echo(json.dumps([_facts(member) for member in found]))
        return
    rows = [("name", "generation", "since", "certificate expires", "")]
    for member in found:
        generation = "" if member.generation is None else str(member.generation)
        rows.append(
            (member.name, generation, _date(member.since), _end(member.ends), _note(member))
        )
    typer.echo("\n".join(columns(rows)))


def _facts(member: ListedMember) -> dict[str, Any]:
    def text(moment: datetime | None) -> str | None:
        return None if moment is None else moment.isoformat(timespec="seconds")

    return {
        "name": member.name,
        "kind": member.kind,
        "generation": member.generation,
        "since": text(member.since),
        "ends": text(member.ends),
        "revoked": text(member.revoked),
    }


def _date(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment:%Y-%m-%d}"


def _end(moment: datetime | None) -> str:
    if moment is None:
        return "unreadable"
    left = (moment - datetime.now(UTC)).days
    return f"{_date(moment)} ({left} days)" if left >= 0 else f"{_date(moment)} (expired)"


def _note(member: ListedMember) -> str:
    return "" if member.revoked is None else f"revoked on {_date(member.revoked)}"


def columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    r"""Yield a line for each row, with aligned columns, never wrapped.

    Examples
    --------
    >>> print(*columns([("name", "since"), ("shop-1", "2026")]), sep="\n")
    name    since
    shop-1  2026
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(f"{c:{w}}" for c, w in zip(row, widths, strict=True)).rstrip()
