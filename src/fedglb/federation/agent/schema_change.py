"""An agent's change to another schema: its samples are encoded again from their records.

The application goes on with the old schema until all samples are encoded; then file and memory
change in one short moment. Rows in the file follow one by one: each says by which schema it is
encoded, so a kill at any moment leaves a file that opens under the new schema.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence

import numpy as np

from fedglb.errors import InvalidInput
from fedglb.features import Encoder, Features
from fedglb.features.encode import Record
from fedglb.federation.agent.decisions import DecisionRules
from fedglb.federation.agent.durable_client import DurableClient
from fedglb.federation.agent.records import encoded_again, reencoded
from fedglb.federation.agent.store import AgentStore, StoredSample
from fedglb.federation.agent.update_store import AdoptedModel, SampleNumbers, as_bytes, as_floats
from fedglb.federation.agreement import Agreement
from fedglb.samples import Samples
from fedglb.typing import FloatArray

_AT_ONCE = 500  # rows: the application waits for some milliseconds


def newest_schema(store: AgentStore, agreement: Agreement, alone: bool) -> Agreement:
    """Return the agreement with the schema to use: the newer one of the file's and this one."""
    before = store.agreed
    if before is None or agreement.features is None or store.features is None:
        return agreement
    revision = int(before["revision"])
    if alone:  # its owner's word: another schema is the next one
        same = before["features"] == agreement.features.digest
        return dataclasses.replace(agreement, revision=revision + (not same))
    return agreement if revision <= agreement.revision else _in_file(store, agreement)


def opened_client(
    name: str,
    agreement: Agreement,
    store: AgentStore,
    rules: DecisionRules,
    whose: Mapping[str, str],
    roster: bytes | None = None,
) -> DurableClient:
    """Return the client of a file, with the schema of this agreement; raise if it is another one.

    `whose` are the facts about the federation and the client.
    """
    wanted = agreement
    if _is_changed(store, agreement):  # open it under its own schema first
        agreement = _in_file(store, agreement)
    plain = None if agreement.features is None else agreement.features.plain()
    store.agree({**agreement.facts(), **whose}, roster, plain)
    client = DurableClient(name, agreement, store, rules)
    if wanted is not agreement:
        change_schema(client, wanted, after=client.adopted)
    renew_rows(client)  # of a change that was interrupted
    return client


def change_schema(durable: DurableClient, agreement: Agreement, after: int) -> None:
    """Encode all samples by the schema of another agreement, and use it from now on.

    Models up to update `after` are of the old schema. Raises `InvalidInput`, and changes nothing,
    if the algorithm sends each sample once, or samples without a record may not be dropped.
    """
    if durable.one_pass:
        allowed = "the schema as it is: with privacy each sample is released once"
        raise InvalidInput("features", f"revision {agreement.revision}", allowed)
    assert agreement.features is not None
    encoder = Encoder(agreement.features)
    drop = durable.rules.without_records == "drop"
    named = agreement.setting.width - agreement.problem.dim  # numbers behind an arm's features
    with durable.long_calls():  # nothing is forgotten or absorbed meanwhile
        samples: list[StoredSample] = []
        rows, full = [np.empty((0, agreement.setting.width))], True
        while full:  # the last few are left for the lock: others may come without an end
            found = _next(durable, samples[-1].sequence if samples else 0, _AT_ONCE, drop)
            rows.append(_encoded(encoder, found, named))
            samples += found
            full = len(found) == _AT_ONCE
        y, n = np.array([sample.reward for sample in samples]), len(samples)
        at = np.array([sample.at for sample in samples])
        numbers = np.array([(s.sequence, s.step) for s in samples], dtype=np.int64).reshape(-1, 2)
        model = AdoptedModel(after, 0, None)
        left = SampleNumbers(numbers.T.copy())
        kept = Samples.over(np.concatenate(rows), y, n, at)
        fresh = durable.learned(kept, left, model, agreement)
        with durable.locked():
            durable.ready()
            newest = _newest(durable, left.last_sequence, drop)
            for row, sample in zip(_encoded(encoder, newest, named), newest, strict=True):
                fresh.samples.append(row, sample.reward, sample.at)
                left.append(sample.sequence, sample.step)
            fresh.sums.add(fresh.samples)
            fresh.algorithm.local_update.replay(fresh.setting, fresh.state, fresh.samples, n)
            before = durable.store.agreed or {}
            facts = {**before, **agreement.facts()}
            durable.stale = True
            durable.store.change_schema(facts, agreement.features.plain(), model.update, drop)
            durable.use_schema(agreement)
            durable.snapshots = {}
            durable.waiting = durable.store.count_waiting()
            durable.hold(fresh, left)
            durable.read_frozen()
            durable.stale = False
    renew_rows(durable)


def renew_rows(durable: DurableClient) -> None:
    """Write the rows of an older schema anew, some at a time; the application goes on."""
    while (encoder := durable.reencoder) is not None:
        with durable.locked():
            durable.ready()
            old = durable.store.outdated(durable.agreement.revision, _AT_ONCE)
            if not old:
                return
            rows = durable.renewed([each.record for each in old], [each.x for each in old])
            offered = [
                None if each.offered is None else _offered(encoder, each.offered, each.context)
                for each in old
            ]
            every = zip((each.number for each in old), rows, offered, strict=True)
            durable.store.renew(durable.agreement.revision, list(every))


def _offered(encoder: Encoder, records: bytes, context: Record) -> bytes:
    """Return all arms of a decision under a schema."""
    arms = json.loads(records)
    return as_bytes(encoded_again(encoder, arms, [context] * len(arms)))


def _next(durable: DurableClient, after: int, most: int, drop: bool) -> list[StoredSample]:
    with durable.locked():
        durable.ready()
        return _newest(durable, after, drop, most)


def _newest(durable: DurableClient, after: int, drop: bool, most: int = -1) -> list[StoredSample]:
    """Return samples after a sequence number; raise for one without a record, unless dropped."""
    bare = 0 if drop else durable.store.without_records()
    if bare:
        allowed = (
            f"the schema as it is: {bare} decisions have no record, because their arms came as "
            'vectors; without_records="drop" (--without-records drop) drops them'
        )
        raise InvalidInput("features", "another schema", allowed)
    return durable.store.recorded_samples(after, most)


def _encoded(encoder: Encoder, samples: Sequence[StoredSample], named: int) -> FloatArray:
    """Return the rows of samples under a schema, with the names of their arms."""
    X = reencoded(encoder, [sample.record for sample in samples])
    if not named:
        return X
    names = [as_floats(sample.x)[-1] for sample in samples]
    return np.column_stack([X, np.array(names).reshape(-1, 1)])


def _in_file(store: AgentStore, agreement: Agreement) -> Agreement:
    """Return the agreement with the schema in the agent's file."""
    assert store.features is not None
    assert store.agreed is not None
    features = Features.from_plain(store.features, source=str(store.path))
    return agreement.with_features(features, int(store.agreed["revision"]))


def _is_changed(store: AgentStore, agreement: Agreement) -> bool:
    """Return whether the file has an older schema, and else the same agreement."""
    before = store.agreed
    if before is None or store.features is None:
        return False
    own = {name: value for name, value in before.items() if name not in ("federation", "client")}
    return agreement.is_older(own)
