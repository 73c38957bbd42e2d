"""`fedglb reproduce` and `fedglb report`, as a user calls them."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

from fedglb.cli import app
from fedglb.errors import InvalidInput

RUNNER = CliRunner()
TOML = """\
name = "mine"
horizon = 20
seeds = 2
[problem]
dim = 3
[environment]
clients = 2
arms = 4
[defaults]
solver = "newton"
[[algorithm]]
name = "fedglb-ucb"
threshold = [0.1, 1.0]
[[algorithm]]
name = "one-ucb-glm"
[search]
seeds = [101]
exploration = [0.1, 1.0]
[[search.algorithm]]
name = "fedglb-ucb"
threshold = 1.0
[profile.quick]
horizon = 10
"""


def call(*arguments):
    result = RUNNER.invoke(app, list(arguments), catch_exceptions=True)
    if isinstance(result.exception, InvalidInput):
        raise result.exception
    return result


@pytest.fixture
def mine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(TOML)
    return tmp_path


def test_it_ends_with_the_headline_and_the_report(mine):
    result = call("reproduce", "mine.toml", "--jobs", "1")
    assert result.exit_code == 0, result.output
    lines = result.stdout.strip().splitlines()
    assert lines[-1] == "The report: results/mine-quick/report.html"
    assert "FedGLB-UCB" in lines[-2]
    assert (mine / "results/mine-quick/report.html").exists()
    for name in ("tradeoff.png", "tradeoff.svg", "over-time.png", "over-time.svg"):
        assert (mine / "results/mine-quick/figures" / name).stat().st_size > 1000


@pytest.mark.slow
def test_full_is_the_file_itself(mine):
    result = call("reproduce", "mine.toml", "--full", "--jobs", "1", "--out", "here", "--json")
    answer = json.loads(result.stdout)
    assert answer["report"] == "here/report.html"
    assert answer["headline"].startswith("2 seeds, too few to judge: FedGLB-UCB")
    again = json.loads(call("report", "here", "--json").stdout)
    assert again == answer
    elsewhere = json.loads(call("report", "here", "--out", "there", "--json").stdout)
    assert elsewhere["report"] == "there/report.html"
    assert (mine / "there/report.html").read_bytes() == (mine / "here/report.html").read_bytes()


def test_a_dry_run_says_what_it_would_take(mine):
    lines = call("reproduce", "mine.toml", "--full", "--dry-run", "--jobs", "2").stdout.splitlines()
    assert lines[0] == (
        "mine, profile full: 3 configurations × 2 seeds = 6 runs of 40 interactions"
    )
    assert lines[1] == (
        "search for parameters: at most 2 runs of 40; those that cannot win are stopped"
    )
    assert re.fullmatch(
        r"about \S+ (s|min|h) of runs with 2 worker processes, as measured: "
        r"3 runs of \d+ steps took .* s",
        lines[2],
    )
    assert lines[3] == "about 3 MB in results/mine-full"
    assert not (mine / "results").exists()
    made = json.loads(call("reproduce", "mine.toml", "--dry-run", "--json").stdout)
    assert (made["profile"], made["runs"], made["interactions"]) == ("quick", 6, 20)
    assert made["folder"] == "results/mine-quick"


def test_show_prints_the_file():
    assert 'name = "synthetic"' in call("reproduce", "synthetic", "--show").stdout


def test_what_is_not_there_is_refused(mine):
    with pytest.raises(InvalidInput, match=r"NAME = 'synthetik' .* did you mean synthetic"):
        call("reproduce", "synthetik")
    with pytest.raises(InvalidInput, match=r"nothing.toml.*no such file"):
        call("reproduce", "nothing.toml")
    with pytest.raises(InvalidInput, match=r"--profile = 'slow'"):
        call("reproduce", "mine.toml", "--profile", "slow")
    with pytest.raises(InvalidInput, match=r"either --full or --profile"):
        call("reproduce", "mine.toml", "--full", "--profile", "quick")
    with pytest.raises(InvalidInput, match=r"DIR = 'nothing'"):
        call("report", "nothing")
    with pytest.raises(InvalidInput, match=r"--out = 'mine.toml' .*this is a file"):
        call("reproduce", "mine.toml", "--out", "mine.toml")
