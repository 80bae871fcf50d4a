"""Entries of a stream whose bytes are not what was written, as after damage to the server's file."""

from collections.abc import Callable
from typing import Any, cast

from ingest.log.position import Position
from ingest.platform.connections import Client

Fields = dict[bytes, bytes]


async def alter(redis: Client, key: str, position: Position, change: Callable[[Fields], Fields]) -> Fields:
    """Give the entry at a position other fields; returns those that it had. Its consumer group is lost, and made again
    by the next runner."""
    rows: list[tuple[bytes, Fields]] = await redis.xrange(key)
    before = next(fields for at, fields in rows if at.decode() == str(position))
    await redis.delete(key)
    for at, fields in rows:
        written = change(dict(fields)) if at.decode() == str(position) else fields
        await cast(Any, redis).xadd(key, written, id=at)
    return before


def other_event(fields: Fields) -> Fields:
    """The fields with one bit of the event's middle flipped, which mostly leaves it readable."""
    event = bytearray(fields[b"e"])
    event[len(event) // 2] ^= 1
    return {**fields, b"e": bytes(event)}
