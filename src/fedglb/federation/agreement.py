"""The agreement of a federation's members, as named facts that can be compared."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from fedglb.algorithms import ALGORITHMS, Algorithm
from fedglb.algorithms.catalog import build
from fedglb.algorithms.own import is_own
from fedglb.errors import InvalidInput, instance, integer, number, one_of, under
from fedglb.features import Features
from fedglb.federation.names import one_line
from fedglb.links import Link
from fedglb.model import triangle_size
from fedglb.parts.global_update import AGD
from fedglb.parts.memory import Adaptive
from fedglb.parts.own import FunctionPart
from fedglb.parts.trigger import Geometric
from fedglb.problem import Problem
from fedglb.problem_table import ProblemTable
from fedglb.setting import Setting

#: How far a step may be ahead of the clock that all agents follow. Without a limit one agent with a
#: wrong step, by error or malice, could make everybody's clock overflow.
LEAP = 2**44
#: With more features a covariance does not fit into a message (8 MiB).
LARGEST_DIM = 1400
#: Numbers of a model in one message.
LARGEST_MODEL = 2**20 - 1024
#: The fact with the members of secure sums, which may change.
ROSTER = "roster"
#: The facts that follow from the schema of records, which may change.
SCHEMA_FACTS = frozenset({"features", "revision", "problem.dim"})
_LARGE = 10**16  # numbers from here on are written with an exponent


class AgreementTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The agreement in a federation's file.

    `algorithm` holds the preset's `name` and its parameters, as in a sweep's file.
    """

    max_clients: int
    problem: ProblemTable
    algorithm: dict[str, Any]
    reward_limit: float | None = None
    features: dict[str, Any] | None = None
    revision: int = 1
    minimum: int | None = None

    def build(self) -> Agreement:
        """Return the agreement; `InvalidInput` names the key at fault."""
        given = dict(self.algorithm)
        with under("algorithm"):
            preset = one_of("name", given.pop("name", None), ALGORITHMS)
            _check_names(given)
            if preset == "fedglb-personal" and given.get("privacy") is not None:
                allowed = (
                    "none with fedglb-personal: at every update a client sends sums over all of "
                    "its samples and its distance from the others (s and f), and each of these "
                    "would be a release; fedglb-private releases each sample once"
                )
                raise InvalidInput("privacy", given["privacy"], allowed)
            algorithm = build(preset, given)
            if "solver" not in given and isinstance(algorithm.solver, AGD):
                # Newton needs the fewest rounds, and rounds are the cost of a network
                algorithm = build(preset, {**given, "solver": "newton"})
        features = None
        if self.features is not None:
            with under("features"):
                features = Features.from_plain(self.features)
        with under("problem"):
            problem = self.problem.build() if features is None else self._with(features)
        agreement = Agreement(
            problem, algorithm, self.max_clients, self.reward_limit, features, self.revision,
            self.minimum,
        )  # fmt: skip
        d, room = problem.dim, LARGEST_MODEL - triangle_size(problem.dim) - problem.dim
        if agreement.effects * (d + 3) > room:
            allowed = f"at most {room // (d + 3)}: a model of {d} features is one message of 8 MiB"
            raise InvalidInput(("algorithm", "effects"), agreement.effects, allowed)
        return agreement

    def _with(self, features: Features) -> Problem:
        for name in ("dim", "blocks"):
            if getattr(self.problem, name) is not None:
                raise InvalidInput(name, getattr(self.problem, name), "none: the schema has it")
        return msgspec.structs.replace(self.problem, blocks=features.blocks).build(features.dim)


@dataclass(frozen=True)
class Difference:
    """A fact that differs; None: this side lacks the fact."""

    name: str
    given: str | None
    agreed: str | None

    def __str__(self) -> str:
        return f"{self.name}: {self.given!r}, the federation has {self.agreed!r}"


@dataclass(frozen=True)
class Agreement:
    """A federation's agreement: problem, algorithm, size, schema of records.

    Parameters
    ----------
    problem, algorithm
        The problem and the algorithm. Custom classes need a `stored_name`, custom links a `name`.
    max_clients
        N in δ/N: the largest number of clients over the federation's whole life.
    reward_limit
        The largest |reward|, for links with unbounded rewards: it bounds the size of gradients.
    features
        The schema by which all clients make arms of records; None: they give vectors.
    revision
        The number of the schema: it rises with every change.
    minimum
        The smallest number of clients in a secure sum; None: no secure sums.
    roster
        The digest of the roster (all members' names and keys); None: no roster (yet).
    """

    problem: Problem
    algorithm: Algorithm
    max_clients: int
    reward_limit: float | None = None
    features: Features | None = None
    revision: int = 1
    minimum: int | None = None
    roster: str | None = None

    def __post_init__(self) -> None:
        instance("problem", self.problem, Problem, "fg.Problem(dim=10)")
        instance("algorithm", self.algorithm, Algorithm, "fg.fedglb_ucb(threshold=10.0)")
        integer("max_clients", self.max_clients)
        integer(("problem", "dim"), self.problem.dim, at_most=LARGEST_DIM)
        if self.algorithm.centralised:
            raise InvalidInput("algorithm", self.algorithm.name, "no centralised one")
        if self.algorithm.choice.bank is not None:
            allowed = "a rule without a bank, which agents do not keep, e.g. fg.Ucb()"
            raise InvalidInput(("algorithm", "choice"), self.algorithm.choice, allowed)
        solver = self.algorithm.global_update
        if solver is not None and not solver.refits and not solver.one_pass:
            allowed = (
                "an algorithm whose updates fit all samples again: clients may forget some, or "
                "lose their file"
            )
            raise InvalidInput("algorithm", self.algorithm.name, allowed)
        if isinstance(memory := self.algorithm.memory, Adaptive):
            algorithm = dataclasses.replace(self.algorithm, memory=memory.in_seconds())
            object.__setattr__(self, "algorithm", algorithm)
        self._check_privacy()
        self._check_sums()
        _ = self.setting  # raises if the algorithm needs a horizon
        _ = self.times  # raises if the schedule never ends
        if self.reward_limit is not None:
            number("reward_limit", self.reward_limit, above=0.0)
        integer("revision", self.revision)
        if self.features is not None and self.features.dim != self.problem.dim:
            allowed = f"{self.features.dim}, the number of features of the schema"
            raise InvalidInput(("problem", "dim"), self.problem.dim, allowed)
        _ = self.facts()  # raises if a part has no stored name

    def _check_sums(self) -> None:
        if self.minimum is None:
            return
        integer("minimum", self.minimum, at_least=3, at_most=self.max_clients)
        if self.algorithm.memory.forgets:
            allowed = "Forever() with secure sums: a sum that was released is not weighed anew"
            raise InvalidInput(("algorithm", "memory"), self.algorithm.memory, allowed)
        solver = self.algorithm.global_update
        if solver is None or not solver.one_pass:
            allowed = (
                "fedglb-private with secure sums: sums over changing sets of clients at one model "
                "would reveal single clients' sums by subtraction"
            )
            if self.algorithm.local_update.personal:
                allowed += (
                    "; and clients with models of their own send numbers of unknown size, their "
                    "distance from the others, and rows of arms that differ from client to client"
                )
            raise InvalidInput("algorithm", self.algorithm.name, allowed)

    def _check_privacy(self) -> None:
        """Copy `reward_limit` into the privacy; raise if the noise does not protect."""
        privacy, limit = self.algorithm.privacy, self.reward_limit
        solver, link = self.algorithm.global_update, self.problem.link
        if solver is None or not solver.one_pass:
            return
        if privacy is None:
            if limit is None and not all(map(math.isfinite, link.support)):
                allowed = f"a number: {link.name} rewards have no bound, and sums are whole numbers"
                raise InvalidInput("reward_limit", None, f"{allowed} of 64 bits")
            return
        if privacy.reward_limit is None and limit is not None:
            number("reward_limit", limit, above=0.0)
            privacy = dataclasses.replace(privacy, reward_limit=limit)
            algorithm = dataclasses.replace(self.algorithm, privacy=privacy)
            object.__setattr__(self, "algorithm", algorithm)
        if privacy.noise == "sums" and self.minimum is None:
            # the coordinator would see messages with one client's share of the noise only
            allowed = (
                'noise="silo": without secure sums the coordinator sees all messages of a client, '
                "and a share of the noise does not hide them"
            )
            raise InvalidInput(("algorithm", "privacy", "noise"), privacy.noise, allowed)

    @property
    def times(self) -> tuple[float, ...]:
        """The times of updates, in seconds since the start; empty: clients request updates."""
        trigger = self.algorithm.trigger
        return trigger.seconds() if isinstance(trigger, Geometric) else ()

    @cached_property
    def setting(self) -> Setting:
        """The setting of clients and coordinator; it has no horizon."""
        return self.algorithm.setting(self.problem, self.max_clients, None, self.minimum)

    @property
    def effects(self) -> int:
        """The number of arms that can have an effect of their own; 0: arms have none."""
        return self.algorithm.local_update.effects if self.setting.effect_ridge else 0

    @property
    def largest_answer(self) -> int:
        """The numbers of a client's largest message."""
        d = self.problem.dim
        return d + triangle_size(d) + self.effects * (d + 3)

    def check_reward(self, reward: float) -> float:
        """Return `reward` as a float that every member accepts, or raise `InvalidInput`."""
        y = self.problem.check_reward(reward)
        if self.reward_limit is not None and abs(y) > self.reward_limit:
            allowed = f"a reward of at most ±{self.reward_limit:g}, the federation's reward_limit"
            raise InvalidInput("reward", reward, allowed)
        return y

    def facts(self) -> dict[str, str]:
        """Return every fact under a dotted name, as text; numbers are exact."""
        facts = {
            "max_clients": str(self.max_clients),
            "reward_limit": _text(self.reward_limit),
            "features": "None" if self.features is None else self.features.digest,
            "revision": str(self.revision),
            **self._privacy_facts(),
            **_facts(self.problem, "problem"),
            **_facts(self.algorithm, "algorithm"),
        }
        if self.features is not None:  # the digest covers the blocks, whose text may be long
            facts["problem.blocks"] = "of features"
        return facts

    @property
    def min_members(self) -> int:
        """The smallest number of members in a secure sum that also have enough noise."""
        plan = self.setting.noise
        return max(self.minimum or 0, 1 if plan is None else plan.members)

    def with_roster(self, digest: bytes, names: Sequence[str]) -> Agreement:
        """Return the agreement of a federation with these members; raise if they are too few."""
        least, count = self.min_members, len(names)
        if count < least:
            allowed = (
                f"at least {least} members, the number in every sum (a smaller `minimum`, "
                "`max_clients` or share of honest clients allows fewer)"
            )
            raise InvalidInput("roster", f"{count} members", allowed)
        if count > self.max_clients:
            raise InvalidInput("roster", f"{count} members", f"at most {self.max_clients} members")
        return dataclasses.replace(self, roster=digest.hex())

    def _privacy_facts(self) -> dict[str, str]:
        out: dict[str, str] = {}
        if self.setting.noise is not None:
            # the form of releases: a member that differs makes sums invalid
            out["releases"] = self.setting.noise.factors.digest
        if self.minimum is not None:
            out |= {"secure_sums": str(self.minimum), ROSTER: str(self.roster)}
        return out

    def with_features(self, features: Features, revision: int) -> Agreement:
        """Return the agreement with another schema of records."""
        problem = dataclasses.replace(self.problem, dim=features.dim, blocks=features.blocks)
        return dataclasses.replace(self, problem=problem, features=features, revision=revision)

    def is_older(self, facts: Mapping[str, str]) -> bool:
        """Return whether these facts are those of an earlier schema, and else the same."""
        if self.features is None or not facts.get("revision", "").isdecimal():
            return False
        different = {found.name for found in self.compare(facts)}
        return different <= SCHEMA_FACTS and int(facts["revision"]) < self.revision

    def compare(self, facts: Mapping[str, str]) -> list[Difference]:
        """Return the differences between another agreement's facts and these."""
        ours = self.facts()
        return [
            Difference(one_line(name), facts.get(name), ours.get(name))
            for name in sorted({*ours, *facts})
            if facts.get(name) != ours.get(name)
        ]

    def differences(self, facts: Mapping[str, str]) -> list[str]:
        """Return the differences that `compare` finds, as text."""
        return [str(difference) for difference in self.compare(facts)]


def _check_names(given: Mapping[str, Any]) -> None:
    """Raise for a `module:function` path: the operator's file would run code of a member's."""
    for key, value in given.items():
        with under(key):
            if isinstance(value, Mapping):
                _check_names(value)
            elif is_own(value):
                raise InvalidInput((), value, "a name that fedglb has: agreements name no code")


def _facts(part: Any, name: str) -> dict[str, str]:
    """Flatten a part and its parts: the stored name of each, and every field."""
    out = {name: stored_name(part, name)}
    if dataclasses.is_dataclass(part):
        for field in dataclasses.fields(part):
            value = getattr(part, field.name)
            plain = value is None or isinstance(value, str | int | float | tuple | np.generic)
            key = f"{name}.{field.name}"
            out |= {key: _text(value)} if plain else _facts(value, key)
    return out


def stored_name(part: object, argument: str = "part") -> str:
    """Return the name of a part's class in files and messages.

    It is written in the class and not inherited: a subclass is another part. A class without one
    is refused: if the class name were stored, renaming the class would split the federation.
    """
    key = "name" if isinstance(part, Link) else "stored_name"
    found = vars(type(part)).get(key)
    if not isinstance(found, str):
        kind = type(part).__name__
        allowed = f"a part with a stored name: write {key} = {kind!r} in class {kind}"
        if isinstance(part, FunctionPart):
            allowed = f"a class with a stored name in place of a function ({key} = 'Mine')"
        raise InvalidInput(argument, part, allowed)
    return found


def _text(value: object) -> str:
    """Return a value as text; equal numbers give the same text, also 1, 1.0 and NumPy's."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and value.is_integer() and abs(value) < _LARGE:
        return str(int(value))
    if isinstance(value, int) and abs(value) >= _LARGE and float(value) == value:
        return str(float(value))
    return str(value)
