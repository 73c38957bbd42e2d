"""The text of nats-server's configuration: who may connect, publish and subscribe.

Clients and coordinator are in two accounts that share only the streams `up.*` and `down.*`. In one
account the permissions would not be enough: nats-server does not check the reply subject of a
message, through which a client could publish on another's subject.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from fedglb.federation.names import COORDINATOR, OPERATOR, down, identity, up

NATS, ACCOUNTS, PID = "nats.conf", "accounts.conf", "nats.pid"
#: The subjects on which the operator asks the server itself, and gets the answer.
QUESTION, INBOX = "$SYS.REQ.SERVER.PING.{}", "_INBOX.operator"


def nats(folder: Path, bind: str, port: int) -> str:
    """Return `nats.conf`, which never changes; `folder` is where it will be.

    The paths of certificates are absolute, because nats-server resolves relative ones against the
    folder in which it is started. TLS comes before any other byte: if it were offered in plain
    text, somebody between client and server could remove the offer.
    """
    place = folder.absolute()
    host = f"[{bind}]" if ":" in bind else bind
    return f"""\
# Written by `fedglb federation init`; yours to change. The paths are absolute: if the folder
# moves, change them. Members are in {ACCOUNTS}, which `add`, `revoke` and `renew` rewrite.
listen: {_quoted(f"{host}:{port}")}
pid_file: {_quoted(str(place / PID))}
max_payload: 8MB
max_pending: 256MB
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


def accounts(federation: str, admitted: Mapping[str, Sequence[int]]) -> str:
    """Return `accounts.conf`: the members, each with the generations that are admitted.

    The operator may ask the server who is connected, and nothing else.

    Examples
    --------
    >>> print(accounts("demo", {"coordinator": [1], "shop-1": [2]}))  # doctest: +ELLIPSIS
    # Written by fedglb: `fedglb federation add`, `revoke` and `renew` change it.
    accounts {
      $SYS {
        users: [
          {user: "fedglb://demo/.operator/1", permissions: {publish: [...
        ]
      }
      FED {
        users: [
          {user: "fedglb://demo/coordinator/1", permissions: {publish: ["fed.demo.down.*"], \
subscribe: ["fed.demo.up.*"]}}
        ]
        ...
      CLIENTS {
        users: [
          {user: "fedglb://demo/shop-1/2", permissions: {publish: ["fed.demo.up.shop-1"], \
subscribe: ["fed.demo.down.shop-1"]}}
        ]
    ...
    """
    every_up, every_down = _quoted(up(federation, "*")), _quoted(down(federation, "*"))
    heads = [
        _user(identity(federation, COORDINATOR, each), [down(federation, "*")], up(federation, "*"))
        for each in admitted.get(COORDINATOR, ())
    ]
    members = [
        _user(identity(federation, name, each), [up(federation, name)], down(federation, name))
        for name, generations in sorted(admitted.items())
        for each in generations
        if name != COORDINATOR
    ]
    questions = [QUESTION.format(kind) for kind in ("CONNZ", "VARZ")]
    asks = _user(identity(federation, OPERATOR, 1), questions, f"{INBOX}.>")
    return f"""\
# Written by fedglb: `fedglb federation add`, `revoke` and `renew` change it.
accounts {{
  $SYS {{
    users: [
{asks}
    ]
  }}
  FED {{
    users: [
{_lines(heads)}
    ]
    exports: [{{stream: {every_down}}}]
    imports: [{{stream: {{account: CLIENTS, subject: {every_up}}}}}]
  }}
  CLIENTS {{
    users: [
{_lines(members)}
    ]
    exports: [{{stream: {every_up}}}]
    imports: [{{stream: {{account: FED, subject: {every_down}}}}}]
  }}
}}
"""


def _lines(users: Sequence[str]) -> str:
    return "\n".join(users)


def _user(user: str, publish: Sequence[str], subscribe: str) -> str:
    subjects = ", ".join(_quoted(subject) for subject in publish)
    rights = f"{{publish: [{subjects}], subscribe: [{_quoted(subscribe)}]}}"
    return f"      {{user: {_quoted(user)}, permissions: {rights}}}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
