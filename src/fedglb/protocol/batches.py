"""What a client releases under a one-pass update: sums over batches of its samples, and noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedglb.algorithms import Algorithm
from fedglb.errors import InvalidInput
from fedglb.kernels.layout import in_order
from fedglb.parts.global_update.one_pass import (
    BALL,
    LARGEST,
    LEAST,
    MOST,
    RESIDUAL,
    SLOPE,
    UNIT,
    add_all_releases,
)
from fedglb.privacy.fixed_point import BITS, size
from fedglb.privacy.fixed_point import LARGEST as LARGEST_NUMBER
from fedglb.privacy.noise import NoiseSource
from fedglb.privacy.sensitivity import residual_bound
from fedglb.protocol.messages import ClientId
from fedglb.protocol.persistence import Arrays, from_arrays, nested, prefixed, to_arrays
from fedglb.samples import Samples
from fedglb.setting import Setting
from fedglb.typing import FloatArray, IntArray


def limits(setting: Setting) -> FloatArray:
    """Return what samples are clipped to, as `fedglb.parts.global_update.one_pass` reads it."""
    plan, unlimited = setting.noise, (-math.inf, math.inf)
    low, high = unlimited if plan is None else plan.rewards
    numbers = {
        BALL: setting.problem.S, LEAST: low, MOST: high,
        RESIDUAL: math.inf if plan is None else plan.residual_limit,
        SLOPE: math.inf if plan is None else plan.slope_limit,
        UNIT: 2.0**BITS, LARGEST: LARGEST_NUMBER,
    }  # fmt: skip
    return np.array(in_order(numbers))


def sums_of(
    setting: Setting,
    theta: FloatArray,
    X: FloatArray,
    y: FloatArray,
    first: IntArray,
    last: IntArray,
) -> IntArray:
    """Return the sums of each client's rows first[i] … last[i] − 1 at the model θ.

    Parameters
    ----------
    setting
        The setting of the run.
    theta
        The model in force, shape (d,).
    X, y
        Samples of all clients, shapes (N, n, d) and (N, n).
    first, last
        Which of them, shape (N,).

    Returns
    -------
    array
        Whole numbers, shape (N, d + d(d+1)/2), in units of 2⁻³⁰.

    Raises
    ------
    InvalidInput
        If rewards are so large, or samples so many, that a sum over all clients may overflow.
    """
    _check_room(setting, theta, y, first, last)
    numbers = np.zeros((len(X), size(setting.problem.dim)), dtype=np.int64)
    functions = setting.problem.link.compiled_functions
    if add_all_releases(X, y, first, last, theta, functions, limits(setting), numbers):
        allowed = f"rewards within ±{LARGEST_NUMBER:g}: give them in a larger unit"
        raise InvalidInput("reward", "too large to be summed", allowed)
    return numbers


def _check_room(
    setting: Setting, theta: FloatArray, y: FloatArray, first: IntArray, last: IntArray
) -> None:
    """Raise unless the sums of all clients fit into 63 bits: an overflow would hide nothing.

    With noise, weighted sums of all batches are sent: all of a client's samples count, each as the
    largest that there is, so that the answer does not depend on rewards. Without, those in a batch.
    """
    plan, problem = setting.noise, setting.problem
    if plan is not None:
        largest = float(last.max(initial=0)) * max(plan.residual_limit, plan.slope_limit)
    else:
        own = [
            float(np.abs(y[i, a:b]).sum()) for i, (a, b) in enumerate(zip(first, last, strict=True))
        ]
        far = max(float(np.linalg.norm(theta)), 1e-6)  # |xᵀθ| is at most this
        most = max(residual_bound(problem.link, far, (0.0, 0.0)), problem.link.k_mu(far))
        largest = max(own, default=0.0) + float((last - first).max(initial=0)) * most
    room = 2.0 ** (62 - BITS) / setting.clients
    if not largest < room:
        allowed = (
            f"fewer, or rewards in a larger unit: sums of up to {largest:.3g} of each of "
            f"{setting.clients} clients do not fit into 64 bits"
        )
        raise InvalidInput("samples", int(last.max(initial=0)), allowed)


@dataclass(frozen=True)
class Release:
    """What a client sends in one update, and what it is made of.

    Parameters
    ----------
    update
        Its update.
    samples
        How many of the client's samples are in batches then, the oldest ones.
    batch
        The sums of the batch that the update takes in. Without noise also those of the batches
        before it whose updates led to no model: nothing else would ever bring these.
    numbers
        What is sent: the weighted sums of all batches, and the client's noise.
    """

    update: int
    samples: int
    batch: IntArray
    numbers: IntArray


class Batches:
    """A client's batches, and what it has released of them: once for an update, and in order.

    Parameters
    ----------
    client, algorithm, setting
        The client, and the algorithm and the setting of the federation.
    source
        Where noise comes from; needed where there is privacy.
    """

    def __init__(
        self,
        client: ClientId,
        algorithm: Algorithm,
        setting: Setting,
        source: NoiseSource | None = None,
    ) -> None:
        self._client, self._setting, self._source = client, setting, source
        self._most = algorithm.most_updates
        self.taken = 0  # so many of the client's samples, the oldest ones, are in batches
        self.closed: dict[int, IntArray] = {}  # by the update that took them in
        self.last: Release | None = None

    @property
    def released(self) -> int:
        """The last update that something was released for; 0: none."""
        return 0 if self.last is None else self.last.update

    def refusal(self, update: int) -> str | None:
        """Return why nothing may be released for an update, or None if it may."""
        if update <= self.released:
            return f"update {update}: something was released for update {self.released} already"
        if self._most is not None and update > self._most:
            return f"update {update}: the privacy budget is for {self._most} updates, and is spent"
        return None

    def prepare(
        self, update: int, samples: Samples, frozen: int, theta: FloatArray, adopted: int
    ) -> Release:
        """Return what would be released for an update, with fresh noise. Changes nothing.

        Parameters
        ----------
        update
            Its number.
        samples, frozen
            The client's samples, and how many of them the update takes in, the oldest ones.
        theta, adopted
            The model that the client holds, and the update that it came from.

        Returns
        -------
        Release
            For `commit`, once it is known that it will be sent.

        Raises
        ------
        InvalidInput
            If nothing may be released for this update.
        """
        if (why := self.refusal(update)) is not None:
            raise InvalidInput("update", update, f"a later one within the budget: {why}")
        first, last = np.array([self.taken]), np.array([frozen])
        batch = sums_of(self._setting, theta, samples.X[None], samples.y[None], first, last)[0]
        plan = self._setting.noise
        if plan is None:  # each sample is in one sum of a model, ever
            if self.last is not None and adopted < self.last.update:  # that update was lost
                batch = batch + self.last.batch
            return Release(update, frozen, batch, batch)
        assert self._source is not None
        numbers = plan.encoded({**self.closed, update: batch}, update)
        numbers += self._source.draw(self._client, update, plan)
        return Release(update, frozen, batch, numbers)

    def commit(self, release: Release) -> None:
        """Count a release as sent: its batch is closed, and its slot is used."""
        if self._setting.noise is not None:  # else each batch is in one release only
            self.closed[release.update] = release.batch
        self.taken, self.last = release.samples, release

    # -- persistence ---------------------------------------------------------------------------

    def to_arrays(self) -> Arrays:
        """Return the whole state as plain arrays."""
        out: Arrays = {"taken": np.array(self.taken)}
        if self.closed:
            out["updates"] = np.array(list(self.closed))
            out["closed"] = np.stack(list(self.closed.values()))
        if self.last is not None:
            out |= prefixed(to_arrays(self.last), "last")
        return out

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore the state that `to_arrays` returned."""
        self.taken = int(arrays["taken"])
        if "updates" in arrays:
            rows = np.array(arrays["closed"])
            self.closed = dict(zip(arrays["updates"].tolist(), rows, strict=True))
        if last := nested(arrays, "last"):
            self.last = from_arrays(Release, last)
