"""The two clients: `Mnemolog` blocks, `AsyncMnemolog` awaits. They have the same methods, and the same answers."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Self, TypeVar, Unpack
from urllib.parse import urlsplit

import httpx

from mnemolog_client.calls import Awaiting, Blocking, Call, Feed, Listing, Polled
from mnemolog_client.emitter import AsyncEmitter, Emitter
from mnemolog_client.errors import MnemologError
from mnemolog_client.live import Following
from mnemolog_client.nouns import Root
from mnemolog_client.outbox import EmitterOptions, open_outbox
from mnemolog_client.position import Position
from mnemolog_client.proxies import proxy_options
from mnemolog_client.retry import RETRY, Retry
from mnemolog_client.sending import OnDegraded, Pause, Reply, Request, Sending, steps

T = TypeVar("T")

DEFAULT_URL = "http://127.0.0.1:3111"
TIMEOUT_S = 30.0


class BlockingTransport:
    """Carries steps out with httpx, in the caller's thread. Safe to share between threads."""

    def __init__(self, http: httpx.Client, sending: Sending) -> None:
        self.http, self.sending = http, sending

    def send(self, call: Call[T] | Polled[T], retry: Retry | None = None) -> T:
        """The answer; raises a MnemologError."""
        todo = steps(call, self.sending._replace(retry=retry or self.sending.retry))
        reply: Reply | None = None
        while True:
            try:
                step = todo.send(reply)
            except StopIteration as end:
                return end.value
            reply = self._step(step)

    def walk(self, listing: Listing[T] | Feed[T]) -> Iterator[T]:
        """What is listed, page by page as it is asked for; or the events of a feed as they come."""
        if isinstance(listing, Feed):
            yield from self._follow(Following(listing.call, self.sending))
            return
        call = listing.first
        while call is not None:
            items, call = listing.step(call, self.send(call))
            yield from items

    def _follow(self, following: Following[T]) -> Iterator[T]:
        while True:
            fault: httpx.TransportError | MnemologError | None = None
            try:
                with self.http.stream(**following.request(self.http.timeout)) as response:
                    if not response.is_success:
                        response.read()
                    following.check(response)
                    for part in response.iter_bytes():
                        yield from following.take(part)
            except (httpx.TransportError, MnemologError) as raised:
                fault = raised
            time.sleep(following.pause_s(fault))

    def _step(self, step: Request | Pause) -> Reply | None:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        try:
            return self.http.request(
                step.method, step.path, params=step.query, content=step.content, headers=step.headers
            )
        except httpx.TransportError as fault:
            return fault


class AwaitingTransport:
    """Carries steps out with httpx, on the event loop."""

    def __init__(self, http: httpx.AsyncClient, sending: Sending) -> None:
        self.http, self.sending = http, sending

    async def send(self, call: Call[T] | Polled[T], retry: Retry | None = None) -> T:
        """The answer; raises a MnemologError."""
        todo = steps(call, self.sending._replace(retry=retry or self.sending.retry))
        reply: Reply | None = None
        while True:
            try:
                step = todo.send(reply)
            except StopIteration as end:
                return end.value
            reply = await self._step(step)

    async def walk(self, listing: Listing[T] | Feed[T]) -> AsyncIterator[T]:
        """What is listed, page by page as it is asked for; or the events of a feed as they come."""
        if isinstance(listing, Feed):
            async for event in self._follow(Following(listing.call, self.sending)):
                yield event
            return
        call = listing.first
        while call is not None:
            items, call = listing.step(call, await self.send(call))
            for item in items:
                yield item

    async def _follow(self, following: Following[T]) -> AsyncIterator[T]:
        while True:
            fault: httpx.TransportError | MnemologError | None = None
            try:
                async with self.http.stream(**following.request(self.http.timeout)) as response:
                    if not response.is_success:
                        await response.aread()
                    following.check(response)
                    async for part in response.aiter_bytes():
                        for event in following.take(part):
                            yield event
            except (httpx.TransportError, MnemologError) as raised:
                fault = raised
            await asyncio.sleep(following.pause_s(fault))

    async def _step(self, step: Request | Pause) -> Reply | None:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return None
        try:
            return await self.http.request(
                step.method, step.path, params=step.query, content=step.content, headers=step.headers
            )
        except httpx.TransportError as fault:
            return fault


class Mnemolog(Root[Blocking]):
    """A blocking client; a context manager. Threads may share it."""

    def __init__(
        self,
        url: str | None = None,
        secret: str | None = None,
        *,
        agent: str = "",
        position: str = "",
        retry: Retry = RETRY,
        timeout_s: float = TIMEOUT_S,
        on_degraded: OnDegraded | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """`url` and `secret` default to MNEMOLOG_URL and MNEMOLOG_KEY (or MNEMOLOG_SECRET); `agent` reads and writes.

        `position` is another client's: reads wait for its writes. `timeout_s` is per attempt. `on_degraded` is called
        before an incomplete read returns, with the request (`GET /v1/sessions`) and what was left out because a node
        of the cluster is away.
        """
        self._http = httpx.Client(
            base_url=_url(url),
            headers=_headers(secret, agent),
            timeout=timeout_s,
            transport=transport,
            **proxy_options(_url(url)),
        )
        shared = Position(position)
        sending = Sending(str(self._http.base_url), shared, retry, on_degraded)
        super().__init__(BlockingTransport(self._http, sending), shared, agent)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def emitter(self, spool: Path | str | None = None, **options: Unpack[EmitterOptions]) -> Emitter:
        """Sends many commands in the background. With the folder `spool` they survive this process."""
        return Emitter(self._transport, open_outbox(self.agent, spool, options))


class AsyncMnemolog(Root[Awaiting]):
    """A client for asyncio; an asynchronous context manager. It belongs to one event loop."""

    def __init__(
        self,
        url: str | None = None,
        secret: str | None = None,
        *,
        agent: str = "",
        position: str = "",
        retry: Retry = RETRY,
        timeout_s: float = TIMEOUT_S,
        on_degraded: OnDegraded | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """As those of `Mnemolog`."""
        self._http = httpx.AsyncClient(
            base_url=_url(url),
            headers=_headers(secret, agent),
            timeout=timeout_s,
            transport=transport,
            **proxy_options(_url(url)),
        )
        shared = Position(position)
        sending = Sending(str(self._http.base_url), shared, retry, on_degraded)
        super().__init__(AwaitingTransport(self._http, sending), shared, agent)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def emitter(self, spool: Path | str | None = None, **options: Unpack[EmitterOptions]) -> AsyncEmitter:
        """Sends many commands in the background. With the folder `spool` they survive this process."""
        opened = await asyncio.to_thread(open_outbox, self.agent, spool, options)
        return AsyncEmitter(self._transport, opened)


def _url(url: str | None) -> str:
    """The address of a server; raises ValueError for one that is not http or https."""
    chosen = url or os.environ.get("MNEMOLOG_URL") or DEFAULT_URL
    if urlsplit(chosen).scheme not in ("http", "https") or not urlsplit(chosen).hostname:
        raise ValueError(f"{chosen!r} is not an http:// or https:// address")
    return chosen


def _headers(secret: str | None, agent: str) -> dict[bytes, bytes]:
    """As bytes: httpx would encode text in ASCII alone, and the server reads UTF-8."""
    key = (os.environ.get("MNEMOLOG_KEY") or os.environ.get("MNEMOLOG_SECRET")) if secret is None else secret
    return {
        **({b"Authorization": f"Bearer {key}".encode("ascii")} if key else {}),
        **({b"X-Agent-Id": agent.encode()} if agent else {}),
    }
