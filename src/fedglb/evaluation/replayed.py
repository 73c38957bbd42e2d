"""The mean reward per decision of an algorithm that was run on a log."""

from __future__ import annotations

import math

import numpy as np

from fedglb.environments import Environment
from fedglb.environments.replay import ReplayMethod
from fedglb.errors import InvalidInput, instance
from fedglb.evaluation.evaluate import (
    FEW,
    Estimate,
    about_the_mean_weight,
    check_level,
    normal_interval,
)
from fedglb.evaluation.logged import interactions
from fedglb.simulation import Run


def replayed(run: Run, env: Environment, confidence: float = 0.95) -> Estimate:
    """Estimate the mean reward per decision of an algorithm that was run on a log (`fg.Replay`).

    method="rejection": the mean reward of the matches. Given their number, it has the expectation
    of the algorithm's mean reward in so many interactions, where clients act at random as in
    `fg.Partial`. A learner has had only these to learn from.

    method="weights": the mean over all decisions of the reward over p, 0 where nothing matches. Its
    expectation is the mean reward of the choices that the algorithm made, matched or not. A learner
    has learned from its matches alone, which are fewer and of other arms than online.

    Both need propensities that are right, and > 0 for each arm that the algorithm chooses; and
    decisions whose arms and rewards do not depend on earlier choices. With "rejection", p_min must
    be the smallest propensity that the logging policy has, not only the smallest in the log.

    The standard error takes the terms as independent. For an algorithm that learns it is too large,
    as the trend counts as noise. Seeds replay one log and are no replicates.

    Parameters
    ----------
    run
        The run.
    env
        The environment that it was made with: an `fg.Replay`, or one that wraps it.
    confidence
        The level of the interval.

    Returns
    -------
    Estimate
        Its `samples` are the decisions that were offered; its `effective_samples` the matches, or
        (Σw)²/Σw² over their weights w = 1/p.

    Raises
    ------
    InvalidInput
        If an argument is invalid, the environment replays no log or is another one, or fewer than
        two decisions match.

    References
    ----------
    Li, Chu, Langford and Wang (2011), *Unbiased Offline Evaluation of Contextual-bandit-based News
    Article Recommendation Algorithms*, Theorem 1, for one client and an evenly random log.

    Examples
    --------
    >>> import numpy as np
    >>> import fedglb as fg
    >>> rng = np.random.default_rng(0)
    >>> chosen = rng.integers(0, 4, 4000)
    >>> rewards = rng.random(4000) < np.where(chosen == 3, 0.9, 0.2)
    >>> env = fg.Replay(fg.Problem(dim=4), np.eye(4), chosen, rewards, clients=2)
    >>> print(fg.replayed(fg.simulate(fg.fedglb_auto(), env, seed=1), env))
    0.9011 ± 0.0093 (95 %: 0.8829 to 0.9192; rejection, 1041 effective of 4000 samples)
    """
    check_level(confidence)
    method: ReplayMethod = "rejection"
    terms, weights = [], []
    instance("env", env, Environment, "the one that the run was made with")
    if env.knows_all_rewards:
        allowed = "an environment that replays a log: fg.Replay, or one that wraps it"
        raise InvalidInput("env", env.described(), allowed)
    for block, acted, got in interactions(run, env):
        if block.weights is not None:
            method = "weights"
        offered = np.ones(acted.shape, np.bool_) if block.active is None else block.active
        w = np.where(acted, 1.0 if block.weights is None else block.weights, 0.0)
        terms.append(np.where(acted, w * got, 0.0)[offered])
        weights.append(w[offered])
    found, w = np.concatenate(terms), np.concatenate(weights)
    n, matches = w.size, int(np.count_nonzero(w))
    if matches < 2:
        raise InvalidInput("matches", matches, "two or more decisions that match the log")
    notes = ["the interval is asymptotic: the normal law for a mean of many terms"]
    if method == "rejection":
        found, effective = found[w > 0.0], float(matches)
        notes.append(f"a learner saw {matches} of {n} decisions: its horizon is that much shorter")
    else:
        effective = float(w.sum() ** 2 / (w @ w))
        notes.append(f"a learner learned from the {matches} of {n} decisions that match, only")
        notes += about_the_mean_weight(w)
    if effective < FEW:
        notes.append(f"only about {effective:.0f} decisions count: too few for the normal law")
    value, error = float(found.mean()), float(found.std(ddof=1)) / math.sqrt(found.size)
    interval = normal_interval(value, error, confidence)
    return Estimate(value, error, interval, confidence, n, effective, method, tuple(notes))
