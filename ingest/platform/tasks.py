"""Ending background tasks."""

import asyncio
from typing import Any

AGAIN_AFTER_S = 0.2


async def end(*tasks: "asyncio.Task[Any]") -> None:
    """Cancel tasks until they have ended; their errors are dropped.

    Once is not enough: before Python 3.12 `asyncio.wait_for`, which redis-py calls on every command, swallows a
    cancellation that arrives in the moment its work is done.
    """
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        done, pending = await asyncio.wait(pending, timeout=AGAIN_AFTER_S)
        for task in done:
            if not task.cancelled():
                task.exception()
