"""The event trigger of FedGLB-UCB and DisLinUCB."""

from __future__ import annotations

from dataclasses import dataclass

from fedglb.errors import number
from fedglb.trigger.base import Trigger


@dataclass(frozen=True)
class Event(Trigger):
    """(t − t_last) · log(det A_i / det(A_i − ΔA_i)) ≥ D.

    ≥ as in Algorithm 1 (the paper's equation has >, erratum 2). D = 0 asks after every
    interaction, D = ∞ never.
    """

    needs_gain = True
    threshold: float

    def __post_init__(self) -> None:
        number(
            "threshold", self.threshold, at_least=0.0, allow_infinite=True,
            allowed="a number D >= 0, or infinity for no updates at all",
        )  # fmt: skip

    @property
    def level(self) -> float:
        """D."""
        return self.threshold
