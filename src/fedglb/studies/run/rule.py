"""How a search chooses one setting for all algorithms, and why candidates can be stopped early."""

from __future__ import annotations

import math
from collections.abc import Sequence

RULE = (
    "One setting for all algorithms: of all candidates the one with the least mean, over the "
    "algorithms of the search, of log(regret / least regret of this algorithm over all "
    "candidates); regrets are means over the search's seeds, none of which is reported, and "
    "count as 1 where they are less."
)
FOR_EACH_RULE = (
    "Each algorithm has its own setting: of all candidates the one with its least regret, a mean "
    "over the search's seeds, none of which is reported."
)
STOPPED = (
    "A candidate is stopped where its regret so far, which can only grow, already puts it behind "
    "one that was run to the end: it cannot win any more. What is said of it is then a least value."
)
#: Smaller regrets count as this: a ratio to almost no regret would outweigh all others.
_LEAST = 1.0


def score(regrets: Sequence[float]) -> float:
    """Return what the rule minimises: the mean of log(regret), a regret below 1 counting as 1.

    The rule speaks of ratios to each algorithm's least regret; these least regrets are the same
    for all candidates, so they do not change which one is the best. Hence the score needs nothing
    of other candidates. It never falls where a regret grows, and a run's regret never falls: at
    any moment of a run, the score of the regrets so far is at most the final one. A candidate
    whose score so far is above the final one of another candidate is not the best.

    Examples
    --------
    >>> score([1.0, 1.0]), round(score([2.0, 8.0]), 4), score([0.5])
    (0.0, 1.3863, 0.0)
    """
    return math.fsum(math.log(max(r, _LEAST)) for r in regrets) / len(regrets)


def loss(regrets: Sequence[float], best: Sequence[float]) -> float:
    """Return the mean of log(regret / best regret).

    Examples
    --------
    >>> round(loss([2.0, 8.0], [1.0, 4.0]), 4), loss([0.5], [0.0])
    (0.6931, 0.0)
    """
    return score(regrets) - score(best)


def mean(regrets: Sequence[float]) -> float:
    """Return the mean over seeds; rounded once, so that it never falls where a regret grows.

    Examples
    --------
    >>> mean([1.0, 2.0])
    1.5
    """
    return math.fsum(regrets) / len(regrets)
