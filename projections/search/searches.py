"""Searches in the index thread: those that wait when the thread gets to them are made in one go.

An executor costs each search a future of its own, a queue and a wake-up in both directions, which was 7 % of a recall's
time on the event loop. A round takes no more than MOST_AT_ONCE, so changes of the index have their turn.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import Context, copy_context
from typing import NamedTuple

from ingest.errors import Overloaded
from projections.search.question import Filter, Hit, Question

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
        one = _Waiting(question, allowed, loop.create_future(), copy_context())
        self._waiting.append(one)
        if not self._under_way:
            self._begin(loop)
        return await one.done

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
                loop.call_soon_threadsafe(_answer, done, asker.run(self._search, question, allowed))
            except Exception as error:
                loop.call_soon_threadsafe(_fail, done, error)
        loop.call_soon_threadsafe(self._ended, loop)

    def _ended(self, loop: asyncio.AbstractEventLoop) -> None:
        self._under_way = False
        if self._waiting:
            self._begin(loop)


def _answer(done: "asyncio.Future[list[Hit]]", found: list[Hit]) -> None:
    if not done.done():  # the asker may have gone away
        done.set_result(found)


def _fail(done: "asyncio.Future[list[Hit]]", error: Exception) -> None:
    if not done.done():
        done.set_exception(error)
