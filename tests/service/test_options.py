"""Options of `fedglb agent serve` that are refused, before there is a file."""

from __future__ import annotations

from click.testing import CliRunner
from typer.main import get_command

import fedglb as fg
from fedglb.cli import app

ALONE = ["--dim", "2"]
REFUSED = [
    ("--dim", []),
    ("--dim", ["--dim", "0"]),
    ("--http", [*ALONE, "--http", "8731"]),
    ("--http", [*ALONE, "--http", "example.org:80"]),
    ("--http", [*ALONE, "--http", "127.0.0.1:99999"]),
    ("--http", [*ALONE, "--http", "[::]:8731"]),
    ("--max-arms", [*ALONE, "--max-arms", "0"]),
    ("--link", [*ALONE, "--link", "cubic"]),
    ("--tls-key", [*ALONE, "--tls-cert", "missing.pem"]),
    ("--tls-cert", [*ALONE, "--tls-cert", "no.pem", "--tls-key", "no.pem"]),
    ("--token-file", [*ALONE, "--token-file", "missing"]),
    ("--socket-mode", [*ALONE, "--socket", "s", "--socket-mode", "777"]),
    ("--durable", [*ALONE, "--durable", "never"]),
    ("--shutdown-timeout", [*ALONE, "--shutdown-timeout", "0"]),
    ("--bundle", ["--bundle", "nothing"]),
    ("--dim", ["--bundle", "nothing", *ALONE]),
]


def test_options_that_are_not_allowed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command, runner = get_command(app), CliRunner()
    for said, options in REFUSED:
        found = runner.invoke(command, ["agent", "serve", "a.db", *options])
        assert isinstance(found.exception, fg.InvalidInput), (options, found.output)
        assert found.exception.argument == said, options
        assert list(tmp_path.iterdir()) == [], options


def test_the_help_has_an_example_and_every_limit():
    found = CliRunner().invoke(
        get_command(app), ["agent", "serve", "--help"], env={"COLUMNS": "200"}
    )
    assert found.exit_code == 0
    assert "Example: fedglb agent serve" in found.output
    for name in ("--max-body", "--max-arms", "--max-batch", "--max-concurrent", "--json"):
        assert name in found.output
