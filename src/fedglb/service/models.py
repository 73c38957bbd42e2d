"""Several agents in one service: each has its calls, its page and its API under its name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import msgspec
from prometheus_client.core import GaugeMetricFamily, Metric
from starlette.requests import Request
from starlette.responses import Response

from fedglb.errors import InvalidInput
from fedglb.federation import Agent
from fedglb.federation.names import check_name
from fedglb.service.agent import PATHS, AgentApi, RequestLimits, shared_handlers
from fedglb.service.guard import Access, Guard
from fedglb.service.metrics import Metrics, agent_metrics
from fedglb.service.openapi import openapi
from fedglb.service.pages import TEMPLATES, security_headers

_HEADERS = security_headers("style-src 'self'; img-src 'self'")
_TAKEN = "v1"  # the first part of every call


@dataclass(frozen=True)
class Model:
    """An agent of a service, and more rows for its page."""

    agent: Agent
    about: Mapping[str, str]


def check_model_name(name: str) -> str:
    """Return `name` if a model can have it, or raise `InvalidInput`."""
    if check_name("model", name) == _TAKEN:
        raise InvalidInput("model", name, "another name: this one is in every path")
    return name


def make_models_app(
    models: Mapping[str, Model],
    *,
    limits: RequestLimits | None = None,
    access: Access | None = None,
) -> Guard:
    """Return the ASGI application of several agents; the caller closes them."""
    limits, access = limits or RequestLimits(), access or Access()
    metrics = Metrics(lambda: _metrics(models))
    agents = [model.agent for model in models.values()]
    handlers = {**shared_handlers(agents, metrics), "/": ("GET", _Index(models).page)}
    shared = [path for path in PATHS if path.path in handlers]
    for name, model in models.items():
        check_model_name(name)
        own = [replace(path, path=_under(name, path.path)) for path in PATHS if path not in shared]
        described = openapi([*own, *shared], token=access.token is not None)
        api = AgentApi(model.agent, limits, metrics, model.about, described, name)
        for path, handler in api.handlers().items():
            handlers[_under(name, path)] = handler
    return Guard(handlers, access, metrics, limits.max_concurrent)


def _under(name: str, path: str) -> str:
    """Return a path of one agent under its name.

    >>> _under("mail", "/v1/choose"), _under("mail", "/docs"), _under("mail", "/")
    ('/v1/mail/choose', '/mail/docs', '/mail/')
    """
    inside = path.removeprefix("/v1")
    return f"/{name}{path}" if inside == path else f"/v1/{name}{inside}"


def _metrics(models: Mapping[str, Model]) -> Iterator[Metric]:
    """Return the numbers of all agents, with the label `model`."""
    families: dict[str, GaugeMetricFamily] = {}
    for name, model in models.items():
        for each in agent_metrics(model.agent):
            for sample in each.samples:
                labels = ["model", *sample.labels]
                family = families.setdefault(
                    each.name, GaugeMetricFamily(each.name, each.documentation, labels=labels)
                )
                family.add_metric([name, *sample.labels.values()], sample.value)
    yield from families.values()


class _Index:
    """The page with all models."""

    def __init__(self, models: Mapping[str, Model]) -> None:
        self._models, self._template = models, TEMPLATES.get_template("models.html")

    async def page(self, _: Request) -> Response:
        """Answer `GET /`."""
        rows = [
            (name, model.about, msgspec.to_builtins(model.agent.status))
            for name, model in self._models.items()
        ]
        text = self._template.render(rows=rows)
        return Response(text, headers=_HEADERS, media_type="text/html")
