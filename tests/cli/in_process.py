"""The command line in this process: another one takes a second to import everything."""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from unittest.mock import patch

from fedglb.cli import main
from fedglb.kernels.cache import counts


def fedglb(*arguments: str | float | Path) -> subprocess.CompletedProcess[str]:
    """Call `fedglb` with these arguments; return its exit code and what it printed."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        redirect_stdout(out),
        redirect_stderr(err),
        patch.object(sys, "argv", ["fedglb", *map(str, arguments)]),
        patch.object(sys, "path", [*sys.path]),
        patch.object(counts, "tell", lambda: None),  # another test may have compiled all, or none
    ):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


agent, federation = partial(fedglb, "agent"), partial(fedglb, "federation")
