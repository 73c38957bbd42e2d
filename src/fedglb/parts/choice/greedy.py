"""The largest prediction."""

from __future__ import annotations

from dataclasses import dataclass

from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import CENTRE, SCORES
from fedglb.kernels.scoring import predictions
from fedglb.parts.choice.base import Choice
from fedglb.typing import FloatArray


@kernel
def greedy_index(
    arms: FloatArray,
    vectors: FloatArray,
    matrices: FloatArray,
    work: FloatArray,
    factor: FloatArray,
    constants: FloatArray,
    t: int,
    key: int,
    number: int,
    client: int,
    draw: int,
) -> int:
    """xᵀθ."""
    predictions(arms, vectors[CENTRE], work[SCORES])
    return 0


@dataclass(frozen=True)
class Greedy(Choice):
    """Play the arm of the largest prediction xᵀθ: no exploration but by chance.

    References
    ----------
    Bastani, Bayati and Khosravi (2021), Mostly exploration-free algorithms for contextual bandits:
    enough where the arms on offer vary enough.

    Examples
    --------
    >>> from fedglb.parts.choice import Greedy
    >>> Greedy().needs_sets
    False
    >>> Greedy().caveats()
    ('Greedy(): no bound on the regret is proven',)
    """

    stored_name = "Greedy"

    formula = staticmethod(greedy_index)

    def caveats(self) -> tuple[str, ...]:
        """Return that nothing is proven."""
        return (f"{self}: no bound on the regret is proven",)
