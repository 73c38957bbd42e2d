"""What a preset does where a file says nothing: to tell an untuned setting from a tuned one."""

from __future__ import annotations

import functools
import inspect

from fedglb.algorithms import ALGORITHMS
from fedglb.algorithms.catalog import parameters
from fedglb.studies.spec.grid import choices, configurations

Described = dict[str, float | int | str | None]


@functools.cache
def defaults(preset: str) -> Described:
    """Return a preset's parameters at their defaults, as a sweep's tables have them.

    A parameter that has no default has the value 1; an algorithm that is no preset has none.

    Examples
    --------
    >>> defaults("fedglb-auto")["choice"], defaults("fedglb-ucb")["clock"], defaults("mine")
    ('bayes', 'steps', {})
    """
    if preset not in ALGORITHMS:
        return {}
    empty = inspect.Parameter.empty
    needed = {key: 1 for key, default in parameters(preset).items() if default is empty}
    (selection,) = choices([{"name": preset, **needed}], {}, seeds=1, most=1)
    (made,) = configurations([(selection, selection.build())])
    return made.parameters
