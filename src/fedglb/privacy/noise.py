"""The source of a client's noise: a seed in simulations, the system everywhere else."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fedglb.privacy import discrete_gaussian, fixed_point
from fedglb.privacy.gaussian import NoisePlan
from fedglb.typing import IntArray

# Keeps these draws apart from all others with the same seed.
_ROLE = 0x6E6F697365


class NoiseSource(Protocol):
    """Draws one client's noise for one release."""

    def draw(self, client: int | str, update: int, plan: NoisePlan) -> IntArray:
        """Return the m whole numbers that `client` adds at `update`."""
        ...


@dataclass(frozen=True)
class SimulatedNoise:
    """Noise for simulations: the same for the same seed, client and update. It hides nothing.

    Normal numbers are rounded to whole ones. Simulations cannot see the difference to the
    discrete Gaussian.
    """

    seed: int

    def draw(self, client: int | str, update: int, plan: NoisePlan) -> IntArray:
        """Return the m whole numbers that `client` adds at `update`."""
        key = np.random.SeedSequence((self.seed, _ROLE, _stream(client), update))
        normals = np.random.Generator(np.random.Philox(key)).standard_normal(
            fixed_point.size(plan.dim)
        )
        return np.rint(normals * plan.scales()).astype(np.int64)


@dataclass(frozen=True)
class SystemNoise:
    """The exact discrete Gaussian from the system's randomness: new numbers at every call."""

    def draw(self, client: int | str, update: int, plan: NoisePlan) -> IntArray:
        """Return m new whole numbers; they are not the same for the same arguments."""
        return _drawn(plan)


class PreparedNoise:
    """`SystemNoise` that is drawn in advance: how long a draw takes depends on the noise.

    Each draw is used once, and lives in memory only. Safe to use from several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ready: tuple[NoisePlan, IntArray] | None = None

    def prepare(self, plan: NoisePlan) -> None:
        """Draw the noise of the next release, unless that was done."""
        with self._lock:
            if self._ready is None:
                self._ready = plan, _drawn(plan)

    def draw(self, client: int | str, update: int, plan: NoisePlan) -> IntArray:
        """Return the prepared numbers, which are used up then; without any, new ones."""
        with self._lock:  # waits for a draw that has begun
            ready, self._ready = self._ready, None
        return ready[1] if ready is not None and ready[0] == plan else _drawn(plan)


def _drawn(plan: NoisePlan) -> IntArray:
    """Return one client's noise for one release, by the system's randomness."""
    vector, matrix = plan.share_variance()
    entries = fixed_point.size(plan.dim) - plan.dim
    drawn = discrete_gaussian.sample(vector, plan.dim)
    return np.array(drawn + discrete_gaussian.sample(matrix, entries), dtype=np.int64)


def _stream(client: int | str) -> int:
    """Return a number for a client: its id, or a hash of its name."""
    if isinstance(client, int):
        return client
    return int.from_bytes(hashlib.blake2b(client.encode(), digest_size=4).digest(), "little")
