"""A plain function as a local update: it returns the next θ."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, cast

import numpy as np

from fedglb.errors import InvalidInput, finite
from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import (
    CENTRE,
    INVERSE,
    LOG_GAIN,
    MATRIX,
    MEAN,
    THETA,
    UPDATES,
    VARIANCE,
)
from fedglb.kernels.linalg import add_sample, dot
from fedglb.kernels.pointers import STEP, call1
from fedglb.model import SharedModel
from fedglb.parts.local_update.base import LocalState, LocalUpdate, Vector, adopt_matrix
from fedglb.parts.own import Code, FunctionPart, Socket
from fedglb.setting import Setting
from fedglb.typing import FloatArray, IntArray

#: Places in `vectors`, behind those of every state.
DIRECTION = 2


@kernel
def add_row(
    vectors: FloatArray,
    matrices: FloatArray,
    counters: FloatArray,
    x: FloatArray,
    functions: IntArray,
) -> tuple[float, float]:
    """Add x to A and A⁻¹, and write A⁻¹x; return μ(xᵀθ) and μ′(xᵀθ)."""
    z, count = dot(x, vectors[THETA]), int(counters[UPDATES])
    counters[LOG_GAIN] += add_sample(
        matrices[MATRIX], matrices[INVERSE], x, 1.0, count, vectors[DIRECTION]
    )
    counters[UPDATES] += 1.0
    return call1(functions[MEAN], z), call1(functions[VARIANCE], z)


def _around(own: Callable[..., FloatArray]) -> Callable[..., int]:
    def step(  # type: ignore[no-untyped-def]
        vectors, matrices, counters, X, y, functions, constants
    ):
        n = X.shape[0] - 1
        x, theta, direction = X[n], vectors[THETA], vectors[DIRECTION]
        A, A_inv = matrices[MATRIX], matrices[INVERSE]
        predicted, slope = add_row(vectors, matrices, counters, x, functions)
        d = theta.shape[0]
        # This memory is handed out next: what is left unwritten in `np.empty(d)` is NaN.
        np.full(d, np.nan), np.full(d, np.nan), np.full(d, np.nan), np.full(d, np.nan)
        moved = own(theta, x, y[n], predicted, slope, A, A_inv, direction, counters, constants, n)
        if moved.shape[0] != d:
            return 1
        for j in range(d):
            if not math.isfinite(moved[j]):
                return 1
            theta[j] = moved[j]
            vectors[CENTRE, j] = moved[j]
        return 0

    return step


def _checked(call: str, moved: Any, theta: FloatArray, *inputs: Any) -> FloatArray:
    d, n = theta.shape[0], inputs[-1] + 1
    call = f"{call} at sample {n}"
    if not isinstance(moved, np.ndarray):
        raise InvalidInput(call, moved, f"the next theta, a float array of shape (d,) = ({d},)")
    if moved.shape != (d,):
        raise InvalidInput(f"{call}, its shape", moved.shape, f"(d,) = ({d},)")
    if moved.dtype.kind != "f":
        raise InvalidInput(f"{call}, its dtype", str(moved.dtype), "that of floats, e.g. float64")
    return finite(call, moved.astype(float))


STEP_OF = Socket(
    STEP,
    "theta, x, y, predicted, slope, matrix, inverse, direction, counters, constants, n",
    _around,
    _checked,
)


@dataclass
class OwnState(LocalState):
    """State of a client whose next θ is a user's function; it is the centre of the ellipsoid."""

    direction = Vector(DIRECTION)  # A⁻¹x of the last sample since the last model


@dataclass(frozen=True, repr=False)
class OwnUpdate(FunctionPart, LocalUpdate[OwnState]):
    """The next θ is a user's function; A = (λ/c)I + Σ x xᵀ and A⁻¹ are kept around it.

    It may take θ, the sample's x and y, μ(xᵀθ) as `predicted` and its derivative as `slope`, A and
    A⁻¹ with x in them as `matrix` and `inverse`, A⁻¹x as `direction`, the client's own samples
    since the last model and in total, and numbers of the setting. A shared model brings θ and A.
    """

    state_type = OwnState
    takes_setting = True
    known: ClassVar[Mapping[str, str]] = {
        "theta": "theta.copy()",
        "x": "x.copy()",
        "y": "y",
        "predicted": "predicted",
        "slope": "slope",
        "matrix": "matrix.copy()",
        "inverse": "inverse.copy()",
        "direction": "direction.copy()",
        "samples": f"int(counters[{UPDATES}])",
        "total": "n + 1",
    }

    @property
    def code(self) -> Code:
        """The function in its socket."""
        return self.code_in(STEP_OF)

    @property
    def why_plain(self) -> str | None:
        """Why numba cannot compile the function."""
        return self.code.why_plain

    @property
    def step(self) -> Callable[..., int]:  # type: ignore[override]
        """The kernel around the function, compiled if possible."""
        return self.code.kernel

    def rehearsal(self, setting: Setting) -> tuple[Code, tuple[Any, ...]]:
        """Return the call for a first sample: a unit vector and its mean reward at θ = 0."""
        state, problem = self.begin(setting), setting.problem
        X, y = np.eye(1, problem.dim), np.array([problem.link.mean(0.0)])
        constants = np.array(self.constants(setting), dtype=float)
        arrays = state.vectors, state.matrices, state.counters, X, y
        return self.code, (*arrays, problem.functions, constants)

    def constants(self, setting: Setting) -> tuple[float, ...]:
        """Return the numbers that the function takes."""
        return self.numbers_in(setting)

    def adopt(self, setting: Setting, state: OwnState, model: SharedModel) -> None:
        """Take over θ_t and A_t."""
        adopt_matrix(state, model)
        state.centre[:] = state.theta
        state.direction[:] = 0.0

    def failure(self, n: int) -> Exception:
        """Return that the function's θ is none."""
        allowed = "the next theta, a float array of shape (d,): finite, and each number written"
        return InvalidInput(f"{self.code.call} at sample {n} of a client", "not valid", allowed)


#: A local update, or a function of any of `OwnUpdate.known` and `fedglb.parts.own.OF_SETTING`.
LocalUpdateLike: TypeAlias = LocalUpdate[Any] | Callable[..., FloatArray]


def as_local_update(value: LocalUpdateLike) -> LocalUpdate[Any]:
    """Return a function as a local update; anything else as it is, for the caller to check."""
    return cast("LocalUpdate[Any]", OwnUpdate.of(value))
