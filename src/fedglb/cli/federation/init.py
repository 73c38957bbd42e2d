"""`fedglb federation init`: a new federation's folder."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any, get_args

import msgspec
import typer

from fedglb.algorithms.catalog import CHOICES, MEMORIES, SOLVERS
from fedglb.algorithms.catalog import choice as choice_rule
from fedglb.cli.common import (
    Json,
    Requests,
    in_panel,
    print_json,
    print_keys_made_here,
    seconds,
)
from fedglb.cli.progress import announce_compilation
from fedglb.cli.report_errors import extra, fail, report_errors
from fedglb.errors import InvalidInput, one_of, relocated
from fedglb.features import Features
from fedglb.links import LINKS
from fedglb.parts.trigger import Clock
from fedglb.privacy import NoisePlace
from fedglb.privacy.sensitivity import Neighbours

#: Presets that need neither a horizon nor all samples in one place.
PRESETS = (
    "fedglb-personal", "fedglb-auto", "fedglb-mix", "fedglb-ucb", "fedglb-private", "dislinucb",
    "n-ucb-glm", "n-ons-glm",
)  # fmt: skip
#: Choice rules that agents can play by: they keep no bank.
RULES = tuple(name for name in CHOICES if name != "bank")
#: Arguments whose option has another name.
_RENAMED = {
    "folder": "FOLDER", "federation": "--name", "client": "--clients", "hosts": "--host",
    "algorithm.name": "--algorithm", "roster": "--clients", "algorithm.privacy.noise": "--noise-in",
    "algorithm.memory.half_lives": "--memory",
    "algorithm.privacy": "--epsilon",
}  # fmt: skip


_agreed = in_panel("What all members agree on")
_server = in_panel("Server")
_private = in_panel("Schedule and privacy")


def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new folder.")],
    name: Annotated[str, typer.Option(help="The federation's name.")],
    clients: Annotated[
        str, typer.Option(help="The first clients' names, separated by commas: shop-1,shop-2.")
    ] = "",
    request: Requests = None,
    host: Annotated[
        list[str] | None,
        _server("Address that clients connect to; may be repeated.", "127.0.0.1"),
    ] = None,
    port: Annotated[int, _server("Its port.")] = 4222,
    bind: Annotated[
        str | None,
        _server("IP address to listen on.", "127.0.0.1; with --host 0.0.0.0"),
    ] = None,
    days: Annotated[int, _server("Days for which the clients' certificates are valid.")] = 730,
    max_clients: Annotated[
        int | None,
        _agreed(
            "N, the number of clients ever, revoked ones included.",
            "20; with --secure-sums as many as --clients has",
        ),
    ] = None,
    dim: Annotated[int | None, _agreed("d, features per arm.", "the schema's")] = None,
    features: Annotated[
        Path | None,
        _agreed("The schema of records, a TOML file: see `fedglb features infer`.", "none"),
    ] = None,
    link: Annotated[str, _agreed(f"{', '.join(LINKS)}.")] = "logistic",
    radius: Annotated[float, _agreed("S, the bound on ‖θ*‖.")] = 1.0,
    noise: Annotated[
        float | None, _agreed("R, for radii that need it.", "the link's own; poisson has none")
    ] = None,
    curvature: Annotated[float | None, _agreed("c_μ.", "the link's infimum on the ball")] = None,
    reward_limit: Annotated[
        float | None, _agreed("Largest |reward|, where the link sets no bound.", "none")
    ] = None,
    algorithm: Annotated[
        str | None,
        _agreed(
            f"{', '.join(PRESETS)}. The first two need no tuning; fedglb-mix is proven.",
            "fedglb-personal; with --link probit fedglb-auto; with --epsilon or --updates "
            "fedglb-private",
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        _agreed(
            "D of the event trigger: smaller means more updates.",
            "0.1 with fedglb-personal and fedglb-auto; required by the others",
        ),
    ] = None,
    clock: Annotated[
        str | None,
        _agreed(
            f"What the event trigger counts: {', '.join(get_args(Clock))}. Not for "
            "fedglb-personal.",
            "own samples with fedglb-auto, else steps",
        ),
    ] = None,
    exploration: Annotated[
        float | None,
        _agreed("Multiplies the radius of fedglb-ucb and older algorithms; 1 is proven.", "1.0"),
    ] = None,
    ridge: Annotated[
        float | None,
        _agreed("λ. Not for fedglb-personal.", "from the data with fedglb-auto, else 1.0"),
    ] = None,
    delta: Annotated[
        float | None,
        _agreed(
            "δ, the failure probability; with --epsilon, δ of the privacy. Not for fedglb-personal "
            "and fedglb-auto.",
            "0.01; required with --epsilon",
        ),
    ] = None,
    solver: Annotated[
        str | None,
        _agreed(
            f"{', '.join(SOLVERS)}. Not for fedglb-personal.",
            "one exchange with fedglb-auto and fedglb-mix, else newton",
        ),
    ] = None,
    choice: Annotated[
        str | None,
        _agreed(
            f"How arms are chosen: {', '.join(RULES)}; some take a number, as in sigma:3 or "
            "epsilon-greedy:0.1. What is proven holds for ucb.",
            "optimistic-thompson with fedglb-personal and fedglb-auto, bayes with fedglb-private, "
            "else ucb",
        ),
    ] = None,
    memory: Annotated[
        str | None,
        _agreed(
            "How long samples count, with a half-life or several as durations: forever, "
            "half-life:7d or adaptive:30d,7d,1d, which needs one exchange; adaptive alone is "
            "64d,16d,4d,1d.",
            "forever",
        ),
    ] = None,
    effects: Annotated[
        int | None,
        _agreed(
            "Arms that can have an effect of their own with fedglb-personal and fedglb-auto; more "
            "share, 0: none. The operator sees sums per arm.",
            "1024",
        ),
    ] = None,
    updates: Annotated[
        int | None, _private("B, the number of updates.", "none: clients request updates")
    ] = None,
    first: Annotated[
        str | None, _private("The first update's time since the start: 30s, 10m, 1h, 2d.", "none")
    ] = None,
    growth: Annotated[
        float | None, _private("The factor between the times of two updates.", "none")
    ] = None,
    epsilon: Annotated[
        float | None, _private("ε of differential privacy, for all updates together.", "no noise")
    ] = None,
    noise_in: Annotated[
        str | None,
        _private(
            f"Where noise is added: {', '.join(get_args(NoisePlace))}.",
            "silo; with --secure-sums sums",
        ),
    ] = None,
    secure_sums: Annotated[
        bool,
        _private(
            "The coordinator sees sums over clients only. All --clients are "
            "in the roster, which each agent's owner accepts."
        ),
    ] = False,
    honest: Annotated[
        float | None,
        _private(
            "The share of --max-clients that adds honest noise; every sum needs that share.", "0.9"
        ),
    ] = None,
    minimum: Annotated[
        int | None,
        _private("Minimum clients per secure sum. With as many, all must be present.", "5"),
    ] = None,
    neighbours: Annotated[
        str | None,
        _private(f"The neighbouring data sets: {', '.join(get_args(Neighbours))}.", "zero-out"),
    ] = None,
    contributions: Annotated[
        int | None, _private("Interactions of one user that are protected together.", "1")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a federation: its authority, the server's configuration, a folder for each member.

    Run it on the server's machine: FOLDER/authority never leaves it. Each client makes its own key
    with `fedglb agent key` and sends its request; without one, its key is made here.

    Example: fedglb federation init ./demo --name demo --clients shop-1,shop-2 --dim 10
    """
    renamed = {name: f"--{name.replace('_', '-')}" for name in locals()} | _RENAMED
    with extra():
        from fedglb.federation.agreement import AgreementTable
        from fedglb.federation.key_request import KeyRequest
        from fedglb.federation.operator import operator
        from fedglb.problem_table import ProblemTable
    scheduled = epsilon is not None or updates is not None or secure_sums
    usual = "fedglb-auto" if link == "probit" else "fedglb-personal"  # which needs a known s
    preset = algorithm or ("fedglb-private" if scheduled else usual)
    names = [part.strip() for part in clients.split(",") if part.strip()]
    least = (5 if minimum is None else minimum) if secure_sums else None
    missing = []
    if (features is None) == (dim is None):
        missing.append("either --dim (the number of features of an arm) or --features")
    if preset == "fedglb-private":
        schedule = {"--updates 30": updates, "--first 1h": first, "--growth 1.3": growth}
        missing += [example for example, value in schedule.items() if value is None]
    if epsilon is not None and delta is None:
        missing.append("--delta 1e-6 (well below 1 / number of interactions)")
    if least is not None and len(names) < least:
        missing.append(f"--clients with at least {least} names (or a smaller --minimum)")
    if missing:
        fail(f"required, with such values: {', '.join(missing)}", 2)
    given = {
        "threshold": threshold, "clock": clock, "exploration": exploration, "ridge": ridge,
        "solver": solver, "effects": effects, "updates": updates, "growth": growth,
        "first": None if first is None else seconds("--first", first),
        "choice": None if choice is None else _rule(choice),
        "memory": None if memory is None else _memory(memory),
        "delta": delta if epsilon is None else None,
        "privacy": _privacy(
            epsilon, delta, secure_sums, noise=noise_in, neighbours=neighbours,
            contributions=contributions, honest=honest,
        ),
    }  # fmt: skip
    chosen = {key: value for key, value in given.items() if value is not None}
    if max_clients is None:
        max_clients = max(1, len(names)) if secure_sums else 20
    if minimum is not None and not secure_sums:
        fail("--minimum requires --secure-sums", 2)
    table = AgreementTable(
        max_clients, ProblemTable(dim, link, radius, noise, curvature),
        {"name": preset, **chosen}, reward_limit, minimum=least,
    )  # fmt: skip
    bound = bind or ("0.0.0.0" if host else "127.0.0.1")
    announce_compilation("1 to 3 s")
    with report_errors(**renamed):
        requests = [KeyRequest.read(path) for path in request or []]
        if features is not None:
            table = msgspec.structs.replace(table, features=Features.read(features).plain())
        operator.init(
            folder, name, table, names, host or ["127.0.0.1"], port, bound, days, requests
        )
    own_keys = {each.name: each.fingerprint for each in requests}
    _print_next_steps(folder, names, own_keys, as_json)


def _rule(given: str) -> str:
    """Return a choice rule if agents can play by it."""
    name = given.partition(":")[0]
    if name == "bank":
        allowed = f"one of {', '.join(RULES)}: agents keep no bank"
        raise InvalidInput("--choice", given, allowed)
    one_of("--choice", name, RULES)
    with relocated(lambda _: ("--choice",)):
        choice_rule(given)
    return given


def _memory(given: str) -> dict[str, Any]:
    """Return the table of a memory whose half-lives are durations."""
    name, _, value = given.partition(":")
    one_of("--memory", name, MEMORIES)
    lives = [seconds("--memory", each.strip()) for each in value.split(",") if each.strip()]
    if (name == "forever" and lives) or (name == "half-life" and len(lives) != 1):
        allowed = "forever, half-life:7d (one duration), adaptive or adaptive:30d,7d,1d (some)"
        raise InvalidInput("--memory", given, allowed)
    if lives != sorted(set(lives), reverse=True):
        raise InvalidInput("--memory", given, "durations that fall, as in adaptive:30d,7d,1d")
    if name == "half-life":
        return {"name": name, "half_life": lives[0]}
    return {"name": name, "half_lives": lives} if lives else {"name": name}


def _privacy(
    epsilon: float | None, delta: float | None, secure: bool, **more: str | float | None
) -> dict[str, Any] | None:
    """Return the privacy table of the federation's file, or None without privacy."""
    given = {key: value for key, value in more.items() if value is not None}
    if epsilon is None:
        for key in given:
            option = "--noise-in" if key == "noise" else f"--{key}"
            fail(f"{option} requires --epsilon", 2)
        return None
    return {"epsilon": epsilon, "delta": delta, "noise": "sums" if secure else "silo", **given}


def _print_next_steps(
    folder: Path, names: list[str], own_keys: dict[str, str], as_json: bool
) -> None:
    """Print the next steps; `own_keys` has the digests of keys that clients made."""
    from fedglb.federation.bundle import Bundle

    agreement = Bundle.read(folder / "coordinator").agreement
    digest, least = agreement.roster, agreement.min_members
    if as_json:
        places = {name: str(folder / "clients" / name) for name in names}
        print_json({
            "folder": str(folder), "clients": places,
            "configuration": str(folder / "server" / "nats.conf"),
            "coordinator": str(folder / "coordinator"),
            **({} if digest is None else {"roster": digest}),
        })  # fmt: skip
        return
    one = names[0] if names else "NAME"

    def quoted(*parts: str) -> str:
        return shlex.quote(str(folder.joinpath(*parts)))

    steps = [
        f"Start the server: nats-server -c {quoted('server', 'nats.conf')}",
        f"Start the coordinator: fedglb federation coordinator {quoted('coordinator')}",
        f"The owner of {one} copies {quoted('clients', one)}/* into the folder with its key, and "
        "so on."
        if one in own_keys
        else f"Move {quoted('clients', one)} to its machine safely (scp, not mail), and so on.",
        f"Start the agent there: fedglb agent serve {one}.db --bundle {one}",
        f"Later: fedglb federation add {quoted()} NAME, fedglb federation revoke {quoted()} NAME",
    ]
    typer.echo(f"{folder}: a federation of {len(names)} client{'s' * (len(names) != 1)}. Next:")
    for number, step in enumerate(steps, 1):
        typer.echo(f"  {number}. {step}")
    for name, fingerprint in own_keys.items():
        typer.echo(f"The digest of {name}'s key is {fingerprint}: compare it with the owner's.")
    print_keys_made_here([each for each in names if each not in own_keys], digest is not None)
    if digest is not None:
        typer.echo(f"Roster: {digest}")
        typer.echo("Before the first start, each agent's owner compares it with the other owners'.")
        everybody = (
            ": all of them. While one is away, updates wait (a smaller --minimum or --honest "
            "allows for that)"
        )
        typer.echo(
            f"Each update needs {least} of the {len(names)} clients present"
            f"{everybody * (least == len(names))}."
        )
    typer.echo(f"Keep {quoted('authority')} here and secret: it can create members.")
