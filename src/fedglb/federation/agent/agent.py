"""The agent: what an application embeds. Two calls, choose and observe."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
from numpy.typing import ArrayLike

from fedglb.algorithms import Algorithm, fedglb_ucb
from fedglb.datasets import FeatureMap
from fedglb.errors import InvalidInput, number
from fedglb.federation.agent.decisions import Decision, DecisionRules
from fedglb.federation.agent.learner import Learner
from fedglb.federation.agent.session import AgentSession, AgentStatus
from fedglb.federation.agent.store import AgentFile
from fedglb.federation.agreement import Agreement
from fedglb.federation.errors import Unavailable
from fedglb.federation.names import COORDINATOR
from fedglb.federation.warm_up import warm_up
from fedglb.global_update import Newton
from fedglb.problem import Problem
from fedglb.provenance import versions

if TYPE_CHECKING:
    from fedglb.federation.agent.connection import AgentConnection
    from fedglb.federation.bundle import Bundle

ALONE = "alone"  # the name of an agent without a federation


class Agent:
    """Chooses arms and learns from rewards, alone or in a federation.

    One agent is one file and, in a federation, one certificate; all threads of a process may
    share it. `choose` never waits for the network or a global update.

    Examples
    --------
    >>> import fedglb as fg
    >>> folder = getfixture("tmp_path")
    >>> with Agent.open(folder / "shop-17.db", fg.Problem(dim=2)) as agent:
    ...     decision = agent.choose([[1.0, 0.0], [0.0, 1.0]], ids=["red", "blue"])
    ...     agent.observe(decision.id, 1.0)
    ...     agent.export()["reward"].to_list()
    [1.0]
    """

    def __init__(self, learner: Learner, participation: AgentSession, link: AgentConnection | None):
        self._learner, self._participation, self._link = learner, participation, link

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        problem: Problem,
        *,
        bundle: str | os.PathLike[str] | None = None,
        algorithm: Algorithm | None = None,
        feature_map: FeatureMap | None = None,
        explore: float = 0.0,
        durable: str = "process",
        expire_after: float = DecisionRules.expire_after,
        most_pending: int = DecisionRules.most_pending,
        beat: float = 2.0,
    ) -> Agent:
        """Open an agent's file, or make it, and join the federation in the background.

        Takes about a second: compiled code is loaded now, so that the first `choose` is as fast
        as the rest.

        Parameters
        ----------
        path
            The agent's SQLite file (SQLite keeps a second one, ``…-wal``, beside it). It never
            leaves the machine.
        problem
            The problem; in a federation it must be the federation's.
        bundle
            The folder that ``fedglb federation init`` made for this client; None: alone.
        algorithm
            None: the federation's; alone, FedGLB-UCB (whose clients without a federation learn
            by online Newton steps).
        feature_map
            The map by which the application makes arms, where the federation agreed on one.
        explore
            The share of decisions drawn uniformly from the arms offered: what makes propensities
            useful for off-policy evaluation. It costs that share of regret.
        durable
            "process": what `observe` has acknowledged survives the death of the process at any
            moment; "power": a power cut too (`observe` then waits for the disk).
        expire_after, most_pending
            A decision expires `expire_after` seconds after it was made, or when `most_pending`
            newer ones wait; its reward is then refused.
        beat
            Seconds between two signs of life.
        """
        number("beat", beat, above=0.0)
        rules = DecisionRules(explore, expire_after, most_pending)
        found = None if bundle is None else _bundle(bundle)
        digest = None if feature_map is None else feature_map.digest
        if found is None:
            chosen = algorithm or fedglb_ucb(threshold=10.0, solver=Newton())
            agreement = Agreement(problem, chosen, max_clients=1, feature_map=digest)
        else:
            agreement = found.agreement
            _same(agreement, problem, algorithm, digest)
        warm_up(agreement)
        name = ALONE if found is None else found.client
        federation = ALONE if found is None else found.federation
        file = AgentFile(Path(path), durable)
        try:
            file.agree({**agreement.facts(), "federation": federation, "client": name})
            learner = Learner(name, agreement, file, rules)
            participation = AgentSession(learner, file.instance, _software())
            if found is None:
                return cls(learner, participation, None)
            from fedglb.federation.agent.connection import AgentConnection

            return cls(learner, participation, AgentConnection(found, participation, beat))
        except BaseException:
            file.close()
            raise

    # -- the two calls --------------------------------------------------------------------------

    def choose(
        self, arms: ArrayLike, ids: Sequence[str | int] | None = None, *, t: int | None = None
    ) -> Decision:
        """Choose one of the arms.

        Parameters
        ----------
        arms
            A K×d array, K ≥ 1 as it comes, each arm of Euclidean norm at most 1.
        ids
            Names of the arms, for the log.
        t
            The step of a clock that all clients share, where the application has one. None: the
            agent's own, one more than the newest step it has seen, its own or a model's. It
            decides only when the trigger fires. (At most 2⁴⁴ ahead of that: milliseconds since
            1970 will do, microseconds will not.)
        """
        return self._learner.choose(arms, ids, t)

    def observe(self, id: str, reward: float) -> None:  # noqa: A002
        """Learn from the reward of a decision; when this returns, the sample is kept.

        Rewards may come late and in any order; a second one for the same decision is refused
        (`AlreadyObserved`), so is one for a decision that has expired (`DecisionExpired`) or
        that never was or is forgotten (`UnknownDecision`).
        """
        step = self._learner.observe(id, reward)
        if step and self._participation.want(step) and self._link is not None:
            self._link.wake()

    # -- what else there is ---------------------------------------------------------------------

    def export(self) -> pl.DataFrame:
        """Return the log, one row a decision.

        Columns: id, made, arms (how many were offered), arm, arm_id, x (the chosen arm), score,
        width, propensity, model, reward, rewarded, outcome (observed, pending, expired). Other
        calls wait while it is read: about a second for a million rows.
        """
        return self._learner.export()

    def forget(self, ids: Iterable[str]) -> None:
        """Delete decisions and their samples for good: all of them, or none with an error.

        They are gone from the file and from the agent's own state at once. A shared model that
        was fitted with them is replaced by the next global update, which no longer contains
        them; from an update in progress that does, the agent withdraws. The samples are read
        anew, so with millions of them other calls wait for seconds.
        """
        self._learner.forget(ids)

    def request_update(self) -> None:
        """Ask for a global update with all samples so far, whatever the trigger says.

        Returns at once; the request stands until a model that covers them has come, or the
        agent is closed.
        """
        self._learner.check()
        algorithm = self._learner.agreement.algorithm
        if self._link is None:
            raise Unavailable("this agent is in no federation: open it with a bundle")
        if algorithm.global_update is None:
            raise Unavailable(f"{algorithm.name} makes no global updates")
        self._participation.ask()
        self._link.wake()

    def wait_for_model(self, update: int, timeout: float) -> bool:
        """Wait until the agent holds the model of this update or a later one; False: not in time.

        For tests and scripts; an application has no need to wait.
        """
        return self._participation.wait_for(update, timeout)

    @property
    def status(self) -> AgentStatus:
        """Where the agent stands: connected, taken in or refused, model, samples, what it wants."""
        self._learner.check()
        part, client = self._participation, self._learner.client
        wants = part.wants  # first: a wish that is gone by now is in the model
        connected = self._link is not None and self._link.connected
        return AgentStatus(
            connected, part.welcome, part.refused, client.adopted, len(client.samples), wants
        )

    def close(self) -> None:
        """Leave the federation and close the file; another process may then open it."""
        if self._learner.ours and self._link is not None:
            self._link.close()
        self._learner.close()

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _bundle(folder: str | os.PathLike[str]) -> Bundle:
    try:
        from fedglb.federation.bundle import Bundle
    except ImportError as error:
        raise InvalidInput(
            "bundle", str(folder), f"None, or install fedglb[federation] ({error})"
        ) from None
    found = Bundle.read(Path(folder))
    if found.client == COORDINATOR:
        raise InvalidInput("bundle", str(folder), "a client's; this is the coordinator's")
    return found


def _same(
    agreement: Agreement, problem: Problem, algorithm: Algorithm | None, digest: str | None
) -> None:
    """Refuse, by name, what is not as the federation agreed."""
    given = Agreement(
        problem, algorithm or agreement.algorithm, agreement.max_clients, agreement.reward_limit,
        digest,
    )  # fmt: skip
    for found in agreement.compare(given.facts()):
        allowed = f"{found.agreed!r}, as the federation agreed"
        raise InvalidInput(found.name, found.given, allowed)


def _software() -> str:
    """What the agent says it is, for the coordinator's log."""
    return " ".join(["fedglb", *versions(("fedglb",)).values()])
