"""`fedglb federation`: the operator's commands.

Modules that need NATS are imported when a command runs: the other commands work without it.
"""

from __future__ import annotations

import typer

from fedglb.cli.federation.coordinator import backup, coordinator
from fedglb.cli.federation.demo import demo
from fedglb.cli.federation.doctor import doctor
from fedglb.cli.federation.freeze import freeze, unfreeze
from fedglb.cli.federation.init import init
from fedglb.cli.federation.members import add, change_features, list_members, renew, revoke
from fedglb.cli.federation.status import privacy, status

app = typer.Typer(no_args_is_help=True, help="Make and run a federation; add and revoke clients.")
app.command("init")(init)
app.command("add")(add)
app.command("revoke")(revoke)
app.command("features")(change_features)
app.command("freeze")(freeze)
app.command("unfreeze")(unfreeze)
app.command("renew")(renew)
app.command("list")(list_members)
app.command("doctor")(doctor)
app.command("coordinator")(coordinator)
app.command("status")(status)
app.command("privacy")(privacy)
app.command("backup")(backup)
app.command("demo")(demo)
