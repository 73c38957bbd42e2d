"""A study across values of a parameter of algorithms: a panel, and so a sweep, per problem."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from fedglb.errors import InvalidInput, names_near, under
from fedglb.io.atomic import atomic_write
from fedglb.studies import Experiment, load
from fedglb.studies.report.panels import Panel, Panels
from fedglb.studies.reproduce.plan import Plan, merged

PANELS = "panels.json"


class PanelsFile(msgspec.Struct, frozen=True):
    """`panels.json`: what was run, and the folder of each panel's sweep."""

    name: str
    title: str
    profile: str
    parameter: str
    against: str
    panels: list[str]
    sweeps: list[str]


def each_panel(plan: Plan) -> dict[str, dict[str, Any]]:
    """Return the tables of each panel's sweep by the panel's title; none for another study.

    Parameters
    ----------
    plan
        The study.
    """
    if plan.across is None:
        if plan.panels:
            with under(source=plan.source):
                allowed = "no such tables without [across], which says what is on the axis"
                raise InvalidInput("panel", f"{len(plan.panels)} tables", allowed)
        return {}
    with under(source=plan.source):
        if plan.search is not None:
            allowed = "no such table beside [across]: give the settings to try as lists, and the "
            raise InvalidInput("search", "a table", allowed + "best is shown")
        made: dict[str, dict[str, Any]] = {}
        for i, panel in enumerate(plan.panels or ({"title": plan.title},)):
            title = panel.get("title")
            if not isinstance(title, str) or not title.strip() or title in made:
                raise InvalidInput(("panel", i, "title"), title, "text, another one in each panel")
            changes = {key: value for key, value in panel.items() if key != "title"}
            made[title] = merged(plan.tables, changes)
    return made


def check_panels(plan: Plan, experiments: Sequence[Experiment]) -> None:
    """Refuse a parameter of which no algorithm has two values, and an unknown `against`."""
    assert plan.across is not None
    key = plan.across.parameter
    with under("across", source=plan.source):
        for experiment in experiments:
            made = experiment.configurations
            families = {each.preset: set[object]() for each in made}
            for each in made:
                families[each.preset].add(each.parameters.get(key))
            if not any(len(found - {None}) > 1 for found in families.values()):
                several = {k for m in made for k, v in m.parameters.items() if _is_number(v)}
                known = names_near(key, sorted(several))
                allowed = f"a number that an algorithm of the file has two values of: {known}"
                raise InvalidInput("parameter", key, allowed)
            fixed = [name for name, found in families.items() if found == {None}]
            if plan.across.against not in fixed:
                allowed = f"an algorithm without {key}: {names_near(plan.across.against, fixed)}"
                raise InvalidInput("against", plan.across.against, allowed)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def run_panels(
    plan: Plan, place: Path, run: Callable[[dict[str, Any], str], Path]
) -> Panels:  # fmt: skip
    """Run the sweep of each panel, and write down where they are.

    Parameters
    ----------
    plan
        The study.
    place
        Its folder.
    run
        Runs the tables of a sweep, told what to call it, and returns its folder.
    """
    assert plan.across is not None
    homes = {title: run(tables, title) for title, tables in each_panel(plan).items()}
    about = PanelsFile(
        plan.name, plan.title, plan.profile, plan.across.parameter, plan.across.against,
        list(homes), [home.relative_to(place).as_posix() for home in homes.values()],
    )  # fmt: skip
    content = json.dumps(msgspec.to_builtins(about), indent=1, ensure_ascii=False)
    atomic_write(place / PANELS, content.encode())  # last: it names only what is there
    made = load_panels(place)
    assert made is not None
    return made


def load_panels(folder: Path) -> Panels | None:
    """Read a folder of such a study; None where it is another one."""
    try:
        about = msgspec.json.decode((folder / PANELS).read_bytes(), type=PanelsFile)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except msgspec.DecodeError:
        allowed = f"a whole one: its {PANELS} is damaged; `fedglb reproduce` writes it again"
        raise InvalidInput("folder", str(folder), allowed) from None
    panels = tuple(
        Panel(title, load(folder / sweep))
        for title, sweep in zip(about.panels, about.sweeps, strict=True)
    )
    return Panels(about.name, about.title, about.profile, about.parameter, about.against, panels)
