"""Waiting for what happens by itself, instead of sleeping."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable


async def wait_until(predicate: "Callable[[], bool | Awaitable[bool]]", timeout_s: float = 30.0) -> None:
    """Return as soon as `predicate` (plain or async) holds; fails the test when it does not within `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while True:
        answer = predicate()
        if await answer if inspect.isawaitable(answer) else answer:
            return
        if time.monotonic() > deadline:
            raise AssertionError(f"still waiting after {timeout_s} s for {getattr(predicate, '__name__', predicate)}")
        await asyncio.sleep(0.005)
