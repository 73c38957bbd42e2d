"""What agents and the coordinator say beside the protocol: who is there, who may take part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from fedglb.protocol.messages import (
    Covariance,
    CovarianceRequest,
    Derivatives,
    Evaluate,
    NewModel,
    SyncRequest,
)


@dataclass(frozen=True)
class Hello:
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

    instance: str
    update: int
    software: str
    agreement: dict[str, str]


@dataclass(frozen=True)
class Heartbeat:
    """An agent is there; it says so every few seconds.

    Parameters
    ----------
    update
        The update whose model it holds, 0 for none.
    wants
        The step of its request for an update that is not fulfilled yet, 0 for none.
    """

    update: int
    wants: int


@dataclass(frozen=True)
class Goodbye:
    """An agent leaves in good order."""


@dataclass(frozen=True)
class Withdrawal:
    """An agent takes no (further) part in this update: it has no samples frozen for it."""

    update: int


@dataclass(frozen=True)
class Welcome:
    """The coordinator takes an agent in; a model that it lacks follows.

    Parameters
    ----------
    update
        The update of the newest model, 0 for none.
    """

    update: int


@dataclass(frozen=True)
class Rejected:
    """The coordinator does not take an agent in, or leaves it out of an update.

    Parameters
    ----------
    reason
        Why.
    member
        Whether the agent is taken in all the same: then it is left out of this update only.
    """

    reason: str
    member: bool


@dataclass(frozen=True)
class HelloRequest:
    """The coordinator does not know this session: say hello."""


Upward: TypeAlias = (
    Hello | Heartbeat | Goodbye | Withdrawal | SyncRequest | Covariance | Derivatives
)
Downward: TypeAlias = Welcome | Rejected | HelloRequest | CovarianceRequest | Evaluate | NewModel
