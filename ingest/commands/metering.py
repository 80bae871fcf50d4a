"""Whom the events of a request are charged to. A request is counted when it is admitted; here, its events are."""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar

charge: ContextVar[Callable[[int], Awaitable[None]] | None] = ContextVar("charge", default=None)
"""Awaited with the number of events that were stored. None where nobody is charged: without a rate, and in workers."""
