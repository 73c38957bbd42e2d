"""`fedglb sweep` as a user meets it."""

from __future__ import annotations

import json
import threading

import pytest

import fedglb as fg
from fedglb.cli import sweep_view
from fedglb.studies import Finished, SweepStatus
from tests.cli.in_process import fedglb
from tests.studies.tiny import tables, toml


def test_the_table_and_where_the_files_are(tmp_path):
    folder = tmp_path / "a [" / "red] [bold] :smile: b"  # nothing that rich should act on
    out = fedglb("sweep", toml(tmp_path), "--out", str(folder), "--jobs", "1", "--seeds", "2")
    assert out.returncode == 0, out.stderr
    for part in ("N-ONS-GLM", "FedGLB-UCB D=0.1 newton", "2 seeds", "6 runs", str(folder)):
        assert part in out.stdout
    assert fg.load_sweep(folder).manifest["seeds"] == [1, 2]


def test_json_is_the_result(tmp_path):
    folder = tmp_path / "out"
    out = fedglb(
        "sweep", toml(tmp_path), "--out", str(folder), "--jobs", "1", "--seeds", "3,7", "--json"
    )
    answer = json.loads(out.stdout)
    result = fg.sweep(tables(seeds=[3, 7]), tmp_path / "again", jobs=1)
    assert answer["seeds"] == [3, 7]
    assert len(answer["configurations"]) == 3
    for row in answer["configurations"]:
        own = result.runs.filter(label=row["label"])
        assert row["regret"] == pytest.approx(own["regret"].mean(), rel=1e-12)
        assert (row["standard_error"], row["median"], row["stuck"]) == (None, None, None)
        assert row["transfers"] == own["transfers"].mean()
    regrets = [row["regret"] for row in answer["configurations"]]
    assert regrets == sorted(regrets)


def test_from_five_seeds_on_there_are_error_median_and_stuck_runs(tmp_path):
    made = ["sweep", toml(tmp_path), "--out", str(tmp_path / "out"), "--jobs", "1", "--seeds", "5"]
    rows = json.loads(fedglb(*made, "--json").stdout)["configurations"]
    runs = fg.load_sweep(tmp_path / "out").runs
    for row in rows:
        own = runs.filter(label=row["label"])["regret"]
        assert row["standard_error"] == pytest.approx(own.std() / 5**0.5, rel=1e-12)
        assert row["median"] == own.median()
        assert row["stuck"] == (own > 3 * own.median()).sum()
    out = fedglb(*made)  # reads what is there
    for part in ("± s.e.", "median", "stuck", "more than 3 times the median"):
        assert part in out.stdout


def test_a_dry_run_lists_and_runs_nothing(tmp_path):
    out = fedglb("sweep", toml(tmp_path), "--out", str(tmp_path / "out"), "--dry-run")
    assert out.returncode == 0
    assert "FedGLB-UCB D=1 newton\n" in out.stdout
    assert "3 configurations × 4 seeds = 12 runs of 24 interactions, 288 in all" in out.stdout
    assert "0 of 12 runs are kept, 12 to run" in out.stdout
    assert not (tmp_path / "out").exists()


def test_a_folder_that_grows_says_what_it_keeps(tmp_path):
    sweep = ["sweep", toml(tmp_path), "--out", str(tmp_path / "out"), "--jobs", "1", "--seeds"]
    assert json.loads(fedglb(*sweep, "2", "--json").stdout)["kept"] == 0
    before = {p: p.read_bytes() for p in (tmp_path / "out").rglob("*") if p.is_file()}
    dry = fedglb(*sweep, "5", "--dry-run")
    assert "6 of 15 runs are kept, 9 to run" in dry.stdout
    answer = json.loads(fedglb(*sweep, "5", "--dry-run", "--json").stdout)
    assert (answer["runs"], answer["kept"]) == (15, 6)
    toml(tmp_path, horizon=13)
    refused = fedglb(*sweep, "5", "--dry-run")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--out" in refused.stderr
    assert "with other horizon" in refused.stderr
    assert {p: p.read_bytes() for p in (tmp_path / "out").rglob("*") if p.is_file()} == before
    toml(tmp_path)
    out = fedglb(*sweep, "5")
    assert "tiny: 6 of 15 runs are kept, 9 to run" in out.stderr
    assert "15 runs" in out.stdout
    for seeds, runs in (("5", 15), ("3", 9)):  # complete; and less
        answer = json.loads(fedglb(*sweep, seeds, "--json").stdout)
        assert (answer["runs"], answer["kept"]) == (runs, runs)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["missing.toml"], "missing.toml"),
        (["FILE", "--seeds", "many"], "--seeds = 'many'"),
        (["FILE", "--seeds", "0"], "fedglb: --seeds = 0"),
        (["FILE", "--seeds", "3,-1"], "fedglb: --seeds[1] = -1"),
        (["FILE", "--jobs", "0"], "--jobs = 0"),
        (["FILE", "--out", "FILE"], "--out"),
        (["FILE", "--cluster", "nonsense"], "--cluster = 'nonsense'"),
        (["FILE", "--cluster", ""], "--cluster = ''"),
        ([], "FILE"),
    ],
)
def test_mistakes_are_one_clear_error(tmp_path, arguments, said):
    file = toml(tmp_path)
    arguments = [file if a == "FILE" else a for a in arguments]
    defaults = [] if "--out" in arguments else ["--out", str(tmp_path / "out")]
    out = fedglb("sweep", *arguments, *defaults)
    assert out.returncode == 2, out.stderr
    assert said in out.stderr
    assert out.stdout == ""
    assert "Traceback" not in out.stderr
    assert not (tmp_path / "out").exists()


def status(count):
    done = tuple(Finished(f"c{i}", 1, 100.0 - i, 10 * i, 0) for i in range(count))
    return SweepStatus(runs=20, finished=done, interactions=1000, left=3000, seconds=2.0)


def test_without_a_terminal_there_is_a_line_every_30_seconds(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(sweep_view.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(sweep_view, "announce_compilation", lambda in_workers: None)
    with sweep_view.view() as tell:
        for second in range(100):
            now[0] = float(second)
            tell("[/red]", status(2))
    lines = capsys.readouterr().err.splitlines()
    assert (
        lines
        == [
            "[/red]: 2/20 runs (25 %), 2 s so far, 6 s left, 500 interactions/s; "
            "least regret: c1 99.0"
        ]
        * 3
    )


def test_what_has_no_status_says_that_it_goes_on(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(sweep_view.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(sweep_view, "announce_compilation", lambda in_workers: None)
    monkeypatch.setattr(sweep_view, "_LOOK_EVERY", 0.001)
    heard = threading.Event()
    shown = sweep_view._Lines._print

    def hear(lines, text):
        shown(lines, text)
        if "running" in text:
            heard.set()

    monkeypatch.setattr(sweep_view._Lines, "_print", hear)
    with sweep_view.view() as tell:
        tell("search", None)
        now[0] = 120.0
        assert heard.wait(600)
    assert capsys.readouterr().err.splitlines() == ["search", "search: running for 2 min"]


def test_the_live_view_shows_what_was_asked_for():
    from rich.console import Console

    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(sweep_view.drawing("tiny", status(12)))
    text = console.export_text()
    console.file.close()
    for part in ("12/20 runs", "500 interactions/s", "6 s left", "best trade-offs", "c0", "c11"):
        assert part in text
    assert text.count("c") < 40  # a few, not all


def test_nothing_is_known_before_the_first_interaction():
    assert "unknown time left" in sweep_view.in_a_line(SweepStatus(3, (), 0, 100, 0.0))
