"""`fedglb demo`: all algorithms on one small problem, side by side."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

import fedglb.algorithms as presets
from fedglb.algorithms import Algorithm
from fedglb.cli.progress import progress
from fedglb.environments import Synthetic
from fedglb.errors import integer
from fedglb.global_update import Newton
from fedglb.problem import Problem
from fedglb.simulate import Run, simulate

_EXPLORATION = 0.1


def demo(
    horizon: Annotated[int, typer.Option(help="T, steps.")] = 500,
    clients: Annotated[int, typer.Option(help="N.")] = 20,
    seed: Annotated[int, typer.Option(help="Seeds parameter, arms and noise.")] = 1,
) -> None:
    """Compare all algorithms on one small synthetic problem and print a table.

    Example: fedglb demo --seed 2
    """
    integer("horizon", horizon)
    problem = Problem(dim=10)
    env = Synthetic(problem, clients=clients, arms=25)
    updates = min(20, horizon)
    e = _EXPLORATION
    algorithms: dict[str, Algorithm] = {
        "One-UCB-GLM": presets.one_ucb_glm(e),
        "FedGLB-UCB D=1 Newton": presets.fedglb_ucb(1.0, Newton(), e),
        "FedGLB-UCB D=10 Newton": presets.fedglb_ucb(10.0, Newton(), e),
        "FedGLB-UCB D=10 AGD": presets.fedglb_ucb(10.0, exploration=e),
        f"FedGLB-UCB1 B={updates} Newton": presets.fedglb_ucb_1(updates, Newton(), e),
        f"FedGLB-UCB2 B={updates} Newton": presets.fedglb_ucb_2(updates, Newton(), e),
        f"FedGLB-UCB3 B={updates}": presets.fedglb_ucb_3(updates, e),
        "DisLinUCB D=10": presets.dislinucb(10.0, e),
        "N-UCB-GLM": presets.n_ucb_glm(e),
        "N-ONS-GLM": presets.n_ons_glm(e),
    }
    runs: dict[str, Run] = {}
    for name, algorithm in algorithms.items():
        with progress(name, horizon) as advance:
            runs[name] = simulate(algorithm, env, horizon, seed, progress=advance)
    table = Table(
        title=f"{clients} clients, {horizon} steps, 25 arms, d=10, logistic; "
        f"radii at exploration={e:g}",
        title_justify="left",
    )
    table.add_column("algorithm", no_wrap=True)
    for column in ("regret", "updates", "rounds", "transfers", "scalars"):
        table.add_column(column, justify="right")
    for name, result in runs.items():
        counts = (result.syncs, result.rounds, result.transfers, result.scalars)
        table.add_row(name, f"{result.regret:,.1f}", *(f"{c:,}" for c in counts))
    console = Console()
    console.print(table)
    console.print(
        "One-UCB-GLM sees every sample at once; N-UCB-GLM and N-ONS-GLM never communicate.\n"
        "In between, regret is traded for communication. Next: fedglb run --help",
        soft_wrap=True,
    )
