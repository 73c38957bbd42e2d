"""The client for code that runs on an event loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from numpy.typing import ArrayLike

from fedglb.errors import integer
from fedglb.federation import AgentStatus, Decision
from fedglb.service.client import AgentClient

if TYPE_CHECKING:
    import polars as pl

T = TypeVar("T")


class AsyncAgentClient:
    """`AgentClient` with calls to await: each runs in one of a few threads beside the loop.

    Parameters
    ----------
    url, token, timeout, patience, cafile
        Those of `AgentClient`.
    connections
        How many calls are made at a time; others wait.

    Raises
    ------
    InvalidInput
        A value is not allowed.

    Examples
    --------
    >>> import asyncio
    >>> import fedglb as fg
    >>> async def front_page() -> str:
    ...     async with fg.AsyncAgentClient("http://127.0.0.1:8731", patience=0.0) as client:
    ...         try:
    ...             return (await client.choose([[1.0, 0.0], [0.0, 1.0]])).id
    ...         except fg.federation.Unavailable:
    ...             return "nobody answers there"
    >>> asyncio.run(front_page())
    'nobody answers there'
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 10.0,
        patience: float = 30.0,
        cafile: str | os.PathLike[str] | None = None,
        connections: int = 16,
    ) -> None:
        self._client = AgentClient(url, token, timeout=timeout, patience=patience, cafile=cafile)
        self._threads = ThreadPoolExecutor(
            integer("connections", connections), thread_name_prefix="fedglb-client"
        )

    async def choose(
        self,
        arms: ArrayLike,
        ids: Sequence[str | int] | None = None,
        *,
        t: int | None = None,
        key: str | None = None,
    ) -> Decision:
        """Choose one of the arms, as `AgentClient.choose` does.

        Parameters
        ----------
        arms, ids, t, key
            Those of `AgentClient.choose`.

        Returns
        -------
        Decision
            The chosen arm, and the id that `observe` takes.
        """
        return await self._run(lambda: self._client.choose(arms, ids, t=t, key=key))

    async def observe(self, id: str, reward: float) -> None:  # noqa: A002
        """Report the reward of a decision, as `AgentClient.observe` does.

        Parameters
        ----------
        id, reward
            Those of `AgentClient.observe`.
        """
        await self._run(lambda: self._client.observe(id, reward))

    async def choose_batch(
        self, requests: Iterable[Mapping[str, Any]]
    ) -> list[Decision | Exception]:
        """Choose several times, as `AgentClient.choose_batch` does.

        Parameters
        ----------
        requests
            Those of `AgentClient.choose_batch`.

        Returns
        -------
        list of Decision or Exception
            A decision for each, or what `choose` would have raised.
        """
        return await self._run(lambda: self._client.choose_batch(requests))

    async def observe_batch(self, rewards: Iterable[tuple[str, float]]) -> list[Exception | None]:
        """Report several rewards, as `AgentClient.observe_batch` does.

        Parameters
        ----------
        rewards
            Those of `AgentClient.observe_batch`.

        Returns
        -------
        list of Exception or None
            None where the reward is stored, or else what `observe` would have raised.
        """
        return await self._run(lambda: self._client.observe_batch(rewards))

    async def status(self) -> AgentStatus:
        """Return where the agent stands."""
        return await self._run(lambda: self._client.status)

    async def export(self) -> pl.DataFrame:
        """Return the log, one row per decision."""
        return await self._run(self._client.export)

    async def close(self) -> None:
        """Close the connections, once the calls in progress are over."""
        await asyncio.to_thread(self._threads.shutdown)
        self._client.close()

    async def __aenter__(self) -> AsyncAgentClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _run(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)
