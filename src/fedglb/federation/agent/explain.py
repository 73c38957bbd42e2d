"""What an agent has learned: its weights, why an arm was played, what it would play."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedglb.features.weights import Weight, feature_names, strongest, weights
from fedglb.federation.agent.durable_client import DurableClient
from fedglb.federation.agent.records import encoded_again, marks_of
from fedglb.kernels.layout import INVERSE, OFFSET, SHIFTED
from fedglb.parts.local_update import Personal
from fedglb.protocol import Client
from fedglb.protocol.personal_sums import distance
from fedglb.typing import FloatArray

_DRAWS = 200  # of what would be played
_STREAM = 2**31  # of random numbers for previews: no decision has it


@dataclass(frozen=True)
class LearnedModel:
    """An agent's model, returned by `Agent.model`.

    Parameters
    ----------
    update
        The update of the shared model on which it is based, 0 before the first.
    samples
        The agent's own samples in it.
    weights
        One for each feature, in the order of the schema.
    shared
        Those of the shared model, where each client has one of its own; else None.
    """

    update: int
    samples: int
    weights: tuple[Weight, ...]
    shared: tuple[Weight, ...] | None = None

    def strongest(self, most: int = 20) -> tuple[Weight, ...]:
        """Return the weights that are farthest from 0, in their standard deviations.

        Parameters
        ----------
        most
            How many.

        Returns
        -------
        tuple of Weight
            The strongest first.
        """
        return strongest(self.weights, most)

    def only_strongest(self, most: int) -> LearnedModel:
        """Return the model with its strongest weights only, and the shared ones of the same.

        Parameters
        ----------
        most
            How many.

        Returns
        -------
        LearnedModel
            The strongest first.
        """
        found, shared = self.strongest(most), self.shared
        if shared is not None:
            known = {weight.feature: weight for weight in shared}
            shared = tuple(known[weight.feature] for weight in found)
        return replace(self, weights=found, shared=shared)


@dataclass(frozen=True)
class Contribution:
    """What a feature of one arm adds to its linear predictor."""

    feature: str
    value: float


@dataclass(frozen=True)
class ExplainedArm:
    """The sum of an arm's contributions, by the present model.

    Parameters
    ----------
    arm_id
        The arm's id, if it has one.
    estimate
        The expected reward.
    contributions
        Of features that are not 0, the largest first; they add up to the linear predictor. The
        arm's own effect is among them, as ``effect of the arm``.
    """

    arm_id: str | int | None
    estimate: float
    contributions: tuple[Contribution, ...]


@dataclass(frozen=True)
class Explanation:
    """Why an arm was played, returned by `Agent.explain`.

    Parameters
    ----------
    id
        The decision.
    played
        The arm that was played.
    runner_up
        The arm with the next score; None if its record was not kept.
    """

    id: str
    played: ExplainedArm
    runner_up: ExplainedArm | None


@dataclass(frozen=True)
class PreviewedArm:
    """An arm of `Agent.preview`.

    Parameters
    ----------
    arm
        Its index.
    arm_id
        Its id, if it has one.
    estimate
        The expected reward.
    probability
        The share of 200 draws of the choice rule in which it is played.
    """

    arm: int
    arm_id: str | int | None
    estimate: float
    probability: float


def learned_model(durable: DurableClient) -> LearnedModel:
    """Return the weights of all features."""
    with durable.locked():
        durable.ready()
        client, features = durable.protocol_client, durable.agreement.features
        theta = np.array(client.state.centre)
        variances = np.diagonal(client.state.matrices[INVERSE]) * client.setting.problem.dispersion
        update, samples, base = client.adopted, len(client.samples), client.state.base
    shared = None
    if client.personal is not None and base is not None and base.theta is not None:
        others = np.diagonal(np.linalg.inv(base.matrix)) * client.setting.problem.dispersion
        shared = tuple(weights(features, base.theta, others))
    return LearnedModel(update, samples, tuple(weights(features, theta, variances)), shared)


def own_distance(client: Client) -> float | None:
    """Return how far a client is from the others: see `AgentStatus`."""
    state, local = client.state, client.algorithm.local_update
    if state.base is None or not isinstance(local, Personal):
        return None
    return distance(state.base, local.statistics(client.setting, state.counters))


def explained(durable: DurableClient, id: str, number: int, prefix: str) -> Explanation | None:  # noqa: A002
    """Return what a decision's arms add up to; None: there is no such decision."""
    with durable.locked():
        durable.ready()
        found = durable.store.decided(number, prefix)
        if found is None:
            return None
        arm_id, row, record, revision = found
        if record is not None and revision != durable.agreement.revision:
            row = durable.renewed([record], [row])[0]
        d, x = durable.agreement.problem.dim, np.frombuffer(row)
        client, runner_up = durable.chooser, None
        played = _explained(durable, client, x[:d], x[d:], arm_id)
        kept = {} if record is None else json.loads(record)
        if "runner_up" in kept and durable.reencoder is not None:
            other = encoded_again(durable.reencoder, [kept["runner_up"]], [kept["context"]])[0]
            other_id = kept.get("runner_up_id")
            ids = None if other_id is None else [other_id]
            marks = marks_of([kept["runner_up"]])
            live = durable.protocol_client
            names = live.names(marks, ids) if ids else live.known_names(marks)
            runner_up = _explained(durable, client, other, names, other_id)
    return Explanation(id, played, runner_up)


def previewed(
    durable: DurableClient,
    columns: FloatArray,
    names: FloatArray,
    arms: Sequence[int],
    ids: Sequence[str | int] | None,
) -> tuple[PreviewedArm, ...]:
    """Return what would be played, under the lock; nothing is counted or written."""
    client, counts = durable.chooser, np.zeros(columns.shape[1])
    for k in range(_DRAWS):
        counts[client.decide(columns, durable.number + 1, k + 1, _STREAM, names).arm] += 1.0
    total, _ = _predictor(client, columns, names)
    return tuple(
        PreviewedArm(
            arm, None if ids is None else ids[k], _mean(client, total[k]), float(counts[k]) / _DRAWS
        )
        for k, arm in enumerate(arms)
    )


def _explained(
    durable: DurableClient,
    client: Client,
    x: FloatArray,
    name: FloatArray,
    arm_id: str | int | None,
) -> ExplainedArm:
    total, own = _predictor(client, x[:, None], name)
    features = feature_names(durable.agreement.features, x.size)
    values = zip(features, (x * client.state.centre).tolist(), strict=True)
    found = [Contribution(feature, value) for feature, value in values if value]
    if own[0]:
        found.append(Contribution("effect of the arm", float(own[0])))
    found.sort(key=lambda each: -abs(each.value))
    return ExplainedArm(arm_id, _mean(client, total[0]), tuple(found))


def _predictor(
    client: Client, columns: FloatArray, names: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the linear predictor of arms, and the arms' own effects in it."""
    theta = client.state.centre
    plain = columns.T @ theta
    if not names.size:
        return plain, np.zeros(len(plain))
    work = client.with_effects(columns, names)
    total = work[SHIFTED:].T @ theta + work[OFFSET]
    return total, total - plain


def _mean(client: Client, z: float) -> float:
    return float(client.setting.problem.link.mean(float(z)))
