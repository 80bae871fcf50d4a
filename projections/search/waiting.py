"""Who waits for an index: reads for positions, searches for its thread, and purges for the replicas that are up."""

import asyncio
import os
import shutil
import socket
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor
from contextvars import Context, copy_context
from pathlib import Path
from typing import NamedTuple

from ingest.errors import Overloaded, ProjectionBehind
from ingest.log.event_log import LogHistory
from ingest.log.keys import REPLICAS
from ingest.log.lag import entries_behind
from ingest.log.position import START, Position, Token
from ingest.log.scripts import beat, heard_of
from ingest.platform.connections import Client
from ingest.platform.partial import partial_reads
from ingest.platform.tasks import nothing
from projections.search.question import Filter, Hit, Question

READ_WAIT_S = 1.0
"""How long a read waits for what it names, unless an index is told otherwise."""


class Waiting:
    """Waits until positions are covered. Whoever covers them overrides `applied` and `ready`, and tells `_notify`."""

    def __init__(
        self,
        redis: Client,
        partitions: int,
        read_wait_s: float = READ_WAIT_S,
        history: LogHistory | None = None,
        look_at_log: Callable[[], Awaitable[None]] = nothing,
    ) -> None:
        """`redis` is the log's server; `history` what the log was grown from.

        `look_at_log` is awaited each time behind telling the server that this process is up.
        """
        self._redis, self._partitions, self._read_wait_s = redis, partitions, read_wait_s
        self._history = history or LogHistory(partitions)
        self._look_at_log = look_at_log
        self._changed = asyncio.Condition()
        self.waiting = 0
        """Reads that wait now."""
        self.lag: Mapping[int, int] = {}
        """Log entries not projected yet, by partition that is behind, as of less than a second ago."""

    @property
    def applied(self) -> dict[int, Position]:
        """The log position covered, by partition; the beginning for one that may lack what it covers."""
        raise NotImplementedError

    @property
    def ready(self) -> bool:
        """Whether every partition is complete, and has been applied up to where its feed stood at the start."""
        raise NotImplementedError

    async def wait_for(self, token: Token, timeout_s: float | None = None) -> None:
        """Return once everything the token covers is searchable.

        Raises ProjectionBehind after `timeout_s` (None: as long as reads wait here), and CommandRejected for a token of
        another log.
        """
        token = self._history.check_token(token)
        if token.covered_by(self.applied):
            return
        started = time.monotonic()
        self.waiting += 1
        try:
            async with asyncio.timeout(self._read_wait_s if timeout_s is None else timeout_s), self._changed:
                await self._changed.wait_for(lambda: token.covered_by(self.applied))
        except TimeoutError:
            waited = time.monotonic() - started
            raise ProjectionBehind(waited, await self.measure_lag()) from None
        finally:
            self.waiting -= 1

    async def changed(self, at: Token) -> None:
        """Return once something behind `at` is covered, in any partition."""
        async with self._changed:
            await self._changed.wait_for(
                lambda: any(place > at.get(partition, START) for partition, place in self.applied.items())
            )

    async def wait_ready(self, timeout_s: float) -> None:
        """Return once `ready`; raises ProjectionBehind after `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s), self._changed:
                await self._changed.wait_for(lambda: self.ready)
        except TimeoutError:
            raise ProjectionBehind(timeout_s, await self.measure_lag()) from None

    async def measure_lag(self) -> dict[int, int]:
        """Log entries that are not projected yet, by partition that is behind; also refreshes `lag`.

        Of a cluster, as far as its nodes answer.
        """
        with partial_reads():
            behind = await entries_behind(self._redis, self._partitions)
        self.lag = behind
        return behind

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()


MOST_AT_ONCE = 8
"""Searches of a round: what changes the index waits for all of them."""
MAX_WAITING = 1_000
"""Searches that wait for their round, some seconds' work; one more is refused, or they would wait for minutes."""


class _Waiting(NamedTuple):
    question: Question
    allowed: Filter
    done: "asyncio.Future[list[Hit]]"
    asker: Context
    """What the search is a part of, in the thread, too."""


class Searches:
    """Hands searches to the thread that owns the index. For one event loop, which alone touches `_under_way`."""

    def __init__(self, thread: Executor, search: Callable[[Question, Filter], list[Hit]]) -> None:
        self._thread, self._search = thread, search
        self._waiting: deque[_Waiting] = deque()
        self._under_way = False

    async def ask(self, question: Question, allowed: Filter) -> list[Hit]:
        """What `search` returns or raises in the thread. Raises Overloaded when MAX_WAITING wait already."""
        if len(self._waiting) >= MAX_WAITING:
            raise Overloaded(f"{MAX_WAITING:,} searches are waiting for the index")
        loop = asyncio.get_running_loop()
        search = _Waiting(question, allowed, loop.create_future(), copy_context())
        self._waiting.append(search)
        if not self._under_way:
            self._begin(loop)
        return await search.done

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        self._under_way = True
        self._thread.submit(self._round, loop)

    def _round(self, loop: asyncio.AbstractEventLoop) -> None:
        """In the thread; each is answered as soon as it is made."""
        for _ in range(MOST_AT_ONCE):
            try:
                question, allowed, done, asker = self._waiting.popleft()
            except IndexError:
                break
            if done.cancelled():
                continue
            try:
                loop.call_soon_threadsafe(_settle, done, asker.run(self._search, question, allowed))
            except Exception as error:
                loop.call_soon_threadsafe(_settle, done, error)
        loop.call_soon_threadsafe(self._ended, loop)

    def _ended(self, loop: asyncio.AbstractEventLoop) -> None:
        self._under_way = False
        if self._waiting:
            self._begin(loop)


def _settle(done: "asyncio.Future[list[Hit]]", outcome: list[Hit] | Exception) -> None:
    if done.done():  # the asker has been canceled
        return
    if isinstance(outcome, Exception):
        done.set_exception(outcome)
    else:
        done.set_result(outcome)


STALE_MS = 10_000
"""A replica that was not heard of for so long is gone; a live one beats its heart twenty times in it."""


async def announce(redis: Client, replica: str, snapshot: str) -> None:
    """A replica is up, and holds nothing older than `snapshot` ("" while it has none). Drops those that are gone."""
    await beat(redis, REPLICAS, f"{replica}|{snapshot}", STALE_MS, earlier=f"{replica}|")


async def sign_off(redis: Client, replica: str) -> None:
    """A replica is down, and has left no file."""
    result: list[bytes] = await redis.zrange(REPLICAS, 0, -1)
    if members := [raw.decode() for raw in result if _parts(raw.decode())[0] == replica]:
        await redis.zrem(REPLICAS, *members)


async def replicas(redis: Client) -> list[tuple[str, str]]:
    """The `(replica, snapshot)` of every live replica; the snapshot is "" for one that started from none."""
    return [_parts(member) for member in await heard_of(redis, REPLICAS, STALE_MS)]


def _parts(member: str) -> tuple[str, str]:
    replica, _, snapshot = member.rpartition("|")
    return replica, snapshot


def work_folder(parent: Path) -> Path:
    """A folder below `parent` for this process alone (not made yet); removes those of dead processes of this host.

    The host is part of the name: containers that share a volume have the same process ids.
    """
    host = socket.gethostname()
    for path in parent.glob(f"{host}-*"):
        pid = path.name.removeprefix(f"{host}-")
        if pid.isdigit() and not _alive(int(pid)):
            shutil.rmtree(path, ignore_errors=True)
    return parent / f"{host}-{os.getpid()}"


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
