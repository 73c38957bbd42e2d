"""Options of `fedglb agent serve` that are refused, before there is a file."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

import fedglb as fg
from fedglb.cli import app


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "--dim"),
        (["--dim", "0"], "--dim"),
        (["--dim", "2", "--http", "8731"], "--http"),
        (["--dim", "2", "--http", "example.org:80"], "--http"),
        (["--dim", "2", "--http", "127.0.0.1:99999"], "--http"),
        (["--dim", "2", "--http", "[::]:8731"], "--http"),
        (["--dim", "2", "--max-arms", "0"], "--max-arms"),
        (["--dim", "2", "--link", "cubic"], "--link"),
        (["--dim", "2", "--tls-cert", "missing.pem"], "--tls-key"),
        (["--dim", "2", "--tls-cert", "no.pem", "--tls-key", "no.pem"], "--tls-cert"),
        (["--dim", "2", "--token-file", "missing"], "--token-file"),
        (["--dim", "2", "--socket", "s", "--socket-mode", "777"], "--socket-mode"),
        (["--dim", "2", "--durable", "never"], "--durable"),
        (["--dim", "2", "--shutdown-timeout", "0"], "--shutdown-timeout"),
        (["--bundle", "nothing"], "--bundle"),
        (["--bundle", "nothing", "--dim", "2"], "--dim"),
    ],
)
def test_options_that_are_not_allowed(tmp_path, monkeypatch, options, said):
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(app, ["agent", "serve", "a.db", *options])
    assert isinstance(found.exception, fg.InvalidInput), found.output
    assert found.exception.argument == said
    assert list(tmp_path.iterdir()) == []


def test_the_help_has_an_example_and_every_limit():
    found = CliRunner().invoke(app, ["agent", "serve", "--help"], env={"COLUMNS": "200"})
    assert found.exit_code == 0
    assert "Example: fedglb agent serve" in found.output
    for name in ("--max-body", "--max-arms", "--max-batch", "--max-concurrent", "--json"):
        assert name in found.output
