"""Which arm is played, given the model and the confidence sets: one rule per file.

`Ucb`, `Greedy`, `Sigma`, `Bayes` and `Thompson` rank the arms by a score. `Certified` and
`EpsilonGreedy` are built around such a rule: one leaves out arms that the sets do not allow, the
other plays an arm drawn uniformly now and then. `fedglb.kernels.decide` does what they say.
"""

from fedglb.parts.choice.base import Choice, choice_params
from fedglb.parts.choice.bayes import Bayes
from fedglb.parts.choice.certified import Certified
from fedglb.parts.choice.epsilon_greedy import EpsilonGreedy
from fedglb.parts.choice.greedy import Greedy
from fedglb.parts.choice.sigma import Sigma
from fedglb.parts.choice.thompson import Thompson
from fedglb.parts.choice.ucb import Ucb

__all__ = [
    "Bayes", "Certified", "Choice", "EpsilonGreedy", "Greedy", "Sigma", "Thompson", "Ucb",
    "choice_params",
]  # fmt: skip
