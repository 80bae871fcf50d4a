"""Work that takes long is done in a thread of its own, so that the event loop goes on with everybody else.

One thread, for all that is big: whatever is sent, one such piece of work is under way, and its memory is one arena's.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_thread = ThreadPoolExecutor(1, "aside")


async def aside(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What `work` returns or raises, done in the thread behind what waits there."""
    return await asyncio.get_running_loop().run_in_executor(_thread, lambda: work(*args, **kwargs))
