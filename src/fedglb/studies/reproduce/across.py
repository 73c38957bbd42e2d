"""A study across values of one key of `[environment]`: one sweep per value."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from fedglb.errors import InvalidInput, under
from fedglb.io.atomic import atomic_write
from fedglb.studies import load
from fedglb.studies.report.across import Across, check
from fedglb.studies.reproduce.plan import Plan
from fedglb.studies.spec.document import CHANGES

ACROSS = "across.json"


class AcrossFile(msgspec.Struct, frozen=True):
    """`across.json`: what was run, and the folder of the sweep of each value."""

    name: str
    title: str
    profile: str
    key: str
    values: list[float]
    sweeps: list[str]


def varied(tables: Mapping[str, Any]) -> str | None:
    """Return the key of `[environment]` that has a list of values; None where none has.

    Examples
    --------
    >>> varied({"environment": {"clients": 5, "arms": 4, "delay": [0, 5, 10]}})
    'delay'
    """
    environment = tables.get("environment", {})
    if not isinstance(environment, Mapping):  # an object
        return None
    found = [k for k in CHANGES if isinstance(environment.get(k), list)]
    if len(found) > 1:
        allowed = f"one number: {found[0]} has a list already, and one key is varied at a time"
        raise InvalidInput(("environment", found[1]), tables["environment"][found[1]], allowed)
    return found[0] if found else None


def each_value(plan: Plan, key: str) -> dict[float, dict[str, Any]]:
    """Return the tables of the sweep of each value; or raise.

    Parameters
    ----------
    plan
        The study.
    key
        From `varied`.
    """
    with under("environment", key, source=plan.source):
        values = plan.tables["environment"][key]
        for i, value in enumerate(values):
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise InvalidInput((i,), value, "a number")
        check(values)
    if plan.search is not None:
        allowed = f"no such table beside a list of {key}: give the settings to try as lists, and "
        with under(source=plan.source):
            raise InvalidInput("search", "a table", allowed + "the best at each value is shown")
    return {
        value: {**plan.tables, "environment": {**plan.tables["environment"], key: value}}
        for value in values
    }


def run_across(
    plan: Plan,
    key: str,
    place: Path,
    run: Callable[[dict[str, Any], str], Path],
) -> Across:
    """Run the sweep of each value, and write down where they are.

    Parameters
    ----------
    plan, key
        The study, and what it varies.
    place
        The study's folder.
    run
        Runs the tables of a sweep, told what to call it, and returns its folder.
    """
    homes = {v: run(tables, f"{key} {v:g}") for v, tables in each_value(plan, key).items()}
    about = AcrossFile(
        plan.name, plan.title, plan.profile, key, list(homes),
        [home.relative_to(place).as_posix() for home in homes.values()],
    )  # fmt: skip
    content = json.dumps(msgspec.to_builtins(about), indent=1, ensure_ascii=False)
    atomic_write(place / ACROSS, content.encode())  # last: it names only what is there
    made = load_across(place)
    assert made is not None
    return made


def load_across(folder: Path) -> Across | None:
    """Read a folder of such a study; None where it is another one."""
    try:
        about = msgspec.json.decode((folder / ACROSS).read_bytes(), type=AcrossFile)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except msgspec.DecodeError:
        allowed = f"a whole one: its {ACROSS} is damaged; `fedglb reproduce` writes it again"
        raise InvalidInput("folder", str(folder), allowed) from None
    results = tuple(load(folder / sweep) for sweep in about.sweeps)
    values = tuple(about.values)
    return Across(about.name, about.title, about.profile, about.key, values, results)
