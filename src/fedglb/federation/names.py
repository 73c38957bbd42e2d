"""Names of federations and members, and the NATS subjects and identities made of them."""

from __future__ import annotations

import re

from fedglb.errors import InvalidInput

#: The coordinator's name; no client may have it.
COORDINATOR = "coordinator"
_LONGEST = 1000  # characters
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def check_name(argument: str, name: object) -> str:
    """Return `name` if a federation or a client may have it, or raise `InvalidInput`.

    Examples
    --------
    >>> check_name("client", "shop-17")
    'shop-17'
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidInput(argument, name, "1 to 64 of the characters A-Z a-z 0-9 _ -")
    return name


def check_client(name: object, argument: str = "client") -> str:
    """Return `name` if a client may have it, or raise `InvalidInput`."""
    if check_name(argument, name) == COORDINATOR:
        raise InvalidInput(argument, name, "another name: this one is the coordinator's")
    return str(name)


def up(federation: str, client: str) -> str:
    """Return the subject on which this client publishes; no other client may.

    Examples
    --------
    >>> up("demo", "shop-17")
    'fed.demo.up.shop-17'
    """
    return f"fed.{federation}.up.{client}"


def down(federation: str, client: str) -> str:
    """Return the subject on which the coordinator publishes to a client; only that one may read."""
    return f"fed.{federation}.down.{client}"


def present(federation: str) -> str:
    """Return the subject on which a coordinator announces itself to other coordinators."""
    return f"fed.{federation}.{COORDINATOR}"


def identity(federation: str, name: str, generation: int) -> str:
    """Return the URI in a certificate that names its holder: the user name for NATS.

    A name that is revoked and added again gets the next generation, so that its old certificates
    stay without rights.

    Examples
    --------
    >>> identity("demo", "shop-17", 1)
    'fedglb://demo/shop-17/1'
    """
    return f"fedglb://{federation}/{name}/{generation}"


def one_line(text: str) -> str:
    r"""Return a text, which may come from a client, as one printable line of limited length.

    Examples
    --------
    >>> one_line("fine\nupdate 9 is done")
    'fine?update 9 is done'
    """
    return "".join(c if c.isprintable() else "?" for c in text[:_LONGEST])
