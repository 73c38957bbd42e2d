"""Who gets the model after an upload: what of the coordinator's A each client has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fedglb.kernels.linalg import log_det
from fedglb.protocol.messages import ClientId
from fedglb.typing import FloatArray


@dataclass(frozen=True)
class Holding:
    """What a client has of A: all that it has uploaded, and all that it was sent.

    Parameters
    ----------
    matrix
        λI + Σ x xᵀ over these samples, shape (d, d).
    log_det
        log det of it.
    """

    matrix: FloatArray
    log_det: float

    @classmethod
    def of(cls, matrix: FloatArray) -> Holding:
        """Return what a client has that has this matrix."""
        return cls(matrix, log_det(matrix))

    def with_upload(self, covariance: FloatArray) -> Holding:
        """Return this with Σ x xᵀ over the samples of an upload."""
        return Holding.of(self.matrix + covariance)


def recipients(
    clients: Iterable[ClientId],
    holdings: dict[ClientId, Holding],
    nothing: Holding,
    everything: Holding,
    level: float,
) -> list[ClientId]:
    """Return the clients that get A, as log(det A / det A_j) ≥ `level`; from now on they have it.

    Parameters
    ----------
    clients
        The members.
    holdings
        What each client has, changed in place.
    nothing
        What a client has that is not in `holdings`.
    everything
        A.
    level
        The solver's `download_level`.

    Returns
    -------
    list of ClientId
        In the order of `clients`.

    References
    ----------
    Li and Wang (AISTATS 2022), Async-LinUCB: the download event.

    Examples
    --------
    >>> import numpy as np
    >>> nothing, everything = Holding.of(np.eye(2)), Holding.of(3.0 * np.eye(2))
    >>> holdings = {"a": Holding.of(2.0 * np.eye(2))}
    >>> recipients(["a", "b"], holdings, nothing, everything, level=np.log(3.0))
    ['b']
    >>> recipients(["a", "b"], holdings, nothing, everything, level=np.log(2.0))
    ['a']
    """
    found = [
        client
        for client in clients
        if everything.log_det - holdings.get(client, nothing).log_det >= level
    ]
    holdings.update(dict.fromkeys(found, everything))
    return found
