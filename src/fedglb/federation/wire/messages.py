"""What agents and the coordinator say beside the protocol: who is there, who may take part.

As with the protocol's messages, the types of the fields say what lies on the wire.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from fedglb.federation.wire.fields import Facts, Name, Reason, SessionMessage, Text
from fedglb.federation.wire.sum_messages import (
    AllHere,
    Consent,
    SessionKey,
    SessionKeys,
    SumCall,
    SumOffer,
    SumReady,
)
from fedglb.protocol.messages import (
    BatchSums,
    Covariance,
    Derivatives,
    Evaluate,
    MaskedSum,
    ModelSums,
    NewModel,
    SumsRequest,
    SyncRequest,
)
from fedglb.typing import Count, Numbers


@dataclass(frozen=True)
class Hello(SessionMessage):
    """An agent begins to speak.

    Parameters
    ----------
    instance
        The identity of its file: the same after a restart, another one with another file.
    update
        The update whose model it holds, 0 for none.
    software
        Name and version of its software, for the log.
    agreement
        What it takes the federation to have agreed on, fact by fact (see `Agreement.facts`).
    """

    name = "Hello"
    upward = True
    instance: Name
    update: Count
    software: Text
    agreement: Facts


@dataclass(frozen=True)
class Heartbeat(SessionMessage):
    """An agent is there; it says so every few seconds.

    Parameters
    ----------
    update
        The update whose model it holds, 0 for none.
    requested_at
        The step of its request for an update that is not fulfilled yet, 0 for none.
    rewards
        If its owner agreed to report them: how many rewards it has had since its process started,
        their sum, how many of these are recent, and the sum of the recent ones.
    """

    name = "Heartbeat"
    upward = True
    update: Count
    requested_at: Count
    rewards: Numbers | None = None


@dataclass(frozen=True)
class Goodbye(SessionMessage):
    """An agent leaves in good order."""

    name = "Goodbye"
    upward = True


@dataclass(frozen=True)
class Withdrawal(SessionMessage):
    """An agent takes no (further) part in this update: it has no samples frozen for it."""

    name = "Withdrawal"
    upward = True
    update: Count


@dataclass(frozen=True)
class Admitted(SessionMessage):
    """The coordinator admits an agent; a model that it lacks follows.

    Parameters
    ----------
    update
        The update of the newest model, 0 for none.
    released
        The last one-pass update that has sums of this agent's file in it, as far as the
        coordinator knows; 0 for none.
    """

    name = "Admitted"
    upward = False
    update: Count
    released: Count = 0


@dataclass(frozen=True)
class Rejected(SessionMessage):
    """The coordinator does not admit an agent, or excludes it from an update.

    Parameters
    ----------
    reason
        Why.
    member
        Whether the agent is a member all the same: then it is excluded from this update only.
    """

    name = "Rejected"
    upward = False
    reason: Reason
    member: bool


@dataclass(frozen=True)
class HelloRequest(SessionMessage):
    """The coordinator does not know this session: say hello."""

    name = "HelloRequest"
    upward = False


Upward: TypeAlias = (
    Hello
    | Heartbeat
    | Goodbye
    | Withdrawal
    | SyncRequest
    | Covariance
    | ModelSums
    | Derivatives
    | BatchSums
    | SessionKey
    | SumReady
    | MaskedSum
    | Consent
)
Downward: TypeAlias = (
    Admitted
    | Rejected
    | HelloRequest
    | SumsRequest
    | Evaluate
    | NewModel
    | SessionKeys
    | SumOffer
    | SumCall
    | AllHere
)
