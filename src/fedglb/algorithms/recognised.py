"""Which preset made an algorithm: found by making it again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fedglb.algorithms import ALGORITHMS
from fedglb.algorithms.base import Algorithm
from fedglb.algorithms.catalog import parameters


def preset_of(algorithm: Algorithm) -> tuple[str, dict[str, Any]] | None:
    """Return the preset that makes an equal algorithm, and with what; None if none does."""
    local = algorithm.local_update
    places = (algorithm, algorithm.trigger, local, getattr(local, "rate", None))
    for preset, make in ALGORITHMS.items():
        chosen = {}
        for key in parameters(preset):
            owner = next((place for place in places if hasattr(place, key)), None)
            if owner is not None:
                chosen[key] = getattr(owner, key)
        if _made(make, chosen) != algorithm:
            continue
        for key in list(chosen):  # what the preset has by itself need not be said
            fewer = {k: v for k, v in chosen.items() if k != key}
            if _made(make, fewer) == algorithm:
                chosen = fewer
        return preset, chosen
    return None


def _made(make: Callable[..., Algorithm], chosen: dict[str, Any]) -> Algorithm | None:
    try:
        return make(**chosen)
    except (ValueError, TypeError):  # it lacks a parameter, or refuses a value
        return None
