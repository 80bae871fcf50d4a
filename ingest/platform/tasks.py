"""Background tasks: ending them, and long work in a thread or in slices, which leaves the event loop to others."""

import asyncio
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

JobState = Literal["queued", "running", "done", "failed"]
"""How far a job of the workers is."""
AGAIN_AFTER_S = 0.2
INLINE_BYTES = 64 << 10
"""Anything larger is parsed in the thread, because no other request is served while a parser runs."""
SLICE_S = 0.005
_thread = ThreadPoolExecutor(1, "aside")
"""One thread for all large work: at most one such task runs at a time, and it uses one memory arena."""


async def end(*tasks: "asyncio.Task[Any] | None") -> None:
    """Cancel tasks until they have ended; their errors are dropped. None is a task that was never started."""
    # once is not enough: before Python 3.12 `asyncio.wait_for`, which redis-py calls on every command, swallows a
    # cancellation that arrives in the moment its work is done
    pending = {task for task in tasks if task is not None}
    while pending:
        for task in pending:
            task.cancel()
        done, pending = await asyncio.wait(pending, timeout=AGAIN_AFTER_S)
        for task in done:
            if not task.cancelled():
                task.exception()


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What `work` returns or raises, in the one thread, after what waits there."""
    return await asyncio.get_running_loop().run_in_executor(_thread, lambda: work(*args, **kwargs))


class Slices:
    """Cuts a long piece of work on the event loop into slices, between which others have their turn."""

    def __init__(self) -> None:
        self._ends = time.perf_counter() + SLICE_S

    async def between(self) -> None:
        """Let others go on, when the slice has lasted long enough."""
        if time.perf_counter() > self._ends:
            await asyncio.sleep(0)
            self._ends = time.perf_counter() + SLICE_S


async def nothing() -> None:
    """Return at once: for what may be awaited and has nothing to do."""


_node_timeout_s: ContextVar[float | None] = ContextVar("node_timeout_s", default=None)


@contextmanager
def waiting_at_most(seconds: float | None) -> Generator[None]:
    """Within, a node is waited for no longer; None for as long as the client waits."""
    token = _node_timeout_s.set(seconds)
    try:
        yield
    finally:
        _node_timeout_s.reset(token)


def node_timeout_s() -> float | None:
    """For how long a node is waited for; None for as long as the client waits."""
    return _node_timeout_s.get()
