"""Which arm is played, given the model and the confidence sets: one rule per file.

`Ucb`, `Greedy`, `Sigma`, `Bayes` and `Thompson` rank the arms by a score. `Certified` and
`EpsilonGreedy` are built around such a rule: one leaves out arms that the sets do not allow, the
other plays an arm drawn uniformly now and then. `fedglb.kernels.decide` does what they say.
"""

from fedglb.choice.base import Choice, choice_params
from fedglb.choice.bayes import Bayes
from fedglb.choice.certified import Certified
from fedglb.choice.epsilon_greedy import EpsilonGreedy
from fedglb.choice.greedy import Greedy
from fedglb.choice.sigma import Sigma
from fedglb.choice.thompson import Thompson
from fedglb.choice.ucb import Ucb

__all__ = [
    "Bayes", "Certified", "Choice", "EpsilonGreedy", "Greedy", "Sigma", "Thompson", "Ucb",
    "choice_params",
]  # fmt: skip
