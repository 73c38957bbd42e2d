"""A run's privacy: the promise, the protected parties, the assumptions."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedglb.errors import integer
from fedglb.privacy.accounting import gdp_epsilon, zcdp_epsilon
from fedglb.privacy.gaussian import GaussianMechanism, NoisePlace, NoisePlan
from fedglb.privacy.sensitivity import Neighbours


def spent_text(spent: float, epsilon: float) -> str:
    """Return the ε spent of a budget, rounded, but less than the budget while some is left.

    Late updates spend little. What is left after the last one is rounding.

    Examples
    --------
    >>> spent_text(0.42371, 1.0), spent_text(0.99999978, 1.0), spent_text(1.0 - 1e-13, 1.0)
    ('0.424', '0.9999998', '1')
    """
    if spent >= epsilon * (1.0 - 1e-9):
        return f"{epsilon:g}"
    texts = (f"{spent:.{digits}g}" for digits in range(3, 18))
    return next(text for text in texts if float(text) < epsilon)


@dataclass(frozen=True)
class PrivacyStatement:
    """The privacy of a run: the promise, the protected parties, the assumptions.

    Parameters
    ----------
    epsilon, delta
        The promise, for all planned releases together.
    mu
        The promise as one number: sensitivity over standard deviation.
    zcdp_epsilon
        ε for the same noise and δ by zero-concentrated privacy: a looser promise by an independent
        proof.
    neighbours, contributions
        The neighbouring datasets: see `GaussianMechanism`.
    noise
        Where noise is added: "sums" or "silo".
    releases, updates
        Number of releases made, and planned.
    vector_noise, matrix_noise
        The standard deviations of the noise in one release, of v and of H.
    honest, members
        h and M: h of the at least M clients in every sum must add their noise and keep it secret.
    protects
        The protection, and against whom, one sentence each.
    caveats
        Assumptions and limits of the promise, one sentence each.
    plan
        The noise in detail.

    Examples
    --------
    >>> import fedglb as fg
    >>> from fedglb.privacy import state
    >>> gaussian = fg.GaussianMechanism(epsilon=1.0, delta=1e-6)
    >>> plan = gaussian.plan(fg.Problem(dim=10), clients=200, updates=30)
    >>> said = state(gaussian, plan, releases=10, simulated=True)
    >>> print(str(said).splitlines()[0])
    epsilon = 1, delta = 1e-06 (zero-out neighbours); spent so far: epsilon = 0.976
    >>> round(said.spent(30), 3), said.spent(0)
    (1.0, 0.0)
    >>> round(said.against(20), 3), round(said.against(40), 3)  # 20, 40 of 200 collude
    (1.0, 1.066)
    """

    epsilon: float
    delta: float
    mu: float
    zcdp_epsilon: float
    neighbours: Neighbours
    contributions: int
    noise: NoisePlace
    releases: int
    updates: int
    vector_noise: float
    matrix_noise: float
    honest: int
    members: int
    protects: tuple[str, ...]
    caveats: tuple[str, ...]
    plan: NoisePlan = field(repr=False)

    def spent(self, releases: int | None = None) -> float:
        """Return ε, at the same δ, after a number of releases.

        Parameters
        ----------
        releases
            Their number; None: those made.

        Returns
        -------
        float
            ε.
        """
        count = self.releases if releases is None else releases
        integer("releases", count, at_least=0, at_most=self.updates)
        return gdp_epsilon(self.plan.spent(count), self.delta)

    def against(self, colluding: int) -> float:
        """Return ε, at the same δ, against the coordinator and a number of clients together.

        Parameters
        ----------
        colluding
            The number of clients that tell each other their share of the noise, or leave it out.

        Returns
        -------
        float
            ε of all planned releases, for an interaction of another client, in the smallest sums.
        """
        return gdp_epsilon(self.plan.against(colluding), self.delta)

    def __str__(self) -> str:
        several = f", {self.contributions} interactions per user" if self.contributions > 1 else ""
        lines = [
            f"epsilon = {self.epsilon:g}, delta = {self.delta:g} ({self.neighbours} neighbours"
            f"{several}); spent so far: epsilon = {spent_text(self.spent(), self.epsilon)}",
            f"{self.releases} of {self.updates} releases; mu = {self.mu:.4g}, by zCDP epsilon = "
            f"{self.zcdp_epsilon:.3g}",
            f"noise in a release ({self.noise}): {self.vector_noise:.3g} in v, "
            f"{self.matrix_noise:.3g} in H",
            *(f"protected: {sentence}" for sentence in self.protects),
            *(f"note: {sentence}" for sentence in self.caveats),
        ]
        return "\n".join(lines)


def state(
    gaussian: GaussianMechanism,
    plan: NoisePlan,
    releases: int,
    simulated: bool,
    learns: bool = False,
) -> PrivacyStatement:
    """Return a run's privacy statement after this number of releases.

    `simulated`: noise came from a seed. `learns`: clients choose by their own samples between
    updates, so that users are not protected from others of the same client.
    """
    integer("releases", releases, at_least=0, at_most=plan.updates)
    return PrivacyStatement(
        epsilon=float(gaussian.epsilon),
        delta=float(gaussian.delta),
        mu=plan.mu,
        zcdp_epsilon=zcdp_epsilon(plan.mu, gaussian.delta),
        neighbours=gaussian.neighbours,
        contributions=gaussian.contributions,
        noise=gaussian.noise,
        releases=releases,
        updates=plan.updates,
        vector_noise=plan.vector_noise,
        matrix_noise=plan.matrix_noise,
        honest=plan.honest,
        members=plan.members,
        # the last sentence is about users of the same client
        protects=_protects(gaussian, plan)[: -1 if learns else None],
        caveats=_caveats(gaussian, plan, simulated, learns),
        plan=plan,
    )


def _protects(gaussian: GaussianMechanism, plan: NoisePlan) -> tuple[str, ...]:
    promise, may = f"({gaussian.epsilon:g}, {gaussian.delta:g})", plan.members - plan.honest
    users = f"every user from the other users, also of the same client: {promise} (joint privacy)"
    if plan.honest == 1:  # each client's noise suffices
        return (
            f"every interaction from the coordinator and the other clients, even if they collude: "
            f"{promise}",
            users,
        )
    collude = "no two clients may collude"
    if may > 1:
        collude = f"up to {may} clients may collude, also with the coordinator"
    more = gdp_epsilon(plan.against(may + 1), gaussian.delta)
    return (
        f"every interaction from the coordinator, which sees only sums over {plan.members} clients "
        f"or more, and from every other client, which knows its share of the noise: {promise}",
        f"this holds while {plan.honest} clients in every sum are honest: {collude}; "
        f"against {may + 1} together epsilon = {more:.4g}",
        users,
    )


def _caveats(
    gaussian: GaussianMechanism, plan: NoisePlan, simulated: bool, learns: bool
) -> tuple[str, ...]:
    most = gaussian.contributions
    notes = [
        f"a user with more than {most} interaction{'s' if most > 1 else ''} is protected less",
        "the participants and times of updates are public",
    ]
    if plan.honest > 1:
        notes.append("it requires secure sums: single clients' messages reveal more")
    if learns:
        notes.append(
            "clients choose by their own samples between updates: the promise is for recorded "
            "interactions with all others held fixed"
        )
    if simulated:
        notes.append("simulated noise comes from a seed: anyone with the seed can subtract it")
    return tuple(notes)
