"""`fedglb reproduce` and `fedglb report`, as a user calls them."""

from __future__ import annotations

import json
import re

import pytest

from tests.cli.in_process import fedglb

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


@pytest.fixture
def mine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(TOML)
    return tmp_path


def test_it_ends_with_the_headline_and_the_report(mine):
    result = fedglb("reproduce", "mine.toml", "--jobs", "1")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.strip().splitlines()
    assert lines[-1] == "The report: results/mine-quick/report.html"
    assert "FedGLB-UCB" in lines[-2]
    assert (mine / "results/mine-quick/report.html").exists()
    for name in ("tradeoff.png", "tradeoff.svg", "over-time.png", "over-time.svg"):
        assert (mine / "results/mine-quick/figures" / name).stat().st_size > 1000


@pytest.mark.slow
def test_full_is_the_file_itself(mine):
    result = fedglb("reproduce", "mine.toml", "--full", "--jobs", "1", "--out", "here", "--json")
    answer = json.loads(result.stdout)
    assert answer["report"] == "here/report.html"
    assert answer["tables"] == ["here/table.md", "here/table.tex"]
    assert answer["headline"].startswith("2 seeds, too few to judge: FedGLB-UCB")
    again = json.loads(fedglb("report", "here", "--json").stdout)
    assert again == answer
    elsewhere = json.loads(fedglb("report", "here", "--out", "there", "--json").stdout)
    assert elsewhere["report"] == "there/report.html"
    assert (mine / "there/report.html").read_bytes() == (mine / "here/report.html").read_bytes()


def test_a_dry_run_says_what_it_would_take(mine):
    lines = fedglb(
        "reproduce", "mine.toml", "--full", "--dry-run", "--jobs", "2"
    ).stdout.splitlines()
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
    assert lines[3] == "about 5 MB in results/mine-full"
    assert not (mine / "results").exists()
    made = json.loads(fedglb("reproduce", "mine.toml", "--dry-run", "--json").stdout)
    assert (made["profile"], made["runs"], made["interactions"]) == ("quick", 6, 20)
    assert made["folder"] == "results/mine-quick"


def test_show_prints_the_file():
    assert 'name = "synthetic"' in fedglb("reproduce", "synthetic", "--show").stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["reproduce", "synthetik"], "NAME = 'synthetik'"),
        (["reproduce", "synthetik"], "did you mean synthetic"),
        (["reproduce", "nothing.toml"], "no such file"),
        (["reproduce", "mine.toml", "--profile", "slow"], "--profile = 'slow'"),
        (
            ["reproduce", "mine.toml", "--full", "--profile", "quick"],
            "--full and --profile exclude each other",
        ),
        (["report", "nothing"], "DIR = 'nothing'"),
        (["reproduce", "mine.toml", "--out", "mine.toml"], "--out = 'mine.toml'"),
    ],
)
def test_mistakes_are_one_clear_error(mine, arguments, said):
    out = fedglb(*arguments)
    assert (out.returncode, out.stdout) == (2, "")
    assert said in out.stderr
