"""The text of nats-server's configuration: who may connect, publish and subscribe.

Clients and coordinator are in two accounts that share only the streams `up.*` and `down.*`. In one
account the permissions would not be enough: nats-server does not check the reply subject of a
message, through which a client could publish on another's subject.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedglb.federation.names import COORDINATOR, down, identity, present, up

NATS, ACCOUNTS, PID = "nats.conf", "accounts.conf", "nats.pid"
_KIB, _MIB = 1024, 1024 * 1024
_LARGEST = 8 * _MIB  # maximum of the wire format


@dataclass(frozen=True)
class ServerLimits:
    """nats-server's limits, by the size of the federation.

    `numbers` are those of a client's largest message; all clients may send one at the same time.

    >>> small, large = ServerLimits(65, max_clients=20), ServerLimits(501_500, max_clients=20)
    >>> (small.payload, large.payload), (small.pending, large.pending)
    ((262144, 8024000), (16777216, 268435456))
    """

    numbers: int
    max_clients: int

    @property
    def payload(self) -> int:
        """Bytes of a client's message; a larger one closes the connection."""
        return min(_LARGEST, max(256 * _KIB, 16 * self.numbers))

    @property
    def pending(self) -> int:
        """Bytes queued for one reader: a flood queues ahead of all other messages."""
        return min(256 * _MIB, max(16 * _MIB, 32 * self.max_clients * self.numbers))

    @property
    def connections(self) -> int:
        """Connections of all clients together."""
        return 64 + 4 * self.max_clients


def nats(folder: Path, bind: str, port: int, limits: ServerLimits) -> str:
    """Return `nats.conf`, which never changes; `folder` is its final place.

    The paths of certificates are absolute, because nats-server resolves relative ones against its
    working folder. TLS comes before any other byte: if it were offered in plain text, an attacker
    between client and server could remove the offer.
    """
    place = folder.absolute()
    host = f"[{bind}]" if ":" in bind else bind
    return f"""\
# Written by `fedglb federation init`; yours to change. The paths are absolute: if the folder
# moves, change them. Members are in {ACCOUNTS}, which `add`, `revoke` and `renew` rewrite.
listen: {_quoted(f"{host}:{port}")}
pid_file: {_quoted(str(place / PID))}
# {ACCOUNTS} limits clients' messages further. Messages that wait for a slow reader are in this
# server's memory: at most one message of every client.
max_payload: 8MB
max_pending: {limits.pending}
max_subscriptions: 10000
ping_interval: "20s"
ping_max: 2
tls {{
  cert_file: {_quoted(str(place / "server.pem"))}
  key_file: {_quoted(str(place / "server.key"))}
  ca_file: {_quoted(str(place / "ca.pem"))}
  verify_and_map: true
  handshake_first: true
  min_version: "1.3"
  timeout: 5
}}
include {_quoted(ACCOUNTS)}
"""


def accounts(federation: str, admitted: Mapping[str, int], limits: ServerLimits) -> str:
    """Return `accounts.conf`: the members, each with the generation that is admitted.

    The limits of an account apply to each of its connections, except `max_connections`.
    """
    every_up, every_down = _quoted(up(federation, "*")), _quoted(down(federation, "*"))
    both = present(federation)  # for coordinators only: no other account imports it
    members = "\n".join(
        _user(identity(federation, name, each), [up(federation, name)], [down(federation, name)])
        for name, each in sorted(admitted.items())
        if name != COORDINATOR
    )
    head = _user(
        identity(federation, COORDINATOR, admitted[COORDINATOR]),
        [down(federation, "*"), both],
        [up(federation, "*"), both],
    )
    most, size = limits.connections, limits.payload
    return f"""\
# Written by fedglb: `fedglb federation add`, `revoke` and `renew` change it.
accounts {{
  FED {{
    limits {{max_connections: 4}}
    users: [
{head}
    ]
    exports: [{{stream: {every_down}}}]
    imports: [{{stream: {{account: CLIENTS, subject: {every_up}}}}}]
  }}
  CLIENTS {{
    limits {{max_connections: {most}, max_subscriptions: 8, max_payload: {size}}}
    users: [
{members}
    ]
    exports: [{{stream: {every_up}}}]
    imports: [{{stream: {{account: FED, subject: {every_down}}}}}]
  }}
}}
"""


def _user(user: str, publish: Sequence[str], subscribe: Sequence[str]) -> str:
    speak, hear = ", ".join(map(_quoted, publish)), ", ".join(map(_quoted, subscribe))
    rights = f"{{publish: [{speak}], subscribe: [{hear}]}}"
    return f"      {{user: {_quoted(user)}, permissions: {rights}}}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
