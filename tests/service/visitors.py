"""Visitors who use every call of a service, a service that dies, and what its file must have.

Each visitor notes what was acknowledged, and what the call in progress would change. When the
service is dead, its file must have all that was acknowledged; a call without an answer is done
whole or not at all; and there is nothing else.
"""

from __future__ import annotations

import json
import random
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fedglb as fg
from fedglb.federation import AgentStatus
from fedglb.federation.agent.comparison import Comparison
from fedglb.federation.agent.store import AgentStore
from tests.federation.helpers.agent_driver import copied, whole_log
from tests.federation.helpers.kill_points import Fault
from tests.federation.helpers.killable_process import Child, Died
from tests.federation.helpers.nats_federation import PATIENCE, eventually

FEATURES = fg.Features(
    arm={"kind": fg.Category(["a", "b", "c"]), "price": fg.Number([1, 9])}, budget=16
)
ITEMS = 5  # of an offer
DEFAULT = 0.0
State = tuple[str, float | None]
AHEAD, PENDING, UNSEEN, GONE = (
    ("ahead", None),
    ("pending", None),
    ("unseen", None),
    ("gone", None),
)


def rewarded(y: float) -> State:
    return "observed", y


def item(arm_id: str) -> dict[str, Any]:
    """The record of an arm: a function of its id."""
    rng = random.Random(arm_id)
    return {"kind": rng.choice("abc"), "price": rng.randrange(1, 10), "name": arm_id}


class Visitor(threading.Thread):
    """Makes the same kind of `visit` again and again, and notes what was acknowledged."""

    def __init__(
        self, name: str, url: str, visit: Callable[[Visitor], None], stop: threading.Event
    ) -> None:
        super().__init__(daemon=True)
        self.name, self.rng = name, random.Random(name)
        self.client = fg.AgentClient(url, patience=PATIENCE, timeout=PATIENCE)
        self.waiting: list[Any] = []  # for visits
        self.error: BaseException | None = None
        self.number = self.calls = 0
        self._visit, self._stop_it, self._lock = visit, stop, threading.Lock()
        self._known: dict[str, State] = {}
        self._next: Mapping[str, State] = {}  # what the call in progress makes of them
        self._asked: tuple[str, int, State] | None = None  # the decisions that it makes
        self._arms: dict[str, str] = {}

    def run(self) -> None:
        try:
            with self.client:
                while not self._stop_it.is_set():
                    self._visit(self)
                    time.sleep(0.002)
        except BaseException as error:
            self.error = error

    # -- calls -----------------------------------------------------------------------------------

    def choose(self, count: int = 0, ahead: bool = False, **more: Any) -> list[str]:
        """Choose, or rank so many; return the ids."""
        self.number += 1
        key = f"{self.name}-{self.number:06}"
        ids = [f"{key}-{k}" for k in range(ITEMS)]
        given = {"ids": ids, "key": key, "prefetch": ahead, **more}
        state = AHEAD if ahead else PENDING
        with self._lock:
            self._asked = key, max(1, count), state
        offer = [item(id_) for id_ in ids]
        if count:
            made = self.client.rank(offer, count, **given)
        else:
            made = (self.client.choose(offer, **given),)
        assert [d.arm_id for d in made] == [ids[d.arm] for d in made]
        with self._lock:
            self._asked = None
            self._known |= {d.id: state for d in made}
            self._arms |= {d.id: str(d.arm_id) for d in made}
            self.calls += 1
        return [d.id for d in made]

    def tell(
        self, changes: Mapping[str, State], call: Callable[..., Any], *given: Any, **more: Any
    ):
        """Make a call that changes decisions."""
        with self._lock:
            self._next = changes
        out = call(*given, **more)
        with self._lock:
            self._known |= changes
            self._next = {}
            self.calls += 1
        return out

    def observe(self, id_: str, y: float) -> None:
        self.tell({id_: rewarded(y)}, self.client.observe, id_, y)

    def observe_ranking(self, ids: Sequence[str], clicked: Sequence[str]) -> None:
        last = max((k for k, id_ in enumerate(ids) if id_ in clicked), default=len(ids))
        changes = {
            id_: UNSEEN if k > last else rewarded(float(id_ in clicked))
            for k, id_ in enumerate(ids)
        }
        self.tell(changes, self.client.observe_ranking, ids, clicked)

    # -- what must hold --------------------------------------------------------------------------

    def gone(self) -> list[str]:
        """The arms of decisions that are forgotten."""
        with self._lock:
            return [self._arms[id_] for id_, state in self._known.items() if state == GONE]

    def check(self, rows: Mapping[str, Row], over: bool) -> None:
        """The file has what was acknowledged, and perhaps the call in progress, and no more."""
        with self._lock:
            known, changes, asked = dict(self._known), dict(self._next), self._asked
        assert not over or not (changes or asked)
        more = {id_: row for id_, row in rows.items() if id_ not in known}
        if more:
            assert asked is not None, more
            key, count, state = asked
            assert len(more) == count, (asked, more)
            for row in more.values():
                assert row.arm_id.startswith(f"{key}-"), (asked, more)
                assert holds(row, state), (asked, more)
        changes = {id_: state for id_, state in changes.items() if state != known[id_]}
        done = [holds(rows.get(id_), state) for id_, state in changes.items()]
        before = [holds(rows.get(id_), known[id_]) for id_ in changes]
        assert all(done) or all(before), (changes, done, before)
        for id_ in known.keys() - changes.keys():
            assert holds(rows.get(id_), known[id_]), (id_, known[id_], rows.get(id_))
            assert id_ not in rows or rows[id_].arm_id == self._arms[id_]


# -- a file --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A decision in a file; a late reward counts already."""

    arm_id: str
    state: State
    defaulted: bool = False
    log: Mapping[str, Any] | None = None  # all columns; None: it has not happened


def holds(row: Row | None, state: State) -> bool:
    """Whether a decision is as it should be; one that waits may have got the default reward."""
    if row is None or state == GONE:
        return row is None and state == GONE
    if row.defaulted:
        return state == PENDING and row.state == rewarded(DEFAULT)
    return row.state == state


def read(path: Path) -> dict[str, Row]:
    """Return all decisions of a file that nobody has open."""
    log = whole_log(path, FEATURES.dim)
    store = AgentStore(path, "process")
    try:
        late = store.late()
        ahead = store._db.execute("SELECT prefix || '-' || number, arm_id FROM prefetched")
        rows = {id_: Row(arm_id, AHEAD) for id_, arm_id in ahead.fetchall()}
    finally:
        store.close()
    for each in log.iter_rows(named=True):
        assert each["id"] not in rows
        state, defaulted = (each["outcome"], each["reward"]), each["defaulted"]
        number = int(each["id"].rpartition("-")[2])
        if number in late:
            assert defaulted
            assert state == rewarded(DEFAULT)
            y = late.pop(number)
            state, defaulted = UNSEEN if y is None else rewarded(y), False
        rows[each["id"]] = Row(each["arm_id"], state, defaulted, each)
        if each["record"] is not None:
            assert json.loads(each["record"])["arm"] == item(each["arm_id"])
    assert not late
    return rows


# -- a service that dies -------------------------------------------------------------------------


class Struck:
    """A service and its visitors; `with` starts and ends the visitors."""

    def __init__(
        self, folder: Path, visit: Callable[[Visitor], None], rules: Mapping[str, Any], people: int
    ) -> None:
        self.path, self._rules, self._folder = folder / "agent.db", rules, folder
        self.socket, self._stop, self.deaths = folder / "s", threading.Event(), 0
        self.url = f"unix://{self.socket}"
        self.visitors = [Visitor(f"p{k}", self.url, visit, self._stop) for k in range(people)]
        self.child: Child | None = None

    def __enter__(self) -> Struck:
        for each in self.visitors:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self.child is not None:
            self.child.kill()

    @property
    def calls(self) -> int:
        """How many were acknowledged."""
        for each in self.visitors:
            if each.error is not None:
                raise each.error
        return sum(each.calls for each in self.visitors)

    def start(self, fault: Fault | None = None) -> None:
        self.child = Child(
            self._folder / "log", kind="service", fault=fault, path=self.path, socket=self.socket,
            features=FEATURES, rules=dict(self._rules),
        )  # fmt: skip

    def strike(self, fault: Fault, between: int) -> None:
        """Start the service, and let it die at a fault, after some calls (0: from its start on)."""
        self.start(None if between else fault)
        assert self.child is not None
        child = self.child
        if between:
            self.work(between)
            self.check_memory()
            with suppress(Died):
                child.tell("arm", fault=fault)
        eventually(lambda: self.calls < 0 or child.dead, f"death at {fault}")
        assert child.bury() == -signal.SIGKILL, (self._folder / "log").read_text()[-3000:]
        self.child, self.deaths = None, self.deaths + 1
        self.check_file()

    def work(self, count: int) -> None:
        """Wait until so many calls more were acknowledged."""
        end = self.calls + count
        eventually(lambda: self.calls >= end, f"{end} calls", lambda: self.calls)

    def check_memory(self) -> None:
        """What the service has in memory is, to the bit, what it would read from its file."""
        assert self.child is not None
        said = self.child.tell("replayed")
        assert said["memory"] == said["file"]

    def check_file(self, over: bool = False) -> dict[str, Row]:
        """Check a copy, so that the service has to recover the file by itself."""
        gone = [arm_id.encode() for each in self.visitors for arm_id in each.gone()]
        copy = copied(self.path, self._folder / f"copy-{self.deaths}-{over}")
        content = b"".join(file.read_bytes() for file in copy.parent.iterdir())
        assert [arm_id for arm_id in gone if arm_id in content] == []
        rows = read(copy)
        for each in self.visitors:
            mine = {id_: r for id_, r in rows.items() if r.arm_id.startswith(f"{each.name}-")}
            each.check(mine, over)
        return rows

    def end(self) -> tuple[AgentStatus, Comparison, dict[str, Row]]:
        """Let all come to an end, and check everything once more; return what there is."""
        self.start()
        assert self.child is not None
        child = self.child
        self.work(20)
        self._stop.set()
        for each in self.visitors:
            each.join(PATIENCE)
            assert not each.is_alive()
        if "default_reward" in self._rules:
            eventually(lambda: not any(child.tell("silence").values()), "all default rewards")
        self.check_memory()
        with fg.AgentClient(self.url) as client:
            status, compared = client.status, client.compare()
        assert child.end() == 0
        self.child = None
        rows = self.check_file(over=True)
        assert status.samples == sum(row.state[0] == "observed" for row in rows.values())
        return status, compared, rows
