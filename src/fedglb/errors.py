"""The package's one exception for bad input, and the checks that raise it."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from fedglb.typing import FloatArray

#: Keys and indices, from the outside in: ("algorithm", 2, "threshold").
Place: TypeAlias = tuple[str | int, ...]


def as_text(place: Place) -> str:
    """Return a place as text.

    Examples
    --------
    >>> as_text(("algorithm", 2, "threshold"))
    'algorithm[2].threshold'
    """
    keys = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in place)
    return keys.removeprefix(".")


class InvalidInput(ValueError):
    """Invalid input, refused before anything runs.

    Parameters
    ----------
    argument
        Name of the argument at fault, or its place: the keys and indices that lead to it.
    value
        The invalid value.
    allowed
        A noun phrase with the expected values and, where that helps, the remedy.

    Attributes
    ----------
    value, allowed
        The arguments.
    path
        The place as a tuple; code that knows the surrounding keys adds them with `under`.
    source
        The file that the place is in, or None.

    Examples
    --------
    >>> import fedglb as fg
    >>> try:
    ...     fg.n_ons_glm(ridge=-1.0)
    ... except fg.InvalidInput as error:
    ...     print(error)
    ridge = -1.0: expected a finite number > 0
    >>> fg.InvalidInput(("algorithm", 2, "ridge"), -1.0, "a finite number > 0").argument
    'algorithm[2].ridge'
    """

    def __init__(self, argument: str | Place, value: object, allowed: str) -> None:
        self.path: Place = (argument,) if isinstance(argument, str) else argument
        self.source: str | None = None
        self.value = value
        self.allowed = allowed
        super().__init__(argument, value, allowed)

    @property
    def argument(self) -> str:
        """Where the fault is, as text: ``x.toml: algorithm[2].ridge``."""
        inside = as_text(self.path)
        return inside if self.source is None else f"{self.source}: {inside}"

    def __str__(self) -> str:
        try:
            value = repr(self.value)
        except (ValueError, RecursionError):  # a number of thousands of digits, or deep nesting
            value = f"(a {type(self.value).__name__} that cannot be shown)"
        return f"{self.argument} = {value}: expected {self.allowed}"

    def __reduce__(self) -> tuple[Any, ...]:  # also for subclasses with other parameters
        return (_unpickled, (type(self), self.args, self.__dict__))


def _unpickled(kind: type[InvalidInput], args: tuple[Any, ...], state: dict[str, Any]) -> Any:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


@contextmanager
def under(*place: str | int, source: str | None = None) -> Iterator[None]:
    """Add this place, and this file, to errors raised inside.

    If several name a file, the outermost one counts: it knows the user's file.

    Examples
    --------
    >>> with under("algorithm", 2, source="x.toml"):
    ...     number("ridge", -1.0, above=0.0)
    Traceback (most recent call last):
    fedglb.errors.InvalidInput: x.toml: algorithm[2].ridge = -1.0: expected a finite number > 0
    """
    try:
        yield
    except InvalidInput as error:
        error.path = (*place, *error.path)
        error.source = error.source if source is None else source
        raise


@contextmanager
def relocated(move: Callable[[Place], Place]) -> Iterator[None]:
    """Rename the place of errors raised inside to the caller's name for it.

    Examples
    --------
    >>> with relocated(lambda path: ("--ridge",) if path == ("ridge",) else path):
    ...     number("ridge", -1.0, above=0.0)
    Traceback (most recent call last):
    fedglb.errors.InvalidInput: --ridge = -1.0: expected a finite number > 0
    """
    try:
        yield
    except InvalidInput as error:
        error.path = move(error.path)
        raise


def number(
    argument: str | Place,
    value: object,
    *,
    above: float = -math.inf,
    at_least: float = -math.inf,
    below: float = math.inf,
    allow_infinite: bool = False,
    allowed: str | None = None,
) -> float:
    """Return `value` as a float within the bounds, or raise `InvalidInput`."""
    text = allowed or _describe("a finite number", above, at_least, below)
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InvalidInput(argument, value, text)
    try:
        x = float(value)
    except OverflowError:  # a whole number larger than any double
        raise InvalidInput(argument, "a number with too many digits", text) from None
    finite = math.isfinite(x) or (allow_infinite and x == math.inf)
    if not finite or not (x > above and x >= at_least and (x < below or x == below == math.inf)):
        raise InvalidInput(argument, value, text)
    return x


def integer(
    argument: str | Place, value: object, *, at_least: int = 1, at_most: float = math.inf
) -> int:
    """Return `value` as an int within the bounds, or raise `InvalidInput`."""
    text = f"a whole number >= {at_least}" + ("" if at_most == math.inf else f" and <= {at_most}")
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InvalidInput(argument, value, text)
    if not at_least <= int(value) <= at_most:
        raise InvalidInput(argument, value, text)
    return int(value)


def one_of(argument: str | Place, value: object, known: Iterable[str]) -> str:
    """Return `value` if it is a known name; else raise, naming the most similar ones."""
    names = list(known)
    if isinstance(value, str) and value in names:
        return value
    raise InvalidInput(argument, value, names_near(value, names))


def names_near(value: object, known: Iterable[str]) -> str:
    """Return the `allowed` text for an unknown name: all names, then the most similar ones.

    Examples
    --------
    >>> names_near("sedes", ["name", "seeds"])
    'one of name, seeds; did you mean seeds?'
    """
    names = list(known)
    near = difflib.get_close_matches(str(value), names, n=3, cutoff=0.4)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    return f"one of {', '.join(names)}{hint}"


def instance(argument: str | Place, value: object, kind: type, example: str) -> None:
    """Raise unless `value` is a `kind`."""
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise InvalidInput(argument, value, f"{article} {kind.__name__}, e.g. {example}")


def array(argument: str, value: ArrayLike, shape: tuple[int | None, ...]) -> FloatArray:
    """Return `value` as a finite, C-ordered float64 array of `shape` (None: any length >= 1)."""
    return finite(argument, shaped(argument, value, shape))


def shaped(argument: str, value: ArrayLike, shape: tuple[int | None, ...]) -> FloatArray:
    """Do as `array` does, but allow numbers that are not finite."""
    if type(value) is np.ndarray and value.shape == shape and value.dtype == np.float64:
        return np.ascontiguousarray(value)  # the common case: the rest takes four times longer
    try:
        out = np.ascontiguousarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        allowed = f"numbers in an array of shape {_shape(shape)}"
        raise InvalidInput(argument, value, allowed) from None
    if len(out.shape) != len(shape) or any(
        n != s if s is not None else n < 1 for n, s in zip(out.shape, shape, strict=True)
    ):
        raise InvalidInput(f"{argument}.shape", out.shape, f"an array of shape {_shape(shape)}")
    return out


def finite(argument: str, values: FloatArray) -> FloatArray:
    """Return `values` if all are finite, or raise `InvalidInput` with the first that is not."""
    if math.isfinite(np.vdot(values, values)):  # a third of the time, and mostly enough
        return values
    found = np.isfinite(values)
    if not found.all():
        where = tuple(int(i) for i in np.argwhere(~found)[0])
        raise InvalidInput(f"{argument}{list(where)}", float(values[where]), "finite numbers only")
    return values


def _shape(shape: tuple[int | None, ...]) -> str:
    return "(" + ", ".join("any" if s is None else str(s) for s in shape) + ")"


def within(argument: str, values: FloatArray, low: float, high: float, allowed: str) -> None:
    """Raise unless all values lie in [low, high]."""
    outside = (values < low) | (values > high)
    if outside.any():
        where = tuple(int(i) for i in np.argwhere(outside)[0])
        raise InvalidInput(f"{argument}{list(where)}", float(values[where]), allowed)


def arms_in_unit_ball(argument: str, arms: FloatArray) -> FloatArray:
    """Return the arms (last axis), each of Euclidean norm at most 1 + 1e-9; or raise.

    A norm up to 1 + 1e-6 is 1 in float32, rounded by up to 8 units in the last place. Such an arm
    is divided by its norm, so that all that is proven for ‖x‖ ≤ 1, and the noise of privacy, need
    not know.
    """
    norms = np.sqrt(np.einsum("...d,...d->...", arms, arms))
    long = norms > 1.0 + 1e-9
    if not long.any():
        return arms
    too_long = norms > 1.0 + 1e-6
    if too_long.any():
        where = tuple(int(i) for i in np.argwhere(too_long)[0])
        raise InvalidInput(
            f"norm of {argument}{list(where)}",
            float(norms[where]),
            "arms of Euclidean norm <= 1 (divide all features by the largest norm)",
        )
    scaled: FloatArray = arms / np.where(long, norms, 1.0)[..., None]
    return scaled


def _describe(what: str, above: float, at_least: float, below: float) -> str:
    parts = []
    if above != -math.inf:
        parts.append(f"> {above:g}")
    if at_least != -math.inf:
        parts.append(f">= {at_least:g}")
    if below != math.inf:
        parts.append(f"< {below:g}")
    return " ".join([what, " and ".join(parts)]).strip()
