"""Which arm is played, given the model and the confidence sets.

`Ucb`, `Greedy`, `Sigma`, `Bayes` and `Thompson` rank the arms by a score. `Certified` and
`EpsilonGreedy` wrap such a rule: `Certified` leaves out arms that the sets exclude,
`EpsilonGreedy` plays a uniformly drawn arm with probability ε. `fedglb.kernels.decide` is the code
that plays by any of them.
"""

from fedglb.parts.choice.base import Choice, choice_params
from fedglb.parts.choice.certified import Certified
from fedglb.parts.choice.epsilon_greedy import EpsilonGreedy
from fedglb.parts.choice.index import Bayes, Greedy, Sigma
from fedglb.parts.choice.thompson import Thompson
from fedglb.parts.choice.ucb import Ucb

__all__ = [
    "Bayes", "Certified", "Choice", "EpsilonGreedy", "Greedy", "Sigma", "Thompson", "Ucb",
    "choice_params",
]  # fmt: skip
