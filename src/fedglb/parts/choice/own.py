"""A user's rule: what `Choice.score` gets, the kernel around it, and the check of its scores."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fedglb.errors import InvalidInput, finite
from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import CENTRE, INVERSE, SCORES, WIDTHS
from fedglb.kernels.pointers import INDEX, address_of
from fedglb.kernels.scoring import arm_bounds
from fedglb.parts.own import ROUNDING, Socket, say_plain
from fedglb.typing import FloatArray

if TYPE_CHECKING:
    from fedglb.parts.choice.base import Choice

#: Rules that run as plain Python, with their kernels, by their ids.
_rules: dict[int, tuple[Choice, Callable[..., int]]] = {}
#: Places in the constants: D, the id of a rule that runs as plain Python, the rule's own numbers.
DISPERSION, ID, FIRST = range(3)


class Model(NamedTuple):
    """A client's model of the rewards, and what it says of the arms on offer."""

    theta: FloatArray  #: θ, shape (d,)
    covariance: FloatArray  #: of θ, shape (d, d)
    mean: FloatArray  #: xᵀθ of each arm x, shape (K,)
    sd: FloatArray  #: the standard deviation of each xᵀθ, shape (K,)


@kernel
def predictions(
    arms: FloatArray,
    vectors: FloatArray,
    matrices: FloatArray,
    work: FloatArray,
    dispersion: float,
) -> tuple[FloatArray, FloatArray]:
    """Return xᵀθ of each arm x, and its standard deviation."""
    K = arms.shape[1]
    mean, sd = np.empty(K), np.empty(K)
    arm_bounds(arms, vectors[CENTRE], matrices[INVERSE], 0.0, work, mean)
    for k in range(K):
        sd[k] = math.sqrt(max(dispersion * work[WIDTHS, k], 0.0))
    return mean, sd


# What a rule gets are copies, which it may change.


def rows(arms: FloatArray) -> FloatArray:
    """Return the arms as rows."""
    found = np.empty((arms.shape[1], arms.shape[0]))
    for k in range(arms.shape[1]):
        for j in range(arms.shape[0]):
            found[k, j] = arms[j, k]
    return found


#: What a rule may take, as expressions over the inputs of its socket.
KNOWN = {
    "arms": "rows(arms)",
    "mean": "mean",
    "sd": "sd",
    "theta": "theta.copy()",
    "covariance": f"constants[{DISPERSION}] * inverse",
    "t": "t",
}
MODEL = f"Model({KNOWN['theta']}, {KNOWN['covariance']}, mean, sd)"


def _around(score: Callable[..., Any]) -> Callable[..., int]:
    def index(  # type: ignore[no-untyped-def]
        arms, vectors, matrices, work, factor, constants, t, key, number, client, draw
    ):
        mean, sd = predictions(arms, vectors, matrices, work, constants[DISPERSION])
        K = mean.shape[0]
        # This memory is handed out next: scores that are left unwritten in `np.empty(K)` are NaN.
        np.full(K, np.nan), np.full(K, np.nan), np.full(K, np.nan), np.full(K, np.nan)
        scores = score(arms, mean, sd, vectors[CENTRE], matrices[INVERSE], constants, t)
        if scores.shape[0] != K:
            return 1
        for k in range(K):
            work[SCORES, k] = scores[k]
            if not math.isfinite(scores[k]):
                return 1
        return 0

    return index


def _checked(call: str, scores: Any, arms: FloatArray, *inputs: Any) -> FloatArray:
    """Return a rule's scores; raise `InvalidInput` unless they are K finite floats."""
    d, K = arms.shape
    valid = isinstance(scores, np.ndarray) and scores.shape == (K,) and scores.dtype.kind == "f"
    if valid and np.isfinite(scores).all():
        return scores.astype(float, copy=False)  # type: ignore[no-any-return]
    call = re.sub(r"\bt(?=[,)])", f"t={inputs[-1]}", call)
    given = f"for arms of shape (K, d) = ({K}, {d})"
    if not isinstance(scores, np.ndarray):
        raise InvalidInput(call, scores, f"a float array of shape (K,) = ({K},) {given}")
    if scores.shape != (K,):
        raise InvalidInput(f"{call}.shape", scores.shape, f"(K,) = ({K},) {given}")
    if scores.dtype.kind != "f":
        raise InvalidInput(f"{call}.dtype", str(scores.dtype), "a float array, e.g. of float64")
    return finite(call, scores.astype(float))


SCORE = Socket(
    INDEX, "arms, mean, sd, theta, inverse, constants, t", _around, _checked,
    {"rows": rows, "Model": Model},
)  # fmt: skip


def index_of(rule: Choice, dispersion: float) -> tuple[int, tuple[float, ...]]:
    """Return the address of the kernel around a rule's score, and its constants."""
    code = rule.code
    found = code.compiled
    if not isinstance(found, str):
        return address_of(found, INDEX), (dispersion, 0.0, *code.numbers)
    _rules[id(rule)] = rule, code.plain
    return _interpreted()[0], (dispersion, float(id(rule)), *code.numbers)


@functools.cache
def _interpreted() -> tuple[int, Any]:
    from fedglb.kernels import own_code

    return own_code.interpreted(_write_scores)


def _write_scores(
    arms: FloatArray,
    vectors: FloatArray,
    matrices: FloatArray,
    work: FloatArray,
    factor: FloatArray,
    constants: FloatArray,
    *place: int,
) -> int:
    """Do what a kernel around a rule's score does, in Python."""
    _, plain = _rules[int(constants[ID])]
    return plain(arms, vectors, matrices, work, factor, constants, *place)


def scores_of(
    rule: Choice,
    arms: FloatArray,
    vectors: FloatArray,
    matrices: FloatArray,
    work: FloatArray,
    dispersion: float,
    t: int,
) -> FloatArray:
    """Score by Python; raise `InvalidInput` unless that gives K finite floats."""
    code, found = rule.code, np.array(work)
    constants = np.array([dispersion, 0.0, *code.numbers])
    code.plain(arms, vectors, matrices, found, np.empty((0, 0)), constants, t, 0, 0, 0, 0)
    scores: FloatArray = found[SCORES]
    return scores


def check_first(rule: Choice, scores: FloatArray, expected: FloatArray) -> None:
    """Raise unless the kernel's scores are those of Python; warn if the kernel is plain Python.

    They differ if the rule draws random numbers, or leaves scores unwritten.
    """
    off, code = np.abs(scores - expected), rule.code
    k = int(off.argmax())
    if off[k] > ROUNDING * max(1.0, np.abs(expected).max()):
        allowed = (
            f"{expected[k]} as in the call before: a score depends on arms, model, t and the "
            "rule's fields alone (no random numbers, no global variable that changes)"
        )
        raise InvalidInput(f"{code.call.partition('(')[0]}(…)[{k}]", float(scores[k]), allowed)
    if (why := code.why_plain) is not None:
        name = code.call.partition("(")[0]
        say_plain(code.function, f"{name} runs as plain Python, which is slower: {why}")
