"""The encoding of records, written straight down in plain Python.

An independent derivation for tests, from the description of the encoding alone: lists, loops and
exact fractions. It shares no code with the package, and checks nothing: schema (the tables of the
TOML file) and records are right.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from hashlib import sha256
from math import sqrt
from typing import Any

Table = Mapping[str, Any]
BUCKETS, BUDGET = 16, 256  # defaults


def h(text: str) -> int:
    return int.from_bytes(sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "little")


def fields(schema: Table) -> dict[str, Table]:
    """All fields by their full name, e.g. `context.age`."""
    sides = ("context", "arm")
    return {f"{side}.{key}": schema[side][key] for side in sides for key in schema.get(side, {})}


def pairs(schema: Table) -> list[list[str]]:
    return schema.get("crosses", {}).get("pairs", [])


def budget(schema: Table) -> int:
    return schema.get("crosses", {}).get("budget", BUDGET)


# names


def names_of_field(name: str, field: Table) -> list[str]:
    if field["kind"] == "number":
        places = [f"{name}@{repr(float(knot)).removesuffix('.0')}" for knot in field["knots"]]
    elif "levels" in field:
        places = [f"{name}={level}" for level in [*field["levels"], "(other)"]]
    else:
        places = [f"{name}#{bucket}" for bucket in range(field.get("buckets", BUCKETS))]
    return [*places, f"{name}=(missing)"]


def names_of_cross(schema: Table, a: str, b: str) -> list[str]:
    names_a, names_b = (names_of_field(name, fields(schema)[name]) for name in (a, b))
    if len(names_a) * len(names_b) <= budget(schema):
        return [f"{one} * {other}" for one in names_a for other in names_b]
    return [f"{a}*{b}#{place}" for place in range(budget(schema))]


def names_of_blocks(schema: Table) -> list[list[str]]:
    own = [names_of_field(f"arm.{key}", field) for key, field in schema["arm"].items()]
    return [["constant"], *own, *(names_of_cross(schema, a, b) for a, b in pairs(schema))]


def names(schema: Table) -> list[str]:
    return [name for block in names_of_blocks(schema) for name in block]


# blocks


def place(name: str, field: Table, text: str) -> int:
    if "levels" not in field:
        return h(f"{name}={text}") % field.get("buckets", BUCKETS)
    levels = list(field["levels"])
    return levels.index(text) if text in levels else len(levels)


def field_block(name: str, field: Table, value: Any) -> list[float]:
    phi = [0.0] * len(names_of_field(name, field))
    if value is None:
        phi[-1] = 1.0
    elif field["kind"] == "number":
        knots = field["knots"]
        if value <= knots[0]:
            phi[0] = 1.0
        elif value >= knots[-1]:
            phi[len(knots) - 1] = 1.0
        else:
            j = max(j for j, knot in enumerate(knots) if knot <= value)
            low, high, v = Fraction(knots[j]), Fraction(knots[j + 1]), Fraction(value)
            phi[j] = float((high - v) / (high - low))
            phi[j + 1] = float((v - low) / (high - low))
    elif field["kind"] == "category":
        phi[place(name, field, {True: "true", False: "false"}.get(value, value))] = 1.0
    elif value:
        for text in set(value):
            phi[place(name, field, text)] += 1.0
        length = sqrt(sum(count**2 for count in phi))
        phi = [count / length for count in phi]
    return phi


def cross_block(schema: Table, a: str, b: str, blocks: Mapping[str, list[float]]) -> list[float]:
    phi_a, phi_b = blocks[a], blocks[b]
    if len(phi_a) * len(phi_b) <= budget(schema):
        return [one * other for one in phi_a for other in phi_b]
    phi = [0.0] * budget(schema)
    for i, one in enumerate(phi_a):
        for j, other in enumerate(phi_b):
            if one != 0 and other != 0:
                g = h(f"{a}[{i}]*{b}[{j}]")
                phi[g % budget(schema)] += (-1 if g >= 2**63 else 1) * one * other
    length = sqrt(sum(entry**2 for entry in phi))
    return [entry / length for entry in phi] if length > 1 else phi


# the arm


def encode_arm(schema: Table, arm: Table, context: Table) -> list[float]:
    records = {"context": context, "arm": arm}
    blocks = {}
    for name, field in fields(schema).items():
        side, _, key = name.partition(".")
        blocks[name] = field_block(name, field, records[side].get(key))
    parts = [(1.0, [1.0])]
    for key, field in schema["arm"].items():
        parts.append((field.get("weight", 1.0), blocks[f"arm.{key}"]))
    for a, b in pairs(schema):
        parts.append((1.0, cross_block(schema, a, b, blocks)))
    largest = max(weight for weight, _ in parts)  # divided by, so that no square overflows
    length = sqrt(sum((weight / largest) ** 2 for weight, _ in parts))
    return [weight / largest * entry / length for weight, phi in parts for entry in phi]


def encode(schema: Table, arms: list[Table], context: Table | None) -> list[list[float]]:
    return [encode_arm(schema, arm, {} if context is None else context) for arm in arms]
