"""The algorithms of an experiment as tables, whichever way they were given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedglb.algorithms import ALGORITHMS, Algorithm
from fedglb.algorithms.catalog import in_words, preset_of, privacy_in_words
from fedglb.errors import InvalidInput, Place
from fedglb.parts.confidence import Fixed


def as_tables(given: Any) -> Any:
    """Return the `algorithm` entry as a list of tables.

    An algorithm that is an object becomes a table with the object under `name`; the key of a
    dictionary becomes its `label`. Anything else is returned unchanged, and refused later.

    Examples
    --------
    >>> import fedglb as fg
    >>> [t["label"] for t in as_tables({"mine": [fg.fedglb_ucb(1.0), fg.fedglb_ucb(2.0)]})]
    ['mine', 'mine']
    >>> as_tables([{"name": "n-ons-glm"}])
    [{'name': 'n-ons-glm'}]
    """
    if isinstance(given, Algorithm):
        given = [given]
    if isinstance(given, list):
        return [{"name": each} if isinstance(each, Algorithm) else each for each in given]
    if not isinstance(given, Mapping):
        return given
    tables = []
    for label, one in given.items():
        several = one if isinstance(one, list) and one else [one]
        for each in several:
            if isinstance(each, Algorithm):
                tables.append({"label": label, "name": each})
            elif isinstance(each, Mapping) and "label" not in each:
                tables.append({"label": label, **each})
            else:
                allowed = "an fg.Algorithm, a table with its name, or a list of these"
                raise InvalidInput(("algorithm", str(label)), each, allowed)
    return tables


def family(where: Place, table: Mapping[str, Any]) -> str:
    """Return what an algorithm is called in results, without its parameters.

    That is its label; else the name of the preset, or of the function; else, of an object, the
    preset that makes it, or the name that it has.
    """
    name, label = table["name"], table.get("label")
    if isinstance(name, Algorithm):
        found = preset_of(name)
        made_by = None if found is None else found[0]
    else:
        made_by = name
    if label is None:
        return name.name if made_by is None else str(made_by)
    if not isinstance(label, str) or not label.strip() or not label.isprintable():
        raise InvalidInput((*where, "label"), label, "text of one line")
    if label in ALGORITHMS and label != made_by:
        allowed = "another one: this is the name of a preset, which does not make this algorithm"
        raise InvalidInput((*where, "label"), label, allowed)
    return label


def parameters_of(algorithm: Algorithm) -> dict[str, float | int | str | None]:
    """Return the parameters of an algorithm that no preset made, as text and numbers.

    Examples
    --------
    >>> import fedglb as fg
    >>> parameters_of(fg.dislinucb(2.0))["threshold"]
    2.0
    """
    out: dict[str, float | int | str | None] = {}
    for key in ("threshold", "updates", "clock"):
        if hasattr(algorithm.trigger, key):
            out[key] = getattr(algorithm.trigger, key)
    if algorithm.global_update is not None:
        out["solver"] = in_words(algorithm.global_update)
    out["exploration"] = float(algorithm.exploration)
    rule = algorithm.ridge_rule
    out |= {"ridge": float(algorithm.ridge)} if rule is None else {"ridge_start": rule.start}  # type: ignore[arg-type]
    out["delta"] = float(algorithm.delta)
    out["confidence"] = confidence_in_words(algorithm.confidence)
    out["choice"] = in_words(algorithm.choice)
    if algorithm.privacy is not None:
        out["epsilon"] = algorithm.privacy.epsilon
        out["privacy"] = privacy_in_words(algorithm.privacy)
    return out


def confidence_in_words(value: Any) -> str:
    """Return what results call a radius: as it was given, or as a part says it.

    Examples
    --------
    >>> confidence_in_words({"fixed": 0.3}), confidence_in_words(None)
    ('fixed=0.3', 'lemma')
    """
    if isinstance(value, Fixed):
        return f"fixed={value.alpha}"
    if isinstance(value, Mapping):
        return (
            f"fixed={value['fixed']}"
            if "fixed" in value
            else " ".join(str(v) if k == "name" else f"{k}={v}" for k, v in value.items())
        )
    return value if isinstance(value, str) else "lemma" if value is None else in_words(value)
