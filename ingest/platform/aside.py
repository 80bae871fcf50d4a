"""Work that takes long is done in a thread of its own, so that the event loop goes on with everybody else.

One thread, for all that is big: whatever is sent, one such piece of work is under way, and its memory is one arena's.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

INLINE_BYTES = 64 << 10
"""What is bigger is parsed aside: nobody else is served while a parser is at work."""
_thread = ThreadPoolExecutor(1, "aside")


async def aside(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What `work` returns or raises, done in the thread behind what waits there."""
    return await asyncio.get_running_loop().run_in_executor(_thread, lambda: work(*args, **kwargs))


SLICE_S = 0.005


class Slices:
    """Cuts a long piece of work on the event loop into slices, between which others have their turn."""

    def __init__(self) -> None:
        self._ends = time.perf_counter() + SLICE_S

    async def between(self) -> None:
        """Let others go on, when the slice has lasted long enough."""
        if time.perf_counter() > self._ends:
            await asyncio.sleep(0)
            self._ends = time.perf_counter() + SLICE_S
