"""How a coordinator treats its clients."""

from __future__ import annotations

from dataclasses import dataclass

from fedglb.errors import integer, number


@dataclass(frozen=True)
class Policy:
    """How a coordinator treats clients that do not answer.

    Parameters
    ----------
    quorum
        Clients that an update needs, from its beginning to its end.
    most_samples
        Samples that a client may claim to have; None: as many as it likes. An update weighs
        clients by their samples, so who may claim any number can outweigh all others.
    time_limit
        Seconds that a client has for an answer, before the update goes on without it.
    absent_after
        Seconds of silence after which a client counts as gone.
    resend
        Seconds after which a request is sent again; doubled each time, up to four seconds.
    grace
        Seconds that a restarted coordinator waits for those who were there, before it begins an
        update: a new one, or anew the one that its crash cut off.
    """

    quorum: int = 1
    time_limit: float = 30.0
    absent_after: float = 10.0
    most_samples: int | None = None
    resend: float = 0.25
    grace: float = 10.0

    def __post_init__(self) -> None:
        integer("quorum", self.quorum)
        if self.most_samples is not None:
            integer("most_samples", self.most_samples)
        for name in ("time_limit", "absent_after", "resend", "grace"):
            number(name, getattr(self, name), above=0.0)
