"""The bodies of requests and answers. A request with an unknown field is refused."""

from __future__ import annotations

from typing import Any

import msgspec

from fedglb.federation import Decision
from fedglb.federation.agent.explain import PreviewedArm
from fedglb.federation.frozen import Frozen


class Choose(msgspec.Struct, forbid_unknown_fields=True):
    """The arguments of `Agent.choose`: arms are vectors, or records where there is a schema."""

    arms: list[list[float] | dict[str, Any]]
    ids: list[str | int] | None = None
    t: int | None = None
    key: str | None = None
    context: dict[str, Any] | None = None
    exclude: list[str | int] = []
    count: int | None = None  # a ranking of so many arms
    subject: str | None = None
    prefetch: bool = False
    played: int | None = None
    propensity: float | None = None
    explore: float | None = None


class Ranking(msgspec.Struct):
    """The decisions of a ranking, best first."""

    ranking: tuple[Decision, ...]


class Preview(msgspec.Struct, forbid_unknown_fields=True):
    """The arguments of `Agent.preview`, as those of `Choose`."""

    arms: list[list[float] | dict[str, Any]]
    ids: list[str | int] | None = None
    context: dict[str, Any] | None = None
    exclude: list[str | int] = []


class Previewed(msgspec.Struct):
    """What would be played: each arm that is not excluded."""

    arms: tuple[PreviewedArm, ...]


class Observe(msgspec.Struct, forbid_unknown_fields=True):
    """The reward of a decision."""

    id: str
    reward: float


class ObserveRanking(msgspec.Struct, forbid_unknown_fields=True):
    """The ids of a ranking's decisions, as they were shown, and those of the clicked ones."""

    ids: list[str]
    clicked: list[str]


class Activate(msgspec.Struct, forbid_unknown_fields=True):
    """Decisions that were prefetched and happen now."""

    ids: list[str]


class Forget(msgspec.Struct, forbid_unknown_fields=True):
    """Decisions to delete: by id, and all of a subject."""

    ids: list[str] = []
    subject: str | None = None


class Forgotten(msgspec.Struct):
    """The number of decisions that were deleted."""

    forgotten: int


class FreezeBody(msgspec.Struct, forbid_unknown_fields=True):
    """The update whose model the agent chooses with; null: the newest that it has."""

    update: int | None = None


class UnfreezeBody(msgspec.Struct, forbid_unknown_fields=True):
    """Nothing: choose with the newest model again."""


class Unfrozen(msgspec.Struct):
    """What still holds: the operator's word, or nothing."""

    frozen: Frozen | None


class BatchBody(msgspec.Struct, forbid_unknown_fields=True):
    """Items in order; each is decoded separately and has its own error."""

    batch: list[msgspec.Raw]


class ChooseBatch(msgspec.Struct):
    """Requests to choose, in order (a `BatchBody`, for OpenAPI)."""

    batch: list[Choose]


class ObserveBatch(msgspec.Struct):
    """Rewards, in order (a `BatchBody`, for OpenAPI)."""

    batch: list[Observe]


class Observed(msgspec.Struct):
    """The decision whose reward is stored."""

    id: str


class Done(msgspec.Struct):
    """The decisions that a request was about."""

    ids: list[str]


class RequestUpdate(msgspec.Struct, forbid_unknown_fields=True):
    """Nothing: an update includes all samples so far."""


class UpdateRequested(msgspec.Struct):
    """The update whose model the agent has now: the status has a later one once it is there."""

    model: int


class ProblemDetails(msgspec.Struct, omit_defaults=True):
    """The reason of a refusal (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    argument: str | None = None  # the invalid argument, its value and the allowed values
    value: str | int | float | None = None
    allowed: str | None = None
    same: bool | None = None  # for a second reward: whether it equals the first


class ChooseResult(msgspec.Struct, omit_defaults=True):
    """The outcome of one item of a batch of requests to choose."""

    status: int
    decision: Decision | None = None
    ranking: tuple[Decision, ...] | None = None
    problem: ProblemDetails | None = None


class ObserveResult(msgspec.Struct, omit_defaults=True):
    """The outcome of one item of a batch of rewards."""

    status: int
    problem: ProblemDetails | None = None


class ChooseResults(msgspec.Struct):
    """The outcomes of a batch, in its order."""

    results: list[ChooseResult]


class ObserveResults(msgspec.Struct):
    """The outcomes of a batch, in its order."""

    results: list[ObserveResult]
