"""Parts from `"package.module:function"` paths in files."""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from fedglb.errors import InvalidInput, Place, names_near

T = TypeVar("T")

_NAME = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w.]*")


def is_own(name: object) -> bool:
    """Return whether a name is a `module:function` path.

    Examples
    --------
    >>> is_own("mypackage.rules:cautious"), is_own("fedglb-ucb"), is_own("sigma:3")
    (True, False, False)
    """
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def find(argument: str | Place, name: str) -> Callable[..., Any]:
    """Import the function or class of a path; errors name it `argument`."""
    module, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
    except Exception as error:
        allowed = f"an importable module on Python's path ({_text_of(error)})"
        raise InvalidInput(argument, name, allowed) from error
    for key in path.split("."):
        if not hasattr(found, key):
            known = [each for each in vars(found) if not each.startswith("_")]
            near = names_near(key, known).rpartition("; ")[2] if known else ""
            hint = f"; {near}" if near.startswith("did you mean") else ""
            raise InvalidInput(argument, name, f"a function in {module}{hint}")
        found = getattr(found, key)
    if not callable(found):
        allowed = "a function or class, to call with the other keys of the table"
        raise InvalidInput(argument, name, allowed)
    checked: Callable[..., Any] = found
    return checked


@functools.cache  # a sweep calls it once per configuration
def takes(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the parameters that a function takes by keyword, with their defaults.

    Examples
    --------
    >>> list(takes(lambda width, *rest, depth=2: None))
    ['width', 'depth']
    """
    by_keyword = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    found = inspect.signature(function).parameters
    return {name: p.default for name, p in found.items() if p.kind in by_keyword}


def check_options(
    name: str, options: Mapping[str, Any], known: Mapping[str, Any], example: str = ""
) -> None:
    """Raise unless `name` takes all options, and those of `known` without a default are given."""
    for key, value in options.items():
        if key not in known:
            allowed = f"only parameters of {name}: {', '.join(known) or 'none'}"
            raise InvalidInput(str(key), value, allowed)
    for key, default in known.items():
        if default is inspect.Parameter.empty and key not in options:
            how = f", e.g. {example}" if example else ""
            raise InvalidInput(key, None, f"a value: {name} needs one{how}")


def call(argument: Place, name: str, options: Mapping[str, Any], kind: type[T], example: str) -> T:
    """Call the function of a path, and check that it returns a `kind`.

    Errors about the function name `argument`, errors about an option only the option; `example`
    shows how to create such an object.
    """
    function = find(argument, name)
    check_options(name, options, takes(function))
    try:
        made: Any = function(**options)
    except InvalidInput:
        raise
    except Exception as error:
        allowed = f"a function that runs with {dict(options)!r} ({_text_of(error)})"
        raise InvalidInput(argument, name, allowed) from error
    if isinstance(made, kind):
        return made
    article = "an" if kind.__name__[0] in "AEIOU" else "a"
    allowed = f"a function that returns {article} {kind.__name__}, e.g. {example}; this: {made!r}"
    raise InvalidInput(argument, name, allowed)


def _text_of(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
