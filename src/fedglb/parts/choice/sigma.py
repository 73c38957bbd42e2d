"""The prediction plus a fixed number of its standard deviations."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedglb.errors import number
from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import CENTRE, INVERSE, SCORES, WIDTHS
from fedglb.kernels.scoring import upper_bounds
from fedglb.parts.choice.base import Choice
from fedglb.setting import Setting
from fedglb.typing import FloatArray

#: The only place in the constants.
MULTIPLE = 0


@kernel
def sigma_index(
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
    """xᵀθ + c·sd(x)."""
    upper_bounds(
        arms, vectors[CENTRE], matrices[INVERSE], constants[MULTIPLE], work[SCORES], work[WIDTHS]
    )
    return 0


@dataclass(frozen=True)
class Sigma(Choice):
    """Play the arm of the largest xᵀθ + c·sd(x), with sd(x) the prediction's standard deviation.

    It is the Laplace approximation's: sd(x)² = D·‖x‖²_{A⁻¹}, with D the dispersion that belongs
    to A.

    Parameters
    ----------
    width
        c ≥ 0.

    Raises
    ------
    InvalidInput
        If `width` is not a finite number ≥ 0.

    References
    ----------
    docs/theory.md: the index is calibrated, not proven.

    Examples
    --------
    >>> from fedglb.parts.choice import Sigma
    >>> Sigma()
    Sigma(width=2.0)
    >>> Sigma(1.5).caveats()
    ('Sigma(width=1.5): the index is calibrated, not proven',)
    """

    stored_name = "Sigma"

    formula = staticmethod(sigma_index)
    width: float = 2.0

    def __post_init__(self) -> None:
        number("width", self.width, at_least=0.0)

    def constants(self, setting: Setting, dispersion: float) -> tuple[float, ...]:
        """Return c·√D."""
        return (self.width * math.sqrt(dispersion),)

    def caveats(self) -> tuple[str, ...]:
        """Return that the index is not proven."""
        return (f"{self}: the index is calibrated, not proven",)
