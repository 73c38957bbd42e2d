"""Clients of the agent's API: the agent's calls, with the agent's errors, from any process."""

from __future__ import annotations

import asyncio
import http.client
import io
import json
import math
import os
import random
import secrets
import ssl
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from fedglb.errors import InvalidInput, array, integer, number
from fedglb.features.encode import Record
from fedglb.federation import (
    AgentStatus,
    AlreadyObserved,
    Decision,
    Unavailable,
    UnknownDecision,
)
from fedglb.federation.agent.comparison import Comparison
from fedglb.federation.agent.explain import Explanation, LearnedModel, PreviewedArm
from fedglb.federation.agent.records import is_records
from fedglb.federation.frozen import Frozen
from fedglb.federation.names import check_name
from fedglb.service.connections import Answer, Connections
from fedglb.service.messages import ObserveResults, Previewed, ProblemDetails
from fedglb.service.problem import raised

if TYPE_CHECKING:
    import polars as pl

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])
_FIRST_WAIT, _LONGEST_WAIT = 0.02, 1.0  # seconds between two tries
#: The values that a null in a decision's JSON stands for.
_ABSENT = {
    "score": -math.inf, "width": -math.inf, "propensity": math.nan, "propensity_error": math.nan,
}  # fmt: skip
#: Errors after which the service cannot have read the request.
_NEVER_SENT = (ConnectionRefusedError, FileNotFoundError)


class AgentClient:
    """The calls of an agent that runs as a service (``fedglb agent serve``).

    All threads of a process may share one client, and a forked child may use its parent's. A call
    without an answer, or with "try again" as its answer, is repeated for up to `patience` seconds
    and takes effect once: `choose` sends a key, and a repeated reward that equals the stored one
    counts as success. So a restart of the service is only a pause.

    Parameters
    ----------
    url
        ``http://127.0.0.1:8731``, ``https://…``, or ``unix:///path/of/the/socket``.
    token
        The service's token, where it has one.
    timeout
        Seconds that one try may take.
    patience
        Seconds for which a call is repeated; 0: one try.
    cafile
        For https: a file of trusted certificates; None: the system's.
    model
        The name of the model, where the service has several (``--config``); None: it has one.

    Raises
    ------
    InvalidInput
        A value is invalid.

    Examples
    --------
    >>> import fedglb as fg
    >>> client = fg.AgentClient("http://127.0.0.1:8731", patience=0.0)
    >>> try:
    ...     decision = client.choose([[1.0, 0.0], [0.0, 1.0]], ids=["red", "blue"])
    ...     client.observe(decision.id, 1.0)
    ... except fg.federation.Unavailable as error:
    ...     print("the service does not answer")
    the service does not answer

    With records, where the service has a schema, and a look inside:

    >>> try:
    ...     items = [{"category": "shoes", "price": 59.9}, {"category": "books", "price": 12}]
    ...     decision = client.choose(items, ids=["sneaker", "atlas"], context={"country": "DE"})
    ...     [w.feature for w in client.model().strongest(3)]
    ...     client.explain(decision.id).played.contributions
    ... except fg.federation.Unavailable as error:
    ...     print("the service does not answer")
    the service does not answer
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 10.0,
        patience: float = 30.0,
        cafile: str | os.PathLike[str] | None = None,
        model: str | None = None,
    ) -> None:
        number("timeout", timeout, above=0.0)
        self._patience = number("patience", patience, at_least=0.0)
        tls = None if cafile is None else ssl.create_default_context(cafile=cafile)
        self._url, self._connections = url, Connections(url, token, timeout, tls)
        self._calls = "/v1/" if model is None else f"/v1/{check_name('model', model)}/"

    # -- the two calls --------------------------------------------------------------------------

    def choose(
        self,
        arms: ArrayLike | Sequence[Record],
        ids: Sequence[str | int] | None = None,
        *,
        context: Record | None = None,
        exclude: Sequence[str | int] = (),
        t: int | None = None,
        key: str | None = None,
        subject: str | None = None,
        prefetch: bool = False,
        played: int | None = None,
        propensity: float | None = None,
        explore: float | None = None,
    ) -> Decision:
        """Choose one of the arms.

        Parameters
        ----------
        arms, ids, context, exclude, t, subject, prefetch, played, propensity, explore
            As in `Agent.choose`.
        key
            A name of this request: a repeated key, also from another process, returns the same
            decision. None: a new random key.

        Returns
        -------
        Decision
            The chosen arm, and the id that `observe` takes.

        Raises
        ------
        InvalidInput
            An argument is invalid.
        Unavailable
            The service did not answer within `patience`, or refused.
        """
        asked = _keyed(
            arms, ids, context, exclude, t=t, key=key, subject=subject, prefetch=prefetch or None,
            played=played, propensity=propensity, explore=explore,
        )  # fmt: skip
        return _decision(msgspec.json.decode(self._get("POST", "/v1/choose", asked)))

    def rank(
        self,
        arms: ArrayLike | Sequence[Record],
        count: int,
        ids: Sequence[str | int] | None = None,
        *,
        context: Record | None = None,
        exclude: Sequence[str | int] = (),
        t: int | None = None,
        key: str | None = None,
        subject: str | None = None,
        prefetch: bool = False,
        explore: float | None = None,
    ) -> tuple[Decision, ...]:
        """Choose several arms, best first.

        Parameters
        ----------
        arms, count, ids, context, exclude, t, subject, prefetch, explore
            As in `Agent.rank`.
        key
            As in `choose`.

        Returns
        -------
        tuple of Decision
            Each has its own id and reward.

        Raises
        ------
        InvalidInput
            An argument is invalid.
        Unavailable
            The service did not answer within `patience`, or refused.
        """
        asked = _keyed(
            arms, ids, context, exclude, t=t, key=key, subject=subject, prefetch=prefetch or None,
            count=count, explore=explore,
        )  # fmt: skip
        found = msgspec.json.decode(self._get("POST", "/v1/choose", asked))
        return tuple(map(_decision, found["ranking"]))

    def activate(self, ids: Iterable[str]) -> None:
        """Let decisions that were prefetched happen now, as `Agent.activate` does.

        Parameters
        ----------
        ids
            Ids of decisions.

        Raises
        ------
        UnknownDecision
            There is no such decision.
        Unavailable
            The service did not answer within `patience`, or refused.
        """
        self._get("POST", "/v1/activate", {"ids": list(ids)})

    def observe(self, id: str, reward: float) -> None:  # noqa: A002
        """Report the reward of a decision; when this returns, the sample is in the agent's file.

        Parameters
        ----------
        id
            The `id` of the decision.
        reward
            Its reward.

        Raises
        ------
        InvalidInput
            The reward is invalid.
        AlreadyObserved, DecisionExpired, UnknownDecision
            As `Agent.observe` raises them.
        Unavailable
            The service did not answer within `patience`, or refused.
        """
        self._tell("/v1/observe", {"id": id, "reward": number("reward", reward)})

    def observe_ranking(self, ids: Sequence[str], clicked: Iterable[str]) -> None:
        """Report the clicks on a ranking, as `Agent.observe_ranking` does.

        Parameters
        ----------
        ids
            The ids of the decisions, in the order in which the arms were shown.
        clicked
            Those whose arms were clicked; may be empty.

        Raises
        ------
        InvalidInput, AlreadyObserved, DecisionExpired, UnknownDecision
            As `Agent.observe_ranking` raises them.
        Unavailable
            The service did not answer within `patience`, or refused.
        """
        self._tell("/v1/observe/ranking", {"ids": list(ids), "clicked": list(clicked)})

    def _tell(self, path: str, body: object) -> None:
        """Report rewards; if an earlier try may have stored them, they may be there already."""
        answer, unsure = self._ask("POST", path, body)
        if answer.status >= 400:
            error = _error(answer)
            if not (unsure and isinstance(error, AlreadyObserved) and error.same):
                raise error

    def forget(self, ids: Iterable[str] = (), *, subject: str | None = None) -> int:
        """Delete decisions and their samples for good, as `Agent.forget` does.

        A call that is repeated after a lost answer deletes what is left.

        Parameters
        ----------
        ids
            Ids of decisions.
        subject
            All decisions about this subject, too.

        Returns
        -------
        int
            Number of decisions deleted.

        Raises
        ------
        UnknownDecision
            Such a decision does not exist or was forgotten before; nothing is deleted.
        Unavailable
            The service did not answer within `patience`, or refused.
        """
        given = list(ids)
        asked = {"ids": given} if subject is None else {"ids": given, "subject": subject}
        answer, unsure = self._ask("POST", "/v1/forget", asked)
        if answer.status < 400:
            return int(msgspec.json.decode(answer.body)["forgotten"])
        error = _error(answer)
        if not (unsure and isinstance(error, UnknownDecision)):
            raise error
        count = 0 if subject is None else self.forget(subject=subject)
        for each in given:  # an earlier try may have deleted them
            with suppress(UnknownDecision):
                count += self.forget([each])
        return count

    # -- many at once ---------------------------------------------------------------------------

    def choose_batch(
        self, requests: Iterable[Mapping[str, Any]]
    ) -> list[Decision | tuple[Decision, ...] | Exception]:
        """Choose several times, in order, with one request.

        Parameters
        ----------
        requests
            Arguments of `choose`, ``{"arms": …, "ids": …, "context": …}``, or of `rank`, with
            ``"count": 3``.

        Returns
        -------
        list of Decision, tuple of Decision, or Exception
            For each what `choose` or `rank` would have returned, or the error that it would have
            raised.
        """
        batch = [
            _keyed(**{"ids": None, "context": None, "exclude": None} | dict(each))
            for each in requests
        ]
        found = msgspec.json.decode(self._get("POST", "/v1/choose/batch", {"batch": batch}))
        return [_chosen(each) for each in found["results"]]

    def observe_batch(self, rewards: Iterable[tuple[str, float]]) -> list[Exception | None]:
        """Report several rewards, in order, with one request.

        Parameters
        ----------
        rewards
            Ids of decisions, each with its reward.

        Returns
        -------
        list of Exception or None
            None where the reward is stored, or the error that `observe` would have raised.
        """
        batch = [{"id": id_, "reward": number("reward", reward)} for id_, reward in rewards]
        answer, unsure = self._ask("POST", "/v1/observe/batch", {"batch": batch})
        if answer.status >= 400:
            raise _error(answer)
        results = msgspec.json.decode(answer.body, type=ObserveResults).results
        return [
            None if each.problem is None or (unsure and each.problem.same) else raised(each.problem)
            for each in results
        ]

    # -- looking inside -------------------------------------------------------------------------

    def model(self) -> LearnedModel:
        """Return what the agent has learned: a weight for each feature, as `Agent.model` does."""
        return msgspec.json.decode(self._get("GET", "/v1/model"), type=LearnedModel)

    def explain(self, id: str) -> Explanation:  # noqa: A002
        """Return why an arm was played: what each of its features adds, by the present model.

        Parameters
        ----------
        id
            The `id` of a decision that has not expired.

        Returns
        -------
        Explanation
            Of the arm played and, where arms were records, of the runner-up.

        Raises
        ------
        UnknownDecision, DecisionExpired
            There is no such decision any more.
        Unavailable
            The service did not answer within `patience`, or refused.
        """
        found = self._get("GET", f"/v1/explain?id={quote(id, safe='')}")
        return msgspec.json.decode(found, type=Explanation)

    def preview(
        self,
        arms: ArrayLike | Sequence[Record],
        ids: Sequence[str | int] | None = None,
        *,
        context: Record | None = None,
        exclude: Sequence[str | int] = (),
    ) -> tuple[PreviewedArm, ...]:
        """Return what `choose` would play, and how likely; nothing is written or learned.

        Parameters
        ----------
        arms, ids, context, exclude
            As in `Agent.choose`.

        Returns
        -------
        tuple of PreviewedArm
            One for each arm that is not excluded.

        Raises
        ------
        InvalidInput
            As `choose` does.
        Unavailable
            The service did not answer within `patience`, or refused.
        """
        found = self._get("POST", "/v1/preview", _request(arms, ids, context, exclude))
        return msgspec.json.decode(found, type=Previewed).arms

    def compare(self) -> Comparison:
        """Return how the agent would have done beside the system that decides."""
        return msgspec.json.decode(self._get("GET", "/v1/compare"), type=Comparison)

    def request_update(self) -> None:
        """Request an update with all samples so far, as `Agent.request_update` does.

        Raises
        ------
        Unavailable
            The agent makes no updates, or cannot request one; or the service did not answer within
            `patience`, or refused.
        """
        self._get("POST", "/v1/request-update", {})

    # -- an earlier model -----------------------------------------------------------------------

    def freeze(self, update: int | None = None) -> Frozen:
        """Choose with the model of an update from now on, as `Agent.freeze`; learning goes on.

        Parameters
        ----------
        update
            Its number; None: the newest that the agent has.

        Returns
        -------
        Frozen
            The model, since when, and by whose word.

        Raises
        ------
        InvalidInput
            The model of that update is not kept.
        Unavailable
            The service did not answer within `patience`, or refused.
        """
        found = self._get("POST", "/v1/freeze", {"update": update})
        return msgspec.json.decode(found, type=Frozen)

    def unfreeze(self) -> None:
        """Choose with the newest model again, unless the operator says otherwise."""
        self._get("POST", "/v1/unfreeze", {})

    # -- status and log -------------------------------------------------------------------------

    @property
    def status(self) -> AgentStatus:
        """The agent's status."""
        return msgspec.json.decode(self._get("GET", "/v1/status"), type=AgentStatus)

    def export(self) -> pl.DataFrame:
        """Return the log, one row per decision, as `Agent.export` does."""
        import polars as pl

        return pl.read_parquet(io.BytesIO(self._get("GET", "/v1/export?format=parquet")))

    def close(self) -> None:
        """Close the connections; the next call makes new ones."""
        self._connections.close()

    def __enter__(self) -> AgentClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- requests, repeated ---------------------------------------------------------------------

    def _get(self, method: str, path: str, value: object = None) -> bytes:
        """Return the body of an answer, or raise the error in it."""
        answer, _ = self._ask(method, path, value)
        if answer.status >= 400:
            raise _error(answer)
        return answer.body

    def _ask(self, method: str, path: str, value: object) -> tuple[Answer, bool]:
        """Return the answer, and whether an earlier try may have been carried out."""
        body = None if value is None else msgspec.json.encode(value)
        path = path.replace("/v1/", self._calls, 1)
        end, wait, unsure = time.monotonic() + self._patience, _FIRST_WAIT, False
        while True:
            try:
                answer = self._connections.exchange(method, path, body)
                if answer.retry_after is None:
                    return answer, unsure
                error, pause = _error(answer), _seconds(answer.retry_after)
                unsure = unsure or not answer.from_service
            except ssl.SSLCertVerificationError as refused:
                raise Unavailable(f"{self._url}: {refused}") from None
            except (OSError, http.client.HTTPException) as failed:
                unsure = unsure or not isinstance(failed, _NEVER_SENT)
                said = str(failed) or type(failed).__name__
                error = Unavailable(f"no answer from {self._url}: {said}")
                pause = wait * random.uniform(0.5, 1.0)  # so that clients do not retry all at once
                wait = min(2.0 * wait, _LONGEST_WAIT)
            if time.monotonic() + pause > end:
                raise error
            time.sleep(pause)


def _sections_of(method: Callable[..., object]) -> Callable[[F], F]:
    """Return a decorator that adds the sections of a method's docstring, from Parameters on."""

    def decorate(function: F) -> F:
        _, title, sections = (method.__doc__ or "").partition("\n\n        Parameters\n")
        function.__doc__ = f"{function.__doc__}{title}{sections}"
        return function

    return decorate


class AsyncAgentClient:
    """`AgentClient` for an event loop: each call runs in one of a few threads.

    Parameters
    ----------
    url, token, timeout, patience, cafile, model
        As in `AgentClient`.
    connections
        Concurrent calls; others wait.

    Raises
    ------
    InvalidInput
        A value is invalid.

    Examples
    --------
    >>> import asyncio
    >>> import fedglb as fg
    >>> async def front_page() -> str:
    ...     async with fg.AsyncAgentClient("http://127.0.0.1:8731", patience=0.0) as client:
    ...         try:
    ...             return (await client.choose([[1.0, 0.0], [0.0, 1.0]])).id
    ...         except fg.federation.Unavailable:
    ...             return "the service does not answer"
    >>> asyncio.run(front_page())
    'the service does not answer'
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 10.0,
        patience: float = 30.0,
        cafile: str | os.PathLike[str] | None = None,
        model: str | None = None,
        connections: int = 16,
    ) -> None:
        self._client = AgentClient(
            url, token, timeout=timeout, patience=patience, cafile=cafile, model=model
        )
        self._threads = ThreadPoolExecutor(
            integer("connections", connections), thread_name_prefix="fedglb-client"
        )

    @_sections_of(AgentClient.choose)
    async def choose(
        self,
        arms: ArrayLike | Sequence[Record],
        ids: Sequence[str | int] | None = None,
        *,
        context: Record | None = None,
        exclude: Sequence[str | int] = (),
        t: int | None = None,
        key: str | None = None,
        subject: str | None = None,
        prefetch: bool = False,
        played: int | None = None,
        propensity: float | None = None,
        explore: float | None = None,
    ) -> Decision:
        """Choose one of the arms."""
        call = partial(
            self._client.choose, arms, ids, context=context, exclude=exclude, t=t, key=key,
            subject=subject, prefetch=prefetch, played=played, propensity=propensity,
            explore=explore,
        )  # fmt: skip
        return await self._run(call)

    @_sections_of(AgentClient.rank)
    async def rank(
        self,
        arms: ArrayLike | Sequence[Record],
        count: int,
        ids: Sequence[str | int] | None = None,
        *,
        context: Record | None = None,
        exclude: Sequence[str | int] = (),
        t: int | None = None,
        key: str | None = None,
        subject: str | None = None,
        prefetch: bool = False,
        explore: float | None = None,
    ) -> tuple[Decision, ...]:
        """Choose several arms, best first."""
        call = partial(
            self._client.rank, arms, count, ids, context=context, exclude=exclude, t=t, key=key,
            subject=subject, prefetch=prefetch, explore=explore,
        )  # fmt: skip
        return await self._run(call)

    @_sections_of(AgentClient.activate)
    async def activate(self, ids: Iterable[str]) -> None:
        """Let decisions that were prefetched happen now, as `Agent.activate` does."""
        await self._run(lambda: self._client.activate(ids))

    @_sections_of(AgentClient.observe)
    async def observe(self, id: str, reward: float) -> None:  # noqa: A002
        """Report the reward of a decision; when this returns, the sample is in the agent's file."""
        await self._run(lambda: self._client.observe(id, reward))

    @_sections_of(AgentClient.observe_ranking)
    async def observe_ranking(self, ids: Sequence[str], clicked: Iterable[str]) -> None:
        """Report the clicks on a ranking, as `Agent.observe_ranking` does."""
        await self._run(lambda: self._client.observe_ranking(ids, clicked))

    @_sections_of(AgentClient.forget)
    async def forget(self, ids: Iterable[str] = (), *, subject: str | None = None) -> int:
        """Delete decisions and their samples for good, as `Agent.forget` does."""
        return await self._run(lambda: self._client.forget(ids, subject=subject))

    async def compare(self) -> Comparison:
        """Return how the agent would have done beside the system that decides."""
        return await self._run(self._client.compare)

    @_sections_of(AgentClient.choose_batch)
    async def choose_batch(
        self, requests: Iterable[Mapping[str, Any]]
    ) -> list[Decision | tuple[Decision, ...] | Exception]:
        """Choose several times, in order, with one request."""
        return await self._run(lambda: self._client.choose_batch(requests))

    @_sections_of(AgentClient.observe_batch)
    async def observe_batch(self, rewards: Iterable[tuple[str, float]]) -> list[Exception | None]:
        """Report several rewards, in order, with one request."""
        return await self._run(lambda: self._client.observe_batch(rewards))

    async def model(self) -> LearnedModel:
        """Return what the agent has learned: a weight for each feature, as `Agent.model` does."""
        return await self._run(self._client.model)

    @_sections_of(AgentClient.explain)
    async def explain(self, id: str) -> Explanation:  # noqa: A002
        """Return why an arm was played: what each of its features adds, by the present model."""
        return await self._run(lambda: self._client.explain(id))

    @_sections_of(AgentClient.preview)
    async def preview(
        self,
        arms: ArrayLike | Sequence[Record],
        ids: Sequence[str | int] | None = None,
        *,
        context: Record | None = None,
        exclude: Sequence[str | int] = (),
    ) -> tuple[PreviewedArm, ...]:
        """Return what `choose` would play, and how likely; nothing is written or learned."""
        return await self._run(
            lambda: self._client.preview(arms, ids, context=context, exclude=exclude)
        )

    async def request_update(self) -> None:
        """Request an update with all samples so far, as `Agent.request_update` does."""
        await self._run(self._client.request_update)

    @_sections_of(AgentClient.freeze)
    async def freeze(self, update: int | None = None) -> Frozen:
        """Choose with the model of an update from now on; learning goes on."""
        return await self._run(lambda: self._client.freeze(update))

    async def unfreeze(self) -> None:
        """Choose with the newest model again, unless the operator says otherwise."""
        await self._run(self._client.unfreeze)

    async def status(self) -> AgentStatus:
        """Return the agent's status."""
        return await self._run(lambda: self._client.status)

    async def export(self) -> pl.DataFrame:
        """Return the log, one row per decision."""
        return await self._run(self._client.export)

    async def close(self) -> None:
        """Finish the calls in progress and close the connections."""
        await asyncio.to_thread(self._threads.shutdown)
        self._client.close()

    async def __aenter__(self) -> AsyncAgentClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _run(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)


def _keyed(
    arms: ArrayLike | Sequence[Record],
    ids: Sequence[str | int] | None,
    context: Record | None,
    exclude: Sequence[str | int] | None,
    key: str | None = None,
    **more: Any,
) -> dict[str, object]:
    """Return the body of a request to choose, always with a key, so that it may be sent twice."""
    asked = _request(arms, ids, context, exclude)
    asked["key"] = secrets.token_urlsafe(12) if key is None else key
    for name, value in more.items():
        if value is not None:
            asked[name] = value.item() if isinstance(value, np.generic) else value
    return asked


def _request(
    arms: ArrayLike | Sequence[Record],
    ids: Sequence[str | int] | None,
    context: Record | None,
    exclude: Sequence[str | int] | None,
) -> dict[str, object]:
    """Return the body of a request to preview."""
    given: Any = arms
    records = is_records(given, context)
    asked: dict[str, object] = {
        "arms": _records("arms", given) if records else array("arms", given, (None, None)).tolist()
    }
    if ids is not None:
        asked["ids"] = _names(ids)
    if exclude:
        asked["exclude"] = exclude if isinstance(exclude, str) else _names(exclude)
    if context is not None:
        asked["context"] = _records("context", context)
    return asked


def _names(given: Iterable[str | int]) -> list[str | int]:
    return [i.item() if isinstance(i, np.generic) else i for i in given]


def _records(argument: str, given: Any) -> msgspec.Raw:
    """Return records as JSON; unlike msgspec, without NaN as null, which means a missing value."""
    try:
        return msgspec.Raw(json.dumps(given, default=_plain, allow_nan=False).encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(argument, type(given).__name__, f"values of JSON ({error})") from None


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{value!r} is not a value of JSON")


def _decision(table: dict[str, Any]) -> Decision:
    """Return a decision from JSON, where NaN and infinity are null."""
    for name, absent in _ABSENT.items():
        if table.get(name) is None:
            table[name] = absent
    return msgspec.convert(table, Decision)


def _chosen(result: dict[str, Any]) -> Decision | tuple[Decision, ...] | Exception:
    """Return the outcome of one item of a batch."""
    if "ranking" in result:
        return tuple(map(_decision, result["ranking"]))
    if "decision" in result:
        return _decision(result["decision"])
    return raised(msgspec.convert(result["problem"], ProblemDetails))


def _error(answer: Answer) -> Exception:
    try:
        return raised(msgspec.json.decode(answer.body, type=ProblemDetails))
    except msgspec.DecodeError:  # a proxy's answer, or uvicorn's own
        text = answer.body[:200].decode("utf-8", "replace")
        return Unavailable(f"status {answer.status}: {text}")


def _seconds(retry_after: str) -> float:
    """Return the wait: the service's Retry-After, but at most 10 s."""
    return min(float(retry_after), 10.0) if retry_after.isdigit() else _LONGEST_WAIT
