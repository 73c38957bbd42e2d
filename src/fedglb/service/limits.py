"""How much the service takes on: beyond that it refuses, and says what is allowed."""

from __future__ import annotations

from dataclasses import dataclass, fields

from fedglb.errors import integer


@dataclass(frozen=True)
class Limits:
    """What one request may bring, and how many may wait at a time.

    Parameters
    ----------
    most_body
        Bytes of a request's body.
    most_arms
        Arms of one request; in a batch, of each item.
    most_batch
        Items of a batch.
    most_waiting
        Requests that are being read or answered at a time; one more is told to come again.
    most_exports
        Exports among them.
    read_seconds
        Seconds that a body may take to arrive.

    Raises
    ------
    InvalidInput
        A value is not a whole number from 1 up.
    """

    most_body: int = 2**20
    most_arms: int = 1000
    most_batch: int = 1000
    most_waiting: int = 256
    most_exports: int = 2
    read_seconds: int = 10

    def __post_init__(self) -> None:
        for field in fields(self):
            integer(field.name, getattr(self, field.name))
