"""An algorithm: one choice on each axis of the design space, and three numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from fedglb.confidence import Confidence
from fedglb.errors import InvalidInput, instance, integer, number
from fedglb.global_update import GlobalUpdate
from fedglb.local_update import LocalUpdate
from fedglb.problem import Problem
from fedglb.setting import Setting
from fedglb.trigger import Never, Trigger

#: Below this multiple of the identity a rank-one update of A⁻¹ loses too many digits.
SMALLEST_RIDGE = 1e-10


@dataclass(frozen=True)
class Algorithm:
    """A composition of parts. The named presets are functions that return one.

    Parameters
    ----------
    name
        Name in results.
    local_update
        What a client does with its own sample.
    global_update
        How all clients fit one model; None where they never do.
    trigger
        When they do.
    confidence
        The radius of the ellipsoid.
    ridge, delta, exploration
        λ; δ; what multiplies a lemma's radius (never `Fixed`).
    centralised
        One learner plays for all clients and sees every sample (One-UCB-GLM): no messages.

    Examples
    --------
    >>> import fedglb as fg
    >>> from fedglb.confidence import Fixed
    >>> from fedglb.local_update import Ons
    >>> from fedglb.trigger import Always
    >>> fg.Algorithm("eager", Ons(), fg.Newton(), Always(), Fixed(0.3)).name
    'eager'
    """

    stored_name = "Algorithm"

    name: str
    local_update: LocalUpdate[Any]
    global_update: GlobalUpdate | None
    trigger: Trigger
    confidence: Confidence[Any]
    ridge: float = 1.0
    delta: float = 0.01
    exploration: float = 1.0
    centralised: bool = False

    def __post_init__(self) -> None:
        number("ridge", self.ridge, above=0.0)
        number("delta", self.delta, above=0.0, below=1.0)
        number("exploration", self.exploration, at_least=0.0)
        instance("local_update", self.local_update, LocalUpdate, "Ons()")
        if self.global_update is not None:
            instance("solver", self.global_update, GlobalUpdate, "fg.Newton()")
        instance("trigger", self.trigger, Trigger, "Event(10.0)")
        instance("confidence", self.confidence, Confidence, "fg.Fixed(0.3)")
        never = isinstance(self.trigger, Never)
        if (self.global_update is None) != never:
            raise InvalidInput(
                "trigger", self.trigger, "Never() exactly where global_update is None"
            )
        if self.centralised and not never:
            raise InvalidInput(
                "centralised", True, "False where there are global updates: it needs none"
            )
        local = type(self.local_update).__name__
        if self.trigger.needs_gain and not self.local_update.tracks_gain:
            raise InvalidInput(
                "trigger",
                self.trigger,
                f"Schedule(...) or Always() with {local}, which does not follow its covariance "
                "between updates",
            )
        solver = self.global_update
        if solver is not None and solver.model_fields != self.local_update.model_fields:
            needed = self.local_update.model_fields
            fit = "none" if needed is None else f"one whose model holds {', '.join(sorted(needed))}"
            raise InvalidInput("global_update", solver, f"a global update that fits {local}: {fit}")
        if not issubclass(self.local_update.state_type, self.confidence.state_type):
            raise InvalidInput(
                "confidence",
                self.confidence,
                f"a radius that fits the local update {local}, or Fixed(alpha)",
            )

    def setting(self, problem: Problem, clients: int, horizon: int | None) -> Setting:
        """Return the setting of a run, checked against the parts."""
        integer("clients", clients)
        if horizon is not None:
            integer("horizon", horizon)
        learners = 1 if self.centralised else clients
        setting = Setting(problem, learners, horizon, float(self.ridge), float(self.delta))
        self.trigger.check(setting)
        smallest = min(self.local_update.prior(setting), setting.ridge)
        if smallest < SMALLEST_RIDGE:
            raise InvalidInput(
                "ridge",
                self.ridge,
                f"a larger one: A starts from {smallest:g}·I, and below {SMALLEST_RIDGE:g} its "
                "inverse is lost in rounding errors",
            )
        radius = self.confidence.radius(setting, self.local_update.begin(setting))
        if not math.isfinite(radius):
            raise InvalidInput(
                "curvature",
                problem.c_mu,
                "a larger one: with this one the radius is too large for a double",
            )
        return setting

    def caveats(self, problem: Problem) -> tuple[str, ...]:
        """Return what is not proven when this algorithm meets this problem."""
        notes = problem.caveats + self.confidence.caveats(problem) + self.local_update.caveats()
        if self.confidence.scalable and self.exploration < 1.0:
            notes += (f"exploration {self.exploration:g} < 1 shrinks the proven radius",)
        return notes
