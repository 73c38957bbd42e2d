"""The API reference: one page per room, with every public name in it, as users write it.

Public names are loaded late (PEP 562). `fedglb` gives them when it is asked, as autodoc does;
comments on data are read where the data is defined.
"""

from __future__ import annotations

import importlib
import inspect

from sphinx.pycode import ModuleAnalyzer

import fedglb


def rooms() -> dict[str, list[str]]:
    """Return the public names by the module below `fedglb` that they come from."""
    found: dict[str, list[str]] = {}
    for name in sorted(fedglb.__all__, key=str.lower):
        module = fedglb._HOMES[name]
        found.setdefault(module.split(".")[1], []).append(name)
    return dict(sorted(found.items()))


def entry(name: str) -> str:
    """Return what tells Sphinx to document one public name."""
    thing = getattr(fedglb, name)
    if inspect.isclass(thing):
        # Which class it extends says something only if that one is public too.
        shown = ["members"] + ["show-inheritance"] * (thing.__base__.__name__ in fedglb.__all__)
        return f".. autoclass:: fedglb.{name}\n" + "".join(f"   :{each}:\n" for each in shown)
    if inspect.isroutine(thing):
        return f".. autofunction:: fedglb.{name}\n"
    module, name_there = fedglb._HOMES[name], fedglb._NAME_THERE.get(name, name)
    comment = ModuleAnalyzer.for_module(module).find_attr_docs()["", name_there]
    return f".. py:data:: fedglb.{name}\n\n" + "".join(f"   {line}\n" for line in comment)


def api_pages() -> dict[str, str]:
    """Return the pages by their names: one per room, and the list of all."""
    pages, table = {}, ""
    for room, names in rooms().items():
        summary = inspect.getdoc(importlib.import_module(f"fedglb.{room}")) or ""
        title = f"``{room}``"
        text = f"{title}\n{'=' * len(title)}\n\n{summary}\n\n"
        pages[f"{room}.rst"] = text + "\n".join(entry(name) for name in names)
        first = summary.partition("\n")[0]
        links = ", ".join(f":py:obj:`~fedglb.{name}`" for name in names)
        table += f":doc:`{room} <{room}>`: {first}\n   {links}\n\n"
    listed = "".join(f"   {room}\n" for room in rooms())
    head = "API reference\n=============\n\nEvery public name, after ``import fedglb as fg``.\n"
    pages["index.rst"] = f"{head}\n.. toctree::\n   :hidden:\n\n{listed}\n{table}"
    return pages
