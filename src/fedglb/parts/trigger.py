"""When there is a global update: by event, by one of two schedules, always or never."""

from __future__ import annotations

import functools
import inspect
import math
from abc import ABC
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypeAlias, cast, get_args

import numpy as np

from fedglb.errors import InvalidInput, integer, number, one_of
from fedglb.kernels.pointers import FIRES
from fedglb.parts.own import Code, FunctionPart, Socket, method, parameters
from fedglb.setting import Setting

#: What a client that may ask knows.
_KNOWN = ("t", "t_last", "log_gain", "samples", "total")


def _around(own: Callable[..., bool]) -> Callable[..., int]:
    def fires(t, t_last, log_gain, samples, total, constants):  # type: ignore[no-untyped-def]
        return 1 if own(t, t_last, log_gain, samples, total, constants) else 0

    return fires


def _checked(call: str, asks: Any, *inputs: Any) -> bool:
    if not isinstance(asks, bool | np.bool_):
        raise InvalidInput(call, asks, "True or False")
    return bool(asks)


FIRES_OF = Socket(FIRES, f"{', '.join(_KNOWN)}, constants", _around, _checked)
#: The factor on a client's gain in `Event`.
Clock: TypeAlias = Literal["steps", "own samples"]
#: With a `share`, a client asks after at least this number of samples.
FEW = 4
_LATEST = 1000 * 365 * 86400.0  # seconds from a federation's start to its last update


class Trigger(ABC):  # noqa: B024 - all methods have a default
    """A rule for when there is a global update. Subclasses are frozen dataclasses.

    There are two ways. A client requests an update after its own sample in step t if
    (t − t_last)·log_gain ≥ `level`, with log_gain = log(det A_i / det(A_i − ΔA_i)), or if
    log_gain ≥ `max_gain`; `clocked_by` may put another factor in place of t − t_last. It also does
    so after `FEW` own samples since the last model, and `share` of those before it. And an update
    may be `due` at the end of a step. Where a trigger is expected, a plain function in place of
    `fires` is one, e.g. ``lambda samples, total: samples >= 4 + 0.5 * total``.

    References
    ----------
    Li and Wang (2022), Eq. (4) and Algorithms 1 and 4 to 6.

    Examples
    --------
    >>> from dataclasses import dataclass, replace
    >>> import fedglb as fg
    >>> from fedglb.setting import Setting
    >>> @dataclass(frozen=True)
    ... class EveryTenSteps(fg.Trigger):
    ...     def due(self, setting: Setting, t: int) -> bool:
    ...         return t % 10 == 0
    >>> EveryTenSteps().due(Setting(fg.Problem(dim=2), 3, 100, 1.0, 0.1), 20)
    True
    """

    #: Whether the rule uses log_gain, which not every local update tracks.
    needs_gain: ClassVar[bool] = False
    #: Whether the times of updates are known in advance, and so leak nothing of the samples.
    public: ClassVar[bool] = False
    #: The log_gain from which on a client asks, whatever the clock; infinity: never
    max_gain: float = math.inf
    #: A client asks after 4 + share·(own samples before the last model) own samples since then;
    #: infinity: never
    share: float = math.inf

    @property
    def max_updates(self) -> int | None:
        """The maximum number of updates; None: no limit."""
        return None

    def check(self, setting: Setting) -> None:
        """Raise `InvalidInput` if the rule cannot work in this setting.

        Parameters
        ----------
        setting
            The setting of the run.
        """

    def resolved(self, setting: Setting) -> Trigger:
        """Return the rule with the numbers that follow from the setting; itself, by default.

        Parameters
        ----------
        setting
            The setting of the run.

        Returns
        -------
        Trigger
            The rule that clients ask by.
        """
        return self

    @property
    def level(self) -> float:
        """The level from which on a client asks; infinity, which is never, by default."""
        return math.inf

    @property
    def clocked_by(self) -> Clock | None:
        """The factor on log_gain: steps, or own samples since the last model; None: 1."""
        return "steps"

    def fires(self, t: int, t_last: int, log_gain: float, samples: int = 0, total: int = 0) -> bool:
        """Return whether a client requests an update after its own sample in step t.

        A subclass that overrides it may take only the first arguments; numba compiles it, if it
        can.

        Parameters
        ----------
        t
            The current step.
        t_last
            The step of the last global update, 0 before the first.
        log_gain
            log(det A_i / det(A_i − ΔA_i)) of the client.
        samples
            n_i, the client's own samples since the last model.
        total
            All of the client's own samples.

        Returns
        -------
        bool
            By default whether log_gain, times the factor of `clocked_by`, is at least `level`, or
            log_gain at least `max_gain`, or n_i at least `FEW` + `share`·(total − n_i).
        """
        clock = 1
        if self.clocked_by is not None:
            clock = samples if self.clocked_by == "own samples" else t - t_last
        if clock * log_gain >= self.level or log_gain >= self.max_gain:
            return True
        return self.share < math.inf and samples >= FEW + self.share * (total - samples)

    @property
    def code(self) -> Code | None:
        """A user's `fires` for kernels; None: the comparison above."""
        if type(self).fires is Trigger.fires:
            return None
        taken = parameters(type(self).fires).values()  # it may take only the first
        every = any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in taken)
        known = _KNOWN if every else _KNOWN[: len(taken) - 1]
        call = f"{type(self).__name__}.fires({', '.join(known)})"
        return method(FIRES_OF, self, "fires", call, known)

    @property
    def why_plain(self) -> str | None:
        """Why only the reference engine asks by it; None: it is compiled."""
        return None if self.code is None else self.code.why_plain

    def asks(self, t: int, t_last: int, log_gain: float, samples: int, total: int) -> bool:
        """Return what `fires` does, by machine code if a user's can be compiled.

        Parameters
        ----------
        t, t_last, log_gain, samples, total
            As for `fires`.

        Returns
        -------
        bool
            Whether a client requests an update.
        """
        known, code = (t, t_last, log_gain, samples, total), self.code
        return self.fires(*known) if code is None else bool(code.kernel(*known, code.constants))

    def rehearsal(self) -> tuple[Code, tuple[Any, ...]] | None:
        """Return a user's function and what it is first called with; None: there is none.

        Returns
        -------
        tuple or None
            The function's code, and the arguments of the kernel around it: of a first sample.
        """
        code = self.code
        return None if code is None else (code, (1, 0, 0.0, 1, 1, code.constants))

    def due(self, setting: Setting, t: int) -> bool:
        """Return whether an update is due at the end of step t; never, by default.

        Parameters
        ----------
        setting
            The setting of the run.
        t
            The step, counted from 1.

        Returns
        -------
        bool
            Whether there is a global update at its end, whatever the clients ask for.
        """
        return False


@dataclass(frozen=True)
class Event(Trigger):
    """A client asks where (t − t_last) · log(det A_i / det(A_i − ΔA_i)) ≥ D.

    On the clock "own samples" the first factor is n_i, the client's own samples since the last
    model. On the clock "steps" it is 0 until the step of an update ends: the clients that follow
    in this step do not ask, unless D = 0. With own samples they may; where all clients act in every
    step, the same D then makes more updates.

    Li and Wang (2022), Algorithm 1, line 8; Eq. (4) has > in place of ≥ (erratum 2). They have no
    `max_gain`, which closes the proof of the regret (docs/theory.md, Theorem 24).
    """

    stored_name = "Event"

    needs_gain = True
    #: D ≥ 0: the smaller, the more global updates; 0 asks after every interaction, infinity never.
    #: None: T/(N𝓡), with 𝓡 = d log(1 + c_μNT/(dλ)), which bounds the gain of all samples together
    threshold: float | None
    #: "steps" (default): t − t_last, as the paper prints it. "own samples": n_i, the count over
    #: which the paper's proof sums a client's regret since the last update
    clock: Clock = "steps"
    #: A client also asks once its gain is at least this, whatever the clock. Infinity (default):
    #: as the paper
    max_gain: float = math.inf
    #: A client also asks after 4 own samples since the last model, and this share of those before
    #: it. Infinity (default): as the paper
    share: float = math.inf

    def __post_init__(self) -> None:
        if self.threshold is not None:
            number(
                "threshold", self.threshold, at_least=0.0, allow_infinite=True,
                allowed="a number D >= 0, or infinity for no updates at all",
            )  # fmt: skip
        one_of("clock", self.clock, get_args(Clock))
        number("max_gain", self.max_gain, above=0.0, allow_infinite=True)
        number("share", self.share, above=0.0, allow_infinite=True)

    def check(self, setting: Setting) -> None:
        """Raise `InvalidInput` if D is to follow from a horizon that is not known."""
        if self.threshold is None and setting.horizon is None:
            allowed = "a number D >= 0, e.g. 0.1: its default follows from the horizon, which a "
            raise InvalidInput("threshold", None, f"{allowed}federation does not have")

    def resolved(self, setting: Setting) -> Event:
        """Return the rule with a number for D."""
        if self.threshold is not None:
            return self
        problem, N, T = setting.problem, setting.clients, setting.horizon
        assert T is not None
        ratio = problem.c_mu * N * T / (problem.dim * setting.ridge)
        return replace(self, threshold=T / (N * problem.dim * math.log1p(ratio)))

    @property
    def clocked_by(self) -> Clock:
        """The clock."""
        return self.clock

    @property
    def level(self) -> float:
        """D."""
        assert self.threshold is not None
        return self.threshold


@dataclass(frozen=True)
class Growth(Trigger):
    """A client asks once its own samples since its last model raise det A by more than 1 + C.

    That is log(det A_i / det(A_i − ΔA_i)) > log(1 + C): time does not count.

    He et al. (2022), Algorithm 1, has this condition, with α for C.
    """

    stored_name = "Growth"

    needs_gain = True
    clocked_by = None
    #: C ≥ 0: the smaller, the more updates; 0 asks after every sample that is not zero, infinity
    #: never
    threshold: float

    def __post_init__(self) -> None:
        number(
            "threshold", self.threshold, at_least=0.0, allow_infinite=True,
            allowed="a number C >= 0, or infinity for no updates at all",
        )  # fmt: skip

    @property
    def level(self) -> float:
        """The smallest double above log(1 + C): the condition is strict."""
        return math.nextafter(math.log1p(self.threshold), math.inf)


@dataclass(frozen=True)
class Schedule(Trigger):
    """Updates at the end of steps ⌊T/B⌋, 2⌊T/B⌋, …, B of them.

    Li and Wang (2022), Algorithms 4 to 6.
    """

    stored_name = "Schedule"

    public = True
    updates: int  # B, the number of global updates, 1 ≤ B ≤ T

    def __post_init__(self) -> None:
        integer("updates", self.updates)

    @property
    def max_updates(self) -> int:
        """B."""
        return self.updates

    def check(self, setting: Setting) -> None:
        """Raise `InvalidInput` unless the horizon is known and B ≤ T."""
        if setting.horizon is None:
            raise InvalidInput("horizon", None, "the number of steps T, which a schedule needs")
        if self.updates > setting.horizon:
            raise InvalidInput(
                "updates", self.updates, f"at most B = T = {setting.horizon} updates"
            )

    def due(self, setting: Setting, t: int) -> bool:
        """Return whether t is one of the B steps."""
        assert setting.horizon is not None
        period = setting.horizon // self.updates
        return t % period == 0 and t // period <= self.updates


@dataclass(frozen=True)
class Geometric(Trigger):
    """B updates whose times grow by a factor: many early, when they matter most.

    In a simulation the first is at the end of step t₁ and the next at ⌈t₁g⌉, ⌈t₁g²⌉, …, each at
    least a step later than the one before. In a federation times are seconds since its start.

    docs/privacy.md, "Choosing the numbers".
    """

    stored_name = "Geometric"

    public = True
    updates: int  # B, the number of global updates
    #: t₁: a step, or in a federation seconds. None (default): in a simulation, where the sums are
    #: about as large as their noise of privacy; the first step without noise
    first: float | None = None
    #: g > 1. None (default): in a simulation the one for which the update after the last would be
    #: at the horizon
    growth: float | None = None

    def __post_init__(self) -> None:
        integer("updates", self.updates)
        if self.first is not None:
            number("first", self.first, above=0.0)
        if self.growth is not None:
            number("growth", self.growth, above=1.0)

    @property
    def max_updates(self) -> int:
        """B."""
        return self.updates

    def check(self, setting: Setting) -> None:
        """Raise `InvalidInput` unless it is known when updates are due."""
        if setting.horizon is None:
            for name in ("first", "growth"):
                if getattr(self, name) is None:
                    allowed = "a number, in a federation or without a horizon: e.g. first=3600.0 "
                    raise InvalidInput(name, None, f"{allowed}(seconds) and growth=1.3")
            return
        if self.updates > setting.horizon:
            raise InvalidInput(
                "updates", self.updates, f"at most B = T = {setting.horizon} updates"
            )
        if self.first is not None and self.first > setting.horizon:
            raise InvalidInput("first", self.first, f"at most the horizon, {setting.horizon}")

    def due(self, setting: Setting, t: int) -> bool:
        """Return whether t is one of the B steps."""
        return t in self.steps(setting)

    def steps(self, setting: Setting) -> tuple[int, ...]:
        """Return the steps at whose ends updates are due."""
        return _geometric_steps(self, setting)

    def seconds(self) -> tuple[float, ...]:
        """Return the times of the updates of a federation, in seconds since its start.

        `InvalidInput` if the last one is later than anybody will wait.
        """
        assert self.first is not None
        assert self.growth is not None
        last = math.log(self.first) + (self.updates - 1) * math.log(self.growth)
        if last > math.log(_LATEST):
            allowed = "a smaller factor, or fewer updates: the last one is in a thousand years"
            raise InvalidInput("growth", self.growth, allowed)
        return tuple(self.first * self.growth**k for k in range(self.updates))


@functools.lru_cache(maxsize=64)
def _geometric_steps(schedule: Geometric, setting: Setting) -> tuple[int, ...]:
    T = setting.horizon
    assert T is not None
    first = _first_step(setting) if schedule.first is None else schedule.first
    growth = (T / first) ** (1.0 / schedule.updates) if schedule.growth is None else schedule.growth
    steps: list[int] = []
    for k in range(schedule.updates):
        if math.log(first) + k * math.log(growth) > math.log(T) + 1e-9:
            break  # and so are all later ones
        step = math.ceil(first * growth**k * (1.0 - 1e-12))  # roots are rounded, too
        steps.append(max(step, steps[-1] + 1) if steps else max(step, 1))
    return tuple(step for step in steps if step <= T)


def _first_step(setting: Setting) -> float:
    """Where signal meets noise: t₁ = 2 d^{1.5} σ_v/(NS), σ_v in one release; at most T/4."""
    plan, problem = setting.noise, setting.problem
    assert setting.horizon is not None
    if plan is None:
        return 1.0
    sigma = plan.vector_share * math.sqrt(setting.clients)
    step = math.ceil(2.0 * problem.dim**1.5 * sigma / (setting.clients * problem.S))
    return float(max(1, min(step, setting.horizon // 4)))


@dataclass(frozen=True)
class Always(Trigger):
    """A client asks after each of its samples."""

    stored_name = "Always"

    @property
    def level(self) -> float:
        """Minus infinity: a client always asks."""
        return -math.inf


@dataclass(frozen=True)
class Never(Trigger):
    """There are no global updates: every client learns alone."""

    stored_name = "Never"


@dataclass(frozen=True, repr=False)
class OwnTrigger(FunctionPart, Trigger):
    """A client asks where a user's function is true; it may take any argument of `fires`."""

    known: ClassVar[Mapping[str, str]] = {name: name for name in _KNOWN}

    @property
    def needs_gain(self) -> bool:  # type: ignore[override]
        """Whether the function takes it."""
        return "log_gain" in self.takes

    @property
    def code(self) -> Code:
        """The function in its socket."""
        return self.code_in(FIRES_OF)

    def fires(self, t: int, t_last: int, log_gain: float, samples: int = 0, total: int = 0) -> bool:
        """Return what the function returns."""
        return self.asks(t, t_last, log_gain, samples, total)


#: A trigger, or a function of any argument of `Trigger.fires`.
TriggerLike: TypeAlias = Trigger | Callable[..., bool]


def as_trigger(value: TriggerLike) -> Trigger:
    """Return a function as a trigger; anything else as it is, for the caller to check."""
    return cast("Trigger", OwnTrigger.of(value))
