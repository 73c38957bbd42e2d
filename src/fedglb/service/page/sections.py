"""The parts of the page that change, each as HTML under the id that it has there.

The first paint and the live page are the same text: a browser that listens is sent the parts that
have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from itertools import starmap

from fedglb.federation.coordinator.status import CoordinatorStatus, MemberStatus
from fedglb.service.page.figures import (
    duration_figure,
    samples_figure,
    updates_figure,
)
from fedglb.service.page.words import clock, day, duration, size

_MOST_ROWS = 1000  # clients in the table
_MOST_UPDATES, _MOST_EVENTS = 15, 40
#: In place of the figures of samples, where updates are on a schedule.
_UNCOUNTED = '<p class="empty">Nobody counts them: no client tells how many samples it has.</p>'


def sections(status: CoordinatorStatus) -> dict[str, str]:
    """Return the inner HTML of each part, by its id."""
    return {name: part(status) for name, part in _PARTS.items()}


def _state(status: CoordinatorStatus) -> str:
    kind, text = "good", "running"
    if not status.connected:
        kind, text = "bad", "no connection to the NATS server"
    elif status.updating is not None:
        text = f"update {status.updating} in progress"
    elif status.alarms:
        kind, text = "warn", "running, with alarms"
    return f'<span class="state {kind}">{escape(text)}</span>'


def _about(status: CoordinatorStatus) -> str:
    facts = [f"since {clock(status.started)}", status.software, status.server]
    return " · ".join(escape(fact) for fact in facts)


def _clock(status: CoordinatorStatus) -> str:
    return f"as of {clock(status.time)}"


def _alarms(status: CoordinatorStatus) -> str:
    if not status.alarms:
        return '<p class="calm">No alarms.</p>'
    rows = "".join(
        f'<li data-kind="{alarm.kind}"><span class="tag">{alarm.kind.replace("_", " ")}</span> '
        f"{escape(alarm.text)}{_since(alarm.since)}</li>"
        for alarm in status.alarms[:50]
    )
    more = len(status.alarms) - 50
    return f"<ul>{rows}</ul>" + (f"<p>and {more} more</p>" if more > 0 else "")


def _since(at: float | None) -> str:
    return "" if at is None else f' <span class="soft">{clock(at)}</span>'


def _totals(status: CoordinatorStatus) -> str:
    totals = status.totals
    tiles = [
        ("present", f"{status.present}", f"of {len(status.members)} clients present"),
        ("updates", f"{totals.updates:,}", _newest(status)),
        _learned(status),
        ("rounds", f"{totals.rounds:,}", f"rounds, {totals.scalars:,} numbers sent"),
        ("bytes", size(totals.bytes), f"in {totals.sent:,} messages"),
    ]
    told = [m.rewards for m in status.members if m.present and m.rewards and m.rewards.recent_count]
    if told:
        count = sum(r.recent_count for r in told)
        mean = sum(r.recent_total for r in told) / count
        tiles.append(("reward", f"{mean:.3g}", f"mean of {count:,} recent rewards"))
    return "".join(
        f'<div class="tile"><b id="total-{name}">{value}</b><span>{escape(text)}</span></div>'
        for name, value, text in tiles
    )


def _learned(status: CoordinatorStatus) -> tuple[str, str, str]:
    """Return how much is learned from; on a schedule nobody counts samples: what is spent."""
    if status.privacy is not None:
        of = f"of epsilon = {status.privacy.epsilon:g} is spent"
        return "epsilon", f"{status.privacy.spent:.3g}", of
    if status.schedule is not None:
        return "schedule", f"{status.schedule.done}", f"of {status.schedule.updates} times are past"
    return "samples", f"{status.totals.samples:,}", "samples in the model"


def _newest(status: CoordinatorStatus) -> str:
    return f"updates, the last {clock(status.updates[-1].at)}" if status.updates else "updates"


def _updates_figure(status: CoordinatorStatus) -> str:
    return updates_figure(status.updates) if status.schedule is None else _UNCOUNTED


def _duration_figure(status: CoordinatorStatus) -> str:
    return duration_figure(status.updates)


def _samples_figure(status: CoordinatorStatus) -> str:
    return samples_figure(status.members) if status.schedule is None else _UNCOUNTED


def _updates(status: CoordinatorStatus) -> str:
    rows = []
    for u in status.updates[::-1][:_MOST_UPDATES]:
        why = "".join(
            f"<div><b>{escape(client)}</b> {escape(reason)}</div>"
            for client, reason in list(u.left_out.items())[:10]
        )
        if len(u.left_out) > 10:
            why += f"<div>and {len(u.left_out) - 10} more</div>"
        rows.append(
            _row(
                f"u-{u.number}",
                ("n number", str(u.number)), ("when", clock(u.at)),
                ("n clients", f"{u.clients}"), ("n samples", f"{u.samples:,}"),
                ("n rounds", f"{u.rounds}"), ("n took", duration(u.seconds)),
                ("n wide bytes", size(u.bytes)), ("wide asked", escape(u.asked_by or "")),
                ("left", why),
            )
        )  # fmt: skip
    heads = (
        ("n", "update"), ("", "when"), ("n", "clients"), ("n", "samples"), ("n", "rounds"),
        ("n", "took"), ("n wide", "bytes"), ("wide", "asked by"), ("", "left out, and why"),
    )  # fmt: skip
    return _table(heads, rows)


def _members(status: CoordinatorStatus) -> str:
    ends = {each.name: each.ends for each in status.certificates}
    rows = [_member(m, ends.get(m.name)) for m in status.members[:_MOST_ROWS]]
    heads = (
        ("", "client"), ("", ""), ("wide", "joined"), ("n", "samples"), ("n", "share"),
        ("n wide", "model"), ("n wide", "left out"), ("n wide", "mean reward"),
        ("wide", "certificate ends"), ("wide", "software"),
    )  # fmt: skip
    return _table(heads, rows)


def _member(m: MemberStatus, end: float | None) -> str:
    here = '<span class="here">here</span>' if m.present else f"seen {clock(m.seen) or 'never'}"
    reward = ""
    if m.rewards is not None and m.rewards.count:
        reward = f"{m.rewards.total / m.rewards.count:.3g}"
    return _row(
        f"m-{m.name}",
        ("name", escape(m.name)), ("where", here), ("wide", day(m.joined)),
        ("n samples", f"{m.samples:,}"), ("n share", f"{m.share:.1%}"),
        ("n wide model", str(m.model)), ("n wide left", f"{m.left_out or ''}"),
        ("n wide reward", reward), ("wide", day(end)), ("wide soft", escape(m.software)),
        kind="" if m.present else "absent",
    )  # fmt: skip


def _count(status: CoordinatorStatus) -> str:
    more = len(status.members) - _MOST_ROWS
    return f"the first {_MOST_ROWS:,}; all are in /status.json" if more > 0 else ""


def _events(status: CoordinatorStatus) -> str:
    rows = [
        f'<li><span class="soft">{clock(e.at)}</span> <span class="tag">{e.kind}</span> '
        f"{escape(e.text)}</li>"
        for e in [e for e in status.events[::-1] if e.kind != "updating"][:_MOST_EVENTS]
    ]
    return f"<ul>{''.join(rows)}</ul>" if rows else '<p class="empty">Nothing happened yet.</p>'


def _certificates(status: CoordinatorStatus) -> str:
    if not status.certificates:
        return '<p class="empty">No certificate can be read here.</p>'
    soonest = sorted(status.certificates, key=lambda each: each.ends)[:_MOST_EVENTS]
    rows = [_row(f"c-{c.name}", ("", escape(c.name)), ("n", day(c.ends))) for c in soonest]
    return _table((("", "whose"), ("n", "ends")), rows)


def _table(heads: Sequence[tuple[str, str]], rows: Sequence[str]) -> str:
    head = "".join(starmap(_head, heads))
    body = "".join(rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _head(kind: str, text: str) -> str:
    return f'<th class="{kind}">{text}</th>' if kind else f"<th>{text}</th>"


def _row(key: str, *cells: tuple[str, str], kind: str = "") -> str:
    """Return a row; the key tells it from others when it changes."""
    inner = "".join(
        f'<td class="{c}">{html}</td>' if c else f"<td>{html}</td>" for c, html in cells
    )
    return f'<tr id="{escape(key)}"{f" class={kind!r}" if kind else ""}>{inner}</tr>'


_PARTS: dict[str, Callable[[CoordinatorStatus], str]] = {
    "state": _state,
    "about": _about,
    "clock": _clock,
    "alarms": _alarms,
    "totals": _totals,
    "updates-figure": _updates_figure,
    "duration-figure": _duration_figure,
    "samples-figure": _samples_figure,
    "members-count": _count,
    "members": _members,
    "updates": _updates,
    "events": _events,
    "certificates": _certificates,
}
