"""How often an event was tried, counted across crashes before each try, because a try may end the worker.

A try that was broken off because the log's server was away or had no memory says nothing about the event: it goes on
when the server answers again, and is not counted a second time.
"""

from ingest.log.keys import PartitionKeys
from ingest.platform.connections import Client, past_memory_limit


class Attempts:
    """Of the events of one partition, by one worker."""

    def __init__(self, redis: Client, keys: PartitionKeys) -> None:
        self._redis, self._key = redis, keys.attempts
        self._begun: dict[str, int] = {}

    async def begin(self, position: str) -> int:
        """Begin a try, or go on with one that was broken off; returns which it is, from 1 up."""
        if position not in self._begun:
            async with past_memory_limit(self._redis) as pipe:
                pipe.hincrby(self._key, position, 1)
                (self._begun[position],) = await pipe.execute()
        return self._begun[position]

    def end(self, position: str) -> None:
        """The try is over, however it ended."""
        self._begun.pop(position, None)
