"""Exceptions of agents and coordinators, beside `InvalidInput` for bad arguments."""

from __future__ import annotations


class Unavailable(RuntimeError):
    """The agent, or its file, cannot be used here.

    The agent is closed, was opened before a fork, is in no federation, or its file is open in
    another process. The message says which, and what to do.

    Examples
    --------
    >>> import fedglb as fg
    >>> from fedglb.federation import Agent
    >>> agent = Agent.open(getfixture("tmp_path") / "agent.db", fg.Problem(dim=2))
    >>> agent.close()
    >>> agent.choose([[1.0, 0.0]])
    Traceback (most recent call last):
    fedglb.federation.errors.Unavailable: this agent is closed
    """


class Superseded(Unavailable):
    """The coordinator stops because another one of the same federation runs.

    Examples
    --------
    >>> issubclass(Superseded, Unavailable)
    True
    """


class UnknownDecision(KeyError):
    """The agent's file has no decision with this id, or it was forgotten.

    Examples
    --------
    >>> import fedglb as fg
    >>> from fedglb.federation import Agent
    >>> with Agent.open(getfixture("tmp_path") / "agent.db", fg.Problem(dim=2)) as agent:
    ...     agent.observe("17", 1.0)
    Traceback (most recent call last):
    fedglb.federation.errors.UnknownDecision: '17' is no decision's id; give the `id` of a Decision
    """

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show the message in quotes


class AlreadyObserved(ValueError):
    """The decision has its reward already; a second one is refused, whatever its value.

    An application that does not know whether its reward arrived may send it again, and treat this
    error as an acknowledgement.

    Attributes
    ----------
    same
        Whether the stored reward equals the new one.

    Examples
    --------
    >>> import fedglb as fg
    >>> from fedglb.federation import Agent
    >>> with Agent.open(getfixture("tmp_path") / "agent.db", fg.Problem(dim=2)) as agent:
    ...     decision = agent.choose([[1.0, 0.0]])
    ...     for _ in range(2):
    ...         try:
    ...             agent.observe(decision.id, 1.0)
    ...         except AlreadyObserved:
    ...             print("it is there")
    it is there
    """

    def __init__(self, text: str, same: bool = False) -> None:
        super().__init__(text)
        self.same = same


class DecisionExpired(ValueError):
    """The decision has expired, so its reward is refused.

    It waited longer than `expire_after` seconds, or `max_pending` newer decisions wait: see
    `Agent.open`.

    Examples
    --------
    >>> import fedglb as fg
    >>> from fedglb.federation import Agent
    >>> path = getfixture("tmp_path") / "agent.db"
    >>> with Agent.open(path, fg.Problem(dim=2), max_pending=1) as agent:
    ...     first, second = agent.choose([[1.0, 0.0]]), agent.choose([[0.0, 1.0]])
    ...     agent.observe(second.id, 1.0)
    ...     try:
    ...         agent.observe(first.id, 1.0)
    ...     except DecisionExpired:
    ...         print("too late")
    too late
    """
