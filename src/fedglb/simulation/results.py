"""The results of a run: totals, a trace over time, one row per global update."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
import polars as pl

from fedglb.errors import InvalidInput, one_of
from fedglb.parts.local_update import LocalState
from fedglb.privacy import PrivacyStatement
from fedglb.protocol.learner import Choosing, Chosen
from fedglb.protocol.messages import Ledger
from fedglb.protocol.update import UpdateRecord
from fedglb.simulation.play import BlockArrays, Log
from fedglb.typing import FloatArray, IntArray

if TYPE_CHECKING:
    import pandas as pd

#: The tables of a run, by the names of `Run.table` and `Run.to_pandas`.
TableName: TypeAlias = Literal["trace", "updates", "ledger", "interactions"]

_TRACE = {
    "t": pl.Int64, "regret": pl.Float64, "reward": pl.Float64, "syncs": pl.Int64,
    "rounds": pl.Int64, "transfers": pl.Int64, "scalars": pl.Int64, "bits": pl.Int64,
}  # fmt: skip
_UPDATES = {
    "t": pl.Int64, "client": pl.Int64, "n": pl.Int64, "rounds": pl.Int64,
    "gradient_norm": pl.Float64, "gap": pl.Float64, "projected": pl.Boolean,
    "alpha": pl.Float64, "theta_star_inside": pl.Boolean, "ridge": pl.Float64,
    "seconds": pl.Float64, "seconds_to_all": pl.Float64,
}  # fmt: skip
#: Attributes of a run that are totals at the horizon.
TOTALS = ("regret", "reward", "syncs", "rounds", "transfers", "scalars", "bits")
#: Columns in which a value can be missing, and pandas' types for them, with `pd.NA`.
_NULLABLE = {"client": "Int64", "theta_star_inside": "boolean"}


@dataclass(frozen=True)
class Run:
    """The result of a simulation; `fg.simulate` and `fg.compare` return it.

    Attributes
    ----------
    regret
        R_T: the best mean offered minus the mean chosen, summed over all
        interactions. On a log (`fg.Replay`): against what the log earned.
    reward
        Sum of all rewards; on a log, of weighted ones.
    syncs
        Number of global updates. (For One-UCB-GLM the paper counts one per interaction.)
    rounds
        Number of requests to all clients for sums, over all global updates.
    transfers
        C_T: number of messages that carry numbers.
    scalars
        Number of scalars in these messages.
    bits
        Number of bits of these scalars: 64 each in the package's own messages.
    trace
        One row per step, T rows, with the totals so far: t, regret, reward, syncs,
        rounds, transfers, scalars, bits.
    updates
        One row per global update (none for One-UCB-GLM): t, the step of its request, or in which
        a strategy's was sent; the requesting client, counted from 0, or null on a schedule; n, the
        number of samples; rounds; of the fitted model gradient_norm, gap (the certified distance
        from the minimum) and projected (whether it was moved into the ball); right after the update
        alpha, the radius, and theta_star_inside, whether the confidence ellipsoid contains θ* (null
        where θ* is not known); and ridge, the λ in force. Over a network (`fg.Network`): seconds
        from the request until the coordinator has the model, and seconds_to_all, until the last
        client that gets it has it (null if that is after the last step).
    choices
        The index of the arm that each client chose in each step, shape (T, N); −1 where a
        client did not act, or a log does not know the reward.
    drawn
        `propensities` and `propensity_errors` side by side, up to the last choice that was random,
        shape (·, N, 2); zeros where a choice was sure.
    regrets
        The regret of each of these choices, shape (T, N); 0 where there is none.
    ledger
        One row per message type and direction (up is to the coordinator): messages, transfers,
        scalars, bits.
    theta
        The last shared model, shape (d,); or None.
    parameters
        The run's parameters: algorithm and its parts, exploration, problem, N, K, T, seed,
        engine; randomised: whether another seed gives another run.
    caveats
        Limits of the proofs for this run, one sentence each.
    privacy
        Its privacy: ε, δ, neighbours, noise, protection against whom; None without
        privacy.

    References
    ----------
    Li and Wang (2022), Section 3.1, define R_T and C_T.

    Examples
    --------
    >>> import fedglb as fg
    >>> env = fg.Synthetic(fg.Problem(dim=3), clients=5, arms=4)
    >>> run = fg.simulate(fg.fedglb_ucb(1.0, fg.Newton()), env, horizon=20, seed=1)
    >>> run.syncs, run.updates.height, run.trace["syncs"][-1]
    (5, 5, 5)
    >>> run.choices.shape, run.client_regret.shape
    ((20, 5), (5,))
    """

    regret: float
    reward: float
    syncs: int
    rounds: int
    transfers: int
    scalars: int
    bits: int
    trace: pl.DataFrame = field(repr=False)
    updates: pl.DataFrame = field(repr=False)
    choices: IntArray = field(repr=False)
    ledger: pl.DataFrame = field(repr=False)
    theta: FloatArray | None = field(repr=False)
    parameters: dict[str, Any] = field(repr=False)
    caveats: tuple[str, ...] = field(repr=False)
    drawn: FloatArray = field(repr=False)
    regrets: FloatArray = field(repr=False)
    privacy: PrivacyStatement | None = field(repr=False, default=None)

    @property
    def update_seconds(self) -> float | None:
        """The mean of `updates["seconds"]`; None without a network, or without updates."""
        mean = self.updates["seconds"].mean()
        return None if mean is None else float(mean)  # type: ignore[arg-type]

    @property
    def client_regret(self) -> FloatArray:
        """The regret of each client, shape (N,).

        Each is summed step by step; their sum is `regret` up to rounding.
        """
        # cumsum adds in order, whatever the shape: engines agree to the bit
        total: FloatArray = self.regrets.cumsum(axis=0)[-1]
        return total

    @property
    def propensities(self) -> FloatArray:
        """The probability of each choice, shape (T, N).

        nan where a client did not act, or the rule does not estimate it; 1 where the choice is not
        random, 1/m where it is one of m equal ones; for Thompson sampling an estimate.
        """
        found = np.where(self.choices >= 0, 1.0, np.nan)
        drawn = self.drawn[:, :, 0]
        np.copyto(found[: len(drawn)], drawn, where=drawn != 0.0)
        return found

    @property
    def propensity_errors(self) -> FloatArray:
        """The standard errors of `propensities`, shape (T, N); 0 where they are exact."""
        found = np.where(self.choices >= 0, 0.0, np.nan)
        found[: len(self.drawn)] += self.drawn[:, :, 1]
        return found

    def summary(self) -> dict[str, Any]:
        """Return parameters, totals and caveats in one dict, for scripts."""
        return {
            **self.parameters,
            **{name: getattr(self, name) for name in TOTALS},
            "caveats": list(self.caveats),
        }

    def table(self, name: TableName = "trace") -> pl.DataFrame:
        """Return one of the run's tables.

        Parameters
        ----------
        name
            "trace", "updates" or "ledger": the attributes of these names; "interactions": one
            row per interaction, in order: t, client, arm, regret, and the propensity with
            its standard error.

        Returns
        -------
        polars.DataFrame
            The table.

        Raises
        ------
        InvalidInput
            If the name is unknown.

        Examples
        --------
        >>> import fedglb as fg
        >>> env = fg.Synthetic(fg.Problem(dim=3), clients=5, arms=4)
        >>> run = fg.simulate(fg.n_ons_glm(), env, horizon=20)
        >>> run.table("interactions").height
        100
        """
        one_of("name", name, get_args(TableName))
        if name != "interactions":
            frame: pl.DataFrame = getattr(self, name)
            return frame
        step, client = np.nonzero(self.choices >= 0)
        at = (step, client)
        return pl.DataFrame(
            {
                "t": step + 1, "client": client, "arm": self.choices[at],
                "regret": self.regrets[at], "propensity": self.propensities[at],
                "propensity_error": self.propensity_errors[at],
            }
        )  # fmt: skip

    def to_pandas(self, name: TableName = "trace") -> pd.DataFrame:
        """Return one of the run's tables as a pandas frame.

        Parameters
        ----------
        name
            The name, as in `table`.

        Returns
        -------
        pandas.DataFrame
            The table; columns with missing values have pandas' nullable types.

        Raises
        ------
        InvalidInput
            If the name is unknown, or pandas is not installed.

        Examples
        --------
        >>> import fedglb as fg
        >>> env = fg.Synthetic(fg.Problem(dim=3), clients=5, arms=4)
        >>> fg.simulate(fg.n_ons_glm(), env, horizon=20).to_pandas().shape
        (20, 8)
        """
        return as_pandas(self.table(name), _NULLABLE)

    def save(self, path: str | Path) -> None:
        """Write the run to one file, for `fg.load_run`.

        A crash at any moment leaves the old file or the new one.

        Parameters
        ----------
        path
            The file; an existing one is replaced.

        Raises
        ------
        InvalidInput
            If the file's folder does not exist.
        """
        from fedglb.simulation.run_file import write_run

        write_run(self, Path(path))

    def _repr_html_(self) -> str:
        """Return the HTML for notebooks."""
        from fedglb.simulation.card import Curve, card, short

        of = self.parameters
        title = (
            f"{of['algorithm']} on {of['environment']}: {of['clients']:,} clients, "
            f"{of['arms']} arms, d = {of['dim']}, T = {of['horizon']:,}, seed {of['seed']}"
        )
        rows = [[name, short(getattr(self, name))] for name in TOTALS]
        worst, best = self.client_regret.max(), self.client_regret.min()
        rows.append(["regret of a client", f"{short(best)} … {short(worst)}"])
        curve = Curve(self.trace["t"].to_list(), self.trace["regret"].to_list())
        return card(title, ["", "total"], rows, [curve], "regret", self.caveats)


def as_pandas(frame: pl.DataFrame, nullable: Mapping[str, str]) -> pd.DataFrame:
    """Return a frame of polars as one of pandas; `nullable` has pandas' types of some columns.

    Polars' own `to_pandas` needs pyarrow.
    """
    try:
        import pandas as pd
    except ImportError:
        allowed = "pandas (pip install pandas); the polars frames work without it"
        raise InvalidInput("pandas", "not installed", allowed) from None
    made: dict[str, Any] = {}
    for column in frame.iter_columns():
        if column.name in nullable:
            made[column.name] = pd.array(column.to_list(), dtype=nullable[column.name])
        else:
            plain = column.dtype.is_numeric() or column.dtype == pl.Boolean
            made[column.name] = column.to_numpy() if plain else column.to_list()
    return pd.DataFrame(made)


class Recorder:
    """Collects the results of a run of T steps and N clients; θ* is None if unknown.

    Propensities are written only where arms are chosen at random: in a large array, zeros that
    nobody writes take no memory.
    """

    def __init__(self, horizon: int, clients: int, parameter: FloatArray | None) -> None:
        self.log = Log(
            choices=np.full((horizon, clients), -1, dtype=np.int64),
            regret=np.zeros(horizon),
            reward=np.zeros(horizon),
            interactions=np.zeros(horizon, dtype=np.int64),
            totals=np.zeros(3),
            last_drawn=np.zeros(1, dtype=np.int64),
            propensities=np.zeros((horizon, clients, 2)),
        )
        # syncs, rounds, transfers, scalars and bits up to the end of each step
        self.counts = np.zeros((5, horizon), dtype=np.int64)
        self.updates: list[dict[str, Any]] = []  # one row per global update
        self.regrets = np.zeros((horizon, clients))  # of each choice
        self.parameter = parameter

    def played(self, t: int, client: int, chosen: Chosen, regret: float, reward: float) -> None:
        """Record one interaction."""
        self.log.choices[t - 1, client] = chosen.arm
        if chosen.propensity != 1.0:
            made = (chosen.propensity, chosen.propensity_error)
            self.log.propensities[t - 1, client] = made
            self.log.last_drawn[0] = t
        self.log.totals[:] += (regret, reward, 1.0)
        self.regrets[t - 1, client] = regret

    def compared(self, block: BlockArrays) -> None:
        """Record the regret of each choice in the steps of a block.

        The kernel has added up the same numbers; keeping them separately takes a fraction of its
        time.
        """
        steps = slice(block.first - 1, block.first - 1 + len(block.means))
        chosen, regrets = self.log.choices[steps], self.regrets[steps]
        taken = np.take_along_axis(block.means, np.maximum(chosen, 0)[..., None], axis=2)[..., 0]
        best = block.benchmark if block.benchmark.size else block.means.max(axis=2)
        np.subtract(best, taken, out=regrets, where=chosen >= 0)
        if block.weights.size:
            np.multiply(regrets, block.weights, out=regrets)

    def updated(self, record: UpdateRecord) -> dict[str, Any]:
        """Record one global update; return its row, to be completed by `describe`."""
        row = {**vars(record), "n": record.samples}
        self.updates.append(row)
        return row

    def describe(self, row: dict[str, Any], choosing: Choosing, state: LocalState) -> None:
        """Add to an update's row what follows from the state of a client with the new model."""
        row["alpha"], row["ridge"] = choosing.alpha(state), choosing.setting.ridge
        if self.parameter is not None:
            confidence, alpha = choosing.algorithm.confidence, row["alpha"]
            inside = confidence.contains(choosing.setting, state, alpha, self.parameter)
            row["theta_star_inside"] = inside

    def stepped(self, t: int) -> None:
        """Record the totals of regret and reward at the end of step t."""
        regret, reward, interactions = self.log.totals
        self.log.regret[t - 1] = regret
        self.log.reward[t - 1] = reward
        self.log.interactions[t - 1] = interactions

    def counted(self, first: int, last: int, syncs: int, rounds: int, ledger: Ledger) -> None:
        """Record the totals of communication at the end of the steps `first` … `last`."""
        totals = (syncs, rounds, ledger.transfers, ledger.scalars, ledger.bits)
        self.counts[:, first - 1 : last] = np.array(totals)[:, None]

    @property
    def drawn(self) -> FloatArray:
        """Propensities with their errors, up to the last step with a random choice."""
        drawn: FloatArray = self.log.propensities[: self.log.last_drawn[0]]
        return drawn

    def trace(self) -> pl.DataFrame:
        """Return one row per step."""
        t = np.arange(1, self.log.regret.size + 1)
        return pl.DataFrame(
            [t, self.log.regret, self.log.reward, *self.counts], schema=_TRACE, orient="col"
        )

    def result(
        self,
        ledger: Ledger,
        theta: FloatArray | None,
        parameters: dict[str, Any],
        caveats: tuple[str, ...],
        privacy: PrivacyStatement | None = None,
    ) -> Run:
        """Return the run."""
        regret, reward, _ = self.log.totals.tolist()
        totals = dict(zip(TOTALS, (regret, reward, *self.counts[:, -1].tolist()), strict=True))
        return Run(
            **totals,
            trace=self.trace(),
            updates=self.update_frame(),
            choices=self.log.choices,
            ledger=ledger.frame(),
            theta=theta,
            parameters=parameters,
            caveats=caveats,
            drawn=self.drawn,
            regrets=self.regrets,
            privacy=privacy,
        )

    def update_frame(self) -> pl.DataFrame:
        """Return one row per global update."""
        rows = [[row.get(name) for name in _UPDATES] for row in self.updates]
        return pl.DataFrame(rows, schema=_UPDATES, orient="row")
