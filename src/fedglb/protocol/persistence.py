"""A coordinator as plain arrays, and back: an update in progress included."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedglb.global_update import Sums
from fedglb.model import SharedModel
from fedglb.protocol.arrays import Arrays, from_arrays, nested, prefixed, stack, to_arrays, unstack
from fedglb.protocol.assembly import Contribution, UpdateRecord
from fedglb.protocol.ledger import Entry
from fedglb.protocol.messages import Derivatives

if TYPE_CHECKING:
    from fedglb.protocol.coordinator import Coordinator

_NUMBERS = ("syncs", "rounds", "phase", "update", "finished", "t", "update_rounds")


def save(coordinator: Coordinator) -> Arrays:
    """Return the whole state."""
    out: Arrays = {name: np.array(getattr(coordinator, name)) for name in _NUMBERS}
    for name in ("clients", "participants"):
        out[name] = np.array(list(getattr(coordinator, name)))
    if coordinator.asked_by is not None:
        out["asked_by"] = np.array(coordinator.asked_by)
    if coordinator.model is not None:
        out |= prefixed(to_arrays(coordinator.model), "model")
    if coordinator.last_update is not None:
        out |= prefixed(to_arrays(coordinator.last_update), "last_update")
    told = [] if coordinator.solve is None else coordinator.solve.transcript
    for name, parts in (
        ("gathered", coordinator.gathered),
        ("covered", coordinator.covered),
        ("replies", coordinator.replies),
        ("transcript", dict(enumerate(told))),
    ):
        out |= prefixed(stack(parts), name)
    for (kind, direction), entry in coordinator.ledger.entries.items():
        out[f"ledger.{kind}.{direction}"] = np.array(dataclasses.astuple(entry))
    return out


def restore(coordinator: Coordinator, arrays: Mapping[str, NDArray[Any]]) -> list[Sums]:
    """Give a new coordinator the state that `save` gave; return what its solver had been told."""
    coordinator.participants = dict.fromkeys(arrays["participants"].tolist())
    for name in _NUMBERS:
        setattr(coordinator, name, int(arrays[name]))
    if "asked_by" in arrays:
        coordinator.asked_by = arrays["asked_by"].item()
    if model := nested(arrays, "model"):
        coordinator.model = from_arrays(SharedModel, model)
    if record := nested(arrays, "last_update"):
        coordinator.last_update = from_arrays(UpdateRecord, record)
    coordinator.gathered = unstack(Contribution, nested(arrays, "gathered"))
    coordinator.covered = unstack(Contribution, nested(arrays, "covered"))
    coordinator.replies = unstack(Derivatives, nested(arrays, "replies"))
    for name, totals in nested(arrays, "ledger").items():
        kind, direction = name.split(".")
        coordinator.ledger.entries[kind, direction] = Entry(*(int(v) for v in totals))
    return list(unstack(Sums, nested(arrays, "transcript")).values())
