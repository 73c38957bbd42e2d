"""Choice rules: the arm to play, given the model and the confidence sets.

`Ucb`, `Greedy`, `Sigma`, `Bayes` and `Thompson` rank the arms by a score; `Certified` and
`EpsilonGreedy` wrap such a rule. `fedglb.kernels.decide` plays by any of them.
"""

from fedglb.parts.choice.base import Choice, choice_params
from fedglb.parts.choice.index import Bayes, Greedy, Sigma, Ucb
from fedglb.parts.choice.thompson import Thompson
from fedglb.parts.choice.wrappers import Certified, EpsilonGreedy

__all__ = [
    "Bayes", "Certified", "Choice", "EpsilonGreedy", "Greedy", "Sigma", "Thompson", "Ucb",
    "choice_params",
]  # fmt: skip
