"""A user's rule: what `Choice.score` gets, the kernel around it, and the check of its scores."""

from __future__ import annotations

import functools
import math
import types
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fedglb.errors import InvalidInput, finite
from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import CENTRE, INVERSE, SCORES, WIDTHS
from fedglb.kernels.pointers import why_not_compiled
from fedglb.kernels.scoring import arm_bounds
from fedglb.typing import FloatArray

if TYPE_CHECKING:
    from fedglb.parts.choice.base import Choice

#: Compiled and interpreted scores may differ by rounding, relative to the largest: also by that of
#: single precision.
_ROUNDING = 1e-4
#: Larger whole numbers are not exact in the constants of a kernel.
_EXACT = 2**53
#: Rules that run as plain Python, by their ids, which their kernel gets as a constant.
_rules: dict[int, Choice] = {}
_said: set[object] = set()  # scores of which a warning has said that they are plain Python


class NotCompiled(UserWarning):
    """numba cannot compile a rule's `score`: it runs as plain Python."""


class Model(NamedTuple):
    """A client's model of the rewards, and what it says of the arms on offer."""

    theta: FloatArray  #: θ, shape (d,)
    covariance: FloatArray  #: of θ, shape (d, d)
    mean: FloatArray  #: xᵀθ of each arm x, shape (K,)
    sd: FloatArray  #: the standard deviation of each xᵀθ, shape (K,)


@kernel
def offered(
    arms: FloatArray,
    vectors: FloatArray,
    matrices: FloatArray,
    work: FloatArray,
    dispersion: float,
) -> tuple[FloatArray, Model]:
    """Return the arms as rows, and the model. They are copies, which a rule may change."""
    d, K = vectors.shape[1], arms.shape[1]
    rows, mean, sd = np.empty((K, d)), np.empty(K), np.empty(K)
    theta, covariance = np.empty(d), np.empty((d, d))
    arm_bounds(arms, vectors[CENTRE], matrices[INVERSE], 0.0, work, mean)
    for k in range(K):
        sd[k] = math.sqrt(max(dispersion * work[WIDTHS, k], 0.0))
        for j in range(d):
            rows[k, j] = arms[j, k]
    for i in range(d):
        theta[i] = vectors[CENTRE, i]
        for j in range(d):
            covariance[i, j] = dispersion * matrices[INVERSE, i, j]
    return rows, Model(theta, covariance, mean, sd)


def index_of(rule: Choice, dispersion: float) -> tuple[int, tuple[float, ...]]:
    """Return the address of the kernel around a rule's `score`, and its constants."""
    found, values = _kernel(rule)
    if not isinstance(found, str):
        return found[0], (dispersion, *values)
    _rules[id(rule)] = rule
    return _interpreted()[0], (dispersion, float(id(rule)))


def _kernel(rule: Choice) -> tuple[tuple[int, Any] | str, list[float]]:
    """Return what `_compiled` returns for a rule, and the values of its numbers.

    These are the numbers of the rule that bear a name in its score.
    """
    score, numbers, values = type(rule).score, [], []
    for name in getattr(getattr(score, "__code__", None), "co_names", ()):
        value: Any = None if name.startswith("_") else getattr(rule, name, None)
        if isinstance(value, bool | np.bool_):
            numbers.append((name, "bool"))
        elif isinstance(value, int | np.integer) and abs(int(value)) <= _EXACT:
            numbers.append((name, "int"))
        elif isinstance(value, float | np.floating):
            numbers.append((name, "float"))
        else:
            continue
        values.append(float(value))
    return _compiled(score, tuple(numbers)), values


@functools.cache
def _compiled(
    score: Callable[..., Any], numbers: tuple[tuple[str, str], ...]
) -> tuple[int, Any] | str:
    """Return a kernel's address, and what keeps it alive; or why numba cannot compile it.

    Empty: kernels are not compiled at all.
    """
    from fedglb.kernels import linking, own_scores

    if linking.interpreted():
        return ""
    if not isinstance(score, types.FunctionType):
        return f"it is no function: {score!r}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numba's, of code that it then may not compile
            return own_scores.compiled(score, numbers, offered)
    except Exception as error:  # numba raises many kinds for what it does not know
        return why_not_compiled(error)


@functools.cache
def _interpreted() -> tuple[int, Any]:
    from fedglb.kernels import own_scores

    return own_scores.interpreted(_write_scores)


def _write_scores(
    arms: FloatArray,
    vectors: FloatArray,
    matrices: FloatArray,
    work: FloatArray,
    factor: FloatArray,
    constants: FloatArray,
    t: int,
    *stream: int,
) -> int:
    """Do what a kernel around a rule's `score` does, in Python."""
    rule = _rules[int(constants[1])]
    work[SCORES] = scores_of(rule, arms, vectors, matrices, work, float(constants[0]), t)
    return 0


def scores_of(
    rule: Choice,
    arms: FloatArray,
    vectors: FloatArray,
    matrices: FloatArray,
    work: FloatArray,
    dispersion: float,
    t: int,
) -> FloatArray:
    """Call a rule's `score` in Python; raise `InvalidInput` unless it returns K finite floats."""
    rows, model = offered(arms, vectors, matrices, work, dispersion)
    (K, d), call = rows.shape, f"{type(rule).__name__}.score(arms, model, t={t})"
    memory = [np.full(K, np.nan) for _ in range(8)]
    del memory  # NumPy hands it out next: scores that are left unwritten in `np.empty(K)` are NaN
    scores: Any = rule.score(rows, model, t)
    given = f"for arms of shape (K, d) = ({K}, {d})"
    if not isinstance(scores, np.ndarray):
        raise InvalidInput(call, scores, f"a float array of shape (K,) = ({K},) {given}")
    if scores.shape != (K,):
        raise InvalidInput(f"{call}.shape", scores.shape, f"(K,) = ({K},) {given}")
    if scores.dtype.kind != "f":
        raise InvalidInput(f"{call}.dtype", str(scores.dtype), "a float array, e.g. of float64")
    return finite(call, scores.astype(float))


def check_first(rule: Choice, scores: FloatArray, expected: FloatArray) -> None:
    """Raise unless the kernel's scores are those of Python; warn if the kernel is plain Python.

    They differ if the rule draws random numbers, reads a global variable that has changed since it
    was compiled, or leaves scores unwritten.
    """
    off = np.abs(scores - expected)
    k = int(off.argmax())
    if off[k] > _ROUNDING * max(1.0, np.abs(expected).max()):
        allowed = (
            f"{expected[k]} as in the call before: a score depends on arms, model, t and the "
            "rule's fields alone (no random numbers, no global variable that changes)"
        )
        raise InvalidInput(f"{type(rule).__name__}.score(…)[{k}]", float(scores[k]), allowed)
    (why, _), score = _kernel(rule), type(rule).score
    if why and isinstance(why, str) and score not in _said:
        _said.add(score)
        warnings.warn(
            f"{type(rule).__name__}.score runs as plain Python, which is slower: numba cannot "
            f"compile it ({why})", NotCompiled, stacklevel=2,
        )  # fmt: skip
