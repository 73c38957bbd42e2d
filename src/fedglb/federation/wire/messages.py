"""What agents and the coordinator send beside the protocol: who is there, who may take part.

The types of the fields say how they are sent; docs/reference.md says when, and what they mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from fedglb.federation.wire.packets import Facts, Name, Reason, SessionMessage, Text
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
    """An agent begins to speak; `agreement` has the facts by which it goes."""

    name = "Hello"
    upward = True
    instance: Name  # of its file: the same after a restart, another one with another file
    update: Count  # whose model it holds, 0 for none
    software: Text
    agreement: Facts


@dataclass(frozen=True)
class Heartbeat(SessionMessage):
    """An agent is there; sent every few seconds."""

    name = "Heartbeat"
    upward = True
    update: Count  # whose model it holds, 0 for none
    requested_at: Count  # the step of a request for an update that is not fulfilled, 0 for none
    #: Only if its owner agreed: count and sum of the rewards since its process started, then of
    #: the recent ones.
    rewards: Numbers | None = None


@dataclass(frozen=True)
class Goodbye(SessionMessage):
    """An agent leaves."""

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
    """The coordinator admits an agent; a model that it lacks follows."""

    name = "Admitted"
    upward = False
    update: Count  # of the newest model, 0 for none
    released: Count = 0  # the last one-pass update known to have sums of this agent's file


@dataclass(frozen=True)
class Rejected(SessionMessage):
    """The coordinator does not admit an agent; `member`: it is excluded from this update only."""

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
