"""`fedglb run`: one algorithm on one environment.

Parameters of the algorithm, its environment and the run are key=value pairs. Values are written as
in an experiment's file; a dot leads into a table: `solver=agd solver.rounds=20`.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import tomllib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer

from fedglb.algorithms import ALGORITHMS, Algorithm
from fedglb.algorithms.catalog import (
    CHOICES,
    MEMORIES,
    RADII,
    SOLVERS,
    all_parameters,
    as_table,
    build,
    parameters,
)
from fedglb.cli.common import Json, console, finite, print_json
from fedglb.cli.progress import progress
from fedglb.errors import InvalidInput, integer, names_near, one_of
from fedglb.links import LINKS
from fedglb.parts.trigger import Clock
from fedglb.privacy import PrivacyStatement
from fedglb.problem_table import ProblemTable

if TYPE_CHECKING:
    from fedglb.simulation import EngineName, Run

#: Keys of the problem, the environment and the run: default and meaning.
_KEYS: dict[str, tuple[Any, str]] = {
    "link": ("logistic", f"The link of the rewards: {', '.join(LINKS)}."),
    "dim": (10, "d, the features of an arm."),
    "radius": (1.0, "S, the bound on ‖θ*‖."),
    "noise": (None, "R; by default the link's own; Poisson has none, and some radii need one."),
    "curvature": (None, "c_μ; by default the link's infimum on the ball."),
    "clients": (20, "N."),
    "arms": (25, "K, the arms per step."),
    "horizon": (500, "T, the steps."),
}
#: Defaults for parameters that are required in Python.
_REQUIRED = {"threshold": 10.0, "updates": 20}
_FLOATS = ("radius", "noise", "curvature")
#: The possible values of keys with named values, for completion.
_VALUES: dict[str, Iterable[str]] = {
    "solver": SOLVERS, "choice": CHOICES, "confidence": RADII, "link": LINKS,
    "clock": get_args(Clock), "memory": MEMORIES,
}  # fmt: skip
_NAMES = ("message", "direction")  # columns of the ledger that hold text


def _complete_name(incomplete: str) -> list[str]:
    return [name for name in ALGORITHMS if name.startswith(incomplete)]


def _complete_pair(ctx: typer.Context, incomplete: str) -> list[str]:
    key, equals, _ = incomplete.partition("=")
    if equals:
        found = [f"{key}={name}" for name in _VALUES.get(key, ())]
    else:
        name = ctx.params.get("algorithm")
        found = [f"{each}=" for each in (*(parameters(name) if name in ALGORITHMS else ()), *_KEYS)]
    return [each for each in found if each.startswith(incomplete)]


def run(
    ctx: typer.Context,
    algorithm: Annotated[
        str | None,
        typer.Argument(
            metavar="ALGORITHM",
            help=f"One of {', '.join(ALGORITHMS)}.",
            autocompletion=_complete_name,
            show_default=False,
        ),
    ] = None,
    pairs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE",
            help="Parameters of the algorithm, the problem and the environment.",
            autocompletion=_complete_pair,
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seeds parameter, arms and noise.")] = 0,
    engine: Annotated[str, typer.Option(help="compiled, reference.")] = "compiled",
    as_json: Json = False,
    show_help: Annotated[
        bool, typer.Option("--help", help="Show this message or, with ALGORITHM, its keys.")
    ] = False,
) -> None:
    """Run one algorithm on the paper's synthetic problem and print regret and communication.

    Example: fedglb run fedglb-ucb threshold=10 solver=newton exploration=0.1 clients=50 --seed 1

    A dot leads into a table: solver=agd solver.stop=fixed solver.rounds=20

    The keys of an algorithm: fedglb run fedglb-auto --help
    """
    if algorithm is None:
        typer.echo(ctx.get_help(), err=not show_help)
        raise typer.Exit(0 if show_help else 2)
    one_of("ALGORITHM", algorithm, ALGORITHMS)
    if show_help:
        _show_keys(algorithm)
        return
    from fedglb.environments import Synthetic
    from fedglb.simulation import ENGINES, simulate

    one_of("--engine", engine, ENGINES)
    given = _tables(pairs or ())
    takes = parameters(algorithm)
    for key, value in given.items():
        if key not in takes and key not in _KEYS:
            raise InvalidInput(key, value, names_near(key, (*takes, *_KEYS)))
    where = {key: given.pop(key, default) for key, (default, _) in _KEYS.items()}
    where |= {key: float(where[key]) for key in _FLOATS if type(where[key]) is int}
    problem = ProblemTable(
        where["dim"], where["link"], where["radius"], where["noise"], where["curvature"]
    ).build()
    integer("horizon", where["horizon"])
    built = _algorithm(algorithm, given)
    env = Synthetic(problem, where["clients"], where["arms"])
    name = cast("EngineName", engine)  # checked above
    with progress(built.name, where["horizon"]) as advance:
        result = simulate(built, env, where["horizon"], seed, name, progress=advance)
    if as_json:
        print_json(_plain(result))
    else:
        _show(result)


def _tables(pairs: Iterable[str]) -> dict[str, Any]:
    """Return key=value pairs as an experiment's file would have them.

    >>> _tables(["threshold=1", "clock=own samples", "solver.rounds=20", "solver=agd"])
    {'threshold': 1, 'clock': 'own samples', 'solver': {'name': 'agd', 'rounds': 20}}
    """
    found: dict[str, Any] = {}
    inside: dict[str, dict[str, Any]] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals:
            raise InvalidInput("KEY=VALUE", pair, "a key, = and its value, e.g. threshold=10")
        outer, _, inner = key.partition(".")
        table = inside.setdefault(outer, {}) if inner else found
        table[inner or outer] = _value(text)
    for outer, table in inside.items():
        value = found.get(outer, {})
        found[outer] = {**(value if isinstance(value, dict) else {"name": value}), **table}
    return found


def _value(text: str) -> Any:
    """Return a number, a table or another value of TOML; else the text as it is."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _algorithm(name: str, given: dict[str, Any]) -> Algorithm:
    """Build the preset; its required parameters have defaults here."""
    for key, default in parameters(name).items():
        if default is inspect.Parameter.empty:
            given.setdefault(key, _REQUIRED[key])
    kinds = all_parameters()
    given = {k: float(v) if kinds[k] is float and type(v) is int else v for k, v in given.items()}
    solver = given.get("solver")
    if isinstance(solver, dict) and "name" not in solver:  # options of the preset's own solver
        own = build(name, {k: v for k, v in given.items() if k != "solver"}).solver
        given["solver"] = {**as_table(own), **solver}
    return build(name, given)


def _show_keys(algorithm: str) -> None:
    """Print a preset's description and its keys with their defaults."""
    from rich.table import Table

    text = inspect.cleandoc(ALGORITHMS[algorithm].__doc__ or "")
    summary = text.partition("\n\nParameters\n")[0].split("\n\n")
    out = console()
    out.print("\n\n".join(" ".join(each.split()) for each in summary), "\n", soft_wrap=False)
    explained = dict(re.findall(r"^(\w+)\n((?:    .+\n)+)", text, flags=re.MULTILINE))
    table = Table("key", "default", "meaning", show_lines=False, box=None)
    for key, default in parameters(algorithm).items():
        shown = _REQUIRED[key] if default is inspect.Parameter.empty else default
        said = " ".join(explained.get(key, "").split())
        table.add_row(key, "" if shown is None else str(shown), said)
    for key, (default, said) in _KEYS.items():
        table.add_row(key, "" if default is None else str(default), said)
    out.print(table, soft_wrap=False)


def _plain(result: Run) -> dict[str, Any]:
    """Return the summary, the ledger and the updates for JSON."""
    return {
        **finite(result.summary()),
        "theta": None if result.theta is None else result.theta.tolist(),
        "privacy": None if result.privacy is None else _statement(result.privacy),
        "ledger": result.ledger.to_dicts(),
        "updates": [finite(row) for row in result.updates.to_dicts()],
    }


def _statement(found: PrivacyStatement) -> dict[str, Any]:
    """Return a run's privacy statement without its noise plan."""
    facts = {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
    return {**{k: v for k, v in facts.items() if k != "plan"}, "spent": found.spent()}


def _show(result: Run) -> None:
    from rich.table import Table

    p, out = result.parameters, console()
    out.print(
        f"{p['algorithm']} on {p['environment']}, {p['link']} link: "
        f"N={p['clients']} T={p['horizon']} K={p['arms']} d={p['dim']} seed={p['seed']}"
    )
    table = Table(show_header=False)
    rows = [
        ("regret", f"{result.regret:,.2f}"),
        ("reward", f"{result.reward:,.2f}"),
        ("interactions", f"{(result.choices >= 0).sum():,}"),
        ("global updates", f"{result.syncs:,}"),
        ("rounds", f"{result.rounds:,}"),
        ("transfers", f"{result.transfers:,}"),
        ("scalars", f"{result.scalars:,}"),
        ("bits", f"{result.bits:,}"),
        ("exploration", f"{p['exploration']:g}"),
        ("radius", p["confidence"]),
        ("choice", p["choice"]),
    ]
    for name, value in rows:
        table.add_row(name, value)
    out.print(table, soft_wrap=False)
    if not result.ledger.is_empty():
        ledger = Table()
        for column in result.ledger.columns:
            ledger.add_column(column, justify="left" if column in _NAMES else "right")
        for row in result.ledger.rows():
            ledger.add_row(*(v if isinstance(v, str) else f"{v:,}" for v in row))
        out.print(ledger, soft_wrap=False)
    if result.privacy is not None:
        out.print(str(result.privacy))
    for caveat in result.caveats:
        out.print(f"note: {caveat}", style="dim")
