"""`fedglb federation freeze` and `unfreeze`: agents choose with an earlier model, or do not."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedglb.cli.common import CoordinatorFolder, Json, StateFile, print_json
from fedglb.cli.federation.status import coordinator_folder, read_status
from fedglb.cli.report_errors import fail, report_errors
from fedglb.errors import InvalidInput

if TYPE_CHECKING:
    from fedglb.federation.frozen import Frozen


def freeze(
    folder: CoordinatorFolder,
    update: Annotated[
        int | None, typer.Option(help="The update whose model it is.", show_default="the last one")
    ] = None,
    state: StateFile = None,
    as_json: Json = False,
) -> None:
    """Let all agents choose with the model of an update, until `unfreeze`; learning goes on.

    Run it as the coordinator's user, on its machine. The models of the last ten updates are kept.
    A running coordinator tells the agents within seconds, and those that join later; each keeps to
    it also without a connection. A model may have been fitted with samples that an agent has
    forgotten since: `unfreeze` as soon as you can.

    Example: fedglb federation freeze ./demo --update 12
    """
    found = read_status(folder, state)
    with report_errors(update="--update"):
        wanted = found.model if update is None else update
        if wanted not in found.kept:
            known = ", ".join(map(str, found.kept))
            allowed = (
                f"one whose model is kept: {known}" if known else "none yet: there is no model"
            )
            raise InvalidInput("update", update, allowed)
    if found.frozen is None or found.frozen.update != wanted:
        from fedglb.federation.frozen import Frozen

        _write(folder, Frozen(wanted, time.time()))
    if as_json:
        print_json({"frozen": wanted})
        return
    typer.echo(
        f"Frozen at update {wanted}: a running coordinator tells the agents. They go on learning, "
        f"and updates go on. To end it: fedglb federation unfreeze {folder}"
    )


def unfreeze(folder: CoordinatorFolder, as_json: Json = False) -> None:
    """Let all agents choose with their newest model again.

    Example: fedglb federation unfreeze ./demo
    """
    _write(folder, None)
    if as_json:
        print_json({"frozen": None})
        return
    typer.echo(
        "Not frozen: a running coordinator tells the agents to choose with the newest model."
    )


def _write(folder: Path, frozen: Frozen | None) -> None:
    from fedglb.federation.bundle import FILE
    from fedglb.federation.frozen import write_frozen

    place = coordinator_folder(folder)
    if not (place / FILE).is_file():
        fail(f"FOLDER = {str(folder)!r}: expected the operator's folder, or the coordinator's", 2)
    with report_errors():
        write_frozen(place, frozen)
