"""What runs depend on: a folder belongs to one part of it, and kept runs are found by all of it."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from fedglb.algorithms.strategy import AnyAlgorithm
from fedglb.provenance import code_digest, data_digest, digest_of
from fedglb.studies.spec.description import described
from fedglb.studies.spec.experiment import Experiment
from fedglb.studies.spec.own_code import digests


@dataclass(frozen=True)
class Keys:
    """What the runs of an experiment depend on."""

    shared: dict[str, Any]  # what all runs of a folder have in common
    runs: tuple[str, ...]  # by configuration: a digest of all that its runs depend on but the seed


def keys_of(experiment: Experiment) -> Keys:
    """Return the keys of an experiment.

    They are of the objects that runs use, however these were made: labels, tables, defaults and
    functions that make objects have no part in them. Nor have other algorithms and the seeds.
    """
    env, modules = experiment.env, set[str]()
    shared = {
        "code": code_digest(), "environment": digest_of(described(env, modules)),
        "data": data_digest(env.facts()), "horizon": experiment.horizon,
    }  # fmt: skip

    @functools.cache
    def own(module: str) -> dict[str, str]:
        return digests([module])

    def key(algorithm: AnyAlgorithm) -> str:
        used = set(modules)
        what = described(algorithm, used)
        sources = {name: each for module in used for name, each in own(module).items()}
        return digest_of([shared, what, sources])

    return Keys(shared, tuple(key(each.algorithm) for each in experiment.configurations))
