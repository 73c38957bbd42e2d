"""What requests bring and what they are answered with. A field that is not known is refused."""

from __future__ import annotations

import msgspec

from fedglb.federation import Decision


class Choose(msgspec.Struct, forbid_unknown_fields=True):
    """Arms to choose from: those of `Agent.choose`."""

    arms: list[list[float]]
    ids: list[str | int] | None = None
    t: int | None = None
    key: str | None = None


class Observe(msgspec.Struct, forbid_unknown_fields=True):
    """The reward of a decision."""

    id: str
    reward: float


class Batch(msgspec.Struct, forbid_unknown_fields=True):
    """Items that are handled in order; each is read on its own, so each has its own error."""

    batch: list[msgspec.Raw]


class ChooseBatch(msgspec.Struct):
    """Requests to choose, in order (what `Batch` has, for the description)."""

    batch: list[Choose]


class ObserveBatch(msgspec.Struct):
    """Rewards, in order (what `Batch` has, for the description)."""

    batch: list[Observe]


class Observed(msgspec.Struct):
    """The decision whose reward is stored."""

    id: str


class Problem(msgspec.Struct, omit_defaults=True):
    """Why a request is refused (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    argument: str | None = None  # what is at fault, what was given, what is allowed
    value: str | int | float | None = None
    allowed: str | None = None
    same: bool | None = None  # a second reward: whether it equals the first


class Chosen(msgspec.Struct, omit_defaults=True):
    """What became of one item of a batch of requests to choose."""

    status: int
    decision: Decision | None = None
    problem: Problem | None = None


class Rewarded(msgspec.Struct, omit_defaults=True):
    """What became of one item of a batch of rewards."""

    status: int
    problem: Problem | None = None


class ChosenBatch(msgspec.Struct):
    """What became of a batch, in its order."""

    results: list[Chosen]


class RewardedBatch(msgspec.Struct):
    """What became of a batch, in its order."""

    results: list[Rewarded]
