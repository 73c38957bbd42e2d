"""`fedglb run`: one algorithm on one environment."""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
from collections.abc import Collection
from typing import Annotated, Any, cast, get_args

import typer
from rich.console import Console
from rich.table import Table

from fedglb.algorithms import ALGORITHMS, Algorithm
from fedglb.algorithms.catalog import (
    EPSILON,
    RADII,
    SOLVERS,
    all_parameters,
    build,
    parameters,
    solver_options,
    solver_table,
)
from fedglb.cli.progress import progress
from fedglb.cli.report_errors import as_options
from fedglb.environments import Synthetic
from fedglb.errors import InvalidInput, Place, integer, one_of
from fedglb.links import LINKS
from fedglb.parts.trigger import Clock
from fedglb.privacy import NoisePlace, PrivacyStatement
from fedglb.privacy.sensitivity import Neighbours
from fedglb.problem import Problem
from fedglb.simulation import ENGINES, EngineName, Run, simulate

_OF_SOLVER = tuple(dict.fromkeys(key for name in SOLVERS for key in solver_options(name)))
_NAMES = ("message", "direction")  # columns of the ledger that hold text
_ALGORITHM, _SOLVER, _PROBLEM = "Algorithm", "Solver of global updates", "Problem and environment"
_PRIVACY = "Privacy"
#: Options of the privacy, and what they are called in `GaussianMechanism`.
_OF_PRIVACY = {
    "privacy_delta": "delta", "noise_in": "noise", "neighbours": "neighbours",
    "contributions": "contributions", "reward_limit": "reward_limit",
}  # fmt: skip


def _option(text: str, panel: str, default: str | None = None) -> Any:
    shown = True if default is None else default
    return typer.Option(help=text, rich_help_panel=panel, show_default=shown)


def run(
    ctx: typer.Context,
    algorithm: Annotated[str, typer.Argument(help=f"One of {', '.join(ALGORITHMS)}.")],
    threshold: Annotated[
        float,
        _option("D of the event trigger; inf: no updates.", _ALGORITHM, "10; fedglb-auto: 0.1"),
    ] = 10.0,
    download: Annotated[
        float | None,
        _option("async-linucb: C of the download event; inf: none.", _ALGORITHM, "the threshold"),
    ] = None,
    clock: Annotated[
        str,
        _option(
            f"What the event trigger counts: {', '.join(get_args(Clock))}.",
            _ALGORITHM,
            "steps; fedglb-auto: own samples",
        ),
    ] = "steps",
    choice: Annotated[
        str,
        _option(
            "fedglb-mix, -auto, -private: which arm is played: ucb, greedy, sigma:2, bayes, "
            "thompson, epsilon-greedy:0.1.",
            _ALGORITHM,
            "ucb; fedglb-auto, -private: bayes",
        ),
    ] = "ucb",
    updates: Annotated[
        int, _option("B, the scheduled updates of a variant or of fedglb-private.", _ALGORITHM)
    ] = 20,
    exploration: Annotated[
        float, _option("Multiplies the lemma's radius; 1 is the proven one.", _ALGORITHM)
    ] = 1.0,
    ridge: Annotated[
        float, _option("λ.", _ALGORITHM, "1; fedglb-auto: chosen from the data")
    ] = 1.0,
    delta: Annotated[float, _option("δ, the failure probability.", _ALGORITHM)] = 0.01,
    confidence: Annotated[str, _option(f"The radius: {', '.join(RADII)}.", _ALGORITHM)] = "lemma",
    alpha: Annotated[
        float | None, _option("The constant radius of --confidence fixed.", _ALGORITHM)
    ] = None,
    first: Annotated[
        float | None,
        _option("fedglb-private: the step of the first update.", _ALGORITHM, "as the noise asks"),
    ] = None,
    growth: Annotated[
        float | None,
        _option("fedglb-private: how much later the next is.", _ALGORITHM, "to fill the horizon"),
    ] = None,
    epsilon: Annotated[
        float | None, _option("fedglb-private: ε of differential privacy.", _PRIVACY, "no privacy")
    ] = None,
    privacy_delta: Annotated[
        float, _option("δ of the privacy (--delta is the sets').", _PRIVACY)
    ] = 1e-6,
    noise_in: Annotated[
        str, _option(f"Where noise is added: {', '.join(get_args(NoisePlace))}.", _PRIVACY)
    ] = "sums",
    neighbours: Annotated[
        str, _option(f"What is to look alike: {', '.join(get_args(Neighbours))}.", _PRIVACY)
    ] = "zero-out",
    contributions: Annotated[
        int, _option("Interactions of one user that are protected together.", _PRIVACY)
    ] = 1,
    reward_limit: Annotated[
        float | None, _option("Rewards are clipped to ± this.", _PRIVACY, "the link's bounds")
    ] = None,
    batch_limit: Annotated[
        int | None, _option("Variant 3: most samples in an update.", _ALGORITHM, "N⌊T/B⌋")
    ] = None,
    solver: Annotated[
        str,
        _option(f"{', '.join(SOLVERS)}.", _SOLVER, "agd; fedglb-mix, fedglb-auto: one-exchange"),
    ] = "agd",
    tolerance: Annotated[
        float | None, _option("ε with F − min F ≤ ε, of exact fits too.", _SOLVER, "1/n²")
    ] = None,
    stop: Annotated[
        str, _option("certificate, fixed, or (agd) bound, the paper's J_t.", _SOLVER)
    ] = "certificate",
    rounds: Annotated[int | None, _option("J, with --stop fixed.", _SOLVER)] = None,
    memory: Annotated[int, _option("Curvature pairs of lbfgs.", _SOLVER)] = 10,
    slack: Annotated[
        float | None,
        _option(
            "one-exchange: what an unevaluated residual may cost.", _SOLVER, "0.2; fedglb-auto: inf"
        ),
    ] = None,
    within: Annotated[
        str, _option("one-exchange: radius (on the ball) or deviation.", _SOLVER)
    ] = "radius",
    link: Annotated[str, _option(f"{', '.join(LINKS)}.", _PROBLEM)] = "logistic",
    dim: Annotated[int, _option("d, features of an arm.", _PROBLEM)] = 10,
    radius: Annotated[float, _option("S, the bound on ‖θ*‖.", _PROBLEM)] = 1.0,
    noise: Annotated[
        float | None, _option("R.", _PROBLEM, "the link's own; poisson has none")
    ] = None,
    curvature: Annotated[
        float | None, _option("c_μ.", _PROBLEM, "the link's infimum on the ball")
    ] = None,
    clients: Annotated[int, _option("N.", _PROBLEM)] = 20,
    arms: Annotated[int, _option("K, arms offered in each step.", _PROBLEM)] = 25,
    horizon: Annotated[int, _option("T, steps.", _PROBLEM)] = 500,
    seed: Annotated[int, _option("Seeds parameter, arms and noise.", _PROBLEM)] = 0,
    engine: Annotated[str, typer.Option(help=f"{', '.join(ENGINES)}.")] = "compiled",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as JSON, for scripts.")
    ] = False,
) -> None:
    """Run one algorithm on the paper's synthetic problem and print what it cost.

    Example: fedglb run fedglb-ucb --threshold 10 --solver newton --exploration 0.1 --seed 1
    """
    one_of("ALGORITHM", algorithm, ALGORITHMS)
    values = dict(ctx.params)
    given = {
        name
        for name in values
        if getattr(ctx.get_parameter_source(name), "name", "") not in ("DEFAULT", "DEFAULT_MAP")
    }
    one_of("--link", link, LINKS)
    one_of("--engine", engine, ENGINES)
    with as_options(_options(values)):
        built = _algorithm(algorithm, values, given)
        problem = Problem(dim, LINKS[link](), radius, noise, curvature)
        env = Synthetic(problem, clients, arms)
        integer("horizon", horizon)
        name = cast("EngineName", engine)  # checked above
        with progress(built.name, horizon) as advance:
            result = simulate(built, env, horizon, seed, name, progress=advance)
    if as_json:
        typer.echo(json.dumps(_plain(result), ensure_ascii=False, allow_nan=False))
    else:
        _show(result)


def _algorithm(name: str, values: dict[str, Any], given: set[str]) -> Algorithm:
    """Build the preset from the options it takes; refuse those it does not."""
    defaults = parameters(name)
    takes = set(defaults)
    # what is not given is the preset's own default, where it has one
    asked = {key for key in takes if key in given or defaults[key] is inspect.Parameter.empty}
    chosen = {key: values[key] for key in asked - {"solver", "confidence"}}
    one_of("--solver", values["solver"], SOLVERS)
    if "solver" in takes:
        options = {key: values[key] for key in _OF_SOLVER if key in given}
        table = {"name": values["solver"]}
        if "solver" not in given:  # the preset's own
            table = solver_table(build(name, chosen).solver)
        _refuse(options, solver_options(table["name"]), f"the solver {table['name']}")
        chosen["solver"] = {**table, **options}
        takes |= set(_OF_SOLVER)
    known = (set(all_parameters()) | set(_OF_SOLVER)) - {EPSILON, "privacy"}
    _refuse({key: values[key] for key in known & given}, takes, name)
    if "confidence" in takes:
        chosen["confidence"] = _radius(values, given)
    private = _privacy(values, given)
    if private is not None:
        if "privacy" not in takes:
            raise InvalidInput("--epsilon", values["epsilon"], "it only with fedglb-private")
        chosen["privacy"] = private
    return build(name, chosen)


def _privacy(values: dict[str, Any], given: set[str]) -> dict[str, Any] | None:
    """Return the privacy as an experiment's file writes it; None: there is none."""
    if values["epsilon"] is None:
        for key in sorted(given & set(_OF_PRIVACY)):
            option = f"--{_dashed(key)}"
            raise InvalidInput(option, values[key], f"{option} only with --epsilon")
        return None
    said = {name: values[key] for key, name in _OF_PRIVACY.items()}
    return {"epsilon": values["epsilon"], **said}


def _options(values: Collection[str]) -> dict[Place, str]:
    """Return the option for each argument of a problem, an environment or an algorithm."""
    return {
        **{(key,): f"--{_dashed(key)}" for key in values},
        **{("solver", key): f"--{_dashed(key)}" for key in _OF_SOLVER},
        ("confidence", "fixed"): "--alpha",
        ("privacy",): "--epsilon",
        ("privacy", "epsilon"): "--epsilon",
        **{("privacy", name): f"--{_dashed(key)}" for key, name in _OF_PRIVACY.items()},
    }


def _refuse(given: dict[str, Any], takes: Collection[str], whose: str) -> None:
    for key in sorted(set(given) - set(takes)):
        allowed = ", ".join(f"--{_dashed(k)}" for k in sorted(takes))
        raise InvalidInput(
            f"--{_dashed(key)}", given[key], f"options that {whose} takes: {allowed}"
        )


def _radius(values: dict[str, Any], given: set[str]) -> str | dict[str, float]:
    """Return the confidence radius as an experiment's file writes it."""
    kind = one_of("--confidence", values["confidence"], RADII)
    if kind == "fixed":
        if values["alpha"] is None:
            raise InvalidInput("--alpha", None, "the radius, e.g. --alpha 0.3")
        return {"fixed": values["alpha"]}
    if "alpha" in given:
        raise InvalidInput("--alpha", values["alpha"], "--alpha only with --confidence fixed")
    return kind


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _plain(result: Run) -> dict[str, Any]:
    """Return the summary, the ledger and the updates for JSON; infinity and nan become null."""

    def finite(value: Any) -> Any:
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return {
        **{key: finite(value) for key, value in result.summary().items()},
        "theta": None if result.theta is None else result.theta.tolist(),
        "privacy": None if result.privacy is None else _statement(result.privacy),
        "ledger": result.ledger.to_dicts(),
        "updates": [
            {key: finite(value) for key, value in row.items()} for row in result.updates.to_dicts()
        ],
    }


def _statement(said: PrivacyStatement) -> dict[str, Any]:
    """Return what is private about a run, without the plan of its noise."""
    facts = {field.name: getattr(said, field.name) for field in dataclasses.fields(said)}
    return {**{k: v for k, v in facts.items() if k != "plan"}, "spent": said.spent()}


def _show(result: Run) -> None:
    p = result.parameters
    console = Console(markup=False, emoji=False)
    title = (
        f"{p['algorithm']} on {p['environment']}, {p['link']} link: "
        f"N={p['clients']} T={p['horizon']} K={p['arms']} d={p['dim']} seed={p['seed']}"
    )
    console.print(title)
    table = Table(show_header=False)
    interactions = int((result.choices >= 0).sum())
    rows = [
        ("regret", f"{result.regret:,.2f}"),
        ("reward", f"{result.reward:,.2f}"),
        ("interactions", f"{interactions:,}"),
        ("global updates", f"{result.syncs:,}"),
        ("rounds", f"{result.rounds:,}"),
        ("transfers", f"{result.transfers:,}"),
        ("scalars", f"{result.scalars:,}"),
        ("exploration", f"{p['exploration']:g}"),
        ("radius", p["confidence"]),
        ("choice", p["choice"]),
    ]
    for name, value in rows:
        table.add_row(name, value)
    console.print(table)
    if not result.ledger.is_empty():
        ledger = Table()
        for column in result.ledger.columns:
            ledger.add_column(column, justify="left" if column in _NAMES else "right")
        for row in result.ledger.rows():
            ledger.add_row(*(v if isinstance(v, str) else f"{v:,}" for v in row))
        console.print(ledger)
    if result.privacy is not None:
        console.print(str(result.privacy))
    for caveat in result.caveats:
        console.print(f"note: {caveat}", style="dim")
