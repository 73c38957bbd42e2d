"""Messages beside the protocol's: presence, admission, rejection.

Field types define the encoding; docs/reference.md explains the messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from fedglb.federation.wire.packets import Document, Facts, Name, Reason, SessionMessage, Text
from fedglb.federation.wire.sum_messages import (
    AllHere,
    Consent,
    SessionKey,
    SessionKeys,
    SumCall,
    SumOffer,
    SumReady,
)
from fedglb.model import SharedModel
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
    """An agent's first message; `agreement` has the facts of its agreement."""

    name = "Hello"
    upward = True
    instance: Name  # identity of its file: the same after a restart
    update: Count  # of its model, 0: no model
    software: Text
    agreement: Facts


@dataclass(frozen=True)
class Heartbeat(SessionMessage):
    """An agent is present; sent every few seconds."""

    name = "Heartbeat"
    upward = True
    update: Count  # of its model, 0: no model
    requested_at: Count  # the step of an open request for an update, or 0
    #: Only if its owner agreed: count and sum of the rewards since its process started, then of
    #: the recent ones.
    rewards: Numbers | None = None
    frozen: Count = 0  # the update whose model it chooses with, by the operator's word; 0: none


@dataclass(frozen=True)
class Goodbye(SessionMessage):
    """An agent leaves."""

    name = "Goodbye"
    upward = True


@dataclass(frozen=True)
class Withdrawal(SessionMessage):
    """An agent leaves this update: it has no frozen samples for it."""

    name = "Withdrawal"
    upward = True
    update: Count


@dataclass(frozen=True)
class Admitted(SessionMessage):
    """The coordinator admits an agent; a model that it lacks follows."""

    name = "Admitted"
    upward = False
    update: Count  # of the newest model, 0: no model
    released: Count = 0  # the last one-pass update known to have sums of this agent's file


@dataclass(frozen=True)
class Rejected(SessionMessage):
    """The coordinator does not admit an agent; `member`: it is excluded from this update only."""

    name = "Rejected"
    upward = False
    reason: Reason
    member: bool


@dataclass(frozen=True)
class NewSchema(SessionMessage):
    """The federation has a newer schema of records than an agent: take it up, and say hello."""

    name = "NewSchema"
    upward = False
    revision: Count  # its number
    after: Count  # models up to this update are of older schemas
    features: Document  # the tables of its file, as JSON


@dataclass(frozen=True)
class Freeze(SessionMessage):
    """The operator's word: choose with the model of this update; learning goes on."""

    name = "Freeze"
    upward = False
    update: Count  # 0: choose with the newest model again
    models: Count = 0  # as in `NewModel`
    model: SharedModel | None = None  # the model of the update


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
    | NewSchema
    | Freeze
    | HelloRequest
    | SumsRequest
    | Evaluate
    | NewModel
    | SessionKeys
    | SumOffer
    | SumCall
    | AllHere
)
