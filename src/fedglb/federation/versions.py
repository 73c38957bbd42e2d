"""The version of a federation's text files; a file of another version is refused.

SQLite files have their version beside their tables (`agent/store.py`, `coordinator/store.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedglb.errors import InvalidInput, under

#: Of `federation.toml`, `roster.json` and `registry.json`.
VERSION = 1


def check_version(raw: Mapping[str, Any], path: Path) -> None:
    """Raise `InvalidInput` unless a file has the version that this fedglb reads.

    Examples
    --------
    >>> check_version({"version": 3}, Path("roster.json"))
    Traceback (most recent call last):
    fedglb.errors.InvalidInput: roster.json: version = 3 is not allowed: give 1, the only version \
that this fedglb reads: use the fedglb that wrote the file
    """
    found = raw.get("version")
    if type(found) is not int or found != VERSION:
        allowed = f"{VERSION}, the only version that this fedglb reads: use the fedglb that wrote"
        with under(source=str(path)):
            raise InvalidInput("version", found, f"{allowed} the file")
