"""Logged decisions: arms offered, arm played, its propensity and reward."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from fedglb.environments import Block, Environment, Replay
from fedglb.environments.base import in_range
from fedglb.environments.replay import ReplayMethod, chosen_arms, probabilities
from fedglb.errors import InvalidInput, array, instance
from fedglb.problem import Problem
from fedglb.simulation import Run
from fedglb.typing import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    import polars as pl

_WITH_PROPENSITY = (
    "a probability > 0 and <= 1: log with a rule that knows it, e.g. EpsilonGreedy(0.1, rule) or "
    "Thompson(draws=100), or an agent opened with explore=0.1"
)


class Logged:
    """Decisions of the past, n of them in the order in which they were made.

    `Logged.from_run` and `Logged.from_export` make one from a simulation and from an agent's log.
    ``logged[1000:]`` are the decisions from the 1,001st on.

    Parameters
    ----------
    problem
        The problem, whose link is the reward model's.
    arms
        The arms offered, shape (n, K, d); where their number differs, n arrays of shape (K, d).
    chosen
        The index of the arm that was played, shape (n,).
    rewards
        Its reward, shape (n,).
    propensities
        The probability with which it was played, in (0, 1], shape (n,).
    propensity_errors
        The standard error of that number where it is an estimate, 0 where it is exact; shape
        (n,). None: all are exact.
    caveats
        What an estimate from this log should say, one sentence each.

    Raises
    ------
    InvalidInput
        If a shape or a value is invalid, such as a propensity of nan.

    Examples
    --------
    >>> import numpy as np
    >>> import fedglb as fg
    >>> arms = np.broadcast_to(np.eye(2), (4, 2, 2))
    >>> log = fg.Logged(fg.Problem(dim=2), arms, [0, 1, 0, 1], [1, 0, 1, 1], [0.5] * 4)
    >>> len(log), len(log[:3])
    (4, 3)
    """

    def __init__(
        self,
        problem: Problem,
        arms: ArrayLike | Sequence[ArrayLike],
        chosen: ArrayLike,
        rewards: ArrayLike,
        propensities: ArrayLike,
        propensity_errors: ArrayLike | None = None,
        caveats: Sequence[str] = (),
    ) -> None:
        instance("problem", problem, Problem, "fg.Problem(dim=10)")
        self.problem, self.caveats = problem, tuple(caveats)
        self.arms = _offers(arms, problem.dim)
        n = len(self.arms)
        self.chosen = chosen_arms(chosen, np.array([len(offer) for offer in self.arms]))
        self.rewards = array("rewards", rewards, (n,))
        in_range("rewards", self.rewards, problem)
        self.propensities = probabilities("propensities", propensities, n, _WITH_PROPENSITY)
        self.propensity_errors = np.zeros(n)
        if propensity_errors is not None:
            self.propensity_errors = array("propensity_errors", propensity_errors, (n,))

    @classmethod
    def from_run(cls, run: Run, env: Environment) -> Logged:
        """Return the decisions of a simulation, step by step, and in a step client by client.

        The arms are drawn again and kept: T·N·K·d numbers.

        Parameters
        ----------
        run
            The run; its choice rule must know propensities.
        env
            The environment that it was made with.

        Returns
        -------
        Logged
            One row per interaction.

        Raises
        ------
        InvalidInput
            Where the run was made with another environment, or a propensity is not known.

        Examples
        --------
        >>> import fedglb as fg
        >>> env = fg.Synthetic(fg.Problem(dim=3), clients=5, arms=4)
        >>> run = fg.simulate(fg.fedglb_auto(choice=fg.EpsilonGreedy(0.2)), env, 20, seed=1)
        >>> len(fg.Logged.from_run(run, env))
        100
        """
        instance("run", run, Run, "fg.simulate(fg.fedglb_auto(), env, horizon=100)")
        instance("env", env, Environment, "the one that the run was made with")
        arms, rewards = [], []
        for block, acted, got in interactions(run, env):
            if block.weights is not None:
                allowed = 'fg.Replay(…, method="rejection"): with weights, the choices that count '
                allowed += "are not those that the algorithm would make"
                raise InvalidInput("env", env.described(), allowed)
            arms.append(block.arms[acted])
            rewards.append(got[acted])
        acted = run.choices >= 0
        return cls(
            env.problem, np.concatenate(arms), run.choices[acted], np.concatenate(rewards),
            run.propensities[acted], run.propensity_errors[acted],
        )  # fmt: skip

    @classmethod
    def from_export(
        cls,
        frame: pl.DataFrame,
        problem: Problem,
        arms: Mapping[str, ArrayLike] | Sequence[ArrayLike] | None = None,
    ) -> Logged:
        """Return the decisions of an agent that have their rewards, in the order they were made.

        An agent that was opened with ``log="offered"`` has kept all arms on offer. Otherwise it
        keeps the one that was played, and the application gives the others. The logs of several
        agents may be put together: ``pl.concat([a.export(), …])``.

        Parameters
        ----------
        frame
            What `Agent.export` returns.
        problem
            The agent's problem.
        arms
            The arms offered, of shape (K, d) each: by the decisions' ids, or in the order of the
            rows. None: as the log has them, in its column `offered`.

        Returns
        -------
        Logged
            One row per decision with a reward; its `caveats` count those without.

        Raises
        ------
        InvalidInput
            Where arms are missing or are not those of the log, or a propensity is not known.

        Examples
        --------
        >>> import fedglb as fg
        >>> path, problem = getfixture("tmp_path") / "agent.db", fg.Problem(dim=2)
        >>> offer = [[1.0, 0.0], [0.0, 1.0]]
        >>> with fg.Agent.open(path, problem, explore=0.5) as agent:
        ...     for reward in (1.0, 0.0, 1.0):
        ...         agent.observe(agent.choose(offer).id, reward)
        ...     log = fg.Logged.from_export(agent.export(), problem, [offer] * 3)
        >>> log.rewards.tolist()
        [1.0, 0.0, 1.0]
        """
        if arms is None:
            arms = _kept_offers(frame)
        if not isinstance(arms, Mapping):
            if len(arms) != frame.height:
                raise InvalidInput("len(arms)", len(arms), f"{frame.height}, one entry per row")
            arms = dict(zip(frame["id"], arms, strict=True))
        frame = frame.filter(frame["outcome"] != "absorbed")  # these were no decisions
        observed = frame.filter(frame["outcome"] == "observed").sort("made", maintain_order=True)
        if observed.is_empty():
            raise InvalidInput("frame", "no decision with a reward", "one or more")
        offers = []
        for id_, count, arm, x in observed.select("id", "arms", "arm", "x").iter_rows():
            if id_ not in arms:
                raise InvalidInput(("arms", id_), None, "the arms that this decision was among")
            offer = array(f"arms[{id_!r}]", arms[id_], (count, problem.dim))
            if not np.allclose(offer[arm], x, rtol=0.0, atol=1e-12):
                allowed = f"{x}, the arm played"
                raise InvalidInput(("arms", id_, arm), offer[arm].tolist(), allowed)
            offers.append(offer)
        caveats: tuple[str, ...] = ()
        if left := frame.height - observed.height:
            caveats = (
                f"{left} of {frame.height} decisions have no reward and are left out: that is "
                "harmless only if it does not depend on the reward whether it comes",
            )
        return cls(
            problem, offers, observed["arm"].to_numpy(), observed["reward"].to_numpy(),
            observed["propensity"].to_numpy(), observed["propensity_error"].to_numpy(), caveats,
        )  # fmt: skip

    def replay(self, clients: int | ArrayLike = 1, method: ReplayMethod = "rejection") -> Replay:
        """Return an environment that offers the decisions again.

        It takes propensities that are estimates for exact ones.

        Parameters
        ----------
        clients
            N, or whose decision each is: as in `fg.Replay`.
        method
            "rejection" or "weights".

        Returns
        -------
        Replay
            The environment.

        Raises
        ------
        InvalidInput
            If an argument is invalid, or decisions differ in their number of arms.

        Examples
        --------
        >>> import numpy as np
        >>> import fedglb as fg
        >>> arms = np.broadcast_to(np.eye(2), (4, 2, 2))
        >>> log = fg.Logged(fg.Problem(dim=2), arms, [0, 1, 0, 1], [1, 0, 1, 1], [0.5] * 4)
        >>> fg.simulate(fg.fedglb_auto(), log.replay(clients=2)).choices.shape
        (2, 2)
        """
        if isinstance(self.arms, list):
            counts = sorted({len(offer) for offer in self.arms})
            allowed = f"one number of arms in all decisions, not {counts[0]} to {counts[-1]}"
            raise InvalidInput("arms", f"{len(counts)} numbers of them", allowed)
        return Replay(
            self.problem, self.arms, self.chosen, self.rewards, self.propensities,
            clients=clients, method=method,
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.arms)

    def __getitem__(self, rows: slice) -> Logged:
        if not isinstance(rows, slice):
            raise InvalidInput("rows", rows, "a slice, e.g. logged[1000:]")
        return Logged(
            self.problem, self.arms[rows], self.chosen[rows], self.rewards[rows],
            self.propensities[rows], self.propensity_errors[rows], self.caveats,
        )  # fmt: skip

    def by_count(self) -> Iterator[tuple[IntArray, FloatArray]]:
        """Yield the rows with the same number of arms, and their arms.

        Yields
        ------
        rows, arms
            Shapes (m,) and (m, K, d).
        """
        if isinstance(self.arms, np.ndarray):
            yield np.arange(len(self.arms)), self.arms
            return
        counts = np.array([len(offer) for offer in self.arms])
        for count in np.unique(counts):
            rows = np.flatnonzero(counts == count)
            yield rows, np.stack([self.arms[int(row)] for row in rows])

    @property
    def played(self) -> FloatArray:
        """The arms that were played, shape (n, d)."""
        if isinstance(self.arms, np.ndarray):
            return np.ascontiguousarray(self.arms[np.arange(len(self)), self.chosen])
        return np.stack([offer[arm] for offer, arm in zip(self.arms, self.chosen, strict=True)])


def interactions(run: Run, env: Environment) -> Iterator[tuple[Block, BoolArray, FloatArray]]:
    """Yield the blocks of a run, which choices count, and the rewards of all choices, (s, N) each.

    Raises `InvalidInput` where the run was made with another environment.
    """
    instance("run", run, Run, "fg.simulate(fg.fedglb_auto(), env, horizon=100)")
    instance("env", env, Environment, "the one that the run was made with")
    (T, N), link, R = run.choices.shape, env.problem.link, env.problem.R
    for name, ours in {"clients": N, "arms": run.parameters["arms"]}.items():
        if getattr(env, name) != ours:
            raise InvalidInput(f"env.{name}", getattr(env, name), f"{ours}, as in the run")
    earned = np.zeros(T)
    for block in env.checked_blocks(T, int(run.parameters["seed"])):
        first, last = block.first - 1, block.first - 1 + block.arms.shape[0]
        choices = run.choices[first:last]
        acted, mine = choices >= 0, np.maximum(choices, 0)[..., None]
        if block.rewards is not None:
            got = np.take_along_axis(block.rewards, mine, axis=2)[..., 0]
        else:
            assert block.uniforms is not None
            means = np.take_along_axis(block.means, mine, axis=2)[..., 0]
            got = np.asarray(link.sample(means, block.uniforms, R))
        counted = got if block.weights is None else block.weights * got
        earned[first:last] = np.where(acted, counted, 0.0).sum(axis=1)
        yield block, acted, got
    if not np.allclose(np.cumsum(earned), run.trace["reward"], rtol=1e-9, atol=1e-9):
        raise InvalidInput("env", env, "the environment of the run: the rewards differ")


def _kept_offers(frame: pl.DataFrame) -> dict[str, ArrayLike]:
    """Return the arms offered by decision, as an agent has kept them."""
    kept = frame.filter(frame["outcome"] == "observed")
    if "offered" not in frame.columns or kept["offered"].null_count():
        allowed = 'all arms offered: the log lacks some (open the agent with log="offered")'
        raise InvalidInput("arms", None, allowed)
    return dict(zip(kept["id"], kept["offered"].to_list(), strict=True))


def _offers(arms: ArrayLike | Sequence[ArrayLike], dim: int) -> FloatArray | list[FloatArray]:
    """Return one array where all decisions have the same number of arms, else one for each."""
    if isinstance(arms, np.ndarray):
        return array("arms", arms, (None, None, dim))
    if not isinstance(arms, Sequence) or not arms:
        raise InvalidInput("arms", arms, f"one array of shape (K, {dim}) per decision")
    offers = [array(f"arms[{row}]", offer, (None, dim)) for row, offer in enumerate(arms)]
    return np.stack(offers) if len({len(offer) for offer in offers}) == 1 else offers
