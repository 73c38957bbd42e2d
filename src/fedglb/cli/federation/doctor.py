"""`fedglb federation doctor`: checks of a folder and its connection to the server."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from fedglb.cli.common import Json, print_json
from fedglb.cli.federation.members import columns
from fedglb.cli.report_errors import extra, fail
from fedglb.errors import InvalidInput

_SIGNS = {"ok": "✓", "warning": "!", "fault": "✗"}


def doctor(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            help="The operator's folder, or the bundle of a client or coordinator.",
        ),
    ],
    file: Annotated[Path | None, typer.Option(help="Also check this agent's file.")] = None,
    as_json: Json = False,
) -> None:
    """Check a folder and print a remedy for each fault.

    On the server's machine FOLDER is the operator's, on a client's machine its bundle. Checks:
    versions, clock, permissions, certificates, files, disk, and the connection to the server.
    The exit code is 1 if there is a fault (✗); a warning (!) does not change it.

    Example: fedglb federation doctor ./shop-1 --file shop-1.db
    """
    if not folder.is_dir():
        allowed = "the operator's folder, as made by `init`, or a member's bundle"
        raise InvalidInput("FOLDER", str(folder), allowed)
    with extra():
        from fedglb.federation.doctor import member
        from fedglb.federation.operator.doctor import operator
        from fedglb.federation.operator.folder import AUTHORITY
    operators = (folder / AUTHORITY).is_dir()
    if operators and file is not None:
        fail("--file applies only to a client's bundle", 2)
    findings = operator(folder) if operators else member(folder, file)
    sound = all(found.grade != "fault" for found in findings)
    if as_json:
        every = [dataclasses.asdict(found) for found in findings]
        print_json({"folder": str(folder), "sound": sound, "findings": every})
    else:
        rows = [
            (_SIGNS[f.grade], f.check, f"{f.text} → {f.remedy}" if f.remedy else f.text)
            for f in findings
        ]
        typer.echo("\n".join(columns(rows)))
    if not sound:
        raise typer.Exit(1)
