"""Choice rules: the arm to play, given the model and the confidence sets.

`Ucb`, `Greedy`, `Sigma`, `Bayes`, `Thompson` and `OptimisticThompson` rank the arms by a score;
`Bank` and `EpsilonGreedy` wrap such a rule. A user's rule is a plain function, or a `Choice` with a
`score` in plain Python. `fedglb.kernels.decide` plays by any of them.
"""

from fedglb.parts.choice.base import Choice, choice_params
from fedglb.parts.choice.function import ChoiceLike, OwnChoice, as_choice
from fedglb.parts.choice.index import Bayes, Greedy, Sigma, Ucb
from fedglb.parts.choice.own import Model, check_first, scores_of
from fedglb.parts.choice.thompson import OptimisticThompson, Thompson
from fedglb.parts.choice.wrappers import Bank, EpsilonGreedy

__all__ = [
    "Bank", "Bayes", "Choice", "ChoiceLike", "EpsilonGreedy", "Greedy", "Model",
    "OptimisticThompson", "OwnChoice", "Sigma", "Thompson", "Ucb", "as_choice", "check_first",
    "choice_params", "scores_of",
]  # fmt: skip
