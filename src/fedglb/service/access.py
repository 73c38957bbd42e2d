"""Who may ask: a token where there is one, and no page of a browser from elsewhere."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path

from fedglb.errors import InvalidInput
from fedglb.service.problem import Refused

_SHORTEST = 16
#: What a machine calls itself.
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
#: Paths that tell nothing but that the service is there.
OPEN = frozenset({"/healthz", "/readyz"})
_log = logging.getLogger("fedglb.service")


@dataclass(frozen=True)
class Access:
    """What a request has to bring.

    Parameters
    ----------
    token
        The secret of ``Authorization: Bearer …``; None: nobody is asked for one.
    hosts
        The names that a request's Host may have, or None for any. On loopback it is the machine's
        own: a page from elsewhere can make a browser resolve its own name to 127.0.0.1.
    """

    token: str | None = field(default=None, repr=False)
    hosts: Set[str] | None = LOOPBACK

    def check(self, path: str, headers: Mapping[bytes, bytes]) -> None:
        """Raise `Refused` if a request may not come in."""
        if self.hosts is not None:
            host = _name(headers.get(b"host", b""))
            if host not in self.hosts:
                allowed = ", ".join(sorted(self.hosts))
                raise Refused(403, "forbidden", f"the request's Host has to be one of {allowed}")
        origin = headers.get(b"origin")
        if origin is not None and origin.partition(b"://")[2] != headers.get(b"host"):
            raise Refused(403, "forbidden", "the request was made by a page of another origin")
        if self.token is not None and path not in OPEN:
            kind, _, given = headers.get(b"authorization", b"").partition(b" ")
            same = hmac.compare_digest(given.strip(), self.token.encode())  # in constant time
            if kind.lower() != b"bearer" or not same:
                raise Refused(
                    401, "unauthorized", "give the header Authorization: Bearer TOKEN",
                    {"WWW-Authenticate": "Bearer"},
                )  # fmt: skip


def read_token(path: Path) -> str:
    """Return the token in a file, without the white space around it."""
    try:
        token = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput("token_file", str(path), f"a file that can be read ({error})") from None
    if len(token) < _SHORTEST or not token.isprintable() or " " in token:
        allowed = f"a file with one secret of at least {_SHORTEST} letters and digits in it"
        raise InvalidInput("token_file", str(path), allowed)
    if path.stat().st_mode & 0o077:
        _log.warning("others can read the token: run chmod 600 %s", path)
    return token


def _name(host: bytes) -> str:
    """Return a Host without its port."""
    text = host.decode("latin-1").lower()
    if text.startswith("["):
        return text.partition("]")[0] + "]"
    return text.partition(":")[0]
