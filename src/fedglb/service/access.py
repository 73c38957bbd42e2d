"""Who may ask: a token where there is one, and no page of a browser from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from fedglb.service.listening import LOOPBACK, host_of, same_token
from fedglb.service.problem import Refused

#: Paths that tell nothing but that the service is there.
OPEN = frozenset({"/healthz", "/readyz"})


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
            host = host_of(headers.get(b"host", b""))
            if host not in self.hosts:
                allowed = ", ".join(sorted(self.hosts))
                raise Refused(403, "forbidden", f"the request's Host has to be one of {allowed}")
        origin = headers.get(b"origin")
        if origin is not None and origin.partition(b"://")[2] != headers.get(b"host"):
            raise Refused(403, "forbidden", "the request was made by a page of another origin")
        if self.token is not None and path not in OPEN:
            kind, _, given = headers.get(b"authorization", b"").partition(b" ")
            if kind.lower() != b"bearer" or not same_token(given, self.token):
                raise Refused(
                    401, "unauthorized", "give the header Authorization: Bearer TOKEN",
                    {"WWW-Authenticate": "Bearer"},
                )  # fmt: skip
