"""An algorithm: a choice on each axis of the design space, and three numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fedglb.errors import InvalidInput, instance, integer, number, under
from fedglb.parts.choice import Choice, ChoiceLike, Ucb, as_choice
from fedglb.parts.confidence import Confidence, ConfidenceLike, as_confidence
from fedglb.parts.confidence.base import check_noise
from fedglb.parts.effects import SHARE
from fedglb.parts.global_update import GlobalUpdate, OneExchange
from fedglb.parts.local_update import Calibrated, LocalUpdate, LocalUpdateLike, as_local_update
from fedglb.parts.memory import Adaptive, Forever, Memory
from fedglb.parts.own import Code
from fedglb.parts.ridge import Evidence
from fedglb.parts.spread import Pooled
from fedglb.parts.trigger import Never, Trigger, TriggerLike, as_trigger
from fedglb.privacy import GaussianMechanism
from fedglb.problem import Problem
from fedglb.setting import Setting

#: Below this multiple of the identity a rank-one update of A⁻¹ loses too many digits.
SMALLEST_RIDGE = 1e-10
#: How a function becomes a part.
_AS_PARTS: dict[str, Callable[[Any], object]] = {
    "local_update": as_local_update, "trigger": as_trigger, "confidence": as_confidence,
    "choice": as_choice,
}  # fmt: skip


@dataclass(frozen=True)
class Algorithm:
    """A composition of parts. The presets (`fedglb_ucb`, …) are functions that return one.

    Parameters
    ----------
    name
        Name in results.
    local_update
        How a client learns from its own samples: a part of `fedglb.parts.local_update`, or a
        function.
    global_update
        The solver, by which all clients fit one model: `AGD`, `Newton`, `LBFGS` or another part of
        `fedglb.parts.global_update`; None without global updates. The presets take it as
        `solver=`, and `solver` reads it.
    trigger
        When there is a global update: a part of `fedglb.parts.trigger`, or a function.
    confidence
        The radius of the confidence ellipsoid: a part of `fedglb.parts.confidence`, or a function.
    ridge
        λ > 0 of the ridge penalty (λ/2)‖θ‖², or `Evidence`, a rule that chooses it at each
        global update.
    delta
        δ, the failure probability of all confidence sets together, in (0, 1).
    exploration
        Multiplies the radius of a lemma, never that of `Fixed`; 1 is the proven radius.
    centralised
        Whether one learner plays for all clients and sees every sample (One-UCB-GLM). Such an
        algorithm has no global updates and sends no messages.
    choice
        The choice of an arm, given the model and the sets: a part of `fedglb.parts.choice`, or a
        function.
    privacy
        Differential privacy of the samples, by noise in clients' messages. It needs updates that
        send each sample once, on a schedule: see `fedglb_private`.
    spread
        How far clients' own models may be from the shared one; with `Personal` clients only.
    memory
        How long samples count: `Forever`, `HalfLife` or `Adaptive`, a part of
        `fedglb.parts.memory`.

    Raises
    ------
    InvalidInput
        If a number is out of its range, or the parts do not fit each other.

    Notes
    -----
    docs/own_parts.md: what functions may take, and what they return.

    References
    ----------
    Li and Wang (2022), section "Methodology", has the axes: local update, global update, event
    trigger and arm selection.

    Examples
    --------
    >>> import fedglb as fg
    >>> from fedglb.parts.confidence import Fixed
    >>> from fedglb.parts.local_update import Ons
    >>> from fedglb.parts.trigger import Always
    >>> fg.Algorithm("eager", Ons(), fg.Newton(), Always(), Fixed(0.3)).name
    'eager'
    """

    stored_name = "Algorithm"

    name: str
    local_update: LocalUpdate[Any]
    global_update: GlobalUpdate | None
    trigger: Trigger
    confidence: Confidence[Any]
    ridge: float | Evidence = 1.0
    delta: float = 0.01
    exploration: float = 1.0
    centralised: bool = False
    choice: Choice = field(default_factory=Ucb)
    privacy: GaussianMechanism | None = None
    spread: Pooled | None = None
    memory: Memory = field(default_factory=Forever)

    if TYPE_CHECKING:  # in place of a part, a function

        def __init__(
            self,
            name: str,
            local_update: LocalUpdateLike,
            global_update: GlobalUpdate | None,
            trigger: TriggerLike,
            confidence: ConfidenceLike,
            ridge: float | Evidence = 1.0,
            delta: float = 0.01,
            exploration: float = 1.0,
            centralised: bool = False,
            choice: ChoiceLike = ...,
            privacy: GaussianMechanism | None = None,
            spread: Pooled | None = None,
            memory: Memory = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        for name, as_part in _AS_PARTS.items():
            with under(name):
                object.__setattr__(self, name, as_part(getattr(self, name)))
        if not isinstance(self.ridge, Evidence):
            number("ridge", self.ridge, above=0.0)
        number("delta", self.delta, above=0.0, below=1.0)
        number("exploration", self.exploration, at_least=0.0)
        instance("local_update", self.local_update, LocalUpdate, "Ons(), or a function")
        if self.global_update is not None:
            instance("solver", self.global_update, GlobalUpdate, "fg.Newton()")
        instance("trigger", self.trigger, Trigger, "Event(10.0), or a function")
        instance("confidence", self.confidence, Confidence, "fg.Fixed(0.3), or a function")
        instance("choice", self.choice, Choice, "fg.Ucb(), or a function")
        instance("memory", self.memory, Memory, "fg.HalfLife(100.0)")
        never = isinstance(self.trigger, Never)
        if self.global_update is None and not never:
            raise InvalidInput("trigger", self.trigger, "Never() if the solver is None")
        if self.global_update is not None and never:
            allowed = "None with the trigger Never(), which has no global updates"
            raise InvalidInput("solver", self.global_update, allowed)
        if self.centralised and not never:
            allowed = "False, or the trigger Never()"
            raise InvalidInput("centralised", True, allowed)
        local = type(self.local_update).__name__
        if self.trigger.needs_gain and not self.local_update.tracks_gain:
            allowed = f"Schedule(...) or Always() with {local}, which follows no covariance"
            raise InvalidInput("trigger", self.trigger, f"{allowed} between updates")
        solver = self.global_update
        if solver is not None:
            self._check_solver(solver, local)
        if self.confidence.needs_path and (solver is None or not solver.one_pass):
            allowed = f"a solver that takes each sample once, OnePass(), for {self.confidence}"
            raise InvalidInput("solver", solver, allowed)
        if self.privacy is not None:
            self._check_privacy(self.privacy)
        if self.ridge_rule is not None and (solver is None or not solver.refits):
            allowed = "a number: a rule requires global updates that fit all samples again"
            raise InvalidInput("ridge", self.ridge, allowed)
        if (self.spread is not None) != self.local_update.personal:
            allowed = f"{'a rule, Pooled(),' if self.spread is None else 'None'} with {local}"
            raise InvalidInput("spread", self.spread, allowed)
        if self.memory.forgets:
            self._check_memory(solver)
        if not issubclass(self.local_update.state_type, self.confidence.state_type):
            allowed = f"a radius that fits the local update {local}: Fixed(alpha), or a function"
            raise InvalidInput("confidence", self.confidence, allowed)

    def _check_solver(self, solver: GlobalUpdate, local: str) -> None:
        """Raise unless the solver fits the other parts."""
        if solver.model_fields != (needed := self.local_update.model_fields):
            fit = "None" if needed is None else f"one whose model has {', '.join(sorted(needed))}"
            allowed = f"a solver that fits the local update {local}: {fit}"
            raise InvalidInput("solver", solver, allowed)
        if solver.starts_at_model and self.local_update.metric != "hessian":
            allowed = f"a solver with covariances, e.g. Newton(), for the local update {local}"
            raise InvalidInput("solver", solver, allowed)
        if isinstance(self.local_update, Calibrated) and not (
            isinstance(solver, OneExchange) and solver.always_one
        ):
            allowed = 'OneExchange(inf, "deviation") with the local update Calibrated'
            raise InvalidInput("solver", solver, allowed)
        if self.confidence.needs_ball and not solver.in_ball:
            allowed = f"a solver whose models lie in the ball, for {self.confidence}"
            raise InvalidInput("solver", solver, allowed)
        solver.course.check(self.trigger, self.confidence)

    def _check_memory(self, solver: GlobalUpdate | None) -> None:
        """Raise unless global updates can weigh samples by their age."""
        if self.privacy is not None:
            allowed = "Forever() with privacy: what was released cannot be weighed anew"
        elif solver is None or not solver.refits:
            allowed = "Forever(): old samples count less in updates that fit all samples again"
        elif isinstance(self.memory, Adaptive) and not solver.starts_at_model:
            allowed = (
                "HalfLife(...), or OneExchange() as the solver: others get no sums to judge by"
            )
        else:
            return
        raise InvalidInput("memory", self.memory, allowed)

    def _check_privacy(self, privacy: GaussianMechanism) -> None:
        """Raise unless clients' messages and their timing can be made private."""
        instance(
            "privacy", privacy, GaussianMechanism, "fg.GaussianMechanism(epsilon=1.0, delta=1e-6)"
        )
        instead = "use fg.fedglb_private(updates, privacy=...), with updates on a schedule"
        if not self.trigger.public:
            allowed = (
                f"None with {self.trigger}: an event trigger leaks raw samples, because its timing "
                f"is public without noise; {instead}"
            )
            raise InvalidInput("privacy", privacy, allowed)
        solver = self.global_update
        if solver is None or not solver.one_pass:
            allowed = (
                f"None with the solver {solver}: each of its rounds releases every sample again; "
                f"{instead} that release each sample once"
            )
            raise InvalidInput("privacy", privacy, allowed)

    @property
    def max_updates(self) -> int | None:
        """The number of releases in the privacy budget; None without a budget."""
        return None if self.privacy is None else self.trigger.max_updates

    @property
    def ridge_rule(self) -> Evidence | None:
        """The rule that chooses λ; None: `ridge` is a number."""
        return self.ridge if isinstance(self.ridge, Evidence) else None

    @property
    def randomised(self) -> bool:
        """Whether it draws random numbers: to choose, or as the noise of privacy."""
        return self.choice.randomised or self.privacy is not None

    @property
    def solver(self) -> GlobalUpdate | None:
        """The solver of global updates, which the presets take as `solver=`; None: no updates."""
        return self.global_update

    def setting(
        self, problem: Problem, clients: int, horizon: int | None, members: int | None = None
    ) -> Setting:
        """Return the setting of a run, checked against the parts.

        Parameters
        ----------
        problem
            The problem.
        clients
            N ≥ 1.
        horizon
            T ≥ 1; None if unknown, as in a federation.
        members
            The smallest number of clients in a secure sum; None: all of them.

        Returns
        -------
        Setting
            For one learner if the algorithm is centralised, else for N.

        Raises
        ------
        InvalidInput
            If a part cannot work in this setting: a schedule without a horizon, a ridge that is
            too small, a curvature that makes the radius infinite.
        """
        integer("clients", clients)
        if horizon is not None:
            integer("horizon", horizon)
        learners = 1 if self.centralised else clients
        ridge = self.ridge.start if isinstance(self.ridge, Evidence) else self.ridge
        plan = None
        if self.privacy is not None:
            assert self.max_updates is not None
            with under("privacy"):
                plan = self.privacy.plan(problem, learners, self.max_updates, members)
        # `Calibrated` needs a bound on how far a step may go without another round
        calibrated = isinstance(self.local_update, Calibrated)
        s = problem.link.self_concordance(math.inf)
        calibrated = calibrated and s is not None
        if self.local_update.personal and (s is None or s == math.inf):
            allowed = "one whose self-concordance has a bound (logistic, poisson, identity)"
            raise InvalidInput("link", problem.link.name, f"{allowed}, for {self.local_update}")
        second = float(ridge) / SHARE if calibrated and self.local_update.effects else 0.0
        setting = Setting(
            problem, learners, horizon, float(ridge), float(self.delta), plan, calibrated, second
        )
        self.confidence.check(problem)
        self.trigger.check(setting)
        smallest = min(self.local_update.prior(setting), setting.ridge)
        if smallest < SMALLEST_RIDGE:
            why = f"A starts from {smallest:g}·I, and below {SMALLEST_RIDGE:g} its inverse is lost"
            raise InvalidInput("ridge", self.ridge, f"a larger ridge: {why} in rounding errors")
        numbers = *self.confidence.constants(setting), self.local_update.dispersion(setting)
        check_noise(problem, *numbers)
        radius = self.confidence.radius(setting, self.local_update.begin(setting))
        if not math.isfinite(radius):
            allowed = "a larger curvature: the radius is too large for a double"
            raise InvalidInput("curvature", problem.c_mu, allowed)
        for code, arguments in self.rehearsals(setting):
            code.rehearse(arguments, compiled=False)
        return setting

    def rehearsals(self, setting: Setting) -> list[tuple[Code, tuple[Any, ...]]]:
        """Return the functions of a user's among the parts, and what they are first called with.

        Parameters
        ----------
        setting
            The setting of the run.

        Returns
        -------
        list of tuple
            The function's code, and the arguments of the kernel around it. Of all parts but the
            choice, whose first call is that of the first client.
        """
        found = (
            self.local_update.rehearsal(setting),
            self.confidence.rehearsal(setting, self.local_update.begin(setting)),
            self.trigger.resolved(setting).rehearsal(),
        )
        return [each for each in found if each is not None]

    def caveats(self, problem: Problem, *, federated: bool = False) -> tuple[str, ...]:
        """Return the limits of the proofs for this algorithm and problem, one sentence each.

        Parameters
        ----------
        problem
            The problem.
        federated
            Whether clients run on machines of their own, where they play on during an update and
            may be left out of one. False (default): in a simulation.

        Returns
        -------
        tuple of str
            Of the problem and its link, the radius, the rule of choice and `exploration`.

        References
        ----------
        docs/theory.md, sections 2.7 and 7.3.

        Examples
        --------
        >>> import fedglb as fg
        >>> fg.fedglb_ucb(threshold=10.0, exploration=0.3).caveats(fg.Problem(dim=2))
        ('exploration 0.3 < 1 shrinks the proven radius',)
        """
        notes = problem.caveats if self.confidence.sub_gaussian else ()
        notes += self.confidence.caveats(problem) + self.choice.caveats()
        if federated:
            notes += self.confidence.federation_caveats
        if self.ridge_rule is not None and self.confidence.sub_gaussian:
            notes += ("a ridge chosen from the data: this radius is proven for a fixed one",)
        if self.memory.forgets:
            notes += (f"{self.memory}: what is proven is proven for samples that all count alike",)
        if self.privacy is not None and self.local_update.learns:
            notes += (
                "clients choose by their own samples between updates: privacy is for recorded "
                "interactions with all others held fixed, not for users of the same client",
            )
        if self.confidence.scalable and self.exploration < 1.0:
            notes += (f"exploration {self.exploration:g} < 1 shrinks the proven radius",)
        return notes
