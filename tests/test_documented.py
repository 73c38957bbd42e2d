"""Every public class and function explains itself: parameters, what it returns, an example."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import fedglb as fg


def sections(text: str) -> dict[str, str]:
    """Return the sections of a numpydoc docstring by their titles; "" is what comes first."""
    parts = re.split(r"^(\S[^\n]*)\n-{3,}$", inspect.cleandoc(text), flags=re.M)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def entries(section: str) -> set[str]:
    """Return the names that a section of parameters or attributes explains."""
    explained = set()
    for line, following in pairwise(section.splitlines()):
        if line and not line[0].isspace() and following.startswith(" "):
            explained |= {name.strip("* ") for name in line.partition(" : ")[0].split(",")}
    return explained


def parameters(function: Callable[..., Any]) -> list[str]:
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    try:
        given = inspect.signature(function).parameters.values()
    except ValueError:  # an exception without a constructor of its own
        return []
    return [p.name for p in given if p.kind not in variadic and p.name not in ("self", "cls")]


def own(kind: type) -> list[type]:
    """Return a class and those of its bases that the package defines."""
    return [base for base in kind.__mro__ if base.__module__.startswith("fedglb")]


def is_public(kind: type) -> bool:
    return getattr(fg, kind.__name__, None) is kind


def methods(kind: type) -> dict[str, Callable[..., Any]]:
    """Return the public methods by name, without those of a base class that is public too."""
    bases = [base for base in own(kind) if base is kind or not is_public(base)]
    names = {name for base in bases for name in vars(base) if not name.startswith("_")}
    found = {name: inspect.getattr_static(kind, name) for name in sorted(names)}
    unwrapped = {
        name: member.__func__ if isinstance(member, classmethod | staticmethod) else member
        for name, member in found.items()
    }
    return {name: member for name, member in unwrapped.items() if inspect.isfunction(member)}


def public(kind: Callable[[Any], bool]) -> list[str]:
    return [name for name in fg.__all__ if kind(getattr(fg, name))]


def public_methods() -> Iterator[tuple[str, str]]:
    for name in public(inspect.isclass):
        yield from ((name, method) for method in methods(getattr(fg, name)))


def returns_something(function: Callable[..., Any]) -> bool:
    return inspect.signature(function).return_annotation not in (None, "None")


def test_a_class_explains_its_parameters_and_shows_an_example():
    for name in public(inspect.isclass):
        kind = getattr(fg, name)
        assert kind.__doc__ is not None, name
        found = sections(kind.__doc__)
        explained = entries(found.get("Parameters", "")) | entries(found.get("Attributes", ""))
        assert set(parameters(kind)) <= explained, name
        assert ">>> " in found.get("Examples", ""), name


def test_a_function_explains_its_parameters_and_what_it_returns():
    for name in public(inspect.isfunction):
        function = getattr(fg, name)
        found = sections(function.__doc__)
        assert entries(found.get("Parameters", "")) == set(parameters(function)), name
        assert not returns_something(function) or found.get("Returns", "").strip(), name
        assert ">>> " in found.get("Examples", ""), name


def test_a_method_explains_its_parameters_and_what_it_returns():
    """A base class may do so; without parameters, one line that begins with "Return" is enough."""
    for name, method in public_methods():
        kind = getattr(fg, name)
        function = methods(kind)[method]
        texts = [vars(base)[method].__doc__ for base in own(kind) if method in vars(base)]
        found = [sections(text) for text in texts if text]
        assert found, (name, method)
        explained = set().union(*(entries(part.get("Parameters", "")) for part in found))
        assert set(parameters(function)) <= explained, (name, method)
        if returns_something(function):
            brief = not parameters(function) and found[0][""].startswith("Return ")
            assert brief or any("Returns" in p or "Yields" in p for p in found), (name, method)


def test_a_property_explains_itself():
    for name in public(inspect.isclass):
        for base in own(getattr(fg, name)):
            for key, member in vars(base).items():
                if isinstance(member, property) and not key.startswith("_"):
                    assert member.__doc__, (name, key)


def test_the_parser_sees_what_is_missing():
    text = """Do something.

    Parameters
    ----------
    a, b
        Explained.
    c : int
        Explained too.
    d

    Returns
    -------
    int
        A number.
    """
    found = sections(text)
    assert list(found) == ["", "Parameters", "Returns"]
    assert entries(found["Parameters"]) == {"a", "b", "c"}
