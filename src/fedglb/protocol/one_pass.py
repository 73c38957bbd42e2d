"""One-pass updates: clients release sums of each sample once, and the coordinator fits them.

A client closes a batch of samples per update and sends the sums of its batches, with noise if
there is privacy. The coordinator only needs the sum over clients.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedglb.algorithms import Algorithm
from fedglb.errors import InvalidInput
from fedglb.kernels.layout import in_order
from fedglb.model import shared_theta
from fedglb.parts.global_update import Objective, OnePassSums, Passed, Solve
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
from fedglb.privacy.fixed_point import BITS, size, unpack
from fedglb.privacy.fixed_point import LARGEST as LARGEST_NUMBER
from fedglb.privacy.noise import NoiseSource
from fedglb.privacy.sensitivity import residual_bound
from fedglb.protocol.messages import BatchSums, ClientId, Covariance, Message
from fedglb.protocol.persistence import Arrays, from_arrays, nested, prefixed, to_arrays
from fedglb.protocol.update import GATHERING, SOLVING, Contribution, Update, UpdateRecord
from fedglb.samples import Samples
from fedglb.setting import Setting
from fedglb.typing import FloatArray, IntArray

_DEVIATIONS = 64.0  # of noise: more than any honest client ever draws

# -- a client's releases --------------------------------------------------------------------


def sums_of(
    setting: Setting,
    theta: FloatArray,
    X: FloatArray,
    y: FloatArray,
    first: IntArray,
    last: IntArray,
) -> IntArray:
    """Return the sums of each client's rows first[i] … last[i] − 1 at the model θ.

    X and y have the samples of N clients, shapes (N, n, d) and (N, n). The sums are whole numbers
    in units of 2⁻³⁰, shape (N, d + d(d+1)/2). Raises `InvalidInput` if rewards or the number of
    samples are too large: a sum over all clients could overflow.
    """
    _check_room(setting, theta, y, first, last)
    numbers = np.zeros((len(X), size(setting.problem.dim)), dtype=np.int64)
    plan, functions = setting.noise, setting.problem.link.compiled_functions
    low, high = (-math.inf, math.inf) if plan is None else plan.rewards
    limits = {
        BALL: setting.problem.S, LEAST: low, MOST: high,
        RESIDUAL: math.inf if plan is None else plan.residual_limit,
        SLOPE: math.inf if plan is None else plan.slope_limit,
        UNIT: 2.0**BITS, LARGEST: LARGEST_NUMBER,
    }  # fmt: skip
    clipped_to = np.array(in_order(limits))
    if add_all_releases(X, y, first, last, theta, functions, clipped_to, numbers):
        allowed = f"rewards within ±{LARGEST_NUMBER:g}: use a larger unit"
        raise InvalidInput("reward", "too large to be summed", allowed)
    return numbers


def _check_room(
    setting: Setting, theta: FloatArray, y: FloatArray, first: IntArray, last: IntArray
) -> None:
    """Raise unless the sums of all clients fit into 63 bits.

    With noise, weighted sums of all batches are sent: all of a client's samples count, each as the
    largest possible, so that the result does not depend on rewards. Without, only those in a batch.
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
    """A client's message in one update, and its batch."""

    update: int
    samples: int  # number of the client's samples in batches then, the oldest ones
    #: The sums of the update's batch. Without noise also those of earlier batches whose updates led
    #: to no model.
    batch: IntArray
    numbers: IntArray  # the message: weighted sums of all batches, with the client's noise


class Batches:
    """A client's batches and releases: one per update, in order."""

    def __init__(
        self, client: ClientId, algorithm: Algorithm, setting: Setting, source: NoiseSource
    ) -> None:
        self._client, self._setting, self._source = client, setting, source
        self._most = algorithm.max_updates
        self.taken = 0  # number of samples in batches, the oldest ones
        self.closed: dict[int, IntArray] = {}  # by their update
        self.last: Release | None = None

    @property
    def released(self) -> int:
        """The last update with a release; 0: none."""
        return 0 if self.last is None else self.last.update

    def refusal(self, update: int) -> str | None:
        """Return why a release for an update is refused, or None."""
        if update <= self.released:
            return f"update {update}: already released for update {self.released}"
        if self._most is not None and update > self._most:
            return f"update {update}: the privacy budget of {self._most} updates is spent"
        return None

    def prepare(
        self, update: int, samples: Samples, frozen: int, theta: FloatArray, adopted: int
    ) -> Release:
        """Return a release for an update, with fresh noise. Changes nothing.

        The update includes the first `frozen` samples; θ is the client's model, of the update
        `adopted`. Raises `InvalidInput` if no release is allowed for this update.
        """
        if (why := self.refusal(update)) is not None:
            raise InvalidInput("update", update, f"a later update within the budget: {why}")
        first, last = np.array([self.taken]), np.array([frozen])
        batch = sums_of(self._setting, theta, samples.X[None], samples.y[None], first, last)[0]
        plan = self._setting.noise
        if plan is None:  # each sample is in one model's sum only
            if self.last is not None and adopted < self.last.update:  # that update was lost
                batch = batch + self.last.batch
            return Release(update, frozen, batch, batch)
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


# -- the update, at the coordinator ------------------------------------------------------------


@dataclass(frozen=True)
class SumOfReleases:
    """The sum of the clients' releases in one update, and their number."""

    clients: int
    numbers: IntArray


@dataclass
class OnePassUpdate(Update):
    """An update in progress that ends when all participants have sent their sums."""

    earlier: Mapping[int, SumOfReleases] = field(default_factory=dict)  # by the update's number
    total: SumOfReleases | None = None  # over all participants; None until it is known

    @property
    def phase(self) -> int:
        """GATHERING; SOLVING while the model is computed."""
        return GATHERING if self.total is None else SOLVING

    @property
    def first_answer(self) -> type[Message]:
        """The only message that participants send."""
        return BatchSums

    @property
    def complete(self) -> bool:
        """Whether all answers or their sum have arrived, so that it can `advance`."""
        return self.total is not None or super().complete

    def accept(self, message: BatchSums) -> None:
        """Accept an expected answer; a bad one raises `InvalidInput` and changes nothing."""
        check_numbers(message.numbers, self.setting)
        check_size(message.numbers, self.setting)
        self.gathered[message.client] = message

    def accept_total(self, clients: int, numbers: IntArray) -> None:
        """Accept the secure sum over this number of clients, or raise."""
        check_numbers(numbers, self.setting)
        self.total = SumOfReleases(clients, numbers)

    def advance(self) -> None:
        """Add up the releases, and fit the model."""
        if self.total is None:
            terms = [message.numbers for message in self.gathered.values()]
            self.total = SumOfReleases(len(terms), np.sum(terms, axis=0, dtype=np.int64))
        self.rounds = 1
        self.solve = Solve(self.solver, self._objective())

    def _objective(self) -> Objective:
        """Return the objective, with earlier models if the radius needs them."""
        assert self.total is not None
        each = {**self.earlier, self.number: self.total}
        fitted = self._objective_of(each)
        if not self.algorithm.confidence.needs_path:
            return fitted
        # earlier models follow from the releases, so they need not be stored
        path: list[Passed] = []
        numbers, theta = sorted(each), np.zeros(self.setting.problem.dim)
        for last in numbers:
            part = self._objective_of({j: each[j] for j in numbers if j <= last})
            assert part.one_pass is not None
            path.append(Passed(last, each[last].clients, theta, part.one_pass.v, part.one_pass.H))
            if last < self.number:
                solution = Solve(self.solver, part).solution
                assert solution is not None
                theta = solution.theta
        assert fitted.one_pass is not None
        return replace(fitted, one_pass=replace(fitted.one_pass, path=tuple(path)))

    def _objective_of(self, released: Mapping[int, SumOfReleases]) -> Objective:
        """Return the objective at the last of some updates: the sums over all samples so far."""
        plan, b, d = self.setting.noise, max(released), self.setting.problem.dim
        releases = {j: each.numbers.astype(float) for j, each in released.items()}
        numbers = sum(releases.values()) if plan is None else plan.decoded(releases, b)
        v, H = unpack(np.asarray(numbers), d)
        noise = (0.0, 0.0)
        if plan is not None:  # each release has the noise of its clients
            row = plan.factors.decoder[b - 1]
            shares = math.sqrt(sum(row[j - 1] ** 2 * each.clients for j, each in released.items()))
            noise = plan.vector_share * shares, plan.matrix_share * shares
        return Objective(
            setting=self.setting,
            samples=1,  # omitted for privacy
            covariance=None,
            matrix=self.algorithm.local_update.prior(self.setting) * np.eye(d) + H,
            start=shared_theta(self.previous, d),
            previous=self.previous,
            one_pass=OnePassSums(v, H, noise),
        )

    def fitted(self) -> dict[ClientId, Contribution]:
        """Return an empty contribution per participant: releases are not stored."""
        nothing = np.zeros((0, 0))
        return {c: Covariance(c, self.number, 0, nothing) for c in self.participants}

    def record(self) -> UpdateRecord:
        """Return the record of this update; the number of samples is omitted for privacy."""
        assert self.solution is not None
        projected = self.solution.projected
        return UpdateRecord(self.t, self.asked_by, 0, self.rounds, math.nan, math.nan, projected)


def check_numbers(numbers: IntArray, setting: Setting) -> None:
    """Raise unless this is a release, or a sum of releases."""
    m = size(setting.problem.dim)
    if numbers.shape != (m,) or numbers.dtype != np.int64:
        given = f"{numbers.dtype} of shape {numbers.shape}"
        raise InvalidInput("numbers", given, f"{m} whole numbers of 64 bits")


def check_size(numbers: IntArray, setting: Setting, samples: int | None = None) -> None:
    """Raise unless a client's release is small enough: sums over clients must fit 64 bits.

    `samples` is the maximum number of samples (None: as many as fit): then the numbers are bounded
    by their largest sum and 64σ of noise.
    """
    room, plan = (2**63 - 1) // setting.clients, setting.noise
    if samples is not None and plan is None:
        room = min(room, int(samples * LARGEST_NUMBER * 2.0**BITS))
    elif samples is not None and plan is not None:
        # Weights are at most 1, and |v| and |H| of a sample at most what they are clipped to.
        own = samples * max(plan.residual_limit, plan.slope_limit) * 2.0**BITS
        room = min(room, int(own + _DEVIATIONS * float(plan.scales().max())))
    largest = max(int(numbers.max()), -int(numbers.min()))  # whole numbers of any size
    if largest > room:
        raise InvalidInput("numbers", largest, f"whole numbers within ±{room}")
