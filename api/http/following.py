"""Events of the log as they are projected: what server-sent events and the viewer's WebSocket have in common."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from api.services import NativeCall
from ingest.errors import MnemologError
from ingest.log.position import Token
from projections.queries.log_events import EventFilter

KEEP_ALIVE_S = 15.0
"""Silence after which a reader is told that there is nothing."""


async def follow_events(
    call: NativeCall, event_filter: EventFilter, at: Token, at_once: int
) -> AsyncIterator[list[dict[str, Any]]]:
    """The wanted events behind `at`, up to `at_once` at a time, for as long as somebody reads on; moves `at` along.

    After KEEP_ALIVE_S of silence, and as long as that lasts every so often, an empty list. Anyone who moves `at` on
    meanwhile skips what is before it.
    """
    while True:
        if page := await call.queries.log.newly_applied(event_filter, at, at_once):
            yield page
            continue
        try:
            await asyncio.wait_for(call.search_index.changed(at), KEEP_ALIVE_S)
        except TimeoutError:
            yield []
        except MnemologError:
            await asyncio.sleep(1)
