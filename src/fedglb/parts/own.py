"""Users' code in place of a part's kernel: plain functions, and methods of their classes.

A `Socket` is a place where kernels call such code. The arguments that a function asks for by name
are expressions over what the kernel has. Both engines run the same kernel: machine code if numba
can compile the function, else Python.
"""

from __future__ import annotations

import copy
import functools
import inspect
import types
import warnings
from collections import namedtuple
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from fedglb.errors import InvalidInput, names_near
from fedglb.kernels.compile import Kernel
from fedglb.kernels.pointers import Signature
from fedglb.setting import Setting
from fedglb.typing import FloatArray

#: Compiled and interpreted results may differ by rounding, relative to the largest: also by that of
#: single precision.
ROUNDING = 1e-4
#: Larger whole numbers are not exact in the constants of a kernel.
_EXACT = 2**53
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
#: Numbers of the setting that a function may take, by the names that `Problem` and the presets
#: have for them.
OF_SETTING: Mapping[str, Callable[[Setting], float]] = {
    "dim": lambda setting: setting.problem.dim,
    "clients": lambda setting: setting.clients,
    "ridge": lambda setting: setting.ridge,
    "delta": lambda setting: setting.delta,
    "radius": lambda setting: setting.problem.S,
    "noise": lambda setting: setting.problem.R,
    "curvature": lambda setting: setting.problem.c_mu,
}
_WHOLE = ("dim", "clients")
_said: set[object] = set()  # code of which a warning has said that it is plain Python


class NotCompiled(UserWarning):
    """A part runs as plain Python, which is slower: numba cannot compile it."""


def say_plain(code: object, what: str) -> None:
    """Warn, once for this code, that it is plain Python."""
    if code not in _said:
        _said.add(code)
        warnings.warn(what, NotCompiled, stacklevel=3)


@dataclass(frozen=True, eq=False)
class Socket:
    """A place where a kernel calls a user's code."""

    signature: Signature
    #: What the kernel hands to the code, by name.
    inputs: str
    #: The kernel that calls a function of these.
    around: Callable[[Callable[..., Any]], Callable[..., Any]]
    #: check(call, value, *inputs) returns what the code returned, if that is valid; `call` is its
    #: name in errors.
    check: Callable[..., Any]
    #: What arguments refer to beside the inputs.
    names: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Code:
    """A user's function in a socket."""

    socket: Socket
    function: Callable[..., Any]
    arguments: tuple[str, ...]  # what it is called with: expressions over the inputs
    call: str  # as errors name it
    numbers: tuple[float, ...] = ()  # of the user's, in the order in which arguments read them
    #: What `this`, the object of a method, is in arguments: numbers as fields; and in Python.
    this: tuple[Callable[..., Any], Callable[..., Any]] | None = None

    def _adapted(self, *, compiled: bool) -> types.FunctionType:
        """Return the function of the socket's inputs that calls the user's."""
        names = {**self.socket.names, "own": self.function, "__name__": __name__}
        if self.this is not None:
            names["this"] = self.this[0 if compiled else 1]
        return types.FunctionType(_text(self.socket.inputs, self.arguments), names, "adapted")

    @property
    def compiled(self) -> Kernel[..., Any] | str:
        """The kernel around the function, as machine code; or why numba cannot compile it.

        With ``NUMBA_DISABLE_JIT=1`` it is Python.
        """
        from fedglb.kernels import linking, own_code

        if linking.interpreted():
            return own_code.OwnKernel(self.plain, inlined=False)
        if not isinstance(self.function, types.FunctionType):
            return f"it is no function: {self.function!r}"
        adapted = self._adapted(compiled=True)
        return own_code.kernel_around(self.socket.around, adapted, self.socket.signature)

    @property
    def why_plain(self) -> str | None:
        """Why it is plain Python; None: numba compiles it."""
        found = self.compiled
        return f"numba cannot compile it ({found})" if isinstance(found, str) else None

    @property
    def plain(self) -> Callable[..., Any]:
        """The kernel in Python, which raises `InvalidInput` if the function returns nonsense."""
        adapted, check = self._adapted(compiled=False), self.socket.check
        return self.socket.around(lambda *inputs: check(self.call, adapted(*inputs), *inputs))

    @property
    def kernel(self) -> Callable[..., Any]:
        """The kernel, compiled if possible."""
        found = self.compiled
        return self.plain if isinstance(found, str) else found

    @property
    def constants(self) -> FloatArray:
        """The numbers, for the kernel."""
        return np.array(self.numbers, dtype=float)

    def rehearse(self, arguments: tuple[Any, ...], *, compiled: bool) -> None:
        """Call the kernel in Python, and raise if it fails or returns nonsense.

        If `compiled`, call it as it runs, too: it must do the same.
        """
        expected = copy.deepcopy(arguments)
        first = self.plain(*expected)
        if not compiled:
            return
        found = copy.deepcopy(arguments)
        second = self.kernel(*found)
        pairs = zip((first, *expected), (second, *found), strict=True)
        for one, two in pairs:
            if not np.allclose(one, two, rtol=ROUNDING, atol=ROUNDING, equal_nan=True):
                allowed = (
                    f"{one} as in the call before: it depends on its arguments alone (no random "
                    "numbers, no global variable that changes), and writes all that it returns"
                )
                raise InvalidInput(self.call, two, allowed)


@functools.cache
def _text(inputs: str, arguments: tuple[str, ...]) -> types.CodeType:
    found: dict[str, Any] = {}
    exec(f"def adapted({inputs}): return own({', '.join(arguments)})", found)
    code: types.CodeType = found["adapted"].__code__
    return code


def kind_of(value: object) -> str | None:
    """Return the name of a number's type in kernels; None: it is no number for kernels."""
    if isinstance(value, bool | np.bool_):
        return "bool"
    if isinstance(value, int | np.integer):
        return "int" if abs(int(value)) <= _EXACT else None
    return "float" if isinstance(value, float | np.floating) else None


def method(
    socket: Socket, part: object, name: str, call: str, inputs: tuple[str, ...], first: int = 0
) -> Code:
    """Return a method of a user's part as code; `inputs` are what it takes, in this order.

    In kernels `self` has the numbers of the part that bear a name in the method. They begin at
    place `first` of `constants`.
    """
    function: Any = getattr(type(part), name)
    numbers, values = [], []
    for each in getattr(getattr(function, "__code__", None), "co_names", ()):
        value: Any = None if each.startswith("_") else getattr(part, each, None)
        kind = kind_of(value)
        if kind is not None:
            numbers.append((each, kind))
            values.append(float(value))
    arguments = ("this(constants)", *inputs)
    this = _this(tuple(numbers), first), lambda constants: part
    return Code(socket, function, arguments, call, tuple(values), this)


@functools.cache
def _this(numbers: tuple[tuple[str, str], ...], first: int) -> Callable[..., Any]:
    found = {"This": namedtuple("This", [name for name, _ in numbers]), "__name__": __name__}
    values = ", ".join(f"{kind}(constants[{k}])" for k, (_, kind) in enumerate(numbers, first))
    exec(f"def this(constants): return This({values})", found)
    made: Callable[..., Any] = found["this"]  # type: ignore[assignment]
    return made


@dataclass(frozen=True, repr=False)
class FunctionPart:
    """A part that is a user's function of arguments with known names.

    Parameters that have a number as their default, or one from `functools.partial`, are the part's
    own: they are no constants of the machine code.
    """

    function: Callable[..., Any]
    given: tuple[tuple[str, float], ...] = ()  # numbers for parameters, by name

    #: What the function may take, as expressions over the socket's inputs.
    known: ClassVar[Mapping[str, str]]
    #: Whether it may take the numbers of the setting, too.
    takes_setting: ClassVar[bool] = False

    @classmethod
    def of(cls, value: Any) -> Any:
        """Return a function as a part, or anything else as it is."""
        given: dict[str, Any] = {}
        while isinstance(value, functools.partial):
            if value.args:
                raise InvalidInput((), value, "a partial function with keywords only")
            given, value = {**value.keywords, **given}, value.func
        function = getattr(value, "py_func", value)  # of a function that numba compiles
        is_function = isinstance(function, types.FunctionType)
        return cls(function, tuple(given.items())) if is_function else value

    @staticmethod
    def is_part(function: Callable[..., Any], numbers: Mapping[str, Any]) -> bool:
        """Return whether a function is itself the part: the numbers alone are no call of it."""
        return isinstance(function, types.FunctionType) and any(
            parameter.kind in _BY_NAME
            and parameter.default is inspect.Parameter.empty
            and name not in numbers
            for name, parameter in parameters(function).items()
        )

    def __post_init__(self) -> None:
        allowed = ", ".join([*self.known, *(OF_SETTING if self.takes_setting else ())])
        taken, numbers = self._parameters, self.numbers
        for name, value in self.given:
            if name not in taken or self._is_known(name) or kind_of(value) is None:
                names = ", ".join(each for each in taken if not self._is_known(each)) or "none"
                what = f"a number for a parameter that is {_name(self.function)}'s own: {names}"
                raise InvalidInput(name, value, what)
        for name, parameter in taken.items():
            own = parameter.default is not inspect.Parameter.empty or name in numbers
            if parameter.kind not in _BY_NAME or not (own or self._is_known(name)):
                near = names_near(name, allowed.split(", ")).rpartition("; ")[2]
                hint = f"; {near}" if near.startswith("did you mean") else ""
                what = f"a function of any of {allowed}, and of numbers with defaults{hint}"
                raise InvalidInput(name, self.call, what)

    def __repr__(self) -> str:
        """Return its name, and its numbers: those of its closure, too."""
        function: Any = self.function
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        held = {name: cell.cell_contents for name, cell in cells if _is_number(cell)}
        shown = [f"{name}={value!r}" for name, value in (held | self.numbers).items()]
        return _name(function) + (f"({', '.join(shown)})" if shown else "")

    @property
    def _parameters(self) -> Mapping[str, inspect.Parameter]:
        return parameters(self.function)

    def _is_known(self, name: str) -> bool:
        return name in self.known or (self.takes_setting and name in OF_SETTING)

    @property
    def call(self) -> str:
        """The function with its parameters, for errors."""
        return f"{_name(self.function)}({', '.join(self._parameters)})"

    @property
    def numbers(self) -> dict[str, float]:
        """The part's own numbers, by name."""
        defaults = {
            name: parameter.default
            for name, parameter in self._parameters.items()
            if not self._is_known(name) and kind_of(parameter.default) is not None
        }
        return defaults | dict(self.given)

    def numbers_in(self, setting: Setting) -> tuple[float, ...]:
        """Return the numbers that the function takes: its own, and those of the setting."""
        known = {name: value(setting) for name, value in OF_SETTING.items()}
        return self._values({**known, **self.numbers})

    def _values(self, numbers: Mapping[str, float]) -> tuple[float, ...]:
        return tuple(float(numbers[name]) for name, _ in self._constants)

    @property
    def _constants(self) -> list[tuple[str, str]]:
        """The names and types of the numbers that it takes, in their order."""
        numbers, found = self.numbers, []
        for name in self._parameters:
            if name in numbers:
                found.append((name, str(kind_of(numbers[name]))))
            elif name not in self.known and self._is_known(name):
                found.append((name, "int" if name in _WHOLE else "float"))
        return found

    @property
    def takes(self) -> list[str]:
        """The parameters that it is called with: others have defaults that are no numbers."""
        constants = dict(self._constants)
        return [name for name in self._parameters if name in self.known or name in constants]

    def code_in(self, socket: Socket, first: int = 0) -> Code:
        """Return the function in a socket; its numbers begin at place `first` of `constants`."""
        numbers = {
            name: f"{kind}(constants[{place}])"
            for place, (name, kind) in enumerate(self._constants, first)
        }
        said = {**self.known, **numbers}
        arguments = tuple(f"{name}={said[name]}" for name in self.takes)
        own = () if self.takes_setting else self._values(self.numbers)
        return Code(socket, self.function, arguments, self.call, own)


def _name(function: Any) -> str:
    return str(function.__name__)


@functools.cache
def parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a function by name."""
    return inspect.signature(function).parameters


def _is_number(cell: types.CellType) -> bool:
    try:
        return kind_of(cell.cell_contents) is not None
    except ValueError:  # not assigned yet
        return False
