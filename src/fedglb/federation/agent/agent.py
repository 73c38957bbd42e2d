"""The agent that an application embeds. It has two main calls, choose and observe."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from fedglb.algorithms import Algorithm, fedglb_auto
from fedglb.errors import InvalidInput, number
from fedglb.features import Features
from fedglb.features.encode import Record
from fedglb.federation.agent.activity import Activity
from fedglb.federation.agent.application_calls import ApplicationCalls
from fedglb.federation.agent.comparison import Comparison
from fedglb.federation.agent.decisions import (
    Asked,
    Decision,
    DecisionRules,
    KeptArms,
    Late,
    OnFullDisk,
    WithoutRecords,
)
from fedglb.federation.agent.durable_client import DurableClient
from fedglb.federation.agent.explain import (
    Explanation,
    LearnedModel,
    PreviewedArm,
    learned_model,
    own_distance,
)
from fedglb.federation.agent.frozen import freeze, unfreeze
from fedglb.federation.agent.own_updates import OwnUpdates
from fedglb.federation.agent.schema_change import newest_schema, opened_client
from fedglb.federation.agent.session import (
    FORGETTING,
    AgentSession,
    AgentStatus,
    RewardTotals,
)
from fedglb.federation.agent.silence import Silence
from fedglb.federation.agent.store import AgentStore, Durability
from fedglb.federation.agreement import Agreement
from fedglb.federation.alarms import AlarmBoard
from fedglb.federation.errors import Unavailable
from fedglb.federation.frozen import Frozen
from fedglb.federation.names import COORDINATOR
from fedglb.federation.preload import preload
from fedglb.federation.sqlite import named_damage
from fedglb.problem import Problem
from fedglb.provenance import release

if TYPE_CHECKING:
    import polars as pl

    from fedglb.federation.agent.connection import AgentConnection
    from fedglb.federation.bundle import Bundle

ALONE = "alone"  # the name of an agent without a federation


class Agent:
    """Chooses arms and learns from rewards, alone or in a federation.

    Make one with `Agent.open`, which documents the parameters. One agent is one file and, in a
    federation, one certificate; all threads of a process may share it. `choose` never waits for
    the network or a global update. A ``with`` block closes it. Calls raise `Unavailable` when the
    agent is closed, and in a process that was forked from the one that opened it.

    Parameters
    ----------
    client, session, connection, own_updates
        The parts that `Agent.open` puts together: the client with its file, its session in the
        federation, the connection (None: alone), and updates of its own. They are internal.

    References
    ----------
    docs/reference.md (what agents and the coordinator promise each other), docs/applications.md.

    Examples
    --------
    >>> import fedglb as fg
    >>> folder = getfixture("tmp_path")
    >>> with fg.Agent.open(folder / "shop-17.db", fg.Problem(dim=2)) as agent:
    ...     decision = agent.choose([[1.0, 0.0], [0.0, 1.0]], ids=["red", "blue"])
    ...     agent.observe(decision.id, 1.0)
    ...     agent.export()["reward"].to_list()
    [1.0]
    """

    def __init__(
        self,
        client: DurableClient,
        session: AgentSession,
        connection: AgentConnection | None,
        own_updates: OwnUpdates | None = None,
    ) -> None:
        self._client, self._session, self._connection = client, session, connection
        self._own_updates = own_updates
        self.alarms = AlarmBoard()  # internal: a service looks for alarms
        self._calls = ApplicationCalls(client)
        self._silence: Silence | None = None
        if client.rules.default_reward is not None or self._calls.has_late():
            self._silence = Silence(client, self._calls, self._learned)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        problem: Problem | None = None,
        *,
        bundle: str | os.PathLike[str] | None = None,
        algorithm: Algorithm | None = None,
        features: Features | None = None,
        strict: bool = False,
        without_records: WithoutRecords = "refuse",
        explore: float = 0.0,
        durable: Durability = "process",
        expire_after: float = DecisionRules.expire_after,
        max_pending: int = DecisionRules.max_pending,
        default_reward: float | None = None,
        reward_after: float = DecisionRules.reward_after,
        late: Late = "replace",
        log: KeptArms = "chosen",
        on_full_disk: OnFullDisk = "raise",
        beat: float = 2.0,
        report_rewards: bool = False,
        follow_roster: bool = False,
        wait: float = 0.0,
    ) -> Agent:
        """Open or create an agent's file, and join the federation in the background.

        Takes about a second: compiled code is loaded now, so that the first `choose` is as fast
        as the rest. (Longer if nothing is compiled yet: ``fedglb warm-up`` compiles it.)

        Parameters
        ----------
        path
            The agent's SQLite file, on a local disk. It never leaves the machine. (SQLite's
            ``…-wal`` and ``…-shm`` are beside it, and ``…-lock``, which names its process.)
        problem
            The problem; in a federation it must be the federation's. None: the federation's or,
            alone, that of `features`.
        bundle
            The folder that ``fedglb federation init`` made for this client; None: alone.
        algorithm
            None: the federation's; alone, `fedglb_auto`, which needs no tuning. (Alone it learns
            from the agent's own samples. With `features` it also makes updates by itself, in the
            background, whenever its samples have grown by 30 %; with vectors it makes none.)
        features
            Alone: the schema by which records become arms. A federation has its own. If the file
            has samples under another schema, they are encoded again from their records.
        strict
            Whether a record with a field that the schema does not have is refused. Else such
            fields are ignored, and `AgentStatus.ignored` counts them.
        without_records
            What a change of the schema does if arms came as vectors: "refuse" it (the agent then
            stays out of updates), or "drop" those samples for good.
        explore
            The share of decisions drawn uniformly from the arms offered; the others are the
            algorithm's choice, so it is `EpsilonGreedy` around that, in this agent only. It makes
            propensities useful for off-policy evaluation, and costs that share of regret.
        durable
            "process": acknowledged rewards survive the death of the process at any moment;
            "power": a power cut, too (`observe` then waits for the disk).
        expire_after, max_pending
            A decision expires `expire_after` seconds after it was made, or when `max_pending`
            newer ones wait (100 decisions per second for a day are 8.6 million); its reward is then
            refused. They wait in the file, not in memory. `AgentStatus.expired` counts them.
        default_reward, reward_after
            Where silence means something, as with clicks: a decision without a reward
            `reward_after` seconds after it was made is learned with `default_reward`, exactly once,
            by a thread of the agent. (None: it waits until it expires.)
        late
            What becomes of a reward that comes after the default one: "replace" drops that sample
            and learns the new one, within seconds; "refuse" raises `AlreadyObserved`. With
            one-pass updates (`fedglb_private`) only "refuse".
        log
            Which arms of a decision are kept: the "chosen" one, or all arms "offered", which takes
            8·K·d bytes more per decision and allows evaluating another policy on the log
            (`Logged.from_export`).
        on_full_disk
            What `choose` does if the disk is full or fails, so that it cannot write the decision:
            "raise" SQLite's error, or "choose" all the same. Such a decision is not `kept`, and
            its reward is refused. (`observe` raises in both cases, and learns nothing.)
        beat
            Maximum seconds between two heartbeats to the coordinator.
        report_rewards
            Whether heartbeats report the number and the sum of the rewards, of all since the start
            of the process and of the last thousand, to the federation's operator. Not with
            privacy.
        follow_roster
            Whether to accept a changed roster in the bundle, also while the agent runs, if it only
            got smaller: the same keys, enough members, this client among them. So revoked members
            are refused without your doing more than bringing the file. With secure sums; without
            it the owner accepts each roster (``fedglb agent accept``).
        wait
            Seconds to wait while another process has the file open. The default 0 fails at once;
            a worker that replaces another one, as in a graceful reload, sets the time that the
            old one may take (say 30).

        Returns
        -------
        Agent
            An agent with the exact state of its file, also after a crash.

        Raises
        ------
        InvalidInput
            A parameter is invalid; problem, algorithm or schema differ from the federation's
            agreement or from the file's; or the file is not an agent's, or its version is not
            supported.
        Unavailable
            The file is open already, in this process or another, and was not closed within
            `wait`; or the process may not open another file.

        Examples
        --------
        >>> import fedglb as fg
        >>> path = getfixture("tmp_path") / "shop-17.db"
        >>> agent = fg.Agent.open(path, fg.Problem(dim=2), explore=0.1, durable="power")
        >>> agent.close()
        """
        number("beat", beat, above=0.0)
        number("wait", wait, at_least=0.0)
        rules = DecisionRules(
            explore, expire_after, max_pending, log, on_full_disk, without_records, strict,
            default_reward, reward_after, late,
        )  # fmt: skip
        found = None if bundle is None else _bundle(bundle)
        if found is None:
            problem = _problem(problem, features)
            agreement = Agreement(problem, algorithm or fedglb_auto(), 1, features=features)
        else:
            agreement = found.agreement
            _same(agreement, problem, algorithm, features)
        if found is None and agreement.features is None and agreement.algorithm.memory.forgets:
            allowed = "Forever() without a federation or a schema: samples age in global updates"
            raise InvalidInput(("algorithm", "memory"), agreement.algorithm.memory, allowed)
        rules.applied_to(agreement.algorithm)  # raises before a file is created
        rules.check_default(agreement)
        hidden = agreement.algorithm.privacy is not None or agreement.minimum is not None
        if report_rewards and hidden:
            allowed = "False in a private federation: reported sums of rewards have no noise"
            raise InvalidInput("report_rewards", True, allowed)
        name, federation = ALONE, ALONE
        if found is not None:
            name, federation = found.client, found.federation
        whose = {"federation": federation, "client": name}
        store = AgentStore(Path(path), durable, wait)
        try:
            preload(agreement, alone=found is None)
            with named_damage("agent", path):
                roster = None if found is None else _roster(store, found, follow_roster)
                agreement = newest_schema(store, agreement, alone=found is None)
                client = opened_client(name, agreement, store, rules, whose, roster)
            session = AgentSession(client, store.instance, release())
            session.rewards = RewardTotals() if report_rewards else None
            if found is None:
                solver = agreement.algorithm.global_update
                refits = solver is not None and solver.refits and agreement.features is not None
                own = OwnUpdates(client, session.answers) if refits else None
                return cls(client, session, None, own)
            from fedglb.federation.agent.connection import AgentConnection
            from fedglb.federation.agent.sums import AgentSums

            session.sums = AgentSums.of(found, session.answers, session.session)
            session.follows_roster = follow_roster
            return cls(client, session, AgentConnection(found, session, beat))
        except BaseException:
            store.close()
            raise

    # -- the two calls --------------------------------------------------------------------------

    def choose(
        self,
        arms: ArrayLike | Sequence[Record],
        ids: Sequence[str | int] | None = None,
        *,
        context: Record | None = None,
        exclude: Sequence[str | int] = (),
        t: int | None = None,
        key: str | None = None,
        subject: str | None = None,
        prefetch: bool = False,
        played: int | None = None,
        propensity: float | None = None,
        explore: float | None = None,
    ) -> Decision:
        """Choose one of the arms, and write the decision into the file.

        Parameters
        ----------
        arms
            The record of each arm (a dict of fields), where the agent has a schema; or shape
            (K, d), where K ≥ 1 may differ from call to call and each arm has Euclidean norm
            at most 1. Longer ones by at most 1e-6, the rounding of float32, are scaled to norm 1.
        ids
            Names of the arms, for the log: whole numbers, or texts of up to 200 characters. Where
            the algorithm learns effects (`fedglb_auto`), an arm is known by its id: give ids if an
            item's features may change. Without ids, an arm is known by its record or its features,
            once it was offered three times.
        context
            The record of the decision's context: what all arms share, such as the user.
        exclude
            Ids of arms that may not be played now.
        t
            The step of a clock that all clients share, where the application has one. None: the
            agent's own, one more than the newest step of its samples and its model. It only
            affects the trigger. (At most 2⁴⁴ ahead of that: milliseconds since 1970 fit,
            microseconds do not.)
        key
            A name of this request, 1 to 200 characters. A repeated key with the same arms returns
            the same decision, also after a crash: a caller without an answer may ask again.
        subject
            Whom the decision is about, 1 to 200 characters, for `forget`. The file keeps a keyed
            digest of it.
        prefetch
            Whether the decision is made ahead of time. Then it happens when `activate` is called;
            else it never happened: it expires without a trace.
        played, propensity
            Where another system decides and the agent is its apprentice: the index of the arm that
            was played, and the probability with which (None: not known). The agent learns from its
            reward, and notes what it would have played (`Decision.proposed`); see `compare`.
        explore
            The share of `Agent.open` for this decision: 0 where a customer or a page must get the
            algorithm's own choice. (What the algorithm itself draws stays random.) None: the
            agent's share.

        Returns
        -------
        Decision
            The chosen arm, and the id that `observe` takes.

        Raises
        ------
        InvalidInput
            An argument is invalid; or the key belongs to another request. Nothing is chosen or
            written.

        Examples
        --------
        >>> import fedglb as fg
        >>> with fg.Agent.open(getfixture("tmp_path") / "agent.db", fg.Problem(dim=2)) as agent:
        ...     agent.choose([[0.6, 0.0], [0.0, 1.0]]).arm in (0, 1)
        True

        With records:

        >>> schema = fg.Features(arm={"price": fg.Number([5, 50])})
        >>> with fg.Agent.open(getfixture("tmp_path") / "shop.db", features=schema) as agent:
        ...     items = [{"price": 7.5}, {"price": 20.0}, {"price": 99.0}]
        ...     agent.choose(items, ids=["pen", "book", "gift"], exclude=["pen", "gift"]).arm_id
        'book'
        """
        asked = Asked(1, subject, prefetch, played, propensity, explore)
        return self._calls.choose(arms, ids, t, key, context, exclude, asked)

    def rank(
        self,
        arms: ArrayLike | Sequence[Record],
        count: int,
        ids: Sequence[str | int] | None = None,
        *,
        context: Record | None = None,
        exclude: Sequence[str | int] = (),
        t: int | None = None,
        key: str | None = None,
        subject: str | None = None,
        prefetch: bool = False,
        explore: float | None = None,
    ) -> tuple[Decision, ...]:
        """Choose several arms, best first: each is the rule's choice among those that are left.

        Parameters
        ----------
        arms, ids, context, exclude, t, key, subject, prefetch, explore
            As for `choose`.
        count
            How many, 1 to 100; if there are fewer arms, all of them.

        Returns
        -------
        tuple of Decision
            Each has its own id and reward, and the propensity given the arms above it.

        Raises
        ------
        InvalidInput
            An argument is invalid. Nothing is chosen or written.

        Examples
        --------
        >>> import fedglb as fg
        >>> with fg.Agent.open(getfixture("tmp_path") / "agent.db", fg.Problem(dim=2)) as agent:
        ...     offer = [[0.6, 0.0], [0.0, 1.0], [0.6, 0.6]]
        ...     shown = agent.rank(offer, 2, ids=["pen", "book", "bag"])
        ...     agent.observe_ranking([d.id for d in shown], clicked=[shown[0].id])
        ...     agent.export()["outcome"].to_list()
        ['observed', 'unseen']
        """
        asked = Asked(count, subject, prefetch, explore=explore)
        return self._calls.rank(arms, ids, t, key, context, exclude, asked)

    def activate(self, ids: Iterable[str]) -> None:
        """Let decisions that were prefetched happen now: all of them or, on an error, none.

        No effect on decisions that have happened.

        Parameters
        ----------
        ids
            Ids of decisions.

        Raises
        ------
        UnknownDecision
            There is no such decision: prefetched ones are kept for `expire_after`, and not beyond
            `max_pending` newer decisions or a change of the schema.

        Examples
        --------
        >>> import fedglb as fg
        >>> with fg.Agent.open(getfixture("tmp_path") / "agent.db", fg.Problem(dim=2)) as agent:
        ...     ahead = [agent.choose([[0.6, 0.0], [0.0, 1.0]], prefetch=True) for _ in range(3)]
        ...     agent.activate([ahead[0].id])
        ...     agent.export().height
        1
        """
        self._calls.activate(ids)

    def observe(self, id: str, reward: float) -> None:  # noqa: A002
        """Learn from the reward of a decision; when this returns, the sample is in the file.

        Parameters
        ----------
        id
            The `id` of the decision. Rewards may come late and in any order.
        reward
            Its reward, as the problem's link (and the federation's `reward_limit`) allows it.

        Raises
        ------
        InvalidInput
            The reward is invalid.
        AlreadyObserved
            The decision already has a reward, other than a default one that may be replaced.
        DecisionExpired
            The decision has expired (`expire_after`, `max_pending`).
        UnknownDecision
            There is no such decision, it was forgotten, or it was not kept (`Decision.kept`).

        Examples
        --------
        >>> import fedglb as fg
        >>> with fg.Agent.open(getfixture("tmp_path") / "agent.db", fg.Problem(dim=2)) as agent:
        ...     decision = agent.choose([[0.6, 0.0], [0.0, 1.0]])
        ...     agent.observe(decision.id, reward=0.0)
        ...     agent.status.samples
        1
        """
        self._learned([reward], self._calls.observe(id, reward))

    def observe_ranking(self, ids: Sequence[str], clicked: Iterable[str]) -> None:
        """Learn from a list that was read from the top: all of it or, on an error, nothing.

        Clicked items have reward 1, items above the last click 0 (or the agent's
        `default_reward`). Items below the last click were not seen and are not learned. Without a
        click, all were seen.

        Parameters
        ----------
        ids
            The ids of the decisions, in the order in which the arms were shown.
        clicked
            Those whose arms were clicked; may be empty.

        Raises
        ------
        InvalidInput
            An id occurs twice, one of `clicked` is not in `ids`, or 0 or 1 is no reward of the
            problem.
        AlreadyObserved
            A decision already has another reward, or all have these.
        DecisionExpired, UnknownDecision
            As `observe` raises them.

        Examples
        --------
        >>> import fedglb as fg
        >>> with fg.Agent.open(getfixture("tmp_path") / "agent.db", fg.Problem(dim=2)) as agent:
        ...     shown = agent.rank([[0.6, 0.0], [0.0, 1.0], [0.6, 0.6]], 3)
        ...     agent.observe_ranking([d.id for d in shown], clicked=[shown[1].id])
        ...     agent.export()["reward"].to_list()
        [0.0, 1.0, None]
        """
        self._learned(*self._calls.observe_ranking(ids, clicked))

    def _learned(self, rewards: Sequence[float], step: int) -> None:
        """Count rewards that were learned, and request an update if it is due."""
        if self._session.rewards is not None:
            for reward in rewards:
                self._session.rewards.add(reward)
        self._request(step)

    def absorb(
        self,
        X: ArrayLike | Sequence[Record],
        y: ArrayLike,
        *,
        contexts: Sequence[Record | None] | None = None,
        key: str | None = None,
        ids: Sequence[str | int] | None = None,
        subjects: Sequence[str | None] | None = None,
    ) -> int:
        """Learn from past samples, as if each had been chosen and observed, in order.

        A warm start, from another system's log. When this returns, all samples are in the file;
        if it raises or the process dies, none is. Other calls wait meanwhile. In a private
        federation the next update includes them.

        Parameters
        ----------
        X
            The arms that were played: their records, or shape (n, d), each of Euclidean norm at
            most 1 (up to the rounding of float32, as in `choose`).
        y
            Their rewards, shape (n,), as for `observe`.
        contexts
            The record of each decision's context, if arms are records.
        key
            A name for these samples: calls with the same key absorb them once. None: every call
            absorbs them.
        ids
            The arms' ids, if `choose` gets ids; None: arms recur if their features do.
        subjects
            Whom each sample is about, for `forget`.

        Returns
        -------
        int
            Number of samples absorbed: n, or 0 if the key was used before.

        Raises
        ------
        InvalidInput
            A sample is invalid, or another number of samples was absorbed under `key`.

        Examples
        --------
        >>> import fedglb as fg
        >>> with fg.Agent.open(getfixture("tmp_path") / "agent.db", fg.Problem(dim=2)) as agent:
        ...     past = [[0.6, 0.0], [0.0, 1.0]], [1.0, 0.0]
        ...     agent.absorb(*past, key="last year"), agent.absorb(*past, key="last year")
        ...     agent.status.samples
        (2, 0)
        2
        """
        count, step = self._calls.absorb(X, y, key, ids, contexts, subjects)
        if self._client.encoder is not None:
            self._session.settle()
        self._request(step)
        return count

    def _request(self, step: int) -> None:
        """Request an update for this step, if the trigger has fired; alone, make one if due."""
        if self._own_updates is not None:
            self._own_updates.consider()
            return
        if step and self._session.note_trigger(step) and self._connection is not None:
            self._connection.wake()

    # -- the log ----------------------------------------------------------------------------------

    def export(self) -> pl.DataFrame:
        """Return the log, one row per decision. No other call waits for it.

        Returns
        -------
        polars.DataFrame
            Columns id, made, arms (their number), arm, arm_id, x (the chosen arm),
            score, width, propensity, model, reward, rewarded, outcome (observed, pending,
            expired, unseen: below the last click of a ranking, or absorbed: a sample without a
            decision), propensity_error, offered (all arms offered, where the agent was opened with
            ``log="offered"``), record (JSON with the records of context, arm and runner-up, if
            arms were records), proposed (what an apprentice would have played), defaulted (whether
            the reward is the default one). `arms`, `arm`, `offered` and `proposed` are without arms
            that were excluded or are higher in the ranking.

        Examples
        --------
        >>> import fedglb as fg
        >>> with fg.Agent.open(getfixture("tmp_path") / "agent.db", fg.Problem(dim=2)) as agent:
        ...     _ = agent.choose([[0.6, 0.0], [0.0, 1.0]], ids=["red", "blue"])
        ...     agent.export()["arms", "outcome"].rows()
        [(2, 'pending')]
        """
        import polars as pl

        return pl.concat(self.export_batches())

    def export_batches(self, rows: int = 100_000) -> Iterator[pl.DataFrame]:
        """Return the log of `export` in pieces, for logs that do not fit into memory.

        A separate connection reads it, and for long logs a separate process of low priority. So
        no other call waits for it.

        Parameters
        ----------
        rows
            Rows per piece; the last one may have fewer.

        Yields
        ------
        polars.DataFrame
            With the columns of `export`; at least one frame, which may be empty. Together they
            are the log at the time of the call, without later decisions and rewards. Decisions
            forgotten meanwhile are left out; those that expire meanwhile are shown as expired.

        Raises
        ------
        InvalidInput
            `rows` is invalid.
        Unavailable
            The agent is closed while this is read.

        Examples
        --------
        >>> import fedglb as fg
        >>> with fg.Agent.open(getfixture("tmp_path") / "agent.db", fg.Problem(dim=2)) as agent:
        ...     for reward in (1.0, 0.0, 1.0, 1.0, 0.0):
        ...         agent.observe(agent.choose([[0.6, 0.0], [0.0, 1.0]]).id, reward)
        ...     [frame.height for frame in agent.export_batches(rows=2)]
        [2, 2, 1]
        """
        return self._calls.export_batches(rows)

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the agent's file, as it is now, to a new file; other calls go on.

        (`forget` waits for it.) The copy is written atomically and opens as an agent's file.
        Later calls of `forget` do not change it. In a private federation an old copy lacks the
        later releases: its samples without a release are then left out for good.

        Parameters
        ----------
        path
            The copy; the file must not exist.

        Raises
        ------
        InvalidInput
            The file exists, or cannot be written.

        Examples
        --------
        >>> import fedglb as fg
        >>> folder, problem = getfixture("tmp_path"), fg.Problem(dim=2)
        >>> with fg.Agent.open(folder / "agent.db", problem) as agent:
        ...     _ = agent.choose([[0.6, 0.0], [0.0, 1.0]])
        ...     agent.backup(folder / "monday.db")
        >>> with fg.Agent.open(folder / "monday.db", problem) as agent:
        ...     agent.export().height
        1
        """
        self._calls.backup(Path(path))

    def forget(self, ids: Iterable[str] = (), *, subject: str | None = None) -> int:
        """Delete decisions and their samples for good: all of them or, on an error, none.

        They are gone from the file and from the agent's own state at once. A shared model that
        was fitted with them is replaced by the next global update, which no longer contains
        them; `freeze` cannot go back to it. The agent withdraws from an update in progress that
        contains them, and asks for one without them and nine more: with updates of one exchange
        (`fedglb_auto`) the first starts from the old model, of which less and less is left. Until
        then the coordinator and all agents have the old model. (Alone, an agent with a schema
        makes these updates itself, at once.) Backups and exports keep what they have.

        With `fedglb_private` each sample is sent once, in sums. Samples that were sent stay in the
        model, because nothing can be subtracted from a released sum. Later releases and the file
        do not contain them; with privacy their weight falls from update to update.

        The state without them is computed again from all other samples, which takes seconds with
        millions of them. Other calls go on with the old state meanwhile; when this returns, the
        samples are gone. If the process dies meanwhile, all of it is done or nothing.

        Parameters
        ----------
        ids
            Ids of decisions, with or without a reward.
        subject
            All decisions about this subject, too.

        Returns
        -------
        int
            Number of decisions deleted; 0 if there are none about the subject.

        Raises
        ------
        UnknownDecision
            Such a decision does not exist or was forgotten before; nothing is deleted.

        Examples
        --------
        >>> import fedglb as fg
        >>> with fg.Agent.open(getfixture("tmp_path") / "agent.db", fg.Problem(dim=2)) as agent:
        ...     decision = agent.choose([[1.0, 0.0], [0.0, 1.0]])
        ...     agent.observe(decision.id, 1.0)
        ...     agent.forget([decision.id])
        ...     agent.status.samples
        1
        0
        """
        count = self._calls.forget(ids, subject)
        if count and self._client.adopted:
            if self._own_updates is not None:
                self._own_updates.request(anew=True)
            elif self._connection is not None and not self._client.agreement.times:
                self._session.settle(FORGETTING)
                self.request_update()
        return count

    # -- looking inside ---------------------------------------------------------------------------

    def model(self) -> LearnedModel:
        """Return what the agent has learned: a weight for each feature.

        Where each client has a model of its own, also that of the shared model.

        Returns
        -------
        LearnedModel
            With names of features where the agent has a schema.

        Examples
        --------
        >>> import fedglb as fg
        >>> schema = fg.Features(arm={"colour": fg.Category(["red", "blue"])})
        >>> with fg.Agent.open(getfixture("tmp_path") / "shop.db", features=schema) as agent:
        ...     _ = agent.absorb([{"colour": "red"}, {"colour": "blue"}] * 20, [1.0, 0.0] * 20)
        ...     sorted(w.feature for w in agent.model().strongest(2))
        ['arm.colour=blue', 'arm.colour=red']
        """
        return learned_model(self._client)

    def explain(self, id: str) -> Explanation:  # noqa: A002
        """Return why an arm was played: what each of its features adds, by the present model.

        Parameters
        ----------
        id
            The `id` of a decision that has not expired.

        Returns
        -------
        Explanation
            Of the arm played and, where arms were records, of the runner-up.

        Raises
        ------
        UnknownDecision, DecisionExpired
            There is no such decision any more.

        Examples
        --------
        >>> import fedglb as fg
        >>> schema = fg.Features(arm={"colour": fg.Category(["red", "blue"])})
        >>> with fg.Agent.open(getfixture("tmp_path") / "shop.db", features=schema) as agent:
        ...     _ = agent.absorb([{"colour": "red"}, {"colour": "blue"}] * 20, [1.0, 0.0] * 20)
        ...     decision = agent.choose([{"colour": "red"}])
        ...     [each.feature for each in agent.explain(decision.id).played.contributions]
        ['arm.colour=red', 'effect of the arm', 'constant']
        """
        return self._calls.explain(id)

    def preview(
        self,
        arms: ArrayLike | Sequence[Record],
        ids: Sequence[str | int] | None = None,
        *,
        context: Record | None = None,
        exclude: Sequence[str | int] = (),
    ) -> tuple[PreviewedArm, ...]:
        """Return what `choose` would play, and how likely; nothing is written or learned.

        Parameters
        ----------
        arms, ids, context, exclude
            As for `choose`.

        Returns
        -------
        tuple of PreviewedArm
            One for each arm that is not excluded.

        Raises
        ------
        InvalidInput
            As `choose` does.

        Examples
        --------
        >>> import fedglb as fg
        >>> with fg.Agent.open(getfixture("tmp_path") / "agent.db", fg.Problem(dim=2)) as agent:
        ...     _ = agent.absorb([[1.0, 0.0], [0.0, 1.0]] * 50, [1.0, 0.0] * 50)
        ...     agent.preview([[1.0, 0.0], [0.0, 1.0]])[0].probability > 0.9
        True
        """
        return self._calls.preview(arms, ids, context, exclude)

    def activity(self) -> Activity:
        """Return recent decisions and their mean rewards, by time; no other call waits for it.

        Returns
        -------
        Activity
            Of the last 100,000 decisions, or those of the last 48 hours.

        Examples
        --------
        >>> import fedglb as fg
        >>> with fg.Agent.open(getfixture("tmp_path") / "agent.db", fg.Problem(dim=2)) as agent:
        ...     for reward in (1.0, 0.0):
        ...         agent.observe(agent.choose([[1.0, 0.0], [0.0, 1.0]]).id, reward)
        ...     sum(period.decisions for period in agent.activity().periods)
        2
        """
        self._client.check()
        return self._client.store.activity(self._client.waiting, time.time())

    def compare(self) -> Comparison:
        """Return how the agent would have done beside the system that decides.

        Of decisions made with ``choose(…, played=…)`` that have their reward; no other call waits
        for it. Each counts with what the agent knew when it was made.

        Returns
        -------
        Comparison
            Mean rewards of both, and their difference, with intervals.

        Examples
        --------
        >>> import fedglb as fg
        >>> with fg.Agent.open(getfixture("tmp_path") / "agent.db", fg.Problem(dim=2)) as agent:
        ...     for k in range(10):
        ...         offer = [[1.0, 0.0], [0.0, 1.0]]
        ...         decision = agent.choose(offer, played=k % 2, propensity=0.5)
        ...         agent.observe(decision.id, float(k % 2))
        ...     found = agent.compare()
        >>> found.decisions, found.verdict
        (10, 'too early to say: go on as an apprentice')
        """
        self._client.check()
        return self._client.store.comparison()

    @property
    def features(self) -> Features | None:
        """The schema by which records become arms; None: the agent takes vectors only."""
        return self._client.agreement.features

    # -- an earlier model -------------------------------------------------------------------------

    def freeze(self, update: int | None = None) -> Frozen:
        """Choose with the model of an update from now on; learning and updates go on.

        Also after a restart, until `unfreeze`. The model is that of the update alone, without
        samples that came later. The last ten are kept. A federation's operator can freeze, too;
        while that stands, it counts.

        `forget` drops the models that were fitted with the forgotten samples, and a change of the
        schema drops all: if the frozen one is among them, the agent chooses with the newest again,
        and the log has a warning.

        Parameters
        ----------
        update
            Its number, as `Decision.model` has it; None: the newest that the agent has.

        Returns
        -------
        Frozen
            The model, since when, and by whose word.

        Raises
        ------
        InvalidInput
            The model of that update is not kept.

        Examples
        --------
        >>> import time
        >>> import fedglb as fg
        >>> schema = fg.Features(arm={"colour": fg.Category(["red", "blue"])})
        >>> with fg.Agent.open(getfixture("tmp_path") / "shop.db", features=schema) as agent:
        ...     _ = agent.absorb([{"colour": "red"}, {"colour": "blue"}] * 20, [1.0, 0.0] * 20)
        ...     while not agent.status.model:  # made in the background
        ...         time.sleep(0.01)
        ...     frozen = agent.freeze()
        ...     agent.choose([{"colour": "red"}]).model == frozen.update
        True
        """
        return freeze(self._client, update)

    def unfreeze(self) -> None:
        """Choose with the newest model again; no effect if the agent is not frozen.

        If the operator has frozen the federation, that stays.
        """
        unfreeze(self._client)

    # -- the federation ---------------------------------------------------------------------------

    def request_update(self) -> None:
        """Request a global update with all samples so far, even if the trigger has not fired.

        Returns at once. The request is repeated until the agent has a model that covers these
        samples, or is closed. An agent alone with a schema makes the update itself.

        Raises
        ------
        Unavailable
            The agent has no federation and no schema, or its algorithm has no global updates, or
            has them on a schedule.
        """
        self._client.check()
        algorithm = self._client.agreement.algorithm
        if self._own_updates is not None:
            self._own_updates.request()
            return
        if self._connection is None:
            raise Unavailable("this agent has no federation: open it with a bundle")
        if algorithm.global_update is None:
            raise Unavailable(f"{algorithm.name} has no global updates")
        if self._client.agreement.times:
            raise Unavailable(
                f"{algorithm.name} runs its updates on an agreed schedule: clients cannot request "
                "one, because a request would reveal something about their samples"
            )
        self._session.ask()
        self._connection.wake()

    def wait_for_model(self, update: int, timeout: float) -> bool:
        """Wait until the agent has adopted the model of an update or of a later one.

        For tests and scripts; applications need not wait.

        Parameters
        ----------
        update
            The number of the update.
        timeout
            Maximum seconds to wait.

        Returns
        -------
        bool
            False if `timeout` has passed first.
        """
        return self._session.wait_for(update, timeout)

    @property
    def status(self) -> AgentStatus:
        """The agent's status: connection, admission, model, samples, request."""
        self._client.check()
        session, client = self._session, self._client.protocol_client
        agreement = self._client.agreement
        # Read before the model: without a request, the model covers it.
        requested_at = session.requested_at
        connected = self._connection is not None and self._connection.connected
        return AgentStatus(
            connected, session.admitted, session.refused, client.adopted, len(client.samples),
            requested_at, self._client.expired, session.answers.privacy(),
            0 if self._client.encoder is None else self._client.encoder.ignored,
            None if agreement.features is None else agreement.revision,
            self._client.defaulted, self._client.replaced, self._client.frozen,
            own_distance(client), self.alarms.standing,
        )  # fmt: skip

    def check_ready(self) -> None:
        """Raise if `choose` would: the agent is closed, or its file cannot be written.

        It costs nothing within ten seconds after a decision or a reward, and one small write later
        or after an error. With ``on_full_disk="choose"`` a full disk is no reason to raise.

        Raises
        ------
        Unavailable
            The agent is closed.
        sqlite3.Error
            The disk is full or fails.
        """
        self._calls.check_writable()

    def close(self) -> None:
        """Leave the federation and close the file; another process may then open it.

        No effect if the agent is closed, or in a forked child.
        """
        if self._client.in_own_process and self._connection is not None:
            self._connection.close()
        if self._client.in_own_process and self._silence is not None:
            self._silence.close()
        if self._client.in_own_process and self._own_updates is not None:
            self._own_updates.close()
        self._client.close()

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _bundle(folder: str | os.PathLike[str]) -> Bundle:
    try:
        from fedglb.federation.bundle import Bundle
    except ImportError as error:
        raise InvalidInput(
            "bundle", str(folder), f"None; for a federation install fedglb[federation] ({error})"
        ) from None
    found = Bundle.read(Path(folder))
    if found.client == COORDINATOR:
        raise InvalidInput("bundle", str(folder), "a client's bundle; this is the coordinator's")
    found.tls()  # fail now if key and certificate do not match
    return found


def _roster(store: AgentStore, bundle: Bundle, follow: bool) -> bytes | None:
    """Return the content of the bundle's roster, after following it if that is allowed."""
    from fedglb.federation.agent.roster import follow_roster as follow_it

    if bundle.roster is None:
        return None
    if follow and store.agreed is not None:
        follow_it(store, bundle)
    return bundle.roster.content


def _problem(problem: Problem | None, features: Features | None) -> Problem:
    """Return the problem of an agent alone."""
    if features is None:
        if problem is None:
            raise InvalidInput("problem", None, "a problem, or features, or a bundle")
        return problem
    if problem is None:
        return features.problem()
    if problem.dim != features.dim:
        raise InvalidInput(("problem", "dim"), problem.dim, f"{features.dim}, as features have")
    return dataclasses.replace(problem, blocks=features.blocks)


def _same(
    agreement: Agreement,
    problem: Problem | None,
    algorithm: Algorithm | None,
    features: Features | None,
) -> None:
    """Raise `InvalidInput` for the first difference from the federation's agreement."""
    given = dataclasses.replace(
        agreement,
        problem=agreement.problem if problem is None else problem,
        algorithm=algorithm or agreement.algorithm,
        features=agreement.features if features is None else features,
    )
    for found in agreement.compare(given.facts()):
        allowed = f"{found.agreed!r}, the federation's value"
        raise InvalidInput(found.name, found.given, allowed)
