"""Which model agents choose with, if not with the newest; and the operator's file that says so."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from fedglb.errors import InvalidInput
from fedglb.io.atomic import atomic_write

#: How many models agents and the coordinator keep: those of the last updates.
KEPT = 10
_FILE = "frozen.json"  # in the coordinator's folder; its fields are stored names


@dataclass(frozen=True)
class Frozen:
    """The model that choices are made with, in place of the newest.

    Parameters
    ----------
    update
        The update whose model it is.
    since
        Since when, a Unix time.
    by
        By whose word: the "agent" (`Agent.freeze`), or the federation's "operator".
    """

    update: int
    since: float
    by: Literal["agent", "operator"] = "operator"


def path_of(folder: Path) -> Path:
    """Return the operator's file in the coordinator's folder."""
    return folder / _FILE


def read_frozen(folder: Path) -> Frozen | None:
    """Return what the operator has frozen; None: nothing."""
    path = path_of(folder)
    try:
        return msgspec.json.decode(path.read_bytes(), type=Frozen)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        allowed = f"a file of `fedglb federation freeze` ({error}): give the command again"
        raise InvalidInput("frozen", str(path), allowed) from None


def write_frozen(folder: Path, frozen: Frozen | None) -> None:
    """Write what the operator freezes; None: nothing."""
    if frozen is None:
        path_of(folder).unlink(missing_ok=True)
    else:
        atomic_write(path_of(folder), msgspec.json.encode(frozen), mode=0o600)
