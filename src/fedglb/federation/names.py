"""Names of federations and members, NATS subjects, identities; file versions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedglb.errors import InvalidInput, under

#: The version of `federation.toml`, `roster.json` and `registry.json`. SQLite files have their own.
VERSION = 1
#: Names that no client may have: the coordinator's, and `renew`'s for server and authority.
COORDINATOR, THE_SERVER, THE_AUTHORITY = "coordinator", "server", "authority"
_LONGEST = 1000  # characters
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def check_version(raw: Mapping[str, Any], path: Path) -> None:
    """Raise `InvalidInput` unless a file has the supported version."""
    found = raw.get("version")
    if type(found) is not int or found != VERSION:
        allowed = f"{VERSION}, the only supported version: use the fedglb that wrote"
        with under(source=str(path)):
            raise InvalidInput("version", found, f"{allowed} the file")


def check_name(argument: str, name: object) -> str:
    """Return `name` if it is valid for a federation or a client, or raise `InvalidInput`."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidInput(argument, name, "1 to 64 of the characters A-Z a-z 0-9 _ -")
    return name


def check_client(name: object, argument: str = "client") -> str:
    """Return `name` if it is valid for a client, or raise `InvalidInput`."""
    if check_name(argument, name) in (COORDINATOR, THE_SERVER, THE_AUTHORITY):
        raise InvalidInput(argument, name, f"another name: this one is the {name}'s")
    return str(name)


def up(federation: str, client: str) -> str:
    """Return the subject on which only this client may publish."""
    return f"fed.{federation}.up.{client}"


def down(federation: str, client: str) -> str:
    """Return the subject on which the coordinator publishes to this client only."""
    return f"fed.{federation}.down.{client}"


def present(federation: str) -> str:
    """Return the subject on which a coordinator announces itself to other coordinators."""
    return f"fed.{federation}.{COORDINATOR}"


def identity(federation: str, name: str, generation: int) -> str:
    """Return the URI in a certificate that names its holder: the user name for NATS.

    A revoked name that is added again gets the next generation, so that its old certificates
    stay revoked.
    """
    return f"fedglb://{federation}/{name}/{generation}"


def one_line(text: str) -> str:
    """Return a text, perhaps a client's, as one printable line of limited length."""
    return "".join(c if c.isprintable() else "?" for c in text[:_LONGEST])
