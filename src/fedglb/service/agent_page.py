"""The agent's page: totals, charts and weights, and a form; no decision and no record."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from fedglb.features import Features, Number, Tags
from fedglb.federation import Agent, AgentStatus
from fedglb.federation.agent.activity import Activity, Period
from fedglb.federation.agent.comparison import Comparison
from fedglb.service.figures import by_period
from fedglb.service.metrics import Metrics
from fedglb.service.openapi import VERSION
from fedglb.service.pages import TEMPLATES, clock, security_headers

_HEADERS = security_headers(
    "style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'"
)
_KEEP = 5.0  # seconds for which the activity is not read again
_WEIGHTS = 15
_HEIGHT = 150  # of a chart, in pixels
_UNITS = {60.0: "minute", 300.0: "5 minutes", 900.0: "15 minutes", 3600.0: "hour"}


class AgentPage:
    """Renders the page; `agent.js` renews its parts, and asks what the form's arms are worth."""

    def __init__(
        self, agent: Agent, metrics: Metrics, about: Mapping[str, str], name: str = ""
    ) -> None:
        self._agent, self._metrics, self._about, self._name = agent, metrics, about, name
        self._started, self._reading = time.time(), asyncio.Lock()
        self._recently: tuple[float, tuple[Activity, Comparison]] | None = (
            None  # and when it was read
        )
        self._template = TEMPLATES.get_template("agent.html")  # compiled now, not in a request

    async def document(self) -> Response:
        """Return the page."""
        status = self._agent.status
        (activity, comparison), model = await self._recent(), self._agent.model()
        unit = _UNITS[activity.width]
        rewards = by_period(
            activity, lambda p: p.reward, _rewards, f"Mean reward per {unit}", _HEIGHT
        )
        decisions = by_period(
            activity, lambda p: p.decisions, _decisions, f"Decisions per {unit}", _HEIGHT
        )
        shown = msgspec.to_builtins(status)
        del shown["alarms"]  # they have their own part
        text = self._template.render(
            about=self._about, status=shown, alarms=status.alarms, tiles=_tiles(status, activity),
            unit=unit, rewards=rewards, decisions=decisions, model=model,
            strongest=model.only_strongest(_WEIGHTS), comparison=comparison,
            records=self._agent.features is not None,
            example=example(self._agent.features, len(model.weights)),
            requests=self._requests(), version=VERSION, started=self._started,
            name=self._name, place=f"/{self._name}" if self._name else "",
            calls=f"/v1/{self._name}" if self._name else "/v1",
        )  # fmt: skip
        return Response(text, headers=_HEADERS, media_type="text/html")

    def _requests(self) -> list[tuple[tuple[str, str], int]]:
        """Return the counts of the requests, of several models those to this one."""
        own, every = (f"/v1/{self._name}/", f"/{self._name}/"), self._metrics.counts()
        return sorted(
            each for each in every.items() if not self._name or each[0][0].startswith(own)
        )

    async def _recent(self) -> tuple[Activity, Comparison]:
        """Return what the file says, read in a thread, and not for each reader of the page."""
        async with self._reading:
            if self._recently is None or time.monotonic() - self._recently[0] > _KEEP:
                found = await asyncio.to_thread(
                    lambda: (self._agent.activity(), self._agent.compare())
                )
                self._recently = time.monotonic(), found
            return self._recently[1]


def _tiles(status: AgentStatus, activity: Activity) -> list[tuple[str, str, str]]:
    """Return the name, the value and the text of each total."""
    tiles = [
        ("samples", f"{status.samples:,}", "samples learned here"),
        ("pending", f"{activity.pending:,}", "decisions wait for a reward"),
        ("expired", f"{status.expired:,}", "expired without one"),
        ("model", f"{status.model:,}", "updates of the model"),
    ]
    if status.distance is not None:
        text = "as far from the others as clients are on average"
        tiles.append(("distance", f"{status.distance:.1f} ×", text))
    if status.defaulted:
        replaced = f"default rewards, {status.replaced:,} replaced" * bool(status.replaced)
        tiles.append(("defaulted", f"{status.defaulted:,}", replaced or "default rewards"))
    if status.ignored:
        tiles.append(("ignored", f"{status.ignored:,}", "fields ignored: not in the schema"))
    return tiles


def _rewards(period: Period) -> str:
    return f"{clock(period.begin)}: {period.reward:.3g}, mean of {period.rewarded:,} rewards"


def _decisions(period: Period) -> str:
    return f"{clock(period.begin)}: {period.decisions:,} decisions, {period.rewarded:,} rewarded"


def example(features: Features | None, dim: int) -> dict[str, str]:
    r"""Return a context and two arms as JSON, to begin with: they fit the schema.

    >>> example(Features(arm={"price": Number([5, 50]), "tags": Tags()}), 0)["arms"]
    '[{"price": 5.0, "tags": ["a"]},\n {"price": 50.0, "tags": ["b"]}]'
    """
    if features is None:
        arms = [[float(j == k) for j in range(dim)] for k in range(min(2, dim))]
        return {"context": "{}", "arms": _in_rows(arms)}
    context = {name: _value(field, 0) for name, field in features.context.items()}
    arms_ = [{name: _value(f, k) for name, f in features.arm.items()} for k in (0, -1)]
    return {"context": json.dumps(context, ensure_ascii=False), "arms": _in_rows(arms_)}


def _value(field: Any, k: int) -> Any:
    if isinstance(field, Number):
        return field.knots[k]
    text = ("a", "b")[k] if field.levels is None else field.levels[k]
    return [text] if isinstance(field, Tags) else text


def _in_rows(arms: list[Any]) -> str:
    return "[" + ",\n ".join(json.dumps(arm, ensure_ascii=False) for arm in arms) + "]"
