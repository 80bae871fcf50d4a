"""Searches that wait for an index's thread, and the running replicas that purges wait for."""

import asyncio
import os
import shutil
import socket
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import Context, copy_context
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from ingest.errors import Overloaded
from ingest.log.keys import REPLICAS
from ingest.log.scripts import beat, heard_of
from ingest.platform.connections import Client
from projections.search.question import Filter, Hit, Question

MOST_AT_ONCE = 8
"""Searches of a round: a change of the index waits for all of them."""
MAX_WAITING = 1_000
"""Searches that wait for their round, some seconds' work; one more is refused, or clients would wait for minutes."""


class _Search(NamedTuple):
    question: Question
    allowed: Filter
    done: "asyncio.Future[list[Hit]]"
    context: Context
    """What the search is a part of, in the thread, too."""


class Searches:
    """Hands searches to the thread that owns the index. For one event loop, which alone touches `_under_way`."""

    def __init__(self, thread: Executor, search: Callable[[Question, Filter], list[Hit]], index: Lock) -> None:
        """A user of the index holds the lock `index`."""
        self._thread, self._search, self._index = thread, search, index
        self._waiting: deque[_Search] = deque()
        self._under_way = False

    async def ask(self, question: Question, allowed: Filter, *, is_short: bool = False) -> list[Hit]:
        """What `search` returns or raises. Raises Overloaded when MAX_WAITING wait already.

        A short one is made at once if the index is free: it takes less time than to hand it over and to wait for the
        interpreter's lock (a recall took 0.94 of the processor time, 20,000 documents).
        """
        if is_short and not self._under_way and self._index.acquire(blocking=False):
            try:
                return self._search(question, allowed)
            finally:
                self._index.release()
        if len(self._waiting) >= MAX_WAITING:
            raise Overloaded(f"{MAX_WAITING:,} searches are waiting for the index")
        loop = asyncio.get_running_loop()
        search = _Search(question, allowed, loop.create_future(), copy_context())
        self._waiting.append(search)
        if not self._under_way:
            self._begin(loop)
        return await search.done

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        self._under_way = bool(self._waiting)
        if self._under_way:
            self._thread.submit(self._round, loop)

    def _round(self, loop: asyncio.AbstractEventLoop) -> None:
        """In the thread; each is answered as soon as it is made."""
        for _ in range(MOST_AT_ONCE):
            try:
                question, allowed, done, context = self._waiting.popleft()
            except IndexError:
                break
            if done.cancelled():
                continue
            try:
                with self._index:
                    answer = context.run(self._search, question, allowed)
                loop.call_soon_threadsafe(_settle, done, answer)
            except Exception as error:
                loop.call_soon_threadsafe(_settle, done, error)
        loop.call_soon_threadsafe(self._begin, loop)


def _settle(done: "asyncio.Future[list[Hit]]", outcome: list[Hit] | Exception) -> None:
    if done.done():  # the caller has been canceled
        return
    if isinstance(outcome, Exception):
        done.set_exception(outcome)
    else:
        done.set_result(outcome)


STALE_MS = 10_000
"""A replica without a heartbeat for so long is gone; a live one sends twenty of them in that time."""


async def announce(redis: Client, replica: str, snapshot: str) -> None:
    """A replica is up, and holds nothing older than `snapshot` ("" while it has none). Drops those that are gone."""
    await beat(redis, REPLICAS, f"{replica}|{snapshot}", STALE_MS, earlier=f"{replica}|")


async def sign_off(redis: Client, replica: str) -> None:
    """A replica is down."""
    result: list[bytes] = await redis.zrange(REPLICAS, 0, -1)
    if members := [raw.decode() for raw in result if raw.decode().rpartition("|")[0] == replica]:
        await redis.zrem(REPLICAS, *members)


async def replicas(redis: Client) -> list[tuple[str, str]]:
    """The `(replica, snapshot)` of every live replica; the snapshot is "" for one that started from none."""
    parts = [member.rpartition("|") for member in await heard_of(redis, REPLICAS, STALE_MS)]
    return [(replica, snapshot) for replica, _, snapshot in parts]


def work_folder(parent: Path) -> Path:
    """A folder below `parent` for this process alone (not made yet); removes those of dead processes of this host.

    The host is part of the name: containers that share a volume have the same process ids.
    """
    host = socket.gethostname()
    for path in parent.glob(f"{host}-*"):
        pid = path.name.removeprefix(f"{host}-")
        if not pid.isdigit():
            continue
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            shutil.rmtree(path, ignore_errors=True)
        except PermissionError:  # it is alive, and another user's
            pass
    return parent / f"{host}-{os.getpid()}"
