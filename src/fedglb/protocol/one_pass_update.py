"""One global update in which each client sends one message: the sums of the one-pass update."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedglb.algorithms import Algorithm
from fedglb.errors import InvalidInput
from fedglb.model import SharedModel
from fedglb.parts.global_update import Objective, Passed, Solve
from fedglb.privacy.fixed_point import BITS, LARGEST, size, unpack
from fedglb.protocol.assembly import Contribution, UpdateRecord, shared_model
from fedglb.protocol.messages import BatchSums, ClientId, CovarianceRequest, Message
from fedglb.protocol.persistence import Arrays, nested, prefixed, stack, unstack
from fedglb.setting import Setting
from fedglb.typing import IntArray

GATHERING, SOLVING = 1, 2  # as in `protocol.update`
_DEVIATIONS = 64.0  # of noise, which no honest client exceeds in the age of the universe


@dataclass(frozen=True)
class SumOfReleases:
    """The sum of what clients released in one update, and how many they were."""

    clients: int
    numbers: IntArray


@dataclass
class OnePassUpdate:
    """An update in progress: what was released so far; it ends when all have sent their sums.

    It is to a coordinator what `protocol.update.Update` is for other solvers.

    Parameters
    ----------
    algorithm, setting
        The algorithm and the setting of the federation.
    number, t, asked_by
        Its number, its step, and who asked for it: nobody, it is a schedule's.
    participants
        The clients that take part.
    previous, base
        The model of the update before, None in the first, and the number of that update.
    earlier
        The sums of the updates before, by their numbers.
    gathered
        What clients have sent so far.
    total
        The sum over all participants; None until it is known.
    """

    algorithm: Algorithm
    setting: Setting
    number: int
    t: int
    asked_by: ClientId | None
    participants: dict[ClientId, None]
    previous: SharedModel | None
    base: int
    earlier: Mapping[int, SumOfReleases]
    gathered: dict[ClientId, BatchSums] = field(default_factory=dict)
    total: SumOfReleases | None = None
    solve: Solve | None = None
    rounds: int = 0

    @property
    def phase(self) -> int:
        """GATHERING; SOLVING for the moment in which the model is worked out."""
        return GATHERING if self.total is None else SOLVING

    # -- messages ------------------------------------------------------------------------------

    def request(self, client: ClientId) -> CovarianceRequest:
        """Return the request that `client` has to answer."""
        return CovarianceRequest(client, self.number, self.base)

    def missing(self) -> list[ClientId]:
        """Return the participants whose answer is outstanding."""
        return [client for client in self.participants if client not in self.gathered]

    @property
    def answered(self) -> int:
        """How many answers have arrived."""
        return len(self.gathered)

    @property
    def complete(self) -> bool:
        """Whether all answers have arrived, so that it can `advance`."""
        return self.total is not None or self.answered == len(self.participants)

    def awaits(self, message: Message) -> bool:
        """Whether this message is an answer that the update waits for now."""
        return (
            isinstance(message, BatchSums)
            and self.total is None
            and message.update == self.number
            and message.client in self.participants
            and message.client not in self.gathered
        )

    def accept(self, message: BatchSums) -> None:
        """Accept an expected answer; a bad one raises `InvalidInput` and changes nothing."""
        check_numbers(message.numbers, self.setting)
        check_size(message.numbers, self.setting)
        self.gathered[message.client] = message

    def accept_total(self, clients: int, numbers: IntArray) -> None:
        """Accept the sum over all participants, where nobody knows its terms.

        Parameters
        ----------
        clients
            How many clients are in it.
        numbers
            The sum.

        Raises
        ------
        InvalidInput
            If it cannot be the sum of honest clients; nothing has changed.
        """
        check_numbers(numbers, self.setting)
        self.total = SumOfReleases(clients, numbers)

    # -- from phase to phase -------------------------------------------------------------------

    def advance(self) -> None:
        """Add up what was sent, and fit the model."""
        if self.total is None:
            terms = [message.numbers for message in self.gathered.values()]
            self.total = SumOfReleases(len(terms), np.sum(terms, axis=0, dtype=np.int64))
        self.rounds = 1
        self.solve = Solve(self._solver, self._objective(self.total))

    @property
    def _solver(self) -> Any:
        return self.algorithm.global_update

    def _objective(self, total: SumOfReleases) -> Objective:
        """Return what is fitted, and the way there where the radius needs it."""
        each = {**self.earlier, self.number: total}
        fitted = self._objective_of(each)
        if not self.algorithm.confidence.needs_path:
            return fitted
        # earlier models follow from what was released, so that nobody has to keep them
        path: list[Passed] = []
        numbers, theta = sorted(each), np.zeros(self.setting.problem.dim)
        for last in numbers:
            part = self._objective_of({j: each[j] for j in numbers if j <= last})
            assert part.moment is not None
            path.append(Passed(last, each[last].clients, theta, part.moment, part.covariance))
            if last < self.number:
                solution = Solve(self._solver, part).solution
                assert solution is not None
                theta = solution.theta
        return replace(fitted, path=tuple(path))

    def _objective_of(self, released: Mapping[int, SumOfReleases]) -> Objective:
        """Return what is fitted at the last of some updates: the sums over all samples so far."""
        plan, b, d = self.setting.noise, max(released), self.setting.problem.dim
        releases = {j: each.numbers.astype(float) for j, each in released.items()}
        numbers = sum(releases.values()) if plan is None else plan.decoded(releases, b)
        v, H = unpack(np.asarray(numbers), d)
        prior = self.algorithm.local_update.prior(self.setting)
        return Objective(
            setting=self.setting,
            samples=1,  # nobody counts them
            covariance=H,
            matrix=prior * np.eye(d) + H,
            previous=self.previous,
            moment=v,
            noise=self._noise(released),
        )

    def _noise(self, released: Mapping[int, SumOfReleases]) -> tuple[float, float]:
        """Return the standard deviations of the noise in the sums of v and of H.

        Clients come and go: each release has the noise of those that were there.
        """
        plan = self.setting.noise
        if plan is None:
            return 0.0, 0.0
        row = plan.factors.decoder[max(released) - 1]
        shares = math.sqrt(sum(row[j - 1] ** 2 * each.clients for j, each in released.items()))
        return plan.vector_share * shares, plan.matrix_share * shares

    def exclude(self, clients: Iterable[ClientId]) -> None:
        """Go on without these participants."""
        for client in clients:
            del self.participants[client]
            self.gathered.pop(client, None)

    # -- the end -------------------------------------------------------------------------------

    @property
    def solved(self) -> bool:
        """Whether there is a solution: then there is a `model`."""
        return self.solve is not None and self.solve.solution is not None

    def model(self) -> SharedModel:
        """Return the model that all clients get."""
        assert self.solve is not None
        assert self.solve.solution is not None
        return shared_model(self.algorithm, self.t, self.solve.objective, self.solve.solution)

    def fitted(self) -> dict[ClientId, Contribution]:
        """Return the participants; what each contributed is in no record."""
        nothing = Contribution(0, np.zeros((0, 0)), None)
        return dict.fromkeys(self.participants, nothing)

    def record(self) -> UpdateRecord:
        """Return the record of this update: nobody knows the number of samples."""
        assert self.solve is not None
        assert self.solve.solution is not None
        return UpdateRecord(
            t=self.t,
            client=self.asked_by,
            samples=0,
            rounds=self.rounds,
            gradient_norm=float("nan"),
            gap=float("nan"),
            projected=self.solve.solution.projected,
        )

    # -- persistence ---------------------------------------------------------------------------

    def to_arrays(self) -> Arrays:
        """Return as plain arrays what the coordinator does not store itself."""
        return {
            "participants": np.array(list(self.participants)),
            **({} if self.asked_by is None else {"asked_by": np.array(self.asked_by)}),
            **prefixed(stack(self.gathered), "gathered"),
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore into this new update the state that `to_arrays` returned."""
        self.participants = dict.fromkeys(arrays["participants"].tolist())
        self.asked_by = arrays["asked_by"].item() if "asked_by" in arrays else None
        self.gathered = unstack(BatchSums, nested(arrays, "gathered"))


def check_numbers(numbers: IntArray, setting: Setting) -> None:
    """Raise unless this is a release or a sum of some: so many whole numbers."""
    m = size(setting.problem.dim)
    if numbers.shape != (m,) or numbers.dtype != np.int64:
        given = f"{numbers.dtype} of shape {numbers.shape}"
        raise InvalidInput("numbers", given, f"{m} whole numbers of 64 bits")


def check_size(numbers: IntArray, setting: Setting, samples: int | None = None) -> None:
    """Raise unless one client may release this: so that no sum over clients overflows 64 bits.

    Parameters
    ----------
    numbers
        What it releases.
    setting
        The setting of the federation.
    samples
        How many samples a client may have; None: as many as fit.
    """
    room = (2**63 - 1) // setting.clients
    if samples is not None:
        room = min(room, _most_of(setting, samples))
    largest = max(int(numbers.max()), -int(numbers.min()))  # whole numbers of any size
    if largest > room:
        raise InvalidInput("numbers", largest, f"whole numbers within ±{room}")


def _most_of(setting: Setting, samples: int) -> int:
    """Return what no honest client of so many samples exceeds: their sums, and 64σ of noise.

    Weights are at most 1, and |v| and |H| of a sample at most what they are clipped to.
    """
    top, plan = LARGEST, setting.noise
    if plan is None:
        return int(samples * top * 2.0**BITS)
    own = samples * max(plan.residual_limit, plan.slope_limit) * 2.0**BITS
    return int(own + _DEVIATIONS * float(plan.scales().max()))
