"""What can be seen of a schedule of updates, and of the privacy that goes with it."""

from __future__ import annotations

import msgspec

from fedglb.federation.bundle import Bundle
from fedglb.federation.coordinator.session import CoordinatorSession
from fedglb.privacy import state


class ScheduleStatus(msgspec.Struct, frozen=True):
    """How far a schedule of updates is.

    Parameters
    ----------
    updates
        How many times it has.
    done
        How many of them are past, with an update of their own or made up for by a later one.
    start, next
        When it started, and when the next update is due, as Unix times; None: not yet, and never.
    ended
        Why no update will begin any more; None: one will.
    """

    updates: int
    done: int
    start: float | None
    next: float | None
    ended: str | None


class PrivacyStatus(msgspec.Struct, frozen=True):
    """What is promised, to whom, and how much of it is spent.

    Parameters
    ----------
    epsilon, delta, neighbours, contributions, noise
        What was agreed on: see `GaussianMechanism`.
    zcdp_epsilon
        ε of the same noise by zero-concentrated privacy: a looser promise, by another way.
    spent
        ε, at the same δ, of all updates that have begun: clients may have answered each.
    releases, updates
        How many updates have begun, of how many that there is a budget for.
    protects, caveats
        Who is protected from whom, and what that rests on, one sentence each.
    """

    epsilon: float
    delta: float
    neighbours: str
    contributions: int
    noise: str
    zcdp_epsilon: float
    spent: float
    releases: int
    updates: int
    protects: tuple[str, ...]
    caveats: tuple[str, ...]


class SumsStatus(msgspec.Struct, frozen=True):
    """What was agreed on about secure sums.

    Parameters
    ----------
    minimum
        How many clients are in every sum, at least.
    roster
        The digest of the roster: owners of agents compare it with each other.
    members
        Who is in it.
    """

    minimum: int
    roster: str
    members: tuple[str, ...]


def sums_of(bundle: Bundle) -> SumsStatus | None:
    """Return what was agreed on about secure sums; None: there are none."""
    roster = bundle.roster
    if roster is None:
        return None
    return SumsStatus(bundle.agreement.least_members, roster.digest.hex(), roster.names)


def schedule_of(session: CoordinatorSession) -> ScheduleStatus | None:
    """Return how far a coordinator's schedule is; None: it has none."""
    driver = session.driver
    table, ended = driver.timetable, driver.ended
    if not table.times:
        return None
    following = None if ended else table.next
    return ScheduleStatus(len(table.times), table.done, table.start, following, ended)


def privacy_of(session: CoordinatorSession) -> PrivacyStatus | None:
    """Return what a federation promises, and what is spent of it; None: nothing is promised."""
    coordinator = session.coordinator
    privacy, plan = coordinator.algorithm.privacy, coordinator.setting.noise
    if privacy is None or plan is None:
        return None
    begun = min(coordinator.started, plan.updates)  # a lost file may skip some
    said = state(privacy, plan, begun, simulated=False)
    return PrivacyStatus(
        epsilon=said.epsilon,
        delta=said.delta,
        neighbours=said.neighbours,
        contributions=said.contributions,
        noise=said.noise,
        zcdp_epsilon=said.zcdp_epsilon,
        spent=said.spent() if begun else 0.0,
        releases=begun,
        updates=said.updates,
        protects=said.protects,
        caveats=said.caveats,
    )
