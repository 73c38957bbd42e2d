"""`fedglb federation`: the operator's commands, one file each.

What speaks NATS is imported when a command runs: the rest of the command line works without.
"""

from __future__ import annotations

import typer

from fedglb.cli.federation.add import add
from fedglb.cli.federation.coordinator import coordinator
from fedglb.cli.federation.demo import demo
from fedglb.cli.federation.init import init
from fedglb.cli.federation.revoke import revoke

app = typer.Typer(no_args_is_help=True, help="Make and run a federation; let clients in and out.")
app.command("init")(init)
app.command("add")(add)
app.command("revoke")(revoke)
app.command("coordinator")(coordinator)
app.command("demo")(demo)
