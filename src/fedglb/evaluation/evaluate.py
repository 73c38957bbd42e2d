"""Off-policy evaluation: estimators, their standard errors and assumptions."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Literal, TypeAlias, get_args

import numpy as np

from fedglb.environments.replay import ReplayMethod
from fedglb.errors import InvalidInput, instance, integer, number, one_of
from fedglb.evaluation.logged import Logged
from fedglb.evaluation.policies import PlainPolicy, Policy, probabilities
from fedglb.evaluation.reward_model import fit, fits_of_the_past
from fedglb.parts.ridge import Evidence
from fedglb.typing import FloatArray

Method: TypeAlias = Literal["dr", "ips", "snips", "dm"]
Interval: TypeAlias = Literal["normal", "proven"]

#: With fewer effective samples than this a normal interval is not to be trusted.
FEW = 200
#: So many standard errors from 1 the mean weight may be.
_FAR = 3.0


@dataclass(frozen=True)
class Estimate:
    """The mean reward that a policy would have had, as `fg.evaluate` estimates it.

    Parameters
    ----------
    value
        The estimate.
    standard_error
        Its standard error.
    interval
        The confidence interval, (low, high).
    confidence
        Its level.
    samples
        n, the number of decisions.
    effective_samples
        (Σw)²/Σw² with the weights w = π(a)/p: the effective number of the policy's own decisions
        in the log. For "dm", which has no weights, n.
    method
        "dr", "ips", "snips" or "dm"; of `fg.replayed`, "rejection" or "weights".
    caveats
        What is not proven about it, and what in the log speaks against it, one sentence each.

    Examples
    --------
    >>> import fedglb as fg
    >>> estimate = fg.Estimate(0.5, 0.1, (0.3, 0.7), 0.95, 25, 20.0, "ips", ())
    >>> print(estimate)
    0.5 ± 0.1 (95 %: 0.3 to 0.7; ips, 20 effective of 25 samples)
    """

    value: float
    standard_error: float
    interval: tuple[float, float]
    confidence: float
    samples: int
    effective_samples: float
    method: Method | ReplayMethod
    caveats: tuple[str, ...] = field(repr=False)

    def __str__(self) -> str:
        low, high = self.interval
        return (
            f"{self.value:.4g} ± {self.standard_error:.2g} "
            f"({100 * self.confidence:g} %: {low:.4g} to {high:.4g}; {self.method}, "
            f"{self.effective_samples:.0f} effective of {self.samples} samples)"
        )


@dataclass(frozen=True)
class _Seen:
    """What an estimator needs of log and policy, per decision; shape (n,) each.

    Weights; the policy's probability of the logged arm; the model's prediction of that
    arm, and its mean over the policy; and the gradient of the latter by θ, shape (n, d).
    """

    weights: FloatArray
    own: FloatArray
    predicted: FloatArray
    expected: FloatArray
    slopes: FloatArray


def evaluate(
    logged: Logged,
    policy: Policy | PlainPolicy,
    method: Method = "dr",
    *,
    confidence: float = 0.95,
    clip: float | None = None,
    interval: Interval = "normal",
    folds: int = 10,
    ridge: float | Evidence | None = None,
) -> Estimate:
    """Estimate the mean reward that another policy would have had on a log.

    Parameters
    ----------
    logged
        The log, with propensities.
    policy
        What to evaluate: a `Policy`, or a function from arms (K, d) to probabilities (K,). It
        must not have been fitted to this log.
    method
        "ips": mean of w·r, with r the reward and w = π(a)/p. "snips": the same over the mean of
        w. "dr" (default), doubly robust: a reward model's prediction for the policy, plus the
        mean of w times what the model missed. "dm", the direct method: the prediction alone.
    confidence
        The level of the interval.
    clip
        No weight counts as more than this: less variance, but a bias. None: no limit.
    interval
        "normal" (default): estimate ± z standard errors, right as the log grows. "proven": holds
        for every length of the log, and is wider; only with "ips" and rewards in a bounded range.
    folds
        For "dr" the log is cut into this many blocks, in order of time; the model that predicts a
        block is fitted to the blocks before it.
    ridge
        λ of the reward model. None: `Evidence()`, which chooses it from the data.

    Returns
    -------
    Estimate
        The value, its standard error, an interval, and their assumptions.

    Raises
    ------
    InvalidInput
        If an argument is invalid, or the policy never plays a logged arm.

    Notes
    -----
    The value is that of offers like those of the log, drawn independently of each other. Rewards
    and propensities may depend on all that came before, as a bandit's do.

    References
    ----------
    Dudík, Langford and Li (2011), Doubly robust policy evaluation and learning; Swaminathan and
    Joachims (2015), The self-normalized estimator for counterfactual learning; Waudby-Smith, Wu,
    Ramdas, Karampatziakis and Mineiro (2024), Anytime-valid off-policy inference for contextual
    bandits; docs/theory.md, section 8.

    Examples
    --------
    >>> import fedglb as fg
    >>> env = fg.Synthetic(fg.Problem(dim=3), clients=5, arms=4)
    >>> run = fg.simulate(fg.fedglb_auto(choice=fg.EpsilonGreedy(0.3)), env, 400, seed=1)
    >>> log = fg.Logged.from_run(run, env)
    >>> fg.evaluate(log, fg.UniformPolicy()).value < run.reward / len(log)
    True
    """
    instance("logged", logged, Logged, "fg.Logged.from_run(run, env)")
    one_of("method", method, get_args(Method))
    one_of("interval", interval, get_args(Interval))
    check_level(confidence)
    if clip is not None:
        number("clip", clip, above=0.0)
    if method == "dm" and clip is not None:
        raise InvalidInput("clip", clip, 'None with method="dm", which has no weights')
    integer("folds", folds, at_least=2)
    if len(logged) < 2:
        raise InvalidInput("len(logged)", len(logged), "two decisions or more")
    if not isinstance(ridge, Evidence):
        ridge = Evidence() if ridge is None else number("ridge", ridge, above=0.0)
    low, high = logged.problem.link.support
    if interval == "proven" and not (method == "ips" and math.isfinite(high - low)):
        given = f"{interval!r} with method={method!r} and rewards in [{low:g}, {high:g}]"
        allowed = '"normal"; "proven" needs method="ips" and a bounded range of rewards'
        raise InvalidInput("interval", given, allowed)

    rewards = logged.rewards
    models, solution = np.zeros((len(logged), logged.problem.dim)), None
    if method == "dr":
        models = fits_of_the_past(logged.problem, logged.played, rewards, ridge, folds)
    elif method == "dm":
        solution = fit(logged.problem, logged.played, rewards, ridge)
        models[:] = solution.theta
    seen = _look(logged, policy, models)
    raw, n = seen.weights, len(logged)
    if method != "dm" and not raw.any():
        allowed = "a policy that plays at least one logged arm"
        raise InvalidInput("policy", policy, f'{allowed}; method="dm" extrapolates')
    w = raw if clip is None else np.minimum(raw, clip)

    if method == "ips":
        terms = w * rewards
        value = float(terms.mean())
    elif method == "snips":
        value = float(w @ rewards / w.sum())
        terms = value + w * (rewards - value) / w.mean()
    elif method == "dr":
        terms = seen.expected + w * (rewards - seen.predicted)
        value = float(terms.mean())
    else:
        assert solution is not None
        assert solution.hessian is not None
        value = float(seen.expected.mean())
        # how the estimate moves with each sample of the fit
        fixed = ridge if isinstance(ridge, float) else solution.ridge
        assert fixed is not None
        H = solution.hessian + fixed * np.eye(solution.theta.size)
        pull = np.linalg.solve(H, n * seen.slopes.mean(axis=0))
        terms = seen.expected + (logged.played @ pull) * (rewards - seen.predicted)
    error = float(terms.std(ddof=1)) / math.sqrt(n)
    if interval == "proven":
        # two lower bounds: of the value, and of what it lacks to the largest reward
        shares, alpha = (rewards - low) / (high - low), 0.5 * (1.0 - confidence)
        above, below = lower_bound(w * shares, alpha), lower_bound(w * (1.0 - shares), alpha)
        found = (low + (high - low) * above, low + (high - low) * (1.0 - below))
    else:
        found = normal_interval(value, error, confidence)
    effective = float(n) if method == "dm" else float(w.sum() ** 2 / (w @ w))
    caveats = (
        *_about_the_interval(method, interval, found, effective),
        *_about_the_weights(logged, seen, method, clip),
        *logged.caveats,
    )
    return Estimate(value, error, found, confidence, n, effective, method, caveats)


def check_level(confidence: float) -> None:
    """Raise unless this is the level of an interval."""
    if not 0.0 < number("confidence", confidence) < 1.0:
        raise InvalidInput("confidence", confidence, "a number > 0 and < 1, e.g. 0.95")


def normal_interval(value: float, error: float, confidence: float) -> tuple[float, float]:
    """Return the interval of an estimate with a standard error, by the normal law."""
    reach = NormalDist().inv_cdf(0.5 + 0.5 * confidence) * error
    return value - reach, value + reach


def lower_bound(terms: FloatArray, alpha: float) -> float:
    """Return a bound that the terms' conditional means exceed, but for a probability α.

    The terms are ≥ 0, and each has a mean of at most V ≤ 1 given those before; then V is at least
    the bound. There need be no upper bound on the terms (docs/theory.md, Proposition 30).
    """
    n = terms.size
    before = np.arange(1, n + 1)  # with the half sample that the sums begin with
    sums = 0.5 + np.concatenate([[0.0], np.cumsum(terms)])
    guess = np.minimum(sums[:-1] / before, 1.0)
    squares = (terms - np.minimum(sums[1:] / (before + 1), 1.0)) ** 2
    spread = (0.25 + np.concatenate([[0.0], np.cumsum(squares)[:-1]])) / before
    surprise = math.log(1.0 / alpha)
    bets = np.minimum(np.sqrt(2.0 * surprise / (n * spread)), 0.5)
    cost = (terms - guess) ** 2 * (-np.log1p(-bets) - bets)
    return max(float((bets @ terms - surprise - cost.sum()) / bets.sum()), 0.0)


def _look(logged: Logged, policy: Policy | PlainPolicy, models: FloatArray) -> _Seen:
    """Return what estimators need, with one model per decision, shape (n, d)."""
    n, link, chosen = len(logged), logged.problem.link, logged.chosen
    own, predicted, expected = np.empty(n), np.empty(n), np.empty(n)
    slopes = np.empty((n, logged.problem.dim))
    for rows, arms in logged.by_count():
        pi = probabilities(policy, arms)
        z = np.einsum("mkd,md->mk", arms, models[rows])
        means, at = link.mean(z), (np.arange(len(rows)), chosen[rows])
        own[rows], predicted[rows] = pi[at], means[at]
        expected[rows] = (pi * means).sum(axis=1)
        slopes[rows] = np.einsum("mk,mkd->md", pi * link.variance(z), arms)
    return _Seen(own / logged.propensities, own, predicted, expected, slopes)


def _about_the_interval(
    method: Method, interval: Interval, found: tuple[float, float], effective: float
) -> tuple[str, ...]:
    if interval == "proven":
        if found[0] > found[1]:
            return ("the two bounds contradict each other: are the propensities right?",)
        return ()
    notes = ["the interval is asymptotic: the normal law for a mean of many terms"]
    if method == "dm":
        notes.append("the direct method is right only if the reward model is")
    elif effective < FEW:
        notes.append(
            f"only about {effective:.0f} decisions of the log are like this policy's: too few for "
            "the normal law"
        )
    return tuple(notes)


def about_the_mean_weight(w: FloatArray) -> list[str]:
    """Return what speaks against weights whose mean should be 1."""
    mean, error = float(w.mean()), float(w.std(ddof=1)) / math.sqrt(w.size)
    if abs(mean - 1.0) <= _FAR * error + 1e-9:
        return []
    return [
        f"the weights have mean {mean:.3g} ± {error:.2g} where 1 is expected: the policy plays "
        "arms that the log (almost) never plays, or the propensities are wrong"
    ]


def _about_the_weights(
    logged: Logged, seen: _Seen, method: Method, clip: float | None
) -> tuple[str, ...]:
    """Return what speaks against the weights: no support, estimates, clipping."""
    w, n, notes = seen.weights, len(logged), []
    lost = float(np.where(logged.propensities >= 1.0, 1.0 - seen.own, 0.0).mean())
    if lost > 1e-9:
        rest = "for these there is only the model" if method in ("dr", "dm") else "they are missed"
        notes.append(
            f"{100 * lost:.3g} % of what the policy plays, the log could not play, as another arm "
            f"had propensity 1: {rest}"
        )
    if method != "dm" and lost <= 1e-9:
        notes += about_the_mean_weight(w)
    estimated = int(np.count_nonzero(logged.propensity_errors > 0.0))
    if method != "dm" and estimated:
        notes.append(
            f"{estimated} of {n} propensities are estimates: if the log does not also explore "
            "uniformly, the weights of arms rarer than 1/draws are too small"
        )
    clipped = 0 if clip is None else int(np.count_nonzero(w > clip))
    if clipped:
        notes.append(
            f"{clipped} of {n} weights were clipped: this is a bias (low, for rewards >= 0)"
        )
    return tuple(notes)
