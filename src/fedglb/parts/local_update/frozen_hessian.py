"""No local update, on a model that comes with its Hessian: nothing but the model is played."""

from __future__ import annotations

from dataclasses import dataclass

from fedglb.model import SharedModel
from fedglb.parts.local_update.base import HessianState, LocalUpdate, adopt_matrix
from fedglb.parts.local_update.frozen import change_nothing
from fedglb.setting import Setting


@dataclass
class FrozenHessianState(HessianState):
    """State of a client that learns by global updates only; the centre is θ_t.

    Parameters
    ----------
    vectors, matrices, counters, base
        As in `LocalState`; `FrozenHessian.begin` makes them.
    """


@dataclass(frozen=True)
class FrozenHessian(LocalUpdate[FrozenHessianState]):
    """Play the last shared model until the next; its matrix is H + λI.

    A reward changes no later choice of the client before the next shared model. With privacy this
    is what protects the users of one client from each other, too.

    The noise of privacy is in θ_t, but not in the widths of arms: they are for exploring, and
    playing an arm does not make that noise smaller.

    References
    ----------
    docs/privacy.md; docs/theory.md, section 10.

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.fedglb_private(updates=20).local_update
    FrozenHessian()
    """

    stored_name = "FrozenHessian"

    state_type = FrozenHessianState
    step = staticmethod(change_nothing)
    tracks_gain = False
    learns = False
    metric = "hessian"

    def prior(self, setting: Setting) -> float:
        """Return λ."""
        return setting.ridge

    def dispersion(self, setting: Setting) -> float:
        """Return the link's dispersion: P is a covariance up to this factor."""
        return setting.problem.dispersion

    def constants(self, setting: Setting) -> tuple[float, ...]:
        """Return no numbers: the step needs none."""
        return ()

    def adopt(self, setting: Setting, state: FrozenHessianState, model: SharedModel) -> None:
        """Take over θ_t and the matrix; the centre is θ_t."""
        adopt_matrix(state, model)
        state.centre[:] = state.theta
