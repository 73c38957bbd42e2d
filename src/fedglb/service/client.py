"""A client of the service: the agent's calls, with the agent's errors, from any process."""

from __future__ import annotations

import dataclasses
import http.client
import io
import math
import os
import random
import secrets
import ssl
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from fedglb.errors import array, number
from fedglb.federation import AgentStatus, AlreadyObserved, Decision, Unavailable
from fedglb.service.connections import Answer, Connections
from fedglb.service.messages import Problem, RewardedBatch
from fedglb.service.problem import raised

if TYPE_CHECKING:
    import polars as pl

T = TypeVar("T")
_FIRST_WAIT, _LONGEST_WAIT = 0.02, 1.0  # seconds between two tries
#: What JSON's null stands for in a decision.
_ABSENT = {
    "score": -math.inf, "width": -math.inf, "propensity": math.nan, "propensity_error": math.nan,
}  # fmt: skip
#: Nobody has read the request: whoever sends it again sends it for the first time.
_NEVER_SENT = (ConnectionRefusedError, FileNotFoundError)


class AgentClient:
    """The calls of an agent that runs as a service (``fedglb agent serve``).

    All threads of a process may share one, and a forked child may use its parent's. A call that
    got no answer, or was told to come again, is repeated for up to `patience` seconds, and counts
    once: `choose` sends a key with it, and a reward that is there already was this call's own. So
    a restart of the service is a pause.

    Parameters
    ----------
    url
        ``http://127.0.0.1:8731``, ``https://…``, or ``unix:///path/of/the/socket``.
    token
        The service's token, where it has one.
    timeout
        Seconds that one try may take.
    patience
        Seconds after which a call gives up; 0: it is tried once.
    cafile
        For https: the file of the certificates that are trusted; None: those of the system.

    Raises
    ------
    InvalidInput
        A value is not allowed.

    Examples
    --------
    >>> import fedglb as fg
    >>> client = fg.AgentClient("http://127.0.0.1:8731", patience=0.0)
    >>> try:
    ...     decision = client.choose([[1.0, 0.0], [0.0, 1.0]], ids=["red", "blue"])
    ...     client.observe(decision.id, 1.0)
    ... except fg.federation.Unavailable as error:
    ...     print("nobody answers there")
    nobody answers there
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 10.0,
        patience: float = 30.0,
        cafile: str | os.PathLike[str] | None = None,
    ) -> None:
        number("timeout", timeout, above=0.0)
        self._patience = number("patience", patience, at_least=0.0)
        tls = None if cafile is None else ssl.create_default_context(cafile=cafile)
        self._url, self._connections = url, Connections(url, token, timeout, tls)

    # -- the two calls --------------------------------------------------------------------------

    def choose(
        self,
        arms: ArrayLike,
        ids: Sequence[str | int] | None = None,
        *,
        t: int | None = None,
        key: str | None = None,
    ) -> Decision:
        """Choose one of the arms.

        Parameters
        ----------
        arms, ids, t
            Those of `Agent.choose`.
        key
            A name of this request; with the same one again, also from another process, the answer
            is the same decision. None: one that only this call has.

        Returns
        -------
        Decision
            The chosen arm, and the id that `observe` takes.

        Raises
        ------
        InvalidInput
            `arms`, `ids`, `t` or `key` are not allowed.
        Unavailable
            The service did not answer within `patience`, or refused.
        """
        body = self._get("POST", "/v1/choose", _request(arms, ids, t, key))
        return _decision(msgspec.json.decode(body))

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
            The reward is not allowed.
        AlreadyObserved, DecisionExpired, UnknownDecision
            As `Agent.observe` raises them.
        Unavailable
            The service did not answer within `patience`, or refused.
        """
        body = {"id": id, "reward": number("reward", reward)}
        answer, unsure = self._ask("POST", "/v1/observe", body)
        if answer.status >= 400:
            error = _error(answer)
            if not (unsure and isinstance(error, AlreadyObserved) and error.same):
                raise error

    # -- many at once ---------------------------------------------------------------------------

    def choose_batch(self, requests: Iterable[Mapping[str, Any]]) -> list[Decision | Exception]:
        """Choose several times, in order, with one request.

        Parameters
        ----------
        requests
            The arguments of a `choose` each: ``{"arms": …, "ids": …}``.

        Returns
        -------
        list of Decision or Exception
            A decision for each, or what `choose` would have raised.
        """
        batch = [_request(r["arms"], r.get("ids"), r.get("t"), r.get("key")) for r in requests]
        found = msgspec.json.decode(self._get("POST", "/v1/choose/batch", {"batch": batch}))
        return [
            _decision(each["decision"])
            if "decision" in each
            else raised(msgspec.convert(each["problem"], Problem))
            for each in found["results"]
        ]

    def observe_batch(self, rewards: Iterable[tuple[str, float]]) -> list[Exception | None]:
        """Report several rewards, in order, with one request.

        Parameters
        ----------
        rewards
            Ids of decisions, each with its reward.

        Returns
        -------
        list of Exception or None
            None where the reward is stored, or else what `observe` would have raised.
        """
        batch = [{"id": id_, "reward": number("reward", reward)} for id_, reward in rewards]
        answer, unsure = self._ask("POST", "/v1/observe/batch", {"batch": batch})
        if answer.status >= 400:
            raise _error(answer)
        results = msgspec.json.decode(answer.body, type=RewardedBatch).results
        return [
            None if each.problem is None or (unsure and each.problem.same) else raised(each.problem)
            for each in results
        ]

    # -- the rest -------------------------------------------------------------------------------

    @property
    def status(self) -> AgentStatus:
        """Where the agent stands."""
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

    # -- asking again ---------------------------------------------------------------------------

    def _get(self, method: str, path: str, value: object = None) -> bytes:
        """Return the body of an answer, or raise what it says."""
        answer, _ = self._ask(method, path, value)
        if answer.status >= 400:
            raise _error(answer)
        return answer.body

    def _ask(self, method: str, path: str, value: object) -> tuple[Answer, bool]:
        """Return the answer, and whether an earlier try may have been carried out, too."""
        body = None if value is None else msgspec.json.encode(value)
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
                pause = wait * random.uniform(0.5, 1.0)  # so that many do not come at once
                wait = min(2.0 * wait, _LONGEST_WAIT)
            if time.monotonic() + pause > end:
                raise error
            time.sleep(pause)


def _request(
    arms: ArrayLike, ids: Sequence[str | int] | None, t: int | None, key: str | None
) -> dict[str, object]:
    """Return a request to choose, with a key in any case: then it may be sent twice."""
    asked: dict[str, object] = {
        "arms": array("arms", arms, (None, None)).tolist(),
        "key": secrets.token_urlsafe(12) if key is None else key,
    }
    if ids is not None:
        asked["ids"] = [i.item() if isinstance(i, np.generic) else i for i in ids]
    if t is not None:
        asked["t"] = int(t)
    return asked


def _decision(table: dict[str, Any]) -> Decision:
    """Return a decision from JSON, which has null for infinity and for what is no number."""
    for name, absent in _ABSENT.items():
        if table.get(name) is None:
            table[name] = absent
    return _made(Decision, table)


def _made(kind: type[T], table: Mapping[str, Any]) -> T:
    """Return a dataclass from a table; a newer service may say more than it has fields for."""
    known = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in table.items() if name in known})


def _error(answer: Answer) -> Exception:
    try:
        return raised(msgspec.json.decode(answer.body, type=Problem))
    except msgspec.DecodeError:  # a proxy's, or the server's own
        text = answer.body[:200].decode("utf-8", "replace")
        return Unavailable(f"the answer has the status {answer.status}: {text}")


def _seconds(retry_after: str) -> float:
    """Return how long to wait: what the service says, within reason."""
    return min(float(retry_after), 10.0) if retry_after.isdigit() else _LONGEST_WAIT
