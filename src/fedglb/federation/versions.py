"""Versions of the text files of a federation, and how an older one becomes one of today.

Every step from one version to the next is listed here; those of SQLite files are beside their
tables (`agent/store.py`, `coordinator/store.py`). An older file is turned while it is read, and
written as one of today, whole, when it is next changed: reading changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedglb.errors import InvalidInput, under

Raw = Mapping[str, Any]


@dataclass(frozen=True)
class Format:
    """A kind of file: its newest version, and by each older one the step to the next.

    Examples
    --------
    >>> shop = Format(2, {1: lambda raw: {"version": 2, "name": raw["title"]}})
    >>> shop.migrated({"title": "A"}, Path("shop.toml"))
    {'version': 2, 'name': 'A'}
    >>> shop.migrated({"version": 3}, Path("shop.toml"))
    Traceback (most recent call last):
    fedglb.errors.InvalidInput: shop.toml: version = 3 is not allowed: give at most 2, which this \
fedglb can read: install the fedglb that wrote the file
    """

    version: int
    steps: Mapping[int, Callable[[Raw], Raw]]

    def migrated(self, raw: Raw, path: Path) -> Raw:
        """Return what a file says, as one of the newest version says it, or raise by its version.

        A file without a version is of the first: the key came later, and nothing else with it.
        """
        found = raw.get("version", 1)
        if isinstance(found, Mapping):  # a member of this name, in the first registries
            found = 1
        if type(found) is not int or not (found == self.version or found in self.steps):
            allowed = f"at most {self.version}, which this fedglb can read: install the fedglb "
            with under(source=str(path)):
                raise InvalidInput("version", found, allowed + "that wrote the file")
        for version in range(found, self.version):
            raw = self.steps[version](raw)
        return raw


def _with_ends_and_overlaps(raw: Raw) -> Raw:
    """Version 2 says when a certificate ends, since when its holder is a member, and what overlaps.

    The first version did not say when a certificate ends.
    """
    members = {
        name: {**member, "since": member["issued"], "ends": None, "earlier": []}
        for name, member in raw.items()
    }
    return {"version": 2, "members": members}


#: `federation.toml` of a member.
BUNDLE = Format(1, {})
#: `authority/federation.toml`.
SETTINGS = Format(1, {})
#: `roster.json` of a member, and of the operator.
ROSTER = Format(1, {})
#: `authority/registry.json`.
REGISTRY = Format(2, {1: _with_ends_and_overlaps})
