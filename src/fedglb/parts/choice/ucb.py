"""The largest upper confidence bound."""

from __future__ import annotations

from dataclasses import dataclass

from fedglb.parts.choice.base import Choice


@dataclass(frozen=True)
class Ucb(Choice):
    """Play the arm of the largest upper confidence bound: what the paper does.

    References
    ----------
    Li and Wang (2022), Eq. (5).

    Examples
    --------
    >>> from fedglb.parts.choice import Ucb
    >>> Ucb().needs_sets, Ucb().randomised, Ucb().caveats()
    (True, False, ())
    """

    stored_name = "Ucb"

    def caveats(self) -> tuple[str, ...]:
        """Return nothing: what the confidence sets prove is about this rule."""
        return ()
