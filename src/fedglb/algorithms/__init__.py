"""The named algorithms (presets): each is a function that composes parts."""

from collections.abc import Callable

from fedglb.algorithms.async_linucb import async_linucb
from fedglb.algorithms.base import Algorithm
from fedglb.algorithms.baselines import n_ons_glm, n_ucb_glm, one_ucb_glm
from fedglb.algorithms.dislinucb import dislinucb
from fedglb.algorithms.ecolog import n_ecolog, one_ecolog
from fedglb.algorithms.fedglb_ucb import fedglb_ucb, fedglb_ucb_1, fedglb_ucb_2, fedglb_ucb_3
from fedglb.algorithms.fedlinucb import fedlinucb
from fedglb.algorithms.ofuglb import n_ofuglb, one_ofuglb
from fedglb.algorithms.past_the_paper import (
    fedglb_auto,
    fedglb_iterate,
    fedglb_mix,
    fedglb_personal,
    fedglb_private,
)

#: Every preset by its name on the command line.
ALGORITHMS: dict[str, Callable[..., Algorithm]] = {
    "fedglb-ucb": fedglb_ucb,
    "fedglb-ucb-1": fedglb_ucb_1,
    "fedglb-ucb-2": fedglb_ucb_2,
    "fedglb-ucb-3": fedglb_ucb_3,
    "one-ucb-glm": one_ucb_glm,
    "n-ucb-glm": n_ucb_glm,
    "n-ons-glm": n_ons_glm,
    "dislinucb": dislinucb,
    "fedlinucb": fedlinucb,
    "async-linucb": async_linucb,
    "one-ecolog": one_ecolog,
    "n-ecolog": n_ecolog,
    "one-ofuglb": one_ofuglb,
    "n-ofuglb": n_ofuglb,
    "fedglb-iterate": fedglb_iterate,
    "fedglb-mix": fedglb_mix,
    "fedglb-auto": fedglb_auto,
    "fedglb-personal": fedglb_personal,
    "fedglb-private": fedglb_private,
}

__all__ = [
    "ALGORITHMS", "Algorithm", "async_linucb", "dislinucb", "fedglb_auto", "fedglb_iterate",
    "fedglb_mix", "fedglb_personal", "fedglb_private", "fedglb_ucb", "fedglb_ucb_1",
    "fedglb_ucb_2", "fedglb_ucb_3", "fedlinucb", "n_ecolog", "n_ofuglb", "n_ons_glm",
    "n_ucb_glm", "one_ecolog", "one_ofuglb", "one_ucb_glm",
]  # fmt: skip
