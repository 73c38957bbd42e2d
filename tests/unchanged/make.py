"""Write down what must stay the same, or compare: `python -m tests.unchanged.make [--check]`.

`names.json`: public names, options of commands, what users read in results. `runs.json`: per case,
digests of what it gives: `discrete` without floats (choices, updates, counts), `bits` with them,
`clients` the states of the clients.

The last bits of floats differ between processors (OpenBLAS has code for each) and versions of
NumPy, SciPy and numba: before a change that must change nothing, write the files anew on the
machine that is to compare.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import typer

import fedglb as fg
from fedglb.cli import app
from tests.unchanged import federation_of_five, runs

HERE = Path(__file__).parent
NAMES, RUNS = HERE / "names.json", HERE / "runs.json"


def options() -> dict[str, list[str]]:
    """Return the options of every command."""
    return dict(sorted(_walk(typer.main.get_command(app), "fedglb")))


def _walk(command: click.Command, name: str) -> Iterator[tuple[str, list[str]]]:
    given = [p for p in command.params if p.param_type_name == "option"]
    yield name, sorted(text for p in given for text in (*p.opts, *p.secondary_opts))
    for key, below in getattr(command, "commands", {}).items():
        yield from _walk(below, f"{name} {key}")


def computed(columns: Sequence[str] | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the two files say if they are made now; `columns` of a sweep's runs, or all."""
    digests, kinds, summary = {}, set(), set()
    for name, case in (runs.cases() | runs.delicate_cases()).items():
        for engine in runs.ENGINES:
            run, clients = case.run(engine)
            digests[f"{name}, {engine}"] = runs.digests(run, clients)
            kinds |= runs.kinds(run)
            summary |= set(run.summary())
    with tempfile.TemporaryDirectory() as folder:
        result = runs.swept(Path(folder) / "sweep")
        digests["a sweep's two tables"] = runs.sweep_digests(result, columns or result.runs.columns)
        digests["a federation of five"] = federation_of_five.digests(Path(folder) / "federation")
    said = {
        "import fedglb as fg": sorted(fg.__all__),
        **options(),
        "keys of a run's summary": sorted(summary),
        "kinds of messages in a ledger": sorted(kinds),
        "columns of a sweep's runs": result.runs.columns,
        "columns of a sweep's traces": result.traces.columns,
    }
    return said, digests


def text(table: dict[str, Any]) -> str:
    """Return JSON with one entry per line."""
    lines = (f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in table.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def read(path: Path) -> dict[str, Any]:
    """Return what a file says."""
    return dict(json.loads(path.read_text()))


def missing(written: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    """Say which names are gone; more of them are welcome."""
    for key, those in written.items():
        gone = [name for name in those if name not in now.get(key, [])]
        if gone or key not in now:
            yield f"{key}: {', '.join(gone) or 'all'} gone"


def differences(written: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    """Say which cases give something else."""
    for key in dict.fromkeys([*written, *now]):
        one, two = written.get(key, {}), now.get(key, {})
        changed = [kind for kind in {**one, **two} if one.get(kind) != two.get(kind)]
        if changed:
            yield f"{key}: {', '.join(changed)}"


def main(arguments: list[str]) -> int:
    """Write the files, or compare with them; 1: something differs."""
    if arguments not in ([], ["--check"]):
        print(f"unknown: {' '.join(arguments)}; give --check or nothing", file=sys.stderr)
        return 2
    # columns that were added since are welcome, as other names are
    said, digests = computed(read(NAMES)["columns of a sweep's runs"] if arguments else None)
    if not arguments:
        NAMES.write_text(text(said))
        RUNS.write_text(text(digests))
        return 0
    found = [*missing(read(NAMES), said), *differences(read(RUNS), digests)]
    print("\n".join([*found, f"{len(digests)} cases and all names: {len(found)} differences"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
